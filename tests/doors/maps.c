// An allocator that asks the system itself: 32 MiB that no function of C gives.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <string.h>
#include <unistd.h>
int main() {
    enum { BYTES = 32 << 20 };
    void *at = (void *)syscall(SYS_mmap, 0, (long)BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1L, 0L);
    if (at == MAP_FAILED) return 1;
    memset(at, 1, BYTES);
}
