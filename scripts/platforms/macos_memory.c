// A program without the tracker: allocates by each of macOS's functions, on two threads, and says how often, and
// how many bytes are live at its end. Then it returns from main, ends by `_exit`, or waits, as its first argument
// says. The second one is how often it does all that.
#include <malloc/malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rounds;
static unsigned long allocations, frees, reallocations, live;

// A compiler leaves out blocks that nobody reads.
static void *used(void *block) {
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}
static void *keep(void *block, size_t bytes) {
    memset(used(block), 1, bytes);
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&live, bytes, __ATOMIC_RELAXED);
    return block;
}

static void *grow(void *block) {
    __atomic_add_fetch(&reallocations, 1, __ATOMIC_RELAXED);
    return block;
}
static void forget(unsigned count, size_t bytes) {
    __atomic_add_fetch(&frees, count, __ATOMIC_RELAXED);
    __atomic_sub_fetch(&live, count * bytes, __ATOMIC_RELAXED);
}

static void *work(void *unused) {
    malloc_zone_t *zone = malloc_default_zone();
    for (int i = 0; i < rounds; i++) {
        void *aligned = NULL;
        void *blocks[] = {
            keep(malloc(100), 100),
            keep(calloc(3, 50), 150),
            posix_memalign(&aligned, 256, 300) ? NULL : keep(aligned, 300),
            keep(aligned_alloc(64, 128), 128),
            keep(valloc(5000), 5000),
            keep(malloc_zone_malloc(zone, 70), 70),
            keep(malloc_zone_calloc(zone, 7, 10), 70),
            keep(malloc_zone_memalign(zone, 64, 70), 70),
            keep(malloc_zone_valloc(zone, 70), 70),
        };
        const size_t sizes[] = {100, 150, 300, 128, 5000, 70, 70, 70, 70};
        for (int j = 0; j < 9; j++)
            if (i % 250 || j > 0) free(blocks[j]), forget(1, sizes[j]);
        void *grown = keep(malloc(10), 10);
        for (size_t bytes = 20; bytes <= 5000; bytes *= 2) grown = grow(realloc(grown, bytes));
        grown = grow(reallocf(grown, 30));
        grown = grow(malloc_zone_realloc(zone, grown, 10));
        malloc_zone_free(zone, grown);
        forget(1, 10);
        // Of nothing, and to nothing: a new block, and a free.
        void *shrunk = keep(malloc_zone_realloc(zone, NULL, 40), 40);
        shrunk = keep(malloc_zone_realloc(zone, shrunk, 0), 0);
        forget(1, 40);
        malloc_zone_free(zone, shrunk);
        forget(1, 0);
        void *batch[5];
        unsigned count = malloc_zone_batch_malloc(zone, 60, batch, 5);
        for (unsigned j = 0; j < count; j++) keep(batch[j], 60);
        malloc_zone_batch_free(zone, batch, count);
        forget(count, 60);
    }
    return unused;
}

int main(int argc, char **argv) {
    if (argc != 3) return 5;
    rounds = atoi(argv[2]);
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, NULL)) return 1;
    work(NULL);
    pthread_join(thread, NULL);
    if (used(aligned_alloc(64, 100))) return 2;
    char line[200];
    int bytes = snprintf(line, sizeof line, "%lu allocations, %lu frees, %lu reallocations, %lu bytes live\n", allocations,
                         frees, reallocations, live);
    if (write(1, line, bytes) != bytes) return 3;
    if (strcmp(argv[1], "by_exit") == 0) _exit(0);
    if (strcmp(argv[1], "waits") == 0 && read(0, line, 1) < 1) return 4;
    return 0;
}
