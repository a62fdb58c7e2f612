// Files and folders, and error numbers.
#include "loader.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

// Error numbers ---------------------------------------------------------------------------------------------

static __thread int mac_errno __attribute__((tls_model("initial-exec")));
int *mac___error(void) { return &mac_errno; }

// Pairs of Linux's number and macOS's (sys/errno.h), of those that differ. Those below 35 are the same, but
// for two.
static const uint8_t errors[][2] = {
    {EAGAIN, 35}, {EDEADLK, 11}, {ENAMETOOLONG, 63}, {ENOLCK, 77}, {ENOSYS, 78}, {ENOTEMPTY, 66}, {ELOOP, 62},
    {EOVERFLOW, 84}, {EILSEQ, 92}, {EUSERS, 68}, {ENOTSOCK, 38}, {EDESTADDRREQ, 39}, {EMSGSIZE, 40}, {EPROTOTYPE, 41},
    {ENOPROTOOPT, 42}, {EPROTONOSUPPORT, 43}, {ESOCKTNOSUPPORT, 44}, {EOPNOTSUPP, 45}, {EPFNOSUPPORT, 46},
    {EAFNOSUPPORT, 47}, {EADDRINUSE, 48}, {EADDRNOTAVAIL, 49}, {ENETDOWN, 50}, {ENETUNREACH, 51}, {ENETRESET, 52},
    {ECONNABORTED, 53}, {ECONNRESET, 54}, {ENOBUFS, 55}, {EISCONN, 56}, {ENOTCONN, 57}, {ESHUTDOWN, 58},
    {ETOOMANYREFS, 59}, {ETIMEDOUT, 60}, {ECONNREFUSED, 61}, {EHOSTDOWN, 64}, {EHOSTUNREACH, 65}, {EALREADY, 37},
    {EINPROGRESS, 36}, {ESTALE, 70}, {EDQUOT, 69}, {ECANCELED, 89}};

int to_mac_error(int error) {
    for (size_t i = 0; i < sizeof errors / 2; i++)
        if (errors[i][0] == error) return errors[i][1];
    return error;
}
int to_linux_error(int error) {
    for (size_t i = 0; i < sizeof errors / 2; i++)
        if (errors[i][1] == error) return errors[i][0];
    return error;
}
long answer(long result) {
    if (result == -1) mac_errno = to_mac_error(errno);
    return result;
}
void *answer_pointer(void *result) {
    if (!result) mac_errno = to_mac_error(errno);
    return result;
}
long refuse(int error) {
    mac_errno = error;
    return -1;
}
static int mac_strerror_r(int error, char *to, size_t bytes) {
    int __xpg_strerror_r(int, char *, size_t);
    return __xpg_strerror_r(to_linux_error(error), to, bytes);
}

// Opening ---------------------------------------------------------------------------------------------------

// AT_FDCWD is -2.
int to_linux_folder(int folder) { return folder == -2 ? AT_FDCWD : folder; }

// Pairs of Linux's flag and macOS's (sys/fcntl.h).
static const int open_flags[][2] = {
    {O_NONBLOCK, 4}, {O_APPEND, 8}, {O_NOFOLLOW, 0x100}, {O_CREAT, 0x200}, {O_TRUNC, 0x400}, {O_EXCL, 0x800},
    {O_NOCTTY, 0x20000}, {O_DIRECTORY, 0x100000}, {O_CLOEXEC, 0x1000000}};
static int to_linux_open(int flags) {
    int to = flags & 3, left = flags & ~3;
    for (size_t i = 0; i < sizeof open_flags / sizeof *open_flags; i++)
        if (left & open_flags[i][1]) to |= open_flags[i][0], left &= ~open_flags[i][1];
    if (left) fail("open has a flag that is not known here", NULL);
    return to;
}
static int to_mac_open(int flags) {
    int to = flags & 3;
    for (size_t i = 0; i < sizeof open_flags / sizeof *open_flags; i++)
        if ((flags & open_flags[i][0]) == open_flags[i][0]) to |= open_flags[i][1];
    return to;
}
static int mac_open(const char *path, int flags, int mode) { return answer(open(path, to_linux_open(flags), mode)); }
static int mac_openat(int folder, const char *path, int flags, int mode) {
    return answer(openat(to_linux_folder(folder), path, to_linux_open(flags), mode));
}

// A descriptor's flag F_SETNOSIGPIPE, or a socket's option SO_NOSIGPIPE. Copies have it, too.
static bool no_signal[4096];
void set_raises_no_signal(int descriptor, bool set) {
    if (descriptor >= 0 && descriptor < 4096) no_signal[descriptor] = set;
}
bool raises_no_signal(int descriptor) { return descriptor >= 0 && descriptor < 4096 && no_signal[descriptor]; }
static int copied(int from, int to) {
    if (to >= 0) set_raises_no_signal(to, raises_no_signal(from));
    return answer(to);
}
static int mac_close(int descriptor) {
    set_raises_no_signal(descriptor, false);
    return answer(close(descriptor));
}
static int mac_dup(int from) { return copied(from, dup(from)); }
static int mac_dup2(int from, int to) { return copied(from, dup2(from, to)); }
static int mac_pipe(int to[2]) { return answer(pipe(to)); }

static int mac_fcntl(int descriptor, int command, long argument) {
    char path[64];
    ssize_t bytes;
    int flags;
    switch (command) {
    case 0: return copied(descriptor, fcntl(descriptor, F_DUPFD, argument));
    case 1: return answer(fcntl(descriptor, F_GETFD));
    case 2: return answer(fcntl(descriptor, F_SETFD, argument));
    case 3: return (flags = answer(fcntl(descriptor, F_GETFL))) == -1 ? -1 : to_mac_open(flags);
    case 4: return answer(fcntl(descriptor, F_SETFL, to_linux_open(argument)));
    // F_GETPATH: into MAXPATHLEN bytes.
    case 50:
        snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
        bytes = readlink(path, (char *)argument, 1023);
        if (bytes < 0) return refuse(EBADF);
        ((char *)argument)[bytes] = 0;
        return 0;
    // F_FULLFSYNC
    case 51: return answer(fsync(descriptor));
    // F_DUPFD_CLOEXEC
    case 67: return copied(descriptor, fcntl(descriptor, F_DUPFD_CLOEXEC, argument));
    // F_SETNOSIGPIPE, F_GETNOSIGPIPE
    case 73:
        if (fcntl(descriptor, F_GETFD) < 0) return answer(-1);
        set_raises_no_signal(descriptor, argument);
        return 0;
    case 74: return raises_no_signal(descriptor);
    default: fail("fcntl has a command that is not known here", NULL);
    }
}

static int mac_ioctl(int descriptor, unsigned long request, void *argument) {
    switch (request) {
    // FIONBIO, FIOCLEX, TIOCGWINSZ, TIOCSWINSZ
    case 0x8004667e: return answer(ioctl(descriptor, FIONBIO, argument));
    case 0x20006601: return answer(fcntl(descriptor, F_SETFD, FD_CLOEXEC));
    case 0x40087468: return answer(ioctl(descriptor, TIOCGWINSZ, argument));
    case 0x80087467: return answer(ioctl(descriptor, TIOCSWINSZ, argument));
    default: fail("ioctl has a request that is not known here", NULL);
    }
}

// Reading and writing ---------------------------------------------------------------------------------------

static ssize_t mac_read(int from, void *to, size_t bytes) { return answer(read(from, to, bytes)); }
static ssize_t mac_readv(int from, const struct iovec *to, int count) { return answer(readv(from, to, count)); }
static ssize_t mac_pread(int from, void *to, size_t bytes, off_t at) { return answer(pread(from, to, bytes, at)); }
static ssize_t mac_pwrite(int to, const void *from, size_t bytes, off_t at) { return answer(pwrite(to, from, bytes, at)); }

// xnu, sys_generic.c: if nobody reads, the signal is sent to the process, not to the thread as on Linux; and
// none is where the descriptor has the flag.
static ssize_t mac_writev(int to, const struct iovec *from, int count) {
    sigset_t only, before, pending;
    sigemptyset(&only);
    sigaddset(&only, SIGPIPE);
    sigpending(&pending);
    sigprocmask(SIG_BLOCK, &only, &before);
    ssize_t result = writev(to, from, count);
    int error = errno;
    bool has_failed = result < 0 && error == EPIPE;
    if (has_failed && !sigismember(&pending, SIGPIPE)) sigtimedwait(&only, NULL, &(struct timespec){0, 0});
    if (has_failed && !raises_no_signal(to)) kill(getpid(), SIGPIPE);
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return answer(result);
}
static ssize_t mac_write(int to, const void *from, size_t bytes) {
    // XNU refuses more than INT_MAX.
    if (bytes > INT_MAX) return refuse(EINVAL);
    return mac_writev(to, &(struct iovec){(void *)from, bytes}, 1);
}
static off_t mac_lseek(int descriptor, off_t offset, int whence) { return answer(lseek(descriptor, offset, whence)); }
static int mac_ftruncate(int descriptor, off_t bytes) { return answer(ftruncate(descriptor, bytes)); }
static int mac_fsync(int descriptor) { return answer(fsync(descriptor)); }
static int mac_flock(int descriptor, int operation) { return answer(flock(descriptor, operation)); }
// The numbers of events that are used are the same.
static int mac_poll(struct pollfd *entries, unsigned count, int timeout) { return answer(poll(entries, count, timeout)); }
static int mac_isatty(int descriptor) {
    int result = isatty(descriptor);
    if (!result) answer(-1);
    return result;
}

// What is known of files ------------------------------------------------------------------------------------

struct mac_stat {
    int32_t device;
    uint16_t mode, links;
    uint64_t inode;
    uint32_t user, group;
    int32_t special;
    struct timespec accessed, modified, changed, born;
    int64_t bytes, blocks;
    int32_t block_bytes;
    uint32_t flags, generation;
    int32_t spare;
    int64_t spares[2];
};
_Static_assert(sizeof(struct mac_stat) == 144, "sys/stat.h");

static int found(int result, const struct stat *from, struct mac_stat *to) {
    if (result != 0) return answer(result);
    *to = (struct mac_stat){
        .device = from->st_dev, .mode = from->st_mode, .links = from->st_nlink, .inode = from->st_ino,
        .user = from->st_uid, .group = from->st_gid, .special = from->st_rdev, .accessed = from->st_atim,
        .modified = from->st_mtim, .changed = from->st_ctim, .born = from->st_ctim, .bytes = from->st_size,
        .blocks = from->st_blocks, .block_bytes = from->st_blksize};
    return 0;
}
static int mac_fstat(int descriptor, struct mac_stat *to) {
    struct stat status;
    return found(fstat(descriptor, &status), &status, to);
}
static int mac_stat(const char *path, struct mac_stat *to) {
    struct stat status;
    return found(stat(path, &status), &status, to);
}
static int mac_lstat(const char *path, struct mac_stat *to) {
    struct stat status;
    return found(lstat(path, &status), &status, to);
}
// AT_EACCESS, AT_SYMLINK_NOFOLLOW, AT_SYMLINK_FOLLOW, AT_REMOVEDIR.
static int to_linux_at(int flags) {
    return (flags & 0x10 ? AT_EACCESS : 0) | (flags & 0x20 ? AT_SYMLINK_NOFOLLOW : 0) |
           (flags & 0x40 ? AT_SYMLINK_FOLLOW : 0);
}
static int mac_fstatat(int folder, const char *path, struct mac_stat *to, int flags) {
    struct stat status;
    return found(fstatat(to_linux_folder(folder), path, &status, to_linux_at(flags)), &status, to);
}
static int mac_faccessat(int folder, const char *path, int mode, int flags) {
    return answer(faccessat(to_linux_folder(folder), path, mode, to_linux_at(flags)));
}
static int mac_access(const char *path, int mode) { return answer(access(path, mode)); }

struct mac_statfs {
    uint32_t block_bytes;
    int32_t io_bytes;
    uint64_t blocks, free, available, files, free_files;
    int32_t id[2];
    uint32_t owner, type, flags, subtype;
    char name[16], mounted_on[1024], mounted_from[1024];
    uint32_t reserved[8];
};
_Static_assert(sizeof(struct mac_statfs) == 2168, "sys/mount.h");
static int mac_fstatfs(int descriptor, struct mac_statfs *to) {
    struct statfs status;
    struct stat here, devices;
    if (fstatfs(descriptor, &status) != 0) return answer(-1);
    *to = (struct mac_statfs){.block_bytes = status.f_bsize, .io_bytes = status.f_bsize, .blocks = status.f_blocks,
                              .free = status.f_bfree, .available = status.f_bavail, .files = status.f_files};
    // `/dev/fd` is in the file system of `/dev`, and no link.
    bool is_of_devices = fstat(descriptor, &here) == 0 && stat("/dev", &devices) == 0 && here.st_dev == devices.st_dev;
    strcpy(to->name, is_of_devices || status.f_type == 0x9fa0 ? "devfs" : "apfs");
    return 0;
}

// Folders and names -----------------------------------------------------------------------------------------

struct mac_dirent {
    uint64_t inode, offset;
    uint16_t bytes, name_bytes;
    uint8_t kind;
    char name[1024];
};
static int mac_readdir_r(DIR *folder, struct mac_dirent *to, struct mac_dirent **result) {
    errno = 0;
    const struct dirent *entry = readdir(folder);
    *result = entry ? to : NULL;
    if (!entry) return to_mac_error(errno);
    *to = (struct mac_dirent){.inode = entry->d_ino, .offset = entry->d_off, .kind = entry->d_type};
    to->name_bytes = strlen(entry->d_name);
    to->bytes = (offsetof(struct mac_dirent, name) + to->name_bytes + 4) & ~3;
    strcpy(to->name, entry->d_name);
    return 0;
}
static void *mac_opendir(const char *path) { return answer_pointer(opendir(path)); }
static void *mac_fdopendir(int folder) { return answer_pointer(fdopendir(folder)); }
static int mac_closedir(DIR *folder) { return answer(closedir(folder)); }

static int mac_fchmod(int descriptor, uint16_t mode) { return answer(fchmod(descriptor, mode)); }
static int mac_chmod(const char *path, uint16_t mode) { return answer(chmod(path, mode)); }
static int mac_mkdir(const char *path, uint16_t mode) { return answer(mkdir(path, mode)); }
static int mac_mkfifo(const char *path, uint16_t mode) { return answer(mkfifo(path, mode)); }
static int mac_rmdir(const char *path) { return answer(rmdir(path)); }
static int mac_unlink(const char *path) {
    struct stat status;
    // Of a folder: EPERM (man 2 unlink), where Linux has EISDIR.
    if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode)) return refuse(EPERM);
    return answer(unlink(path));
}
static int mac_unlinkat(int folder, const char *path, int flags) {
    struct stat status;
    folder = to_linux_folder(folder);
    if (flags & 0x80) return answer(unlinkat(folder, path, AT_REMOVEDIR));
    if (fstatat(folder, path, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode)) return refuse(EPERM);
    return answer(unlinkat(folder, path, 0));
}
static int mac_rename(const char *from, const char *to) { return answer(rename(from, to)); }
static int mac_symlink(const char *target, const char *path) { return answer(symlink(target, path)); }
static int mac_link(const char *from, const char *to) { return answer(link(from, to)); }
static int mac_linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    return answer(linkat(to_linux_folder(from_folder), from, to_linux_folder(to_folder), to, to_linux_at(flags)));
}
static ssize_t mac_readlink(const char *path, char *to, size_t bytes) { return answer(readlink(path, to, bytes)); }
static ssize_t mac_readlinkat(int folder, const char *path, char *to, size_t bytes) {
    return answer(readlinkat(to_linux_folder(folder), path, to, bytes));
}
static char *mac_realpath(const char *path, char *to) { return answer_pointer(realpath(path, to)); }
static char *mac_getcwd(char *to, size_t bytes) { return answer_pointer(getcwd(to, bytes)); }
static int mac_chdir(const char *path) { return answer(chdir(path)); }
static int mac_chroot(const char *path) { return answer(chroot(path)); }
static uint16_t mac_umask(uint16_t mask) { return umask(mask); }

// std copies a file by these (man 3 copyfile): data and permissions, and then asks how many bytes were copied
// (8).
enum { COPIED = 8 };
static off_t *mac_copyfile_state_alloc(void) { return calloc(1, sizeof(off_t)); }
static int mac_copyfile_state_free(off_t *state) { return free(state), 0; }
static int mac_copyfile_state_get(const off_t *state, uint32_t what, off_t *to) {
    if (what != COPIED) return refuse(EINVAL);
    return *to = *state, 0;
}
static int mac_fcopyfile(int from, int to, off_t *state, uint32_t flags) {
    (void)flags;
    struct stat status;
    char bytes[65536];
    ssize_t count;
    while ((count = read(from, bytes, sizeof bytes)) > 0) {
        if (write(to, bytes, count) != count) return answer(-1);
        *state += count;
    }
    if (count == 0 && fstat(from, &status) == 0) fchmod(to, status.st_mode & 07777);
    return answer(count);
}
// The file system has no copies that share their bytes (man 2 clonefile).
static int mac_fclonefileat(int from, int folder, const char *path, int flags) {
    (void)from, (void)folder, (void)path, (void)flags;
    return refuse(45);
}

// Terminals.
static int mac_posix_openpt(int flags) { return answer(posix_openpt(to_linux_open(flags))); }
static int mac_grantpt(int terminal) { return answer(grantpt(terminal)); }
static int mac_unlockpt(int terminal) { return answer(unlockpt(terminal)); }
static char *mac_ptsname(int terminal) { return answer_pointer(ptsname(terminal)); }

#define INODE64(name) {#name "$INODE64", mac_##name}
#define NOCANCEL(name) {#name "$NOCANCEL", mac_##name}
const struct function of_files[] = {
    OURS(__error), OURS(strerror_r), OURS(open), OURS(openat), OURS(close), NOCANCEL(close), OURS(dup), OURS(dup2),
    OURS(pipe), OURS(fcntl), OURS(ioctl), OURS(read), OURS(readv), OURS(pread), OURS(pwrite), OURS(write), OURS(writev),
    OURS(lseek), OURS(ftruncate), OURS(fsync), OURS(flock), OURS(poll), OURS(isatty), INODE64(fstat), INODE64(stat),
    INODE64(lstat), INODE64(fstatat), OURS(faccessat), OURS(access), INODE64(fstatfs), INODE64(readdir_r),
    INODE64(opendir), INODE64(fdopendir), OURS(closedir), SAME(dirfd), OURS(fchmod), OURS(chmod), OURS(mkdir),
    OURS(mkfifo), OURS(rmdir), OURS(unlink), OURS(unlinkat), OURS(rename), OURS(symlink), OURS(link), OURS(linkat),
    OURS(readlink), OURS(readlinkat), {"realpath$DARWIN_EXTSN", mac_realpath}, OURS(getcwd), OURS(chdir), OURS(chroot),
    OURS(umask), OURS(copyfile_state_alloc), OURS(copyfile_state_free), OURS(copyfile_state_get), OURS(fcopyfile),
    OURS(fclonefileat), OURS(posix_openpt), OURS(grantpt), OURS(unlockpt), OURS(ptsname),
    END,
};
