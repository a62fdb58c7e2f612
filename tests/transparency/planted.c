// What scripts/check_transparency.sh must find: a library that does one thing that a tracker must not do, named by PLANTED.
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static void handler(int number) { (void)number; }

__attribute__((constructor)) static void plant(void) {
#define IS(name) (strcmp(PLANTED, name) == 0)
    if (IS("handler")) {
        struct sigaction action = {.sa_handler = handler};
        sigaction(SIGUSR2, &action, NULL);
    } else if (IS("descriptor")) {
        open("/dev/null", O_RDONLY | O_CLOEXEC);
    } else if (IS("line")) {
        write(2, "planted\n", 8);
    } else if (IS("mask")) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        sigprocmask(SIG_BLOCK, &set, NULL);
    } else if (IS("right")) {
        prctl(PR_CAPBSET_DROP, 30, 0, 0, 0);
    } else if (IS("file")) {
        close(open("planted", O_RDWR | O_CREAT, 0600));
    } else if (IS("child")) {
        if (fork() == 0) {
            // NOTE: it is nobody's child, but it is left. Without this library, which would plant another one, and so on without end.
            if (fork() == 0) execle("/bin/sleep", "sleep", "1000", (char *)NULL, (char *[]){NULL});
            _exit(0);
        }
    } else if (IS("status")) {
        umask(077);
    }
}
