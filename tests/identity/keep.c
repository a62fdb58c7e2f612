#define _GNU_SOURCE
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{1 << 6 | 1 << 7, 1 << 6 | 1 << 7, 0}};
    int results[] = {prctl(PR_SET_KEEPCAPS, 1), setresuid(65534, 65534, 65534), syscall(SYS_capset, &header, data),
                     setgroups(0, 0), setresgid(65534, 65534, 65534)};
    for (int i = 0; i < 5; i++) printf("%d ", results[i]);
    printf("%d %d %p\n", getuid(), getgid(), malloc(1000003) ? 0 : main);
}
