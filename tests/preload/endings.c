/* How programs end: by signals, by the end of their last thread, by a crash in their first moments. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static void *volatile kept;

static void crash(void) { *(volatile int *)16 = 1; }

/* Prints which signals have a handler, as the kernel says. */
static void caught(void) {
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, "SigCgt:", 7)) fputs(line, stdout);
}

/* What comes after a wait that a signal ends. */
static void after_sleep(void) {
    puts("up");
    fflush(stdout);
    sleep(60);
    puts("code after sleep ran");
    fflush(stdout);
}

/* Prints what handles each signal, in all ways to ask, before and after the program sets the default. */
static void shown(void) {
    int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGUSR1};
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            int number = numbers[i];
            struct sigaction old, new = {.sa_handler = SIG_DFL}, *same = &new;
            if (sigaction(number, NULL, &old)) abort();
            printf("%d: %d %d", number, old.sa_handler == SIG_DFL, old.sa_flags & ~0x04000000);
            printf(" %d", signal(number, SIG_IGN) == SIG_DFL);
            printf(" %d", signal(number, SIG_DFL) == SIG_IGN);
            printf(" %d", sysv_signal(number, SIG_DFL) == SIG_DFL);
            printf(" %d", sigset(number, SIG_DFL) == SIG_DFL);
            if (sigaction(number, &new, same)) abort();
            printf(" %d\n", new.sa_handler == SIG_DFL);
        }
    }
    fflush(stdout);
}

/* A thread of the program has its name. */
static void at_exit(void) {
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    printf("at exit in a thread of %s\n", name);
}

static void *wait_a_moment(void *number) {
    if (number) nanosleep(&(struct timespec){.tv_nsec = 1000 * (long)number}, NULL);
    return NULL;
}

static void *print(void *text) {
    fputs(text, stdout); /* Not flushed. */
    return NULL;
}

static void *print_and_exit(void *text) {
    print(text);
    pthread_exit(NULL);
}

static void *by_system_call(void *unused) {
    (void)unused;
    syscall(SYS_exit, 7);
    return NULL;
}

static int c11(void *text) {
    print(text);
    return 0;
}

static pthread_t first;

static void *join_first(void *unused) {
    (void)unused;
    pthread_join(first, NULL);
    fputs("joined\n", stdout);
    return NULL;
}

static void on_timer(union sigval value) {
    (void)value;
    puts("the timer's thread ran on");
    exit(9);
}

static pthread_t make(void *(*function)(void *), void *argument, int detached) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (detached) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, function, argument)) abort();
    return thread;
}

/* The program has no thread any more. */
static void last_thread(const char *how) {
    setvbuf(stdout, malloc(4096), _IOFBF, 4096);
    printf("main\n");
    atexit(at_exit);
    kept = malloc(1000003);
    first = pthread_self();
    if (!strcmp(how, "alone")) pthread_exit(NULL);
    if (!strcmp(how, "return")) make(print, "a thread that allocates nothing\n", 0);
    if (!strcmp(how, "exit")) make(print_and_exit, "a thread that exits\n", 0);
    if (!strcmp(how, "detached")) make(print, "a detached thread\n", 1);
    if (!strcmp(how, "cancel")) pthread_cancel(make(wait_a_moment, (void *)900000L, 0));
    if (!strcmp(how, "join")) make(join_first, NULL, 0);
    if (!strcmp(how, "many"))
        for (long i = 0; i < 300; i++) make(wait_a_moment, (void *)(i % 7), i % 2);
    if (!strcmp(how, "c11")) {
        thrd_t thread;
        thrd_create(&thread, c11, "a thread of C11\n");
    }
    if (!strcmp(how, "fork")) {
        if (fork()) {
            int status;
            wait(&status);
            printf("child: %x\n", status);
            exit(3);
        }
        make(print, "a thread of the child\n", 0);
    }
    if (!strcmp(how, "timer")) {
        timer_t timer;
        struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_timer};
        if (timer_create(CLOCK_MONOTONIC, &event, &timer)) abort();
        timer_settime(timer, 0, &(struct itimerspec){.it_value = {.tv_nsec = 300000000}}, NULL);
    }
    if (!strcmp(how, "system-call")) {
        fflush(stdout);
        make(by_system_call, NULL, 0);
        syscall(SYS_exit, 7);
    }
    if (!strcmp(how, "statuses-differ")) {
        fflush(stdout);
        make(by_system_call, NULL, 0);
        syscall(SYS_exit, 5);
    }
    if (!strcmp(how, "system-call-alone")) {
        fflush(stdout);
        syscall(SYS_exit, 5);
    }
    pthread_exit(NULL);
}

static void *crash_in_thread(void *is_last) {
    if (is_last) crash();
    pause();
    return NULL;
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "crash")) crash();
    if (!strcmp(what, "crash-in-eighth")) {
        for (int i = 1; i <= 8; i++) make(crash_in_thread, i == 8 ? arguments : NULL, 0);
        for (;;) pause();
    }
    if (!strcmp(what, "after-sleep")) after_sleep();
    if (!strcmp(what, "shown")) shown();
    if (!strcmp(what, "caught")) caught();
    if (!strcmp(what, "last")) last_thread(arguments[2]);
    return 0;
}
