/* Counts the mapped memory of a program, independently of memledger: LD_PRELOAD=libcount_mapped.so:... COUNT_FILE=f program.
 * At the end it writes "live_bytes peak_bytes" to the file: of pages that are no file's and that the program may write
 * to, unless it maps them with MAP_NORESERVE. Calls of the tracker's own library are passed on and not counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum state { NONE, RESERVED, COUNTED };
/* What each page is, by its number: 48 bits of addresses, of which the kernel gives only used pages. */
static unsigned char *states;
static unsigned long long live, peak;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *(*next_mmap)(void *, size_t, int, int, int, off_t);
static int (*next_munmap)(void *, size_t), (*next_mprotect)(void *, size_t, int);
static void *(*next_mremap)(void *, size_t, size_t, int, ...);

static void begin(void) {
    if (states) return;
    next_mmap = dlsym(RTLD_NEXT, "mmap");
    next_munmap = dlsym(RTLD_NEXT, "munmap");
    next_mprotect = dlsym(RTLD_NEXT, "mprotect");
    next_mremap = dlsym(RTLD_NEXT, "mremap");
    states = next_mmap(0, 1ul << 35, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static int is_trackers(void *caller) {
    Dl_info info;
    return dladdr(caller, &info) && strstr(info.dli_fname, "memledger");
}

/* Gives pages a state; where `from` is not NONE, only those that have that one. */
static void set(void *start, size_t bytes, enum state from, enum state state) {
    size_t page = (size_t)start >> 12, end = ((size_t)start + bytes + 4095) >> 12;
    for (; page < end; page++) {
        if (from != NONE && states[page] != from) continue;
        live += 4096ll * ((state == COUNTED) - (states[page] == COUNTED));
        states[page] = state;
    }
    if (live > peak) peak = live;
}

static int is_memory_file(int file) {
    char path[32], target[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return readlink(path, target, sizeof target - 1) > 0
        && (!strncmp(target, "/memfd:", 7) || !strncmp(target, "/dev/shm/", 9) || !strcmp(target, "/dev/zero"));
}

void *mmap(void *address, size_t bytes, int access, int flags, int file, off_t offset) {
    begin();
    if (is_trackers(__builtin_return_address(0))) return next_mmap(address, bytes, access, flags, file, offset);
    pthread_mutex_lock(&lock);
    void *pages = next_mmap(address, bytes, access, flags, file, offset);
    if (pages != MAP_FAILED) {
        int memory = flags & MAP_ANONYMOUS || is_memory_file(file);
        set(pages, bytes, NONE, !memory ? NONE : !(access & PROT_WRITE) ? RESERVED : flags & MAP_NORESERVE ? NONE : COUNTED);
    }
    pthread_mutex_unlock(&lock);
    return pages;
}
void *mmap64(void *, size_t, int, int, int, off_t) __attribute__((alias("mmap")));

int munmap(void *address, size_t bytes) {
    begin();
    if (is_trackers(__builtin_return_address(0))) return next_munmap(address, bytes);
    pthread_mutex_lock(&lock);
    int result = next_munmap(address, bytes);
    if (!result) set(address, bytes, NONE, NONE);
    pthread_mutex_unlock(&lock);
    return result;
}

int mprotect(void *address, size_t bytes, int access) {
    begin();
    if (is_trackers(__builtin_return_address(0))) return next_mprotect(address, bytes, access);
    pthread_mutex_lock(&lock);
    int result = next_mprotect(address, bytes, access);
    if (!result && access & PROT_WRITE) set(address, bytes, RESERVED, COUNTED);
    pthread_mutex_unlock(&lock);
    return result;
}

void *mremap(void *address, size_t bytes, size_t new_bytes, int flags, ...) {
    begin();
    va_list rest;
    va_start(rest, flags);
    void *wanted = va_arg(rest, void *);
    va_end(rest);
    pthread_mutex_lock(&lock);
    enum state state = states[(size_t)address >> 12];
    void *pages = next_mremap(address, bytes, new_bytes, flags, wanted);
    if (pages != MAP_FAILED) {
        set(address, bytes, NONE, NONE);
        set(pages, new_bytes, NONE, state);
    }
    pthread_mutex_unlock(&lock);
    return pages;
}

__attribute__((destructor)) static void write_totals(void) {
    char text[64];
    int size = snprintf(text, sizeof text, "%llu %llu\n", live, peak);
    int file = open(getenv("COUNT_FILE"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, text, size) != size) abort();
}
