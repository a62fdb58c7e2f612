/* What is hard for a tracker of malloc. Each case ends with status 0 and prints what it did. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int stop;

/* Allocates and frees until it is told to stop. */
static void *busy(void *unused) {
    (void)unused;
    while (!stop) {
        void *blocks[64];
        for (int i = 0; i < 64; i++) blocks[i] = malloc(16 + 40 * i);
        for (int i = 0; i < 64; i++) blocks[i] = realloc(blocks[i], 3000 - 40 * i);
        for (int i = 0; i < 64; i++) free(blocks[i]);
    }
    return NULL;
}

static pthread_t threads[8];

static void start(void) {
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, busy, NULL);
}

static void end(void) {
    stop = 1;
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
}

static void at_fork(void) { free(malloc(77)); }

/* Forks while eight threads allocate, with handlers that allocate, too. */
static void forks(void) {
    pthread_atfork(at_fork, at_fork, at_fork);
    start();
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        if (child == 0) {
            free(malloc(1000));
            if (i % 2) _exit(0);
            exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status != 0) abort();
    }
    end();
    puts("200 forks");
}

static void *volatile kept;

static void leave(int number) { _exit(number == SIGALRM ? 7 : 8); }

/* Children that keep ten blocks and end by _exit: alone, while eight threads allocate, in a handler, perhaps within malloc,
 * and after a child of their own that has their memory. */
static void ends(void) {
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        int status = 0;
        if (child == 0) {
            if (i % 4 == 1) start();
            for (int j = 0; j < 10; j++) kept = malloc(12345);
            if (i % 4 == 2) {
                signal(SIGALRM, leave);
                ualarm(500, 0);
                for (;;) free(malloc(100));
            }
            if (i % 4 == 3) {
                pid_t other = vfork();
                if (other == 0) _exit(9);
                if (waitpid(other, &status, 0) != other || WEXITSTATUS(status) != 9) abort();
            }
            if (i % 8 < 4) _exit(7);
            _Exit(7);
        }
        if (waitpid(child, &status, 0) != child || status != 7 << 8) abort();
    }
    puts("20 children");
}

/* Loads libraries with thread-local values while eight threads allocate: the loader then makes the
 * threads' tables of such values larger, with malloc, where malloc needs one. */
static void libraries(const char *folder, int count) {
    start();
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/libtls%d.so", folder, i);
        void *library = dlopen(path, RTLD_NOW);
        if (!library) abort();
        void *(*value)(void) = (void *(*)(void))dlsym(library, "value");
        if (!value()) abort();
        if (i % 3 == 0) dlclose(library);
    }
    end();
    printf("%d libraries\n", count);
}

/* Threads that use libraries' thread-local values for the first time, in malloc's place. */
static void *first_use(void *value) { return ((void *(*)(void))value)(); }

static void threads_of_libraries(const char *folder, int count) {
    for (int i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/libtls%d.so", folder, i);
        void *value = dlsym(dlopen(path, RTLD_NOW), "value");
        pthread_t thread;
        pthread_create(&thread, NULL, first_use, value);
        pthread_join(thread, NULL);
    }
    printf("%d threads\n", count);
}

static volatile sig_atomic_t signals;

static void on_signal(int signal) {
    (void)signal;
    free(malloc(123));
    signals++;
}

/* A signal handler that allocates (which no program may do) interrupts code that does not. */
static void handlers(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    for (int i = 0; i < 10000; i++) raise(SIGUSR1);
    printf("%d signals\n", (int)signals);
}

/* Every function, with arguments that are refused, too. Prints what a tracker must have counted:
 * allocations, frees, reallocations, bytes. */
static void functions(void) {
    void *block, *other;
    free(NULL);
    free(malloc(0));                                     /* 1 1 0 0 */
    block = realloc(NULL, 10);                           /* 1 0 0 10 */
    block = realloc(block, 100000);                      /* 0 0 1 100000 */
    block = reallocarray(block, 10, 20);                 /* 0 0 1 200 */
    if (reallocarray(block, (size_t)-1, 2)) abort();
    if (realloc(block, (size_t)1 << 62)) abort();        /* fails */
    if (malloc((size_t)1 << 62)) abort();                /* fails */
    if (calloc((size_t)1 << 33, (size_t)1 << 33)) abort();
    if (realloc(block, 0)) abort();                      /* 0 1 0 0 */
    if (posix_memalign(&block, 3, 10) == 0) abort();
    if (posix_memalign(&block, 256, 1000)) abort();      /* 1 0 0 1000 */
    if ((size_t)block % 256) abort();
    free(block);                                         /* 0 1 0 0 */
    other = aligned_alloc(64, 640);                      /* 1 0 0 640 */
    if ((size_t)other % 64) abort();
    free(other);                                         /* 0 1 0 0 */
    free(memalign(32, 50));                              /* 1 1 0 50 */
    free(valloc(60));                                    /* 1 1 0 60 */
    free(pvalloc(1));                                    /* 1 1 0 4096 */
    free(calloc(7, 11));                                 /* 1 1 0 77 */
    free(strdup("twelve bytes"));                        /* 1 1 0 13 */
    block = malloc(1);                                   /* 1 0 0 1, never freed */
    if (malloc_usable_size(block) < 1) abort();
}

enum { PAGE = 4096, PAGES = 64 };
static long long live_pages;

/* Maps, moves and unmaps parts, and counts the pages that can be written to. Others get the addresses at once. */
static void *maps(void *seed) {
    unsigned random = (unsigned)(size_t)seed;
    long long live = 0;
    for (int round = 0; round < 3000; round++) {
        random = random * 1103515245 + 12345;
        int pages = 1 + (random >> 8) % PAGES, part = (random >> 16) % pages, kind = (random >> 24) % 4;
        int access = kind == 1 ? PROT_NONE : PROT_READ | PROT_WRITE;
        char *start = mmap(NULL, pages * PAGE, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (kind == 1) mprotect(start + part * PAGE, (pages - part) * PAGE, PROT_READ | PROT_WRITE);
        if (kind == 2) start = mremap(start, pages * PAGE, 2 * pages * PAGE, MREMAP_MAYMOVE), pages *= 2;
        int kept = 0;
        if (round % 100 == 0) kept = 1; /* the first page of every hundredth */
        munmap(start + part * PAGE, (pages - part) * PAGE);
        if (part > kept) munmap(start + kept * PAGE, (part - kept) * PAGE);
        if (kept && part > 0 && kind != 1) live++;
        if (round % 500 == 0) free(malloc(1000));
    }
    __atomic_fetch_add(&live_pages, live, __ATOMIC_RELAXED);
    return NULL;
}

static void mappings(void) {
    for (size_t i = 0; i < 8; i++) pthread_create(&threads[i], NULL, maps, (void *)(i + 1));
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    printf("%lld\n", live_pages * PAGE);
}

int main(int count, char **arguments) {
    const char *name = count > 1 ? arguments[1] : "";
    if (!strcmp(name, "forks")) forks();
    else if (!strcmp(name, "ends")) ends();
    else if (!strcmp(name, "libraries")) libraries(arguments[2], atoi(arguments[3]));
    else if (!strcmp(name, "threads")) threads_of_libraries(arguments[2], atoi(arguments[3]));
    else if (!strcmp(name, "handlers")) handlers();
    else if (!strcmp(name, "mappings")) mappings();
    else if (!strcmp(name, "functions")) functions();
    else if (!strcmp(name, "nothing")) return 0;
    else return 2;
    return 0;
}
