/* A function without unwind information, which is compiled with a frame pointer and without one. */
void CALLER(void (*call)(void)) {
    call();
    /* Not a jump. */
    __asm__ volatile("" ::: "memory");
}
