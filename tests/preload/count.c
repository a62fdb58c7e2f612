/* Counts the calls of malloc of a program, independently of memledger: LD_PRELOAD=libcount.so COUNT_FILE=f program.
 * At the end it writes "allocations frees reallocations allocated_bytes" to the file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t), __libc_free(void *);

static atomic_ullong allocations, frees, reallocations, bytes;

static void *allocated(void *block, size_t size) {
    if (block) { allocations++; bytes += size; }
    return block;
}

void *malloc(size_t size) { return allocated(__libc_malloc(size), size); }
void *calloc(size_t count, size_t size) { return allocated(__libc_calloc(count, size), count * size); }
void *memalign(size_t align, size_t size) { return allocated(__libc_memalign(align, size), size); }
void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }
void *valloc(size_t size) { return memalign(4096, size); }
void *pvalloc(size_t size) { return memalign(4096, (size + 4095) & ~(size_t)4095); }

void free(void *block) {
    if (block) frees++;
    __libc_free(block);
}

void *realloc(void *block, size_t size) {
    if (!block) return malloc(size);
    if (!size) return free(block), NULL;
    void *new = __libc_realloc(block, size);
    if (new) { reallocations++; bytes += size; }
    return new;
}

void *reallocarray(void *block, size_t count, size_t size) {
    size_t all;
    if (__builtin_mul_overflow(count, size, &all)) return errno = ENOMEM, NULL;
    return realloc(block, all);
}

int posix_memalign(void **block, size_t align, size_t size) {
    if (align < sizeof(void *) || align & (align - 1)) return EINVAL;
    void *new = memalign(align, size);
    if (!new) return ENOMEM;
    *block = new;
    return 0;
}

__attribute__((destructor)) static void write_totals(void) {
    char text[128];
    int size = snprintf(text, sizeof text, "%llu %llu %llu %llu\n", allocations, frees, reallocations, bytes);
    int file = open(getenv("COUNT_FILE"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, text, size) != size) abort();
}
