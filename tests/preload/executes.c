/* Executes a program in the way that is its first argument, or prints its arguments and its environment but MEMLEDGER_*. It is also
 * built statically, with musl, and, without any library, for 32 bits (-DALONE). */
#ifdef ALONE
static int call(int number, int a, const void *b, int c) {
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
    return result;
}
static void print(const char *text) {
    int size = 0;
    while (text[size]) size++;
    call(4, 1, text, size);
    call(4, 1, "\n", 1);
}
static int is_hidden(const char *text) {
    const char *name = "MEMLEDGER";
    while (*name && *text == *name) text++, name++;
    return !*name;
}
void print_all(char **stack) {
    char **text = stack + 2;
    for (; *text; text++) print(*text);
    for (text++; *text; text++)
        if (!is_hidden(*text)) print(*text);
    call(1, 0, 0, 0);
}
__asm__(".globl _start\n_start: mov %esp, %eax\n and $-16, %esp\n sub $12, %esp\n push %eax\n call print_all\n");
#else
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int status_of(pid_t child) {
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

int main(int count, char **arguments) {
    if (count < 3 || strcmp(arguments[1], "1") == 0) {
        for (int i = 1; i < count; i++) puts(arguments[i]);
        for (char **text = environ; *text; text++)
            if (strncmp(*text, "MEMLEDGER", 9)) puts(*text);
        return 0;
    }
    const char *way = arguments[1], *path = arguments[2], *name = strrchr(path, '/') + 1;
    char *all[] = {"program", "1", "2", "3", "4", "5", "6", "7", "8", 0};
    pid_t child;
#define ALL "program", "1", "2", "3", "4", "5", "6", "7", "8", (char *)0
#define IS(what) (strcmp(way, what) == 0)
    if (IS("execve")) execve(path, all, environ);
    if (IS("execv")) execv(path, all);
    if (IS("execvp")) execvp(name, all);
    if (IS("execl")) execl(path, ALL);
    if (IS("execlp")) execlp(name, ALL);
    if (IS("execle")) execle(path, ALL, environ);
    if (IS("fexecve")) fexecve(open(path, O_RDONLY | O_CLOEXEC), all, environ);
    if (IS("posix_spawn") && posix_spawn(&child, path, 0, 0, all, environ) == 0) return status_of(child);
    if (IS("posix_spawnp") && posix_spawnp(&child, name, 0, 0, all, environ) == 0) return status_of(child);
    if (IS("vfork")) {
        /* Its memory is that of the parent. */
        if ((child = vfork()) == 0) {
            execve(path, all, environ);
            _exit(98);
        }
        return status_of(child);
    }
#ifdef __GLIBC__
    if (IS("execvpe")) execvpe(name, all, environ);
    if (IS("fexecve of a path")) fexecve(open(path, O_PATH | O_CLOEXEC), all, environ);
    if (IS("execveat")) execveat(open("/", O_PATH | O_CLOEXEC), path + 1, all, environ, 0);
#endif
    if (IS("many")) {
        /* An environment of thousands of variables. */
        int size = atoi(arguments[3]), at = 0;
        char **large = malloc((size + 2) * sizeof *large), *libraries = getenv("LD_PRELOAD");
        for (int i = 0; i < size; i++) {
            large[at] = i == size / 2 ? libraries ? libraries - strlen("LD_PRELOAD=") : 0 : "some=variable";
            at += large[at] != 0;
        }
        large[at++] = "last=1";
        large[at] = 0;
        execve(path, all, large);
    }
    /* What fails, fails as alone. */
    printf("%s\n", strerror(errno));
    return 0;
}
#endif
