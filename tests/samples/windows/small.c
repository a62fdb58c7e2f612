/* Functions of which one is inlined into another. */
int data = 5;

static inline __attribute__((always_inline)) int inlined(int a) {
    return a * data;
}

__attribute__((noinline)) int outer(int a) {
    return inlined(a) + 1;
}

int start(void) {
    return outer(2);
}
