// What QEMU's emulation of Linux (qemu-user 7.2) lacks, for the programs here: loaded before them.
//
// - It gives the addresses of the emulated program in `/proc/self/maps`, but not in `/proc/thread-self/maps`.
// - With `-L`, the root folder is that of the libraries.
// - It has no `process_vm_readv`.
//
// The tests of the library run with it, too: with CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER='qemu-aarch64
// -L /usr/aarch64-linux-gnu -E LD_PRELOAD=under_emulation.so', cargo test --lib --target aarch64-unknown-linux-gnu stacks
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int open_as(int folder, const char *path, int flags, mode_t mode) {
    static const char thread[] = "/proc/thread-self/";
    char other[256];
    if (strncmp(path, thread, sizeof thread - 1) == 0) {
        snprintf(other, sizeof other, "/proc/self/%s", path + sizeof thread - 1);
        path = other;
    } else if (strcmp(path, "/") == 0) {
        path = "/proc/self/root";
    }
    return (int)syscall(SYS_openat, folder, path, flags, mode);
}

#define MODE(last, mode)            \
    va_list list;                   \
    va_start(list, last);           \
    mode_t mode = va_arg(list, int); \
    va_end(list)

int open(const char *path, int flags, ...) {
    MODE(flags, mode);
    return open_as(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE(flags, mode);
    return open_as(AT_FDCWD, path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    MODE(flags, mode);
    return open_as(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    MODE(flags, mode);
    return open_as(folder, path, flags, mode);
}

ssize_t process_vm_readv(pid_t process, const struct iovec *to, unsigned long count, const struct iovec *from,
                         unsigned long parts, unsigned long flags) {
    (void)process, (void)count, (void)parts, (void)flags;
    int memory = open_as(AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC, 0);
    ssize_t read = memory < 0 ? -1 : pread(memory, to->iov_base, to->iov_len, (off_t)(uintptr_t)from->iov_base);
    if (memory >= 0) close(memory);
    if (read < 0) errno = EFAULT;
    return read;
}
