// Signals: their numbers, sets, actions, and what a handler is given.
#include "loader.h"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#include <sys/syscall.h>

// Linux's numbers, by macOS's. SIGEMT and SIGINFO are those that nothing uses here.
static const uint8_t linux_signals[32] = {
    0,      SIGHUP,  SIGINT,  SIGQUIT, SIGILL,  SIGTRAP, SIGABRT, SIGSTKFLT, SIGFPE,  SIGKILL,   SIGBUS,
    SIGSEGV, SIGSYS, SIGPIPE, SIGALRM, SIGTERM, SIGURG,  SIGSTOP, SIGTSTP,   SIGCONT, SIGCHLD,   SIGTTIN,
    SIGTTOU, SIGIO,  SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGWINCH, SIGPWR, SIGUSR1, SIGUSR2};
enum { MAC_BUS = 10, MAC_SEGV = 11 };

int to_linux_signal(int signal) { return signal < 0 || signal > 31 ? -1 : linux_signals[signal]; }
int to_mac_signal(int signal) {
    for (int i = 1; i < 32; i++)
        if (linux_signals[i] == signal) return i;
    return 0;
}

// A set of macOS is a number, with the bit n-1 for signal n.
void to_linux_set(uint32_t from, void *to) {
    sigemptyset(to);
    for (int i = 1; i < 32; i++)
        if (from >> (i - 1) & 1) sigaddset(to, linux_signals[i]);
}
static uint32_t to_mac_set(const sigset_t *from) {
    uint32_t set = 0;
    for (int i = 1; i < 32; i++)
        if (sigismember(from, linux_signals[i]) == 1) set |= 1u << (i - 1);
    return set;
}
static int mac_sigemptyset(uint32_t *set) { return *set = 0, 0; }
static int mac_sigfillset(uint32_t *set) { return *set = ~0u, 0; }
static int mac_sigaddset(uint32_t *set, int signal) {
    if (signal <= 0 || signal > 31) return refuse(EINVAL);
    *set |= 1u << (signal - 1);
    return 0;
}
static int mac_sigdelset(uint32_t *set, int signal) {
    if (signal <= 0 || signal > 31) return refuse(EINVAL);
    *set &= ~(1u << (signal - 1));
    return 0;
}
static int mac_sigismember(const uint32_t *set, int signal) {
    if (signal <= 0 || signal > 31) return refuse(EINVAL);
    return *set >> (signal - 1) & 1;
}

// SIG_BLOCK, SIG_UNBLOCK and SIG_SETMASK are 1, 2 and 3.
static int mac_pthread_sigmask(int how, const uint32_t *set, uint32_t *before) {
    static const int hows[] = {-1, SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK};
    sigset_t to, old;
    if (set) {
        if (how < 1 || how > 3) return EINVAL;
        to_linux_set(*set, &to);
    }
    int error = pthread_sigmask(set ? hows[how] : SIG_BLOCK, set ? &to : NULL, &old);
    if (before) *before = to_mac_set(&old);
    return to_mac_error(error);
}
static int mac_sigprocmask(int how, const uint32_t *set, uint32_t *before) {
    int error = mac_pthread_sigmask(how, set, before);
    return error ? refuse(error) : 0;
}
static int mac_sigpending(uint32_t *to) {
    sigset_t pending;
    sigpending(&pending);
    *to = to_mac_set(&pending);
    return 0;
}
static int mac_sigwait(const uint32_t *set, int *signal) {
    sigset_t wanted;
    to_linux_set(*set, &wanted);
    int error = sigwait(&wanted, signal);
    *signal = to_mac_signal(*signal);
    return error;
}

// Actions ---------------------------------------------------------------------------------------------------

struct action { void *handler; uint32_t mask; int flags; };
enum { ON_STACK = 1, RESTART = 2, RESET = 4, NO_CHILD_STOP = 8, NO_DEFER = 0x10, NO_CHILD_WAIT = 0x20, INFO = 0x40 };
static struct action actions[32];

// siginfo_t and ucontext_t of macOS, as the program sees them.
struct info {
    int signal, error, code, process, user, status;
    void *address, *value;
    long band;
    uint64_t padding[7];
};
struct registers {
    uint64_t rax, rbx, rcx, rdx, rdi, rsi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15, rip, rflags, cs, fs, gs;
};
struct machine { uint16_t trap, cpu; uint32_t error; uint64_t address; struct registers registers; uint8_t floats[600]; };
struct context {
    int is_on_stack;
    uint32_t mask;
    void *stack;
    size_t stack_bytes;
    int stack_flags;
    struct context *link;
    size_t machine_bytes;
    struct machine *machine;
};

static void fill(struct machine *to, const ucontext_t *from) {
    const long long *r = from->uc_mcontext.gregs;
    to->trap = r[REG_TRAPNO], to->error = r[REG_ERR], to->address = r[REG_CR2];
    to->registers = (struct registers){
        r[REG_RAX], r[REG_RBX], r[REG_RCX], r[REG_RDX], r[REG_RDI], r[REG_RSI], r[REG_RBP], r[REG_RSP], r[REG_R8],
        r[REG_R9],  r[REG_R10], r[REG_R11], r[REG_R12], r[REG_R13], r[REG_R14], r[REG_R15], r[REG_RIP], r[REG_EFL],
        0x2b,       0,          0};
}

static void end_by_default(int signal) {
    int number = linux_signals[signal];
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(number, &action, NULL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, number);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    syscall(SYS_tgkill, getpid(), gettid(), number);
}

// Linux's handler of all signals.
static void handle(int number, siginfo_t *from, void *from_context) {
    int signal = to_mac_signal(number), error = errno;
    // xnu, ux_exception: an access that is forbidden where something is mapped raises SIGBUS, not SIGSEGV; but
    // for an overflow of the first thread's stack (handle_ux_exception).
    bool is_forbidden = number == SIGSEGV && from->si_code == SEGV_ACCERR;
    if (is_forbidden && !is_below_main_stack(from->si_addr)) signal = MAC_BUS;
    struct action action = actions[signal];
    if ((uintptr_t)action.handler <= 1) {
        if (!action.handler) end_by_default(signal);
        return;
    }
    if (linux_signals[signal] != number && !(action.flags & NO_DEFER)) {
        sigset_t only;
        sigemptyset(&only);
        sigaddset(&only, linux_signals[signal]);
        pthread_sigmask(SIG_BLOCK, &only, NULL);
    }
    struct machine machine = {0};
    fill(&machine, from_context);
    struct context context = {.mask = to_mac_set(&((ucontext_t *)from_context)->uc_sigmask), .machine = &machine};
    context.machine_bytes = 712;
    struct info info = {.signal = signal, .code = from->si_code > 0 ? from->si_code : 0x10001};
    if (number == SIGSEGV || number == SIGBUS || number == SIGILL || number == SIGFPE) info.address = from->si_addr;
    if (from->si_code <= 0) info.process = from->si_pid, info.user = from->si_uid;
    if (action.flags & RESET) actions[signal].handler = NULL;
    ((void (*)(int, struct info *, struct context *))action.handler)(signal, &info, &context);
    errno = error;
}

static int set_action(int signal) {
    int number = linux_signals[signal];
    // A fault of Linux is one of two signals of macOS.
    const struct action *action = &actions[signal], *other = number == SIGSEGV ? &actions[MAC_BUS] : action;
    struct sigaction to = {.sa_handler = action->handler};
    if ((uintptr_t)action->handler > 1 || (uintptr_t)other->handler > 1) {
        to.sa_sigaction = handle;
        int flags = action->flags | other->flags;
        to.sa_flags = SA_SIGINFO | (flags & ON_STACK ? SA_ONSTACK : 0) | (flags & RESTART ? SA_RESTART : 0) |
                      (flags & NO_DEFER ? SA_NODEFER : 0) | (flags & NO_CHILD_STOP ? SA_NOCLDSTOP : 0) |
                      (flags & NO_CHILD_WAIT ? SA_NOCLDWAIT : 0);
        to_linux_set(action->mask | other->mask, &to.sa_mask);
    }
    return answer(sigaction(number, &to, NULL));
}

static int mac_sigaction(int signal, const struct action *to, struct action *before) {
    if (signal <= 0 || signal > 31) return refuse(EINVAL);
    // xnu, sigaction: also SIG_DFL is refused for these two.
    if (to && (signal == 9 || signal == 17)) return refuse(EINVAL);
    struct action old = actions[signal];
    if (to) {
        actions[signal] = *to;
        if (set_action(signal) != 0) return actions[signal] = old, -1;
        if (signal == MAC_BUS) set_action(MAC_SEGV);
    }
    if (before) *before = old;
    return 0;
}
// Libc, compat-43/sigcompat.c: interrupted calls begin again.
static void *mac_signal(int signal, void *handler) {
    struct action to = {handler, 0, RESTART}, before;
    return mac_sigaction(signal, &to, &before) ? (void *)-1 : before.handler;
}

void keep_ignored_signals(void) {
    for (int i = 1; i < 32; i++) {
        struct sigaction action;
        if (sigaction(linux_signals[i], NULL, &action) == 0 && action.sa_handler == SIG_IGN) actions[i].handler = (void *)1;
    }
}

struct stack { void *start; size_t bytes; int flags; };
static int mac_sigaltstack(const struct stack *to, struct stack *before) {
    // SS_DISABLE is 4, SS_ONSTACK 1; a stack has MINSIGSTKSZ bytes at least.
    if (to && !(to->flags & 4) && to->bytes < 32768) return refuse(ENOMEM);
    stack_t new, old;
    if (to) new = (stack_t){to->start, to->flags & 4 ? SS_DISABLE : 0, to->bytes};
    if (sigaltstack(to ? &new : NULL, &old) != 0) return answer(-1);
    if (before) *before = (struct stack){old.ss_sp, old.ss_size, (old.ss_flags & SS_DISABLE ? 4 : 0) | (old.ss_flags & 1)};
    return 0;
}
// The parts of an interval's times: microseconds have 32 bits.
struct interval { long each, each_microseconds, next, next_microseconds; };
static int mac_setitimer(int which, const struct interval *from, struct interval *before) {
    if (before) fail("setitimer is asked for the timer before", NULL);
    struct itimerval to = {{from->each, (int)from->each_microseconds}, {from->next, (int)from->next_microseconds}};
    return answer(setitimer(which, &to, NULL));
}
static int mac_raise(int signal) { return answer(raise(to_linux_signal(signal))); }
static int mac_kill(int process, int signal) { return answer(kill(process, to_linux_signal(signal))); }
static int mac_pause(void) { return answer(pause()); }

// setjmp keeps the signals that are blocked, too (man 3 setjmp). A jmp_buf has 148 bytes.
int mac_setjmp(void *buffer);
_Noreturn void jump(void *buffer, int value);
__asm__(".text\n"
        "mac_setjmp:\n"
        "  movq %rbx, (%rdi); movq %rbp, 8(%rdi); movq %r12, 16(%rdi); movq %r13, 24(%rdi)\n"
        "  movq %r14, 32(%rdi); movq %r15, 40(%rdi); leaq 8(%rsp), %rax; movq %rax, 48(%rdi)\n"
        "  movq (%rsp), %rax; movq %rax, 56(%rdi)\n"
        "  jmp keep_mask\n"
        "jump:\n"
        "  movq (%rdi), %rbx; movq 8(%rdi), %rbp; movq 16(%rdi), %r12; movq 24(%rdi), %r13\n"
        "  movq 32(%rdi), %r14; movq 40(%rdi), %r15; movq 48(%rdi), %rsp\n"
        "  movl %esi, %eax\n"
        "  jmp *56(%rdi)\n");
__attribute__((used)) int keep_mask(uint64_t *buffer) { return mac_pthread_sigmask(0, NULL, (uint32_t *)(buffer + 8)); }
static void mac_longjmp(uint64_t *buffer, int value) {
    mac_pthread_sigmask(3, (uint32_t *)(buffer + 8), NULL);
    jump(buffer, value ? value : 1);
}

const struct function of_signals[] = {
    OURS(sigemptyset), OURS(sigfillset), OURS(sigaddset), OURS(sigdelset), OURS(sigismember), OURS(pthread_sigmask),
    OURS(sigprocmask), OURS(sigpending), OURS(sigwait), OURS(sigaction), OURS(signal), OURS(sigaltstack),
    OURS(setitimer), OURS(setjmp), OURS(longjmp), OURS(raise),
    OURS(kill), OURS(pause), SAME(abort),
    END,
};
