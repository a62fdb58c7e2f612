/* A function without unwind information, which is compiled with a frame pointer and without one. */
__attribute__((sysv_abi)) void CALLER(void (__attribute__((sysv_abi)) *call)(void)) {
    call();
    /* Not a jump. */
    __asm__ volatile("" ::: "memory");
}
