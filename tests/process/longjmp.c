/* How a library in C reports errors: a jump from anywhere below, over all functions in between. */
#include <setjmp.h>

static jmp_buf handler;

/* Calls `body`; returns 1 if it has jumped back, else 0. */
int call_protected(void (*body)(void)) {
    if (setjmp(handler) != 0) return 1;
    body();
    return 0;
}

/* Jumps back to the `call_protected` that is under way. */
void jump_back(void) { longjmp(handler, 1); }
