#include <stdio.h>
#include <stdlib.h>

static void *volatile kept;

static inline __attribute__((always_inline)) void in_line(size_t bytes) {
    kept = malloc(bytes);
}

__attribute__((noinline)) static void inner(size_t bytes) {
    in_line(bytes);
}

__attribute__((noinline)) void outer(size_t bytes) {
    inner(bytes);
    kept = (void *)&kept;
}

int main(void) {
    outer(1000003);
    fputs("done\n", stdout);
    kept = (void *)&kept;
}
