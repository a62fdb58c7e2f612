// A plugin of qemu 5 to 8: counts the instructions that a program executes between its first call of `getsid` and its
// second one, and prints the number on standard error as callgrind does.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// From qemu-plugin.h, which Debian has in no package.
typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
typedef void translated_t(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void executed_t(unsigned processor, void *data);
typedef void syscall_t(qemu_plugin_id_t, unsigned processor, int64_t number, uint64_t, uint64_t, uint64_t, uint64_t,
                       uint64_t, uint64_t, uint64_t, uint64_t);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, translated_t *);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, executed_t *, int uses_registers, void *data);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, syscall_t *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);

int qemu_plugin_version = 1;

enum { GETSID = 156 };

static uint64_t instructions, at_first_call;
static int calls;

static void executed(unsigned processor, void *count) {
    (void)processor;
    instructions += (uintptr_t)count;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(block, executed, 0, (void *)qemu_plugin_tb_n_insns(block));
}

static void called(qemu_plugin_id_t id, unsigned processor, int64_t number, uint64_t a, uint64_t b, uint64_t c,
                   uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
    (void)id, (void)processor, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    if (number != GETSID) return;
    if (calls++ == 0)
        at_first_call = instructions;
    else
        fprintf(stderr, "Collected : %llu\n", (unsigned long long)(instructions - at_first_call));
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int count, char **arguments) {
    (void)info, (void)count, (void)arguments;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    return 0;
}
