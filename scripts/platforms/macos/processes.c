// Processes: starting others, ends, the environment, users and limits.
#include "loader.h"
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

// Starting --------------------------------------------------------------------------------------------------

static bool is_program_of_macos(const char *path) {
    uint32_t magic = 0;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return false;
    ssize_t bytes = read(descriptor, &magic, sizeof magic);
    close(descriptor);
    return bytes == sizeof magic && magic == 0xfeedfacf && access(path, X_OK) == 0;
}

// The arguments by which this loader runs a program of macOS; NULL if the file is none. `loader` is this
// loader's file.
static char **arguments_of_loader(const char *path, char *const *arguments, char loader[4096]) {
    if (!is_program_of_macos(path)) return NULL;
    ssize_t bytes = readlink("/proc/self/exe", loader, 4095);
    loader[bytes < 0 ? 0 : bytes] = 0;
    size_t count = 0;
    while (arguments[count]) count++;
    char **made = calloc(count + 5, sizeof *made);
    made[0] = loader, made[1] = "--argv0", made[2] = count ? arguments[0] : "", made[3] = (char *)path;
    for (size_t i = 1; i < count; i++) made[3 + i] = arguments[i];
    return made;
}

// What a name without a slash is in PATH.
static const char *look_up(const char *name, char to[4096]) {
    const char *path = getenv("PATH");
    if (strchr(name, '/') || !path) return name;
    while (*path) {
        size_t bytes = strcspn(path, ":");
        snprintf(to, 4096, "%.*s/%s", (int)bytes, path, name);
        if (access(to, X_OK) == 0) return to;
        path += bytes + (path[bytes] == ':');
    }
    return name;
}

static int mac_execve(const char *path, char *const *arguments, char *const *environment) {
    char loader[4096];
    char **own = arguments_of_loader(path, arguments, loader);
    if (own) execve(loader, own, environment);
    else execve(path, arguments, environment);
    free(own);
    return answer(-1);
}
static int mac_execv(const char *path, char *const *arguments) { return mac_execve(path, arguments, environ); }
static int mac_execvp(const char *name, char *const *arguments) {
    char found[4096];
    return mac_execve(look_up(name, found), arguments, environ);
}

// The objects of posix_spawn are pointers on macOS.
static int mac_posix_spawnattr_init(posix_spawnattr_t **to) {
    *to = malloc(sizeof **to);
    return posix_spawnattr_init(*to);
}
static int mac_posix_spawnattr_destroy(posix_spawnattr_t **one) {
    posix_spawnattr_destroy(*one);
    free(*one);
    return 0;
}
// POSIX_SPAWN_RESETIDS, _SETPGROUP, _SETSIGDEF and _SETSIGMASK are 1, 2, 4 and 8, as on Linux.
static int mac_posix_spawnattr_setflags(posix_spawnattr_t **one, short flags) {
    if (flags & ~15) fail("posix_spawn has a flag that is not known here", NULL);
    return posix_spawnattr_setflags(*one, flags);
}
static int mac_posix_spawnattr_setpgroup(posix_spawnattr_t **one, int group) {
    return posix_spawnattr_setpgroup(*one, group);
}
static int mac_posix_spawnattr_setsigdefault(posix_spawnattr_t **one, const uint32_t *set) {
    sigset_t to;
    to_linux_set(*set, &to);
    return posix_spawnattr_setsigdefault(*one, &to);
}
static int mac_posix_spawnattr_setsigmask(posix_spawnattr_t **one, const uint32_t *set) {
    sigset_t to;
    to_linux_set(*set, &to);
    return posix_spawnattr_setsigmask(*one, &to);
}
static int mac_posix_spawn_file_actions_init(posix_spawn_file_actions_t **to) {
    *to = malloc(sizeof **to);
    return posix_spawn_file_actions_init(*to);
}
static int mac_posix_spawn_file_actions_destroy(posix_spawn_file_actions_t **one) {
    posix_spawn_file_actions_destroy(*one);
    free(*one);
    return 0;
}
static int mac_posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t **one, int from, int to) {
    return to_mac_error(posix_spawn_file_actions_adddup2(*one, from, to));
}
static int mac_posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t **one, const char *path) {
    return to_mac_error(posix_spawn_file_actions_addchdir_np(*one, path));
}
static int mac_posix_spawnp(int *to, const char *name, posix_spawn_file_actions_t **actions,
                            posix_spawnattr_t **attributes, char *const *arguments, char *const *environment) {
    char found[4096], loader[4096];
    const char *path = look_up(name, found);
    char **own = arguments_of_loader(path, arguments, loader);
    int error = posix_spawn(to, own ? loader : path, actions ? *actions : NULL, attributes ? *attributes : NULL,
                            own ? own : (char **)arguments, environment ? environment : environ);
    free(own);
    return to_mac_error(error);
}

static int mac_fork(void) { return answer(fork()); }
// A status has the numbers of signals.
static int mac_waitpid(int process, int *to, int options) {
    int status = 0, result = answer(waitpid(process, &status, options));
    if (WIFSIGNALED(status)) status = (status & ~0x7f) | to_mac_signal(WTERMSIG(status));
    else if (WIFSTOPPED(status)) status = 0x7f | to_mac_signal(WSTOPSIG(status)) << 8;
    if (to && result > 0) *to = status;
    return result;
}

// What waitid and SIGCHLD say of a child: siginfo_t.
struct info { int signal, error, code, process, user, status; uint64_t rest[10]; };
static int mac_waitid(int kind, unsigned id, struct info *to, int options) {
    // P_ALL, P_PID and P_PGID are 0, 1 and 2. WEXITED is 4, WSTOPPED 8, WCONTINUED 0x10, WNOWAIT 0x20.
    siginfo_t found = {0};
    int flags = (options & 1 ? WNOHANG : 0) | (options & 4 ? WEXITED : 0) | (options & 8 ? WSTOPPED : 0) |
                (options & 0x10 ? WCONTINUED : 0) | (options & 0x20 ? WNOWAIT : 0);
    int result = answer(waitid(kind, id, &found, flags));
    bool is_number = found.si_code == CLD_EXITED;
    *to = (struct info){.signal = to_mac_signal(found.si_signo), .code = found.si_code, .process = found.si_pid,
                        .status = is_number ? found.si_status : to_mac_signal(found.si_status)};
    return result;
}

// Ends ------------------------------------------------------------------------------------------------------

// Libc, stdlib/exit.c: the destructors of the calling thread's values, then the functions of atexit.
static void mac_exit(int status) {
    run_terminators();
    exit(status);
}

// Users, limits, the system ---------------------------------------------------------------------------------

struct mac_passwd {
    char *name, *password;
    uint32_t user, group;
    long change;
    char *class, *long_name, *folder, *shell;
    long expire;
};
static int mac_getpwuid_r(uint32_t user, struct mac_passwd *to, char *buffer, size_t bytes, struct mac_passwd **result) {
    struct passwd found, *at = NULL;
    int error = getpwuid_r(user, &found, buffer, bytes, &at);
    *result = at ? to : NULL;
    if (at)
        *to = (struct mac_passwd){.name = found.pw_name, .password = found.pw_passwd, .user = user,
                                  .group = found.pw_gid, .class = "", .long_name = found.pw_gecos,
                                  .folder = found.pw_dir, .shell = found.pw_shell};
    return to_mac_error(error);
}
static int mac_issetugid(void) { return geteuid() != getuid() || getegid() != getgid(); }
static int mac_setuid(uint32_t user) { return answer(setuid(user)); }
static int mac_setgid(uint32_t group) { return answer(setgid(group)); }
static int mac_setgroups(int count, const uint32_t *groups) { return answer(setgroups(count, groups)); }
static int mac_setpgid(int process, int group) { return answer(setpgid(process, group)); }
static int mac_setsid(void) { return answer(setsid()); }

// By the numbers of sys/resource.h; no limit is 2^63-1.
static const int resources[] = {RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_CORE,
                                RLIMIT_AS,  RLIMIT_MEMLOCK, RLIMIT_NPROC, RLIMIT_NOFILE};
// Bit 0x1000 asks for the strict meaning, which is the only one here (_RLIMIT_POSIX_FLAG).
static int mac_getrlimit(int resource, struct rlimit *to) {
    resource &= ~0x1000;
    if (resource < 0 || resource > 8) return refuse(EINVAL);
    int result = getrlimit(resources[resource], to);
    to->rlim_cur = to->rlim_cur == RLIM_INFINITY ? INT64_MAX : to->rlim_cur;
    to->rlim_max = to->rlim_max == RLIM_INFINITY ? INT64_MAX : to->rlim_max;
    return answer(result);
}
static int mac_setrlimit(int resource, const struct rlimit *from) {
    resource &= ~0x1000;
    if (resource < 0 || resource > 8) return refuse(EINVAL);
    struct rlimit to = *from;
    to.rlim_cur = to.rlim_cur == INT64_MAX ? RLIM_INFINITY : to.rlim_cur;
    to.rlim_max = to.rlim_max == INT64_MAX ? RLIM_INFINITY : to.rlim_max;
    return answer(setrlimit(resources[resource], &to));
}

static long mac_sysconf(int name) {
    switch (name) {
    case 1: return sysconf(_SC_ARG_MAX);
    case 3: return sysconf(_SC_CLK_TCK);
    case 5: return sysconf(_SC_OPEN_MAX);
    case 29: return sysconf(_SC_PAGESIZE);
    case 56: return sysconf(_SC_IOV_MAX);
    case 57: return sysconf(_SC_NPROCESSORS_CONF);
    case 58: return sysconf(_SC_NPROCESSORS_ONLN);
    case 71: return 4096;
    case 200: return sysconf(_SC_PHYS_PAGES);
    default: fail("sysconf has a number that is not known here", NULL);
    }
}
// _CS_DARWIN_USER_TEMP_DIR
static size_t mac_confstr(int name, char *to, size_t bytes) {
    if (name != 65537) return refuse(EINVAL), 0;
    snprintf(to, to ? bytes : 0, "/tmp/");
    return 6;
}
static int mac_setenv(const char *name, const char *value, int replace) { return answer(setenv(name, value, replace)); }
static int mac_unsetenv(const char *name) { return answer(unsetenv(name)); }

const struct function of_processes[] = {
    OURS(execve), OURS(execv), OURS(execvp), OURS(posix_spawnattr_init), OURS(posix_spawnattr_destroy),
    OURS(posix_spawnattr_setflags), OURS(posix_spawnattr_setpgroup), OURS(posix_spawnattr_setsigdefault),
    OURS(posix_spawnattr_setsigmask), OURS(posix_spawn_file_actions_init), OURS(posix_spawn_file_actions_destroy),
    OURS(posix_spawn_file_actions_adddup2), OURS(posix_spawn_file_actions_addchdir_np), OURS(posix_spawnp), OURS(fork),
    OURS(waitpid), OURS(waitid), OURS(exit), SAME(_exit), SAME(atexit), OURS(getpwuid_r), OURS(issetugid), OURS(setuid),
    OURS(setgid),
    OURS(setgroups), OURS(setpgid), OURS(setsid), OURS(getrlimit), OURS(setrlimit), OURS(sysconf), OURS(confstr),
    OURS(setenv), OURS(unsetenv), SAME(getenv), SAME(getpid), SAME(getppid), SAME(getuid), SAME(geteuid), SAME(getgid),
    SAME(getegid), SAME(getpgrp),
    END,
};
