/* A library of C that is loaded while the program runs; with VARIANT, its functions have other frames. */
#include <stddef.h>
#include <string.h>

typedef void (*callback)(void *);

void stack_library_work(callback call, void *data, size_t depth);

#ifdef VARIANT
#define SIZE 96
#else
#define SIZE 344
#endif

static __attribute__((noinline)) void plain(callback call, void *data, size_t depth) {
    volatile char array[SIZE];
    array[depth] = 1;
    stack_library_work(call, data, depth);
    array[0] = array[depth];
}

/* The size of this frame is known at run time only. */
static __attribute__((noinline)) void variable(callback call, void *data, size_t depth) {
    volatile char array[depth * SIZE + 1];
    array[depth] = 1;
    stack_library_work(call, data, depth);
    array[0] = array[depth];
}

/* This frame is aligned, and its size is known at run time only. */
static __attribute__((noinline)) void aligned(callback call, void *data, size_t depth) {
    volatile char other[depth * SIZE + 1];
    volatile _Alignas(64) char array[SIZE];
    other[depth] = array[depth] = 1;
    stack_library_work(call, data, depth);
    array[0] = array[depth] + other[depth];
}

void stack_library_work(callback call, void *data, size_t depth) {
    volatile size_t after = depth;
#ifdef VARIANT
    volatile char more[1000];
    more[depth] = 1;
#endif
    if (depth == 0) call(data);
    else if (depth % 3 == 0) aligned(call, data, depth - 1);
    else if (depth % 3 == 1) variable(call, data, depth - 1);
    else plain(call, data, depth - 1);
    after++;
}
