// Threads, locks and waiting, as libpthread, libdispatch and libplatform of macOS have them.
#include "loader.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

long futex(void *word, int operation, uint32_t value, const void *time) {
    return syscall(SYS_futex, word, operation, value, time, NULL, 0);
}

// The threads of this process. What has ended stays in the list until its number of Linux is used again.
struct thread {
    uint64_t id;
    pid_t number;
    pthread_t handle;
    uint8_t *stack, *stack_end;
    char name[64];
    struct thread *next;
};
static struct thread *threads;
static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread struct thread *own;

// macOS counts threads since the system was started, over all processes.
static uint64_t new_id(void) {
    static uint64_t last;
    return ((uint64_t)getpid() << 20) + __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

static void add_own(void) {
    struct thread *added = calloc(1, sizeof *added);
    pthread_attr_t attributes;
    size_t bytes = 0;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, (void **)&added->stack, &bytes);
    pthread_attr_destroy(&attributes);
    added->stack_end = added->stack + bytes;
    added->id = new_id();
    added->number = gettid();
    added->handle = pthread_self();
    pthread_mutex_lock(&threads_lock);
    for (struct thread **at = &threads; *at;) {
        struct thread *one = *at;
        if (one->number == added->number) *at = one->next, free(one);
        else at = &one->next;
    }
    added->next = threads;
    threads = added;
    pthread_mutex_unlock(&threads_lock);
    own = added;
}

static void lock_threads(void) { pthread_mutex_lock(&threads_lock); }
static void unlock_threads(void) { pthread_mutex_unlock(&threads_lock); }
// The child has the thread that has forked, under a new number.
static void keep_own_only(void) {
    own->id = new_id();
    own->number = gettid();
    own->next = NULL;
    threads = own;
    unlock_threads();
}

static const uint8_t *main_stack_end;
bool is_below_main_stack(const void *address) {
    return (const uint8_t *)address < main_stack_end && main_stack_end - (const uint8_t *)address <= 64 << 20;
}

void begin_threads(void) {
    add_own();
    main_stack_end = own->stack_end;
    pthread_atfork(lock_threads, unlock_threads, keep_own_only);
}

bool is_on_stack(uint64_t address) {
    bool found = false;
    lock_threads();
    for (struct thread *one = threads; one; one = one->next)
        found |= address >= (uint64_t)one->stack && address < (uint64_t)one->stack_end;
    unlock_threads();
    return found;
}

// A list's member by its handle or its id, as it is now; false if there is none, or it has ended.
static bool find_thread(pthread_t handle, uint64_t id, struct thread *to) {
    bool found = false;
    lock_threads();
    for (struct thread *one = threads; one && !found; one = one->next)
        if (id ? one->id == id : one->handle == handle) *to = *one, found = true;
    unlock_threads();
    return found && syscall(SYS_tgkill, getpid(), to->number, 0) == 0;
}

// libpthread, pthread.c: NULL and the caller itself take no lock; of others, ESRCH.
static int mac_pthread_threadid_np(pthread_t thread, uint64_t *id) {
    if (!id) return EINVAL;
    if (!thread || thread == pthread_self()) return *id = own->id, 0;
    struct thread found;
    if (!find_thread(thread, 0, &found)) return ESRCH;
    *id = found.id;
    return 0;
}

// A thread has no name of its own at first, also the first one. Names of 64 bytes or more are refused.
static int mac_pthread_setname_np(const char *name) {
    if (strlen(name) > 63) {
        refuse(63);
        return 63;
    }
    strcpy(own->name, name);
    prctl(PR_SET_NAME, name);
    return 0;
}
static int mac_pthread_getname_np(pthread_t thread, char *name, size_t bytes) {
    struct thread found;
    const char *from = own->name;
    if (thread != pthread_self()) {
        if (!find_thread(thread, 0, &found)) return ESRCH;
        from = found.name;
    }
    if (bytes) snprintf(name, bytes, "%s", from);
    return 0;
}
// The address behind the stack; the stack lies below.
static void *mac_pthread_get_stackaddr_np(pthread_t thread) {
    struct thread found;
    if (thread == pthread_self()) return own->stack_end;
    return find_thread(thread, 0, &found) ? (void *)found.stack_end : (void *)(uintptr_t)ESRCH;
}
static size_t mac_pthread_get_stacksize_np(pthread_t thread) {
    struct thread found;
    if (thread == pthread_self()) return own->stack_end - own->stack;
    return find_thread(thread, 0, &found) ? (size_t)(found.stack_end - found.stack) : 512 * 1024;
}
static int mac_pthread_main_np(void) { return gettid() == getpid(); }

// What `sys/proc_info.h` has of a thread; 15 is PROC_PIDTHREADID64INFO. xnu, fill_taskthreadinfo: times in
// nanoseconds.
struct proc_threadinfo {
    uint64_t user_time, system_time;
    int32_t cpu_usage, policy, run_state, flags, sleep_time, priority, base_priority, most_priority;
    char name[64];
};
static int mac_proc_pidinfo(int process, int flavor, uint64_t id, void *to, int bytes) {
    if (flavor != 15) fail("proc_pidinfo of another kind than PROC_PIDTHREADID64INFO", NULL);
    struct thread found;
    // xnu, proc_info.c: 0 and the error number, not -1.
    if (process != getpid() || !find_thread(0, id, &found)) return refuse(ESRCH), 0;
    if (bytes < (int)sizeof(struct proc_threadinfo)) return refuse(ENOMEM), 0;
    struct proc_threadinfo info = {0};
    char path[64], line[1024] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", found.number);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(line, sizeof line, file)) return refuse(ESRCH), 0;
    fclose(file);
    uint64_t user = 0, system = 0;
    sscanf(strrchr(line, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    uint64_t tick = 1000000000 / sysconf(_SC_CLK_TCK);
    info.user_time = user * tick, info.system_time = system * tick;
    strcpy(info.name, found.name);
    memcpy(to, &info, sizeof info);
    return sizeof info;
}

// Starting --------------------------------------------------------------------------------------------------

// pthread_attr_t: 64 bytes, which begin with a signature.
struct attributes { long signature; size_t stack; int is_detached; size_t guard; };
enum { ATTRIBUTES = 0x54484441 };

static int mac_pthread_attr_init(struct attributes *to) {
    *to = (struct attributes){ATTRIBUTES, 512 * 1024, 0, 4096};
    return 0;
}
static int mac_pthread_attr_destroy(struct attributes *to) {
    if (to->signature != ATTRIBUTES) return EINVAL;
    to->signature = 0;
    return 0;
}
// PTHREAD_STACK_MIN is 8 KiB on Intel's processors.
static int mac_pthread_attr_setstacksize(struct attributes *to, size_t bytes) {
    if (to->signature != ATTRIBUTES || bytes % 4096 || bytes < 8192) return EINVAL;
    to->stack = bytes;
    return 0;
}
// PTHREAD_CREATE_JOINABLE is 1, PTHREAD_CREATE_DETACHED 2.
static int mac_pthread_attr_setdetachstate(struct attributes *to, int state) {
    if (to->signature != ATTRIBUTES || (state != 1 && state != 2)) return EINVAL;
    to->is_detached = state == 2;
    return 0;
}

// A new thread has its entry in the list before a handler of a signal runs on it.
struct start { void *(*function)(void *); void *passed; sigset_t mask; };
static void *begin(void *passed) {
    struct start start = *(struct start *)passed;
    free(passed);
    add_own();
    pthread_sigmask(SIG_SETMASK, &start.mask, NULL);
    return start.function(start.passed);
}
static int mac_pthread_create(pthread_t *to, const struct attributes *from, void *(*function)(void *), void *passed) {
    struct attributes wanted;
    mac_pthread_attr_init(&wanted);
    if (from && from->signature != ATTRIBUTES) return EINVAL;
    if (from) wanted = *from;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    // glibc has its own values of a thread on the stack, too.
    pthread_attr_setstacksize(&attributes, wanted.stack + 64 * 1024);
    pthread_attr_setdetachstate(&attributes, wanted.is_detached ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
    struct start *start = malloc(sizeof *start);
    *start = (struct start){.function = function, .passed = passed};
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &start->mask);
    sigset_t before = start->mask;
    int error = pthread_create(to, &attributes, begin, start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return to_mac_error(error);
}
static int mac_pthread_join(pthread_t thread, void **result) { return to_mac_error(pthread_join(thread, result)); }
static int mac_pthread_kill(pthread_t thread, int signal) {
    return to_mac_error(pthread_kill(thread, to_linux_signal(signal)));
}

// Keys: numbers from 256 on, in 8 bytes (libpthread, pthread_tsd.c). As glibc, macOS runs their destructors
// in the order of the numbers, in four rounds, with the value set to NULL before.
static int mac_pthread_key_create(uint64_t *to, void (*destructor)(void *)) {
    pthread_key_t key;
    int error = pthread_key_create(&key, destructor);
    if (!error) *to = key + 256ul;
    return to_mac_error(error);
}
static int mac_pthread_key_delete(uint64_t key) { return pthread_key_delete(key - 256); }
static void *mac_pthread_getspecific(uint64_t key) { return pthread_getspecific(key - 256); }
static int mac_pthread_setspecific(uint64_t key, const void *value) { return pthread_setspecific(key - 256, value); }

// Locks -----------------------------------------------------------------------------------------------------
//
// They begin with a signature: of a static initialiser, whose other bytes are zeros, or of what a function
// made. glibc's object, for which zeros are right, is behind it.

struct mutex { long signature; pthread_mutex_t real; };
struct mutex_attributes { long signature; int kind; };
_Static_assert(sizeof(struct mutex) <= 64, "macOS's has 64 bytes");
enum { MUTEX = 0x4d555458, STATIC_MUTEX = 0x32aaaba7, MUTEX_ATTRIBUTES = 0x4d545841 };
static bool is_mutex(const struct mutex *mutex) {
    return mutex->signature == MUTEX || mutex->signature == STATIC_MUTEX;
}
static int mac_pthread_mutexattr_init(struct mutex_attributes *to) {
    *to = (struct mutex_attributes){MUTEX_ATTRIBUTES, 0};
    return 0;
}
static int mac_pthread_mutexattr_destroy(struct mutex_attributes *to) { return to->signature = 0, 0; }
static int mac_pthread_mutexattr_settype(struct mutex_attributes *to, int kind) {
    if (to->signature != MUTEX_ATTRIBUTES || kind < 0 || kind > 2) return EINVAL;
    to->kind = kind;
    return 0;
}
static int mac_pthread_mutex_init(struct mutex *to, const struct mutex_attributes *from) {
    // PTHREAD_MUTEX_NORMAL, _ERRORCHECK and _RECURSIVE.
    static const int kinds[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_RECURSIVE};
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, kinds[from ? from->kind : 0]);
    pthread_mutex_init(&to->real, &attributes);
    to->signature = MUTEX;
    return 0;
}
static int mac_pthread_mutex_destroy(struct mutex *mutex) {
    if (!is_mutex(mutex)) return EINVAL;
    int error = pthread_mutex_destroy(&mutex->real);
    if (!error) mutex->signature = 0;
    return to_mac_error(error);
}
static int mac_pthread_mutex_lock(struct mutex *mutex) {
    return is_mutex(mutex) ? to_mac_error(pthread_mutex_lock(&mutex->real)) : EINVAL;
}
static int mac_pthread_mutex_trylock(struct mutex *mutex) {
    return is_mutex(mutex) ? to_mac_error(pthread_mutex_trylock(&mutex->real)) : EINVAL;
}
static int mac_pthread_mutex_unlock(struct mutex *mutex) {
    return is_mutex(mutex) ? to_mac_error(pthread_mutex_unlock(&mutex->real)) : EINVAL;
}

struct rwlock { long signature; pthread_rwlock_t real; };
static int mac_pthread_rwlock_rdlock(struct rwlock *lock) { return to_mac_error(pthread_rwlock_rdlock(&lock->real)); }
static int mac_pthread_rwlock_wrlock(struct rwlock *lock) { return to_mac_error(pthread_rwlock_wrlock(&lock->real)); }
static int mac_pthread_rwlock_unlock(struct rwlock *lock) { return to_mac_error(pthread_rwlock_unlock(&lock->real)); }

struct once { long signature; pthread_once_t real; };
static int mac_pthread_once(struct once *once, void (*function)(void)) { return pthread_once(&once->real, function); }

// A condition variable counts what was signalled. It has no room for glibc's (48 bytes with the signature).
struct condition { long signature; uint32_t count; };
enum { CONDITION = 0x434f4e44, STATIC_CONDITION = 0x3cb0b1bb };
static int mac_pthread_cond_init(struct condition *to, const void *attributes) {
    (void)attributes;
    *to = (struct condition){CONDITION, 0};
    return 0;
}
static int mac_pthread_cond_destroy(struct condition *one) { return one->signature = 0, 0; }
static int wake(struct condition *one, int most) {
    if (one->signature != CONDITION && one->signature != STATIC_CONDITION) return EINVAL;
    __atomic_add_fetch(&one->count, 1, __ATOMIC_SEQ_CST);
    futex(&one->count, FUTEX_WAKE_PRIVATE, most, NULL);
    return 0;
}
static int mac_pthread_cond_signal(struct condition *one) { return wake(one, 1); }
static int mac_pthread_cond_broadcast(struct condition *one) { return wake(one, INT32_MAX); }
static int mac_pthread_cond_timedwait_relative_np(struct condition *one, struct mutex *mutex, const void *time) {
    if (one->signature != CONDITION && one->signature != STATIC_CONDITION) return EINVAL;
    uint32_t count = __atomic_load_n(&one->count, __ATOMIC_SEQ_CST);
    int error = mac_pthread_mutex_unlock(mutex);
    if (error) return error;
    long result = futex(&one->count, FUTEX_WAIT_PRIVATE, count, time);
    bool is_late = result < 0 && errno == ETIMEDOUT;
    mac_pthread_mutex_lock(mutex);
    return is_late ? to_mac_error(ETIMEDOUT) : 0;
}
static int mac_pthread_cond_wait(struct condition *one, struct mutex *mutex) {
    return mac_pthread_cond_timedwait_relative_np(one, mutex, NULL);
}
// The time of day at which it ends.
static int mac_pthread_cond_timedwait(struct condition *one, struct mutex *mutex, const struct timespec *end) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t left = (end->tv_sec - now.tv_sec) * 1000000000l + end->tv_nsec - now.tv_nsec;
    if (left < 0) left = 0;
    struct timespec time = {left / 1000000000, left % 1000000000};
    return mac_pthread_cond_timedwait_relative_np(one, mutex, &time);
}

// Waiting ---------------------------------------------------------------------------------------------------

static uint64_t monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ul + now.tv_nsec;
}
// Intel's processors have ticks of a nanosecond.
static uint64_t mac_mach_absolute_time(void) { return monotonic(); }
static int mac_mach_timebase_info(uint32_t to[2]) { return to[0] = to[1] = 1, 0; }

// Semaphores of libdispatch (man 3 dispatch_semaphore_create, man 3 dispatch_time).
struct semaphore { uint32_t value; };
static struct semaphore *mac_dispatch_semaphore_create(long value) {
    struct semaphore *made = malloc(sizeof *made);
    made->value = value;
    return made;
}
static void mac_dispatch_release(struct semaphore *semaphore) { free(semaphore); }
static long mac_dispatch_semaphore_signal(struct semaphore *semaphore) {
    __atomic_add_fetch(&semaphore->value, 1, __ATOMIC_SEQ_CST);
    return futex(&semaphore->value, FUTEX_WAKE_PRIVATE, 1, NULL) > 0;
}
static long mac_dispatch_semaphore_wait(struct semaphore *semaphore, uint64_t end) {
    for (;;) {
        uint32_t value = __atomic_load_n(&semaphore->value, __ATOMIC_SEQ_CST);
        while (value)
            if (__atomic_compare_exchange_n(&semaphore->value, &value, value - 1, false, __ATOMIC_SEQ_CST, 0)) return 0;
        uint64_t now = monotonic();
        // DISPATCH_TIME_FOREVER has no end.
        if (end != ~0ul && end <= now) return 49;
        struct timespec time = {(end - now) / 1000000000, (end - now) % 1000000000};
        futex(&semaphore->value, FUTEX_WAIT_PRIVATE, 0, end == ~0ul ? NULL : &time);
    }
}
static uint64_t mac_dispatch_time(uint64_t when, int64_t nanoseconds) {
    if (when == ~0ul) return when;
    uint64_t begin = when ? when : monotonic(), end;
    return __builtin_add_overflow(begin, nanoseconds, &end) ? ~0ul : end;
}

// os/os_sync_wait_on_address.h, of macOS 14.4: what waits returns how many others wait on, or -1. The clock
// is 32.
static int mac_os_sync_wait_on_address(uint32_t *word, uint64_t value, size_t bytes, uint32_t flags) {
    if (bytes != 4 || flags > 1 || (uintptr_t)word % 4) return refuse(EINVAL);
    if (futex(word, flags ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, value, NULL) < 0 && errno != EAGAIN) return answer(-1);
    return 0;
}
static int mac_os_sync_wait_on_address_with_timeout(uint32_t *word, uint64_t value, size_t bytes, uint32_t flags,
                                                    uint32_t clock, uint64_t nanoseconds) {
    if (bytes != 4 || flags > 1 || (uintptr_t)word % 4 || clock != 32 || nanoseconds == 0) return refuse(EINVAL);
    struct timespec time = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    if (futex(word, flags ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, value, &time) < 0 && errno != EAGAIN) return answer(-1);
    return 0;
}
static int os_sync_wake(uint32_t *word, size_t bytes, uint32_t flags, int most) {
    if (bytes != 4 || flags > 1) return refuse(EINVAL);
    return futex(word, flags ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, most, NULL) > 0 ? 0 : refuse(ENOENT);
}
static int mac_os_sync_wake_by_address_all(uint32_t *word, size_t bytes, uint32_t flags) {
    return os_sync_wake(word, bytes, flags, INT32_MAX);
}
static int mac_os_sync_wake_by_address_any(uint32_t *word, size_t bytes, uint32_t flags) {
    return os_sync_wake(word, bytes, flags, 1);
}

// The numbers of clocks. CLOCK_MONOTONIC (6) and its raw forms (4, 5) go on while the system sleeps;
// CLOCK_UPTIME_RAW (8, 9) is mach_absolute_time (Libc, gen/clock_gettime.c).
static int mac_clock_gettime(int clock, struct timespec *to) {
    static const int clocks[17] = {[4] = CLOCK_BOOTTIME, CLOCK_BOOTTIME, CLOCK_BOOTTIME, [8] = CLOCK_MONOTONIC,
                                   CLOCK_MONOTONIC, [12] = CLOCK_PROCESS_CPUTIME_ID, [16] = CLOCK_THREAD_CPUTIME_ID};
    if (clock < 0 || clock > 16 || (clock && !clocks[clock])) return refuse(EINVAL);
    return answer(clock_gettime(clock ? clocks[clock] : CLOCK_REALTIME, to));
}
static int mac_nanosleep(const struct timespec *time, struct timespec *left) { return answer(nanosleep(time, left)); }

const struct function of_threads[] = {
    SAME(pthread_self), SAME(pthread_equal), SAME(pthread_detach), SAME(pthread_atfork), SAME(sched_yield),
    OURS(pthread_threadid_np), OURS(pthread_setname_np), OURS(pthread_getname_np), OURS(pthread_get_stackaddr_np),
    OURS(pthread_get_stacksize_np), OURS(pthread_main_np), OURS(proc_pidinfo), OURS(pthread_attr_init),
    OURS(pthread_attr_destroy), OURS(pthread_attr_setstacksize), OURS(pthread_attr_setdetachstate), OURS(pthread_create),
    OURS(pthread_join), OURS(pthread_kill), OURS(pthread_key_create), OURS(pthread_key_delete), OURS(pthread_getspecific),
    OURS(pthread_setspecific), OURS(pthread_mutexattr_init), OURS(pthread_mutexattr_destroy),
    OURS(pthread_mutexattr_settype), OURS(pthread_mutex_init), OURS(pthread_mutex_destroy), OURS(pthread_mutex_lock),
    OURS(pthread_mutex_trylock), OURS(pthread_mutex_unlock), OURS(pthread_rwlock_rdlock), OURS(pthread_rwlock_wrlock),
    OURS(pthread_rwlock_unlock), OURS(pthread_once), OURS(pthread_cond_init), OURS(pthread_cond_destroy),
    OURS(pthread_cond_signal), OURS(pthread_cond_broadcast), OURS(pthread_cond_wait), OURS(pthread_cond_timedwait),
    OURS(pthread_cond_timedwait_relative_np), OURS(mach_absolute_time), OURS(mach_timebase_info),
    OURS(dispatch_semaphore_create), OURS(dispatch_release), OURS(dispatch_semaphore_signal),
    OURS(dispatch_semaphore_wait), OURS(dispatch_time), OURS(os_sync_wait_on_address),
    OURS(os_sync_wait_on_address_with_timeout), OURS(os_sync_wake_by_address_all), OURS(os_sync_wake_by_address_any),
    OURS(clock_gettime), OURS(nanosleep),
    END,
};
