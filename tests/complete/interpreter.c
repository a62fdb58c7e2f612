/* Interpreter of the scripts of scripts/check_complete.py, which says what a script is: PROGRAM TRUTH OPERATION.. It is
   compiled as C, as C++ and, without `main` and the language's own doors, for rust.rs. It allocates nothing but what the
   script says. What is true of the memory is kept in the file TRUTH, in one `struct image` for each program and fork. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
#include <new>
#define OUTER extern "C"
#else
#define OUTER
#endif
#define is(text, word) (strcmp(text, word) == 0)
#define IMAGES 60
#define BLOCKS 1000000
#define MIB (1L << 20)

/* The doors of the language itself, one of four forms. */
OUTER void *native_alloc(size_t size, int form);
OUTER void native_free(void *block, size_t size, int form);
OUTER int native_thread(void *(*body)(void *), size_t stack, int is_joined, pthread_t *thread);
OUTER int interpret(int argc, char **argv);

/* Fields are those of `FIELDS` in check_complete.py. */
struct image {
    int64_t pid, program, end, allocations, reallocations, live_blocks, live_bytes, peak_bytes, unseen, most_unseen, pending;
    int64_t surely_incomplete, maybe_incomplete, surely_for, maybe_for, large_once, threads, filter, inherited, is_fork, is_vague, below, spare[10];
};
struct truth {
    int64_t images, spare[31];
    struct image image[IMAGES];
};
static struct truth *truth;
static struct image *now;
static int has_slept; /* Long enough to be looked at. */

struct block {
    char *at;
    uint32_t size, door, form;
};
static struct block blocks[BLOCKS];
static long n_blocks;
static struct {
    char *at;
    size_t size;
    int64_t unseen;
    int is_seen, is_raw;
} maps[64];
static int n_maps;
static char statics[64 * MIB];
static char **arguments;
#ifndef STATIC
static void *c_library;
#endif
extern char **environ;
#ifdef __cplusplus
extern "C" void *__curbrk;
#else
extern void *__curbrk;
#endif

static void say(const char *text) {
    if (write(1, text, strlen(text)) < 0) _exit(99);
}

static void say_number(const char *text, long number) {
    char line[80];
    int length = snprintf(line, sizeof line, "%s %ld\n", text, number);
    if (write(1, line, length) < 0) _exit(99);
}

static void touch(char *at, size_t size) {
    for (size_t i = 0; i < size; i += 4096) at[i] = 1;
}

/* `VmRSS:` or `VmHWM:`, in bytes; 0 where it cannot be read. */
static int64_t status(const char *key) {
    char text[4096];
    int file = now->filter ? -1 : (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY);
    if (file < 0) return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = 0;
    char *found = strstr(text, key);
    return found ? atol(found + strlen(key)) << 10 : 0;
}

/* What may explain or exceed a maximum: edges of windows, mappings, stacks, of which it is not known how much was used. */
static int64_t hidden = MIB;

/* A block that the tracker must have. What it makes resident hides a maximum of unseen memory that was before it. */
static void born(int64_t bytes) {
    now->allocations++;
    now->live_blocks++;
    now->live_bytes += bytes;
    /* Where blocks have been is known in windows of 64 KiB. */
    if (bytes > 32 << 10) hidden += 64 << 10;
    if (now->live_bytes > now->peak_bytes) now->peak_bytes = now->live_bytes, now->pending = 0;
}

static void died(int64_t bytes) {
    now->live_blocks--;
    now->live_bytes -= bytes;
}

static int is_large(int64_t bytes, int64_t bound) { return bytes * 100 / 115 - MIB / 4 > bound; }

/* How much of `bytes` of unseen memory is, beside the thresholds: the slack is 15 % and 256 KiB. */
static void surely(int64_t bytes) {
    int64_t rss = status("VmRSS:"), five = rss / 20 > MIB ? rss / 20 : MIB, one = rss / 100 > MIB ? rss / 100 : MIB;
    if (rss && is_large(bytes, five)) now->surely_incomplete = 1;
    if (rss && is_large(bytes, one)) now->surely_for = 1;
}

static void maybe(int64_t bytes) {
    int64_t rss = status("VmRSS:"), five = rss / 20 > MIB ? rss / 20 : MIB, one = rss / 100 > MIB ? rss / 100 : MIB;
    int64_t most = bytes * 115 / 100 + MIB / 4;
    if (bytes == 0) return;
    if (most > five) now->maybe_incomplete = 1;
    if (most > one) now->maybe_for = 1;
    if (is_large(bytes, one)) now->large_once = 1;
}

/* Memory that no library sees: it is sure only where it stays, or was a new maximum of RSS. */
static void unseen(int64_t bytes, int64_t maximum_before) {
    int64_t rss = status("VmRSS:");
    now->unseen += bytes;
    if (now->unseen > now->most_unseen) now->most_unseen = now->unseen;
    int64_t rise = rss > maximum_before && maximum_before ? rss - maximum_before : 0;
    if (rise > now->unseen) rise = now->unseen;
    if (rise > now->pending) now->pending = rise;
    maybe(now->unseen);
}

/* All that was before has been looked at. */
static void settle(void) {
    if (now->most_unseen == 0) return;
    maybe(now->unseen);
    surely(now->unseen);
    surely(now->pending - hidden);
}

static void new_image(const char *program) {
    const struct image *parent = now;
    const char *below = getenv("LD_PRELOAD"), *const libraries[] = {"jemalloc", "tcmalloc", "mimalloc"};
    int64_t number = __atomic_fetch_add(&truth->images, 1, __ATOMIC_SEQ_CST);
    if (number >= IMAGES) _exit(98);
    now = &truth->image[number];
    now->pid = syscall(SYS_getpid);
    snprintf((char *)&now->program, 8, "%s", program);
    for (int i = 0; i < 3; i++)
        if (below && strstr(below, libraries[i])) now->below = i + 1;
    /* Their blocks are in more windows. */
    if (now->below || is(program, "je")) hidden += MIB;
    has_slept = 0;
    if (parent) {
        now->is_fork = 1;
        now->threads = parent->threads;
        now->inherited = now->live_blocks = parent->live_blocks;
        now->live_bytes = now->peak_bytes = parent->live_bytes;
        /* What was unseen before the fork is in the parent's report; the child's may have it, too. */
        maybe(parent->unseen);
        now->large_once = 0;
        /* A maximum says nothing below what its first weighing finds beside blocks. */
        hidden += 8 * MIB;
        for (int i = 0; i < n_maps; i++) maps[i].unseen = 0;
    }
}

/* Functions that a script finds by a handle. */
enum { NATIVE, MALLOC, CALLOC, REALLOC, MEMALIGN, ALIGNED, STRDUP, HANDLE, HANDLE_CALLOC, HANDLE_STRDUP, PREFIX, MI, DOORS };
static const char *const door_names[] = {"native", "malloc", "calloc", "realloc", "memalign", "aligned", "strdup", "handle",
                                         "handle-calloc", "handle-strdup", "prefix", "mi"};

static void *function(int door, int is_free) {
    static void *found[DOORS][2];
    if (found[door][is_free]) return found[door][is_free];
#ifndef STATIC
    char path[512];
    const char *name = is_free ? "free" : door == HANDLE_CALLOC ? "calloc" : door == HANDLE_STRDUP ? "strdup" : "malloc";
    if (door == PREFIX) {
        snprintf(path, sizeof path, "%.*slibprefix.so", (int)(strrchr(arguments[0], '/') - arguments[0] + 1), arguments[0]);
        name = is_free ? "xyz_je_free" : "xyz_je_malloc";
    } else if (door == MI) {
        snprintf(path, sizeof path, "%s", "libmimalloc.so.2");
        name = is_free ? "mi_free" : "mi_malloc";
    }
    if (door == PREFIX || door == MI) hidden += 64 * MIB;
    void *handle = door == PREFIX || door == MI ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : c_library;
    if (handle) found[door][is_free] = dlsym(handle, name);
#endif
    if (!found[door][is_free]) say("no such function\n");
    return found[door][is_free];
}

static char *allocate(int door, size_t size, int form) {
    void *block = NULL;
    char text[4096];
    switch (door) {
    case NATIVE: return (char *)native_alloc(size, form);
    case MALLOC: return (char *)malloc(size);
    case CALLOC: return (char *)calloc(1, size);
    case REALLOC:
        block = malloc(size / 2 + 1);
        born(size / 2 + 1);
        died(size / 2 + 1);
        now->allocations--; /* The other one is counted by who calls this. */
        now->reallocations++;
        return (char *)realloc(block, size);
    case MEMALIGN: return posix_memalign(&block, 64, size) ? NULL : (char *)block;
    case ALIGNED: return (char *)aligned_alloc(64, size);
    case STRDUP:
    case HANDLE_STRDUP:
        memset(text, 'x', sizeof text);
        text[size - 1 < sizeof text ? size - 1 : sizeof text - 1] = 0;
        if (door == STRDUP) return strdup(text);
    }
    void *called = function(door, 0);
    if (!called) return NULL;
    if (door == HANDLE_STRDUP) return ((char *(*)(const char *))called)(text);
    if (door == HANDLE_CALLOC) return ((char *(*)(size_t, size_t))called)(1, size);
    return ((char *(*)(size_t))called)(size);
}

static void alloc_blocks(const char *name, long count, size_t size) {
    int door = 0;
    while (door < DOORS && !is(name, door_names[door])) door++;
    for (long i = 0; i < count && n_blocks < BLOCKS; i++) {
        struct block *block = &blocks[n_blocks];
        block->size = size + i % 8, block->door = door, block->form = i % 4;
        /* C++'s library rounds up. */
        if (door == NATIVE && block->form == 3) block->size = (block->size + 127) / 128 * 128;
        block->at = allocate(door, block->size, block->form);
        if (!block->at) return say("null\n");
        if (door != STRDUP && door != HANDLE_STRDUP) touch(block->at, block->size);
        born(block->size);
        n_blocks++;
    }
}

/* `by`: a door's `own` function, or C's `free`, or that of a `handle` of the C library, also for blocks of the other one. */
static void free_blocks(long count, const char *by) {
    for (long i = 0; i < count && n_blocks > 0; i++) {
        struct block *block = &blocks[--n_blocks];
        int door = block->door;
        if (door < HANDLE && is(by, "handle")) door = HANDLE;
        /* The C library's `strdup` calls the program's `malloc`. */
        if (door == HANDLE_STRDUP && is(by, "own")) door = MALLOC;
        if (door >= HANDLE && door <= HANDLE_STRDUP && is(by, "free")) door = MALLOC;
        if (door == NATIVE) native_free(block->at, block->size, block->form);
        else if (door < HANDLE) free(block->at);
        else ((void (*)(void *))function(door <= HANDLE_STRDUP ? HANDLE : door, 1))(block->at);
        died(block->size);
    }
}

static void map(const char *door, size_t size) {
    /* Where no block has been: what is found there is what was mapped. */
    static char *next = (char *)0x100000000000;
    int64_t maximum = status("VmHWM:");
    int is_raw = strncmp(door, "raw", 3) == 0, flags = MAP_PRIVATE, file = -1;
    int is_file = is(door, "file") || is(door, "file-shared"), is_memory = is(door, "memfd") || is(door, "raw-memfd");
    if (is_memory) file = (int)syscall(SYS_memfd_create, "x", 0);
    if (is_file) file = open(".", O_RDWR | O_TMPFILE, 0600);
    if ((is_file || is_memory) && ftruncate(file, size)) return say("no file\n");
    if (is_memory || is(door, "shared") || is(door, "file-shared")) flags = MAP_SHARED;
    if (file < 0) flags |= MAP_ANONYMOUS;
    if (is(door, "noreserve")) flags |= MAP_NORESERVE;
    char *hint = is_raw && !is(door, "raw-anywhere") ? next : NULL, *at;
    int access = PROT_READ | PROT_WRITE;
    if (is_raw) at = (char *)syscall(SYS_mmap, hint, size, access, flags, file, 0);
    else at = (char *)mmap(hint, size, access, flags, file, 0);
    if (file >= 0) close(file);
    if (at == MAP_FAILED || n_maps == 64) return say("not mapped\n");
    next += size + MIB;
    touch(at, size);
    maps[n_maps].at = at, maps[n_maps].size = size, maps[n_maps].is_raw = is_raw;
    maps[n_maps].unseen = is_raw ? size : 0;
    maps[n_maps++].is_seen = !is_raw && !is_file && !is(door, "noreserve");
    if (!is_raw) hidden += size;
    if (is_raw) unseen(size, maximum);
    else if (maps[n_maps - 1].is_seen) born(size);
}

static void unmap(void) {
    if (n_maps-- == 0) return (void)(n_maps = 0);
    now->unseen -= maps[n_maps].unseen;
    if (maps[n_maps].is_raw) syscall(SYS_munmap, maps[n_maps].at, maps[n_maps].size);
    else munmap(maps[n_maps].at, maps[n_maps].size);
    if (maps[n_maps].is_seen) died(maps[n_maps].size);
}

static void raw_break(size_t size) {
    int64_t maximum = status("VmHWM:");
    char *end = (char *)syscall(SYS_brk, 0);
    if ((char *)syscall(SYS_brk, end + size) != end + size) return say("no break\n");
    __curbrk = end + size; /* Else malloc takes it back. */
    touch(end, size);
    /* Less than that is among blocks. */
    if (size < 4 * MIB) now->is_vague = 1;
    unseen(size, maximum);
}

static __attribute__((noinline)) int deep(long kib) {
    volatile char frame[4096];
    frame[0] = 1;
    return (kib > 4 ? deep(kib - 4) : 0) + frame[0];
}

static pthread_barrier_t all_have, nobody_goes;
static struct {
    long blocks;
    size_t size;
    int is_kept, stays;
} in_threads;

static void *thread(void *unused) {
    void *last = NULL;
    for (long i = 0; i < in_threads.blocks; i++) {
        void **block = (void **)native_alloc(in_threads.size, 0);
        *block = last;
        last = block;
    }
    deep(8);
    pthread_barrier_wait(&all_have);
    while (last && !in_threads.is_kept) {
        void *next = *(void **)last;
        native_free(last, in_threads.size, 0);
        last = next;
    }
    if (in_threads.stays) pthread_barrier_wait(&nobody_goes);
    return unused;
}

/* All are there at once, and have their blocks; `how`: joined, unjoined, detached, alive, or leak (their blocks). */
static void threads(long count, size_t stack, long n, size_t size, const char *how) {
    static pthread_t started[1000];
    int is_joined = is(how, "joined") || is(how, "leak");
    in_threads.blocks = n, in_threads.size = size;
    in_threads.is_kept = is(how, "leak"), in_threads.stays = is(how, "alive");
    pthread_barrier_init(&all_have, NULL, count + 1);
    pthread_barrier_init(&nobody_goes, NULL, count + 1);
    for (long i = 0; i < count; i++)
        if (native_thread(thread, stack, is(how, "detached") ? 2 : is_joined, &started[i])) return say("no thread\n"), _exit(97);
    for (long i = 0; i < count * n; i++) born(size);
    pthread_barrier_wait(&all_have);
    if (!in_threads.is_kept)
        for (long i = 0; i < count * n; i++) died(size);
    for (long i = 0; i < count && is_joined; i++) pthread_join(started[i], NULL);
    now->threads += count;
    hidden += count * (stack ? stack : 8 * MIB);
    /* Others have a moment to end. */
    struct timespec moment = {0, 20 * 1000 * 1000};
    if (!is_joined) nanosleep(&moment, NULL);
}

static void add_filter(const char *how, const char *width, const char *door) {
    static const int calls[] = {SYS_write, SYS_exit_group, SYS_mmap, SYS_munmap, SYS_brk, SYS_mprotect, SYS_madvise, SYS_mremap, SYS_futex,
        SYS_clock_nanosleep, SYS_nanosleep, SYS_getpid, SYS_gettid, SYS_tgkill, SYS_kill, SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_rt_sigreturn,
        SYS_openat, SYS_read, SYS_close, SYS_newfstatat, SYS_exit, SYS_sched_yield};
    static struct sock_filter code[64];
    int allowed = is(width, "strict") ? 2 : (int)(sizeof calls / sizeof *calls), n = 0;
    uint32_t action = is(how, "kill") ? SECCOMP_RET_KILL_PROCESS : is(how, "thread") ? SECCOMP_RET_KILL_THREAD : SECCOMP_RET_ERRNO | EPERM;
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
    for (int i = 0; i < allowed; i++)
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], (uint8_t)(allowed - i), 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)n, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    now->filter = 1;
    long failed = is(door, "prctl") ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    if (failed) say("no filter\n");
}

static char **environment(const char *kind) {
    static char *entries[512], other[300];
    int n = 0;
    for (char **entry = environ; *entry && !is(kind, "empty"); entry++)
        if (is(kind, "keep") || strncmp(*entry, "LD_PRELOAD=", 11)) entries[n++] = *entry;
    if (kind[0] == '/') snprintf(other, sizeof other, "LD_PRELOAD=%s", kind), entries[n++] = other;
    entries[n] = NULL;
    return entries;
}

/* `words`: those of the script that the program goes on with. */
static void start(const char *how, const char *kind, const char *target, char **words) {
    static char path[512], *vector[512];
    int n = 2;
    maybe(now->unseen);
    snprintf(path, sizeof path, "%.*s%s", (int)(strrchr(arguments[0], '/') - arguments[0] + 1), arguments[0], target);
    vector[0] = path, vector[1] = arguments[1];
    while (*words && n < 511) vector[n++] = *words++;
    vector[n] = NULL;
    char **entries = environment(kind);
    if (is(how, "spawn")) {
        pid_t child;
        int state;
        if (posix_spawn(&child, path, NULL, NULL, vector, entries)) return say("not started\n");
        waitpid(child, &state, 0);
        return say_number("child", state);
    }
    if (is(how, "raw")) syscall(SYS_execve, path, vector, entries);
    else if (is(how, "execv")) environ = entries, execv(path, vector);
    else if (is(how, "fexecve")) fexecve(open(path, O_RDONLY | O_CLOEXEC), vector, entries);
    else execve(path, vector, entries);
    say("not executed\n");
}

static void finish(const char *how) {
    say_number("allocations", now->allocations);
    say_number("live", now->live_bytes);
    if (is(how, "exit") || is(how, "zero") || is(how, "return")) {
        now->end = is(how, "return") && !now->is_fork ? 5 : 1;
        /* A child is first weighed after 50 ms. */
        if (!now->is_fork || has_slept) settle();
    } else {
        now->end = is(how, "_exit") ? 2 : 3;
        /* It is weighed, if that does not take long. */
        maybe(now->unseen);
    }
    if (is(how, "exit")) exit(7);
    if (is(how, "zero")) exit(0);
    if (is(how, "_exit")) _exit(8);
    if (is(how, "abort")) abort();
    if (is(how, "kill")) kill(getpid(), SIGKILL);
    if (is(how, "term")) kill(getpid(), SIGTERM);
}

/* The words behind `done`, which ends the block that begins here. */
static char **behind(char **words) {
    for (int depth = 1; *words && depth > 0; words++)
        depth += is(*words, "done") ? -1 : strncmp(*words, "fork", 4) == 0 || strncmp(*words, "start", 5) == 0;
    return words;
}

static void child(char **words, char *part[]);

static void operate(char *part[], char **words) {
    const char *name = part[0];
    if (is(name, "alloc")) alloc_blocks(part[1], atol(part[2]), atol(part[3]));
    else if (is(name, "free")) free_blocks(atol(part[1]), part[2]);
    else if (is(name, "map")) map(part[1], atol(part[2]) << 10);
    else if (is(name, "unmap")) unmap();
    else if (is(name, "break")) raw_break(atol(part[1]) << 10);
    else if (is(name, "static")) touch(statics, atol(part[1]) << 10), hidden += atol(part[1]) << 10;
    else if (is(name, "stack")) deep(atol(part[1]));
    else if (is(name, "threads")) threads(atol(part[1]), atol(part[2]) << 10, atol(part[3]), atol(part[4]), part[5]);
    else if (is(name, "filter")) add_filter(part[1], part[2], part[3]);
    else if (is(name, "files")) {
        struct rlimit limit = {(rlim_t)atol(part[1]), (rlim_t)atol(part[1])};
        setrlimit(RLIMIT_NOFILE, &limit);
    } else if (is(name, "user")) {
        if (syscall(SYS_setresgid, 65534, 65534, 65534) || syscall(SYS_setresuid, 65534, 65534, 65534)) say("same user\n");
    } else if (is(name, "sleep")) {
        long ms = atol(part[1]);
        struct timespec time = {ms / 1000, ms % 1000 * 1000000};
        nanosleep(&time, NULL);
        if (ms >= 150) has_slept = 1, settle();
    } else if (is(name, "exec")) {
        now->end = 4;
        start(part[1], part[2], part[3], words);
        now->end = 0;
    } else if (is(name, "fork") || is(name, "start")) {
        child(words, part);
    } else say("no such operation\n");
}

static void run(char **words) {
    for (; *words && !is(*words, "done"); words++) {
        char text[400], *part[8] = {text}, empty[] = "0";
        int n = 1;
        snprintf(text, sizeof text, "%s", *words);
        for (char *at = text; *at; at++)
            if (*at == ',' && n < 8) *at = 0, part[n++] = at + 1;
        while (n < 8) part[n++] = empty;
        if (is(part[0], "end")) return finish(part[1]);
        operate(part, words + 1);
        if (is(part[0], "fork") || is(part[0], "start")) words = behind(words + 1) - 1;
    }
    finish("return");
}

/* `fork`: a child that goes on here; `start`: one that executes a program, by `fork` or as `start` does it. */
static void child(char **words, char *part[]) {
    int state, is_fork = is(part[0], "fork");
    if (is(part[1], "spawn")) return start(part[1], part[2], part[3], words);
    int64_t own = now - truth->image;
    pid_t pid = fork();
    if (pid == 0) {
        if (is_fork) new_image((const char *)&now->program), run(words), exit(0);
        new_image((const char *)&now->program);
        now->is_fork = 2;
        now->end = 4;
        start(part[1], part[2], part[3], words);
        _exit(96);
    }
    now = &truth->image[own];
    waitpid(pid, &state, 0);
    say_number("child", state);
}

OUTER int interpret(int argc, char **argv) {
    const char *program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    if (argc < 2) return 95;
    arguments = argv;
    int file = open(argv[1], O_RDWR | O_CLOEXEC);
    truth = (struct truth *)syscall(SYS_mmap, NULL, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || (void *)truth == MAP_FAILED) return 94;
    close(file);
    new_image(program);
#ifndef STATIC
    c_library = dlopen("libc.so.6", RTLD_NOW); /* Each program has what the loader allocates for it. */
#endif
    run(argv + 2);
    return 5;
}

#ifndef RUST
OUTER int native_thread(void *(*body)(void *), size_t stack, int is_joined, pthread_t *thread) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack);
    if (is_joined == 2) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    return pthread_create(thread, &attributes, body, NULL);
}

#ifdef __cplusplus
void *native_alloc(size_t size, int form) {
    switch (form) {
    case 0: return ::operator new(size);
    case 1: return ::operator new[](size);
    case 2: return ::operator new(size, std::nothrow);
    default: return ::operator new(size, std::align_val_t(128));
    }
}

void native_free(void *block, size_t size, int form) {
    if (form == 0) ::operator delete(block, size);
    else if (form == 1) ::operator delete[](block);
    else if (form == 2) ::operator delete(block);
    else ::operator delete(block, std::align_val_t(128));
}
#else
void *native_alloc(size_t size, int form) {
    return form == 0 ? malloc(size) : form == 1 ? calloc(size, 1) : form == 2 ? realloc(NULL, size) : memalign(128, size);
}

void native_free(void *block, size_t size, int form) {
    (void)size, (void)form;
    free(block);
}
#endif

int main(int argc, char **argv) { return interpret(argc, argv); }
#endif
