/* Calls the functions of malloc by glibc's other names, and by both: 7,000 allocations, 1,000 reallocations and 3,000 frees; 4,000
 * blocks of 1,000,000 bytes stay. */
#include <stdlib.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t), *__libc_valloc(size_t), *__libc_pvalloc(size_t);
extern void __libc_free(void *);
static void *volatile kept;

int main(void) {
    for (int i = 0; i < 1000; i++) {
        kept = __libc_malloc(100);
        kept = __libc_calloc(10, 20);
        kept = __libc_realloc(malloc(50), 300);
        kept = __libc_memalign(64, 400);
        __libc_free(__libc_valloc(10));
        free(__libc_pvalloc(10));
        __libc_free(malloc(10));
    }
    return 0;
}
