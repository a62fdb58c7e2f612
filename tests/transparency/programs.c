// Programs of scripts/check_transparency.sh. `probe` says what a process has got: descriptors, dispositions, masks, rights,
// limits. The others do what shows a tracker's threads, handlers and descriptors.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static const char *self;

static int by_text(const void *a, const void *b) { return strcmp(*(char **)a, *(char **)b); }

// Nothing here opens a descriptor before the list of them is complete.
static void probe(void) {
    char text[4096], name[64];
    // NOTE: into one buffer, so that the probe can say it with standard output closed, too.
    size_t all = 1 << 20;
    char *out = malloc(all), *at = out;
#define SAY(...) (at += snprintf(at, (size_t)(out + all - at), __VA_ARGS__))
    for (int fd = 0; fd < 1024; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags < 0) continue;
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(name, text, sizeof text - 1);
        text[length < 0 ? 0 : length] = 0;
        SAY("descriptor %d: %s flags %d %o\n", fd, text, flags, (unsigned)fcntl(fd, F_GETFL));
    }
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    for (int number = 1; number < 65; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            SAY("signal %d: %s\n", number, action.sa_handler == SIG_IGN ? "ignored" : "handled");
        if (sigismember(&mask, number) == 1) SAY("signal %d: blocked\n", number);
        if (number != 32) continue;
        // NOTE: only the kernel says it of this one. Not of 33, which glibc handles in each program with threads.
        unsigned long raw[4] = {0};
        syscall(SYS_rt_sigaction, number, NULL, raw, 8);
        if (raw[0] != 0) SAY("signal %d: %s\n", number, raw[0] == 1 ? "ignored" : "handled");
    }
    for (unsigned resource = 0; resource < RLIM_NLIMITS; resource++) {
        struct rlimit limit;
        if (getrlimit(resource, &limit) == 0)
            SAY("limit %u: %llx %llx\n", resource, (long long)limit.rlim_cur, (long long)limit.rlim_max);
    }
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    syscall(SYS_capget, &header, data);
    SAY("capabilities: %x%08x %x%08x\n", data[1].effective, data[0].effective, data[1].permitted, data[0].permitted);
    uid_t ids[6];
    getresuid(ids, ids + 1, ids + 2), getresgid(ids + 3, ids + 4, ids + 5);
    SAY("ids: %u %u %u, %u %u %u, %d groups\n", ids[0], ids[1], ids[2], ids[3], ids[4], ids[5], getgroups(0, NULL));
    mode_t old = umask(0);
    SAY("umask %o, nice %d, securebits %d, no new rights %d, keeps capabilities %d, dumpable %d\n", old,
        getpriority(PRIO_PROCESS, 0), prctl(PR_GET_SECUREBITS), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
        prctl(PR_GET_KEEPCAPS), prctl(PR_GET_DUMPABLE));
    umask(old);
    siginfo_t info = {0};
    int child = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT);
    SAY("children: %d %d\n", child, child < 0 ? errno : 0);
    int lock = open("/dev/null", O_RDONLY);
    SAY("the next descriptor is %d\n", lock);
    close(lock);
    int count = 0;
    while (environ[count]) count++;
    qsort(environ, (size_t)count, sizeof *environ, by_text);
    for (char **variable = environ; *variable; variable++)
        // What cannot be the same, see docs/faults.md.
        if (strncmp(*variable, "LD_PRELOAD=", 11) && strncmp(*variable, "MEMLEDGER_", 10)) SAY("%s\n", *variable);
    for (char *from = out; from < at;) {
        ssize_t written = write(1, from, (size_t)(at - from));
        if (written < 0) {
            dprintf(2, "write: %s\n%s", strerror(errno), out);
            exit(1);
        }
        from += written;
    }
    free(out);
}

static void *thread(void *unused) {
    free(malloc(1000));
    return unused;
}

static void make_thread(void *(*body)(void *)) {
    pthread_t made;
    if (pthread_create(&made, NULL, body, NULL) == 0) pthread_detach(made);
}

static void at_exit(void) { puts("atexit"); }

static void *leaves_by_system_call(void *unused) {
    poll(NULL, 0, 30);
    syscall(SYS_exit, 5);
    return unused;
}

static volatile sig_atomic_t taken;
static void handler(int number) { taken = number; }

static void check(const char *what, long value) {
    printf("%s: %ld %s\n", what, value, value < 0 ? strerror(errno) : "");
    fflush(stdout);
}

// The kernel's capabilities of the calling thread: effective as permitted.
static void capabilities_back(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    check("capget", syscall(SYS_capget, &header, data));
    data[0].effective = data[0].permitted, data[1].effective = data[1].permitted;
    check("capset", syscall(SYS_capset, &header, data));
}

int main(int count, char **arguments) {
    self = arguments[0];
    const char *case_ = count > 1 ? arguments[1] : "probe";
#define IS(name) (strcmp(case_, name) == 0)
    if (IS("probe")) {
        probe();
    } else if (IS("probe-children")) { // as forked, spawned and replaced children see it
        fflush(stdout);
        if (fork() == 0) {
            probe();
            exit(0);
        }
        wait(NULL);
        char *again[] = {(char *)self, "probe", NULL};
        pid_t child;
        if (posix_spawn(&child, self, NULL, NULL, again, environ) == 0) waitpid(child, NULL, 0);
        execv(self, again);
    } else if (IS("waits")) { // and never runs anything after a signal
        puts("ready");
        fflush(stdout);
        sleep(600);
        puts("code after sleep ran");
    } else if (IS("waits-reads")) {
        char byte;
        puts("ready");
        fflush(stdout);
        ssize_t got = read(0, &byte, 1);
        printf("read gave %zd\n", got);
    } else if (IS("handles")) {
        struct sigaction action = {.sa_handler = handler}, before;
        int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
        for (int i = 0; i < 4; i++) {
            sigaction(numbers[i], &action, &before);
            printf("%d was %s\n", numbers[i], before.sa_handler == SIG_DFL ? "default" : before.sa_handler == SIG_IGN ? "ignored" : "handled");
        }
        puts("ready");
        fflush(stdout);
        while (!taken) pause();
        printf("handled %d\n", (int)taken);
        signal(SIGTERM, SIG_DFL);
        raise(SIGTERM);
        puts("alive");
    } else if (IS("handles-old")) { // as interpreters do: only where nothing was set
        for (int number = 1; number < 32; number++) {
            if (number == SIGKILL || number == SIGSTOP) continue;
            void (*old)(int) = signal(number, handler);
            if (old != SIG_DFL) printf("%d was not at its default\n", number);
            signal(number, old);
        }
    } else if (IS("sigwait")) {
        sigset_t set;
        sigfillset(&set);
        sigprocmask(SIG_SETMASK, &set, NULL);
        puts("ready");
        fflush(stdout);
        int number = 0;
        sigwait(&set, &number);
        printf("sigwait: %d\n", number);
    } else if (IS("last-thread")) {
        atexit(at_exit);
        make_thread(thread);
        printf("not flushed");
        pthread_exit(NULL);
    } else if (IS("last-thread-call")) {
        make_thread(leaves_by_system_call);
        syscall(SYS_exit, 3);
    } else if (IS("keeps-capabilities")) {
        check("keep", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
        check("setresuid", setresuid(65534, 65534, 65534));
        capabilities_back();
        check("setresgid", setresgid(65534, 65534, 65534));
        check("setgroups", setgroups(0, NULL));
        probe();
    } else if (IS("drops")) {
        check("setgroups", setgroups(0, NULL));
        check("setgid", setgid(65534));
        check("setuid", setuid(65534));
        check("back", setuid(0));
        probe();
    } else if (IS("namespaces")) {
        check("user", unshare(CLONE_NEWUSER));
        check("mount", unshare(CLONE_NEWNS));
        int own = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
        check("setns", setns(own, CLONE_NEWNS));
        close(own);
        probe();
    } else if (IS("new-pid")) {
        check("pid", unshare(CLONE_NEWPID));
        fflush(stdout);
        if (fork() == 0) {
            printf("I am %d\n", getpid());
            exit(0);
        }
        int status = 0;
        wait(&status);
        printf("status %d\n", status);
    } else if (IS("closes")) {
        check("close_range", close_range(3, ~0u, 0));
        for (int fd = 3; fd < 1024; fd++) {
            int other = dup(0);
            if (other != fd) printf("dup gave %d, not %d\n", other, fd);
        }
        thread(NULL);
    } else if (IS("few-descriptors")) {
        struct rlimit limit = {5, 5};
        setrlimit(RLIMIT_NOFILE, &limit);
        int pair[2];
        check("pipe", pipe(pair));
    } else if (IS("strict")) { // seccomp's strict mode: read, write, exit
        prctl(PR_SET_SECCOMP, 1, 0, 0, 0);
        write(1, "strict\n", 7);
        syscall(SYS_exit, 4);
    } else if (IS("crashes")) {
        struct rlimit limit = {0, 0};
        setrlimit(RLIMIT_CORE, &limit);
        puts("not flushed");
        *(volatile int *)8 = 1;
    } else if (IS("aborts")) {
        struct rlimit limit = {0, 0};
        setrlimit(RLIMIT_CORE, &limit);
        puts("not flushed");
        abort();
    } else if (IS("children")) { // each way to end a child, and that there are no others
        for (int way = 0; way < 6; way++) {
            fflush(stdout);
            errno = 4321;
            pid_t child = fork();
            printf("errno %d\n", errno);
            if (child == 0) {
                thread(NULL);
                fflush(stdout);
                if (way == 0) exit(10);
                if (way == 1) _exit(11);
                if (way == 2) raise(SIGTERM);
                if (way == 3) quick_exit(12);
                if (way == 4) raise(SIGKILL);
                make_thread(thread);
                exit(13);
            }
            int status = 0;
            pid_t got = wait(&status);
            printf("%d: %d %x\n", way, got == child, status);
        }
        errno = 0;
        check("wait", wait(NULL));
    } else {
        fprintf(stderr, "there is no %s\n", case_);
        return 2;
    }
    return 0;
}
