/* Counts the calls of malloc of a program, independently of memledger: LD_PRELOAD=libcount.so COUNT_FILE=f program.
 * At the end it writes "allocations frees reallocations allocated_bytes" to the file. The child of a fork, process 42, writes
 * to f.42, and counts its parent's live blocks as its first allocations, as a trace does; its bytes mean nothing. With COUNT_KILLED, it
 * counts in f.42.live, as numbers of 8 bytes, so that these are there after SIGKILL. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t), __libc_free(void *);

static struct counts {
    atomic_ullong allocations, frees, reallocations, bytes;
} at_first, *now = &at_first;

static void *allocated(void *block, size_t size) {
    if (block) { now->allocations++; now->bytes += size; }
    return block;
}

void *malloc(size_t size) { return allocated(__libc_malloc(size), size); }
void *calloc(size_t count, size_t size) { return allocated(__libc_calloc(count, size), count * size); }
void *memalign(size_t align, size_t size) { return allocated(__libc_memalign(align, size), size); }
void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
void *valloc(size_t size) { return memalign(4096, size); }
void *pvalloc(size_t size) { return memalign(4096, (size + 4095) & ~(size_t)4095); }

void free(void *block) {
    if (block) now->frees++;
    __libc_free(block);
}

void *realloc(void *block, size_t size) {
    if (!block) return malloc(size);
    if (!size) return free(block), NULL;
    void *new = __libc_realloc(block, size);
    if (new) { now->reallocations++; now->bytes += size; }
    return new;
}

void *reallocarray(void *block, size_t count, size_t size) {
    size_t all;
    if (__builtin_mul_overflow(count, size, &all)) return errno = ENOMEM, NULL;
    return realloc(block, all);
}

int posix_memalign(void **block, size_t align, size_t size) {
    if (align < sizeof(void *) || align & (align - 1)) return EINVAL;
    void *new = memalign(align, size);
    if (!new) return ENOMEM;
    *block = new;
    return 0;
}

static char name[4096], name_of_child[4096 + 16];
static int counts_killed;

static void forked(void) {
    at_first = *now;
    now = &at_first;
    now->allocations -= now->frees;
    now->frees = now->reallocations = 0;
    snprintf(name_of_child, sizeof name_of_child, "%s.%d", name, getpid());
    if (counts_killed) {
        char live[sizeof name_of_child + 16];
        snprintf(live, sizeof live, "%s.live", name_of_child);
        int file = open(live, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (file < 0 || ftruncate(file, sizeof at_first)) abort();
        struct counts *mapped = mmap(NULL, sizeof at_first, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (mapped == MAP_FAILED || close(file)) abort();
        *mapped = at_first;
        now = mapped;
    }
}

/* A program can change its environment. */
__attribute__((constructor)) static void begin(void) {
    snprintf(name, sizeof name, "%s", getenv("COUNT_FILE"));
    counts_killed = getenv("COUNT_KILLED") != NULL;
    pthread_atfork(NULL, NULL, forked);
}

__attribute__((destructor)) static void write_totals(void) {
    char text[128];
    int size = snprintf(text, sizeof text, "%llu %llu %llu %llu\n", now->allocations, now->frees, now->reallocations,
                        now->bytes);
    int file = open(*name_of_child ? name_of_child : name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, text, size) != size) abort();
}
