/* Has memory that is in no block, or looks so, in the way that is its first argument. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, UNSEEN = 40 * MIB };

/* Memory that the library does not see. */
static void take(int flags, int file) {
    char *at = (char *)syscall(SYS_mmap, 0, (size_t)UNSEEN, PROT_READ | PROT_WRITE, flags, file, 0);
    if (at == MAP_FAILED) exit(2);
    memset(at, 1, UNSEEN);
}

/* 8 MiB and 256 KiB are written of two, and none of the third. */
static struct { char of[2 * UNSEEN]; } table;
char cells[MIB], unused[UNSEEN];

static pthread_barrier_t all;
static void *thread(void *nothing) {
    pthread_barrier_wait(&all);
    return nothing;
}

/* Threads with small stacks, which stay after they have been joined. */
static void start_threads(int count, int kib) {
    pthread_t *threads = calloc(count, sizeof *threads);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    /* Not whole pages. */
    pthread_attr_setstacksize(&attributes, (kib << 10) - 100);
    pthread_barrier_init(&all, 0, count);
    for (int i = 0; i < count; i++)
        if (pthread_create(threads + i, &attributes, thread, 0)) exit(2);
    for (int i = 0; i < count; i++) pthread_join(threads[i], 0);
    free(threads);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    int private = MAP_PRIVATE | MAP_ANONYMOUS;
    if (!strcmp(way, "exits")) {
        take(private, -1);
        _exit(0);
    } else if (!strcmp(way, "executes")) {
        take(private, -1);
        execl("/bin/true", "true", (char *)0);
    } else if (!strcmp(way, "forks")) {
        if (fork() == 0) {
            take(private, -1);
            _exit(0);
        }
        wait(0);
    } else if (!strcmp(way, "shares")) {
        int file = memfd_create("shared", 0);
        if (ftruncate(file, UNSEEN)) return 2;
        take(MAP_SHARED, file);
    } else if (!strcmp(way, "threads")) {
        start_threads(atoi(arguments[2]), atoi(arguments[3]));
    } else if (!strcmp(way, "reserves")) {
        char *at = mmap(0, 2 * UNSEEN, PROT_READ | PROT_WRITE, private | MAP_NORESERVE, -1, 0);
        memset(at, 1, UNSEEN);
    } else if (!strcmp(way, "changes")) {
        int file = open(arguments[2], O_RDONLY);
        char *at = mmap(0, UNSEEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
        memset(at, 1, UNSEEN / 2);
    } else if (!strcmp(way, "fills")) {
        memset(table.of + MIB, 1, 8 * MIB);
        memset(cells, unused[5] + 1, MIB / 4);
    } else {
        return 2;
    }
    return 0;
}
