// The functions that only an allocator has, asked of the loader by their names, as often as the argument says; of the library that is opened, if a second one is a path. Prints its own count:
// allocations, frees, reallocations, bytes and blocks at the end; and the allocator's name. With PREFIX, the names are those of a build with that prefix.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long allocations, frees, reallocations, bytes, blocks;

static char *made(void *block, long size) {
    if (block == NULL) exit(2);
    allocations++, blocks++, bytes += size;
    return block;
}

static void freed(long size) { frees++, blocks--, bytes -= size; }

static char *moved(void *block, long size, long before) {
    if (block == NULL) exit(3);
    reallocations++, bytes += size - before;
    return block;
}

#ifndef PREFIX
#define PREFIX ""
#endif
#define FIND(name) dlsym(RTLD_DEFAULT, PREFIX name)
#define GET(name) void *(*name)() = (void *(*)())FIND(#name); if (name == NULL) exit(4)

// The functions of C with a prefix, which are the allocator's own.
static void prefixed(int times) {
    GET(malloc); GET(calloc); GET(realloc); GET(posix_memalign); GET(aligned_alloc); GET(free);
    for (size_t i = 0; i < (size_t)times; i++) {
        made(malloc((size_t)100), 100);
        made(calloc((size_t)7, (size_t)11), 77);
        char *block = moved(realloc(made(malloc((size_t)10), 10), (size_t)3000), 3000, 10);
        free(block), freed(3000);
        void *stored = NULL;
        if (posix_memalign(&stored, (size_t)64, (size_t)400) != 0) exit(9);
        made(stored, 400);
        free(made(aligned_alloc((size_t)128, (size_t)256), 256)), freed(256);
    }
}

static void jemalloc(int times) {
    GET(mallocx); GET(rallocx); GET(xallocx); GET(dallocx); GET(sdallocx); GET(sallocx); GET(nallocx);
    for (size_t i = 0; i < (size_t)times; i++) {
        made(mallocx((size_t)100, 0), 100);
        char *block = made(mallocx((size_t)200, 12 /* 4096 */), 200);
        if (((uintptr_t)block & 4095) != 0) exit(5);
        block = moved(rallocx(block, (size_t)5000, 0), 5000, 200);
        // Within its size class a block can be resized in its place; beyond, it keeps its size.
        size_t usable = (size_t)sallocx(block, 0);
        if ((size_t)xallocx(block, usable - 1, (size_t)0, 0) != usable) exit(6);
        bytes += usable - 1 - 5000, reallocations++;
        if ((size_t)xallocx(block, (size_t)1 << 40, (size_t)0, 0) != usable) exit(7);
        sdallocx(block, (size_t)nallocx(usable - 1, 0), 0);
        freed(usable - 1);
        block = made(mallocx((size_t)300, 0x40 /* zeroed */), 300);
        dallocx(block, 0);
        freed(300);
    }
}

static void mimalloc(int times) {
    GET(mi_malloc); GET(mi_zalloc); GET(mi_calloc); GET(mi_mallocn); GET(mi_malloc_aligned); GET(mi_realloc); GET(mi_rezalloc);
    GET(mi_reallocf); GET(mi_recalloc); GET(mi_expand); GET(mi_strdup); GET(mi_new); GET(mi_new_n); GET(mi_posix_memalign); GET(mi_usable_size);
    GET(mi_heap_new); GET(mi_heap_malloc); GET(mi_heap_calloc); GET(mi_heap_realloc); GET(mi_heap_delete);
    GET(mi_free); GET(mi_free_size); GET(mi_free_aligned); GET(mi_valloc); GET(mi_cfree);
    for (size_t i = 0; i < (size_t)times; i++) {
        made(mi_malloc((size_t)100), 100);
        made(mi_calloc((size_t)7, (size_t)11), 77);
        made(mi_mallocn((size_t)3, (size_t)50), 150);
        made(mi_new((size_t)33), 33);
        made(mi_new_n((size_t)3, (size_t)11), 33);
        made(mi_valloc((size_t)99), 99);
        void *stored = NULL;
        if (mi_posix_memalign(&stored, (size_t)64, (size_t)400) != 0) exit(5);
        made(stored, 400);
        char *block = made(mi_malloc_aligned((size_t)200, (size_t)1024), 200);
        if (((uintptr_t)block & 1023) != 0) exit(6);
        mi_free_aligned(block, (size_t)1024), freed(200);
        block = moved(mi_realloc(made(mi_zalloc((size_t)10), 10), (size_t)3000), 3000, 10);
        block = moved(mi_rezalloc(block, (size_t)4000), 4000, 3000);
        block = moved(mi_reallocf(block, (size_t)9000), 9000, 4000);
        block = moved(mi_recalloc(block, (size_t)10, (size_t)2000), 20000, 9000);
        size_t usable = (size_t)mi_usable_size(block);
        block = moved(mi_expand(block, usable), usable, 20000);
        mi_free_size(block, usable), freed(usable);
        block = (char *)mi_strdup("a text");
        made(block, (long)mi_usable_size(block));
        mi_cfree(made(mi_malloc((size_t)50), 50)), freed(50);
        // Version 3 has heaps in memory of its own.
        if (*PREFIX) continue;
        void *heap = mi_heap_new();
        block = made(mi_heap_malloc(heap, (size_t)60), 60);
        block = moved(mi_heap_realloc(heap, block, (size_t)700), 700, 60);
        made(mi_heap_calloc(heap, (size_t)4, (size_t)25), 100);
        // A heap is a block itself.
        mi_heap_delete(heap), allocations++, frees++;
        mi_free(block), freed(700);
    }
}

static void tcmalloc(int times) {
    GET(tc_malloc); GET(tc_calloc); GET(tc_realloc); GET(tc_memalign); GET(tc_posix_memalign); GET(tc_new); GET(tc_newarray); GET(tc_new_nothrow);
    GET(tc_free); GET(tc_delete); GET(tc_deletearray); GET(tc_delete_nothrow); GET(tc_valloc);
    for (size_t i = 0; i < (size_t)times; i++) {
        made(tc_malloc((size_t)100), 100);
        made(tc_calloc((size_t)7, (size_t)11), 77);
        made(tc_valloc((size_t)99), 99);
        char *block = made(tc_memalign((size_t)512, (size_t)200), 200);
        if (((uintptr_t)block & 511) != 0) exit(5);
        block = moved(tc_realloc(block, (size_t)7000), 7000, 200);
        tc_free(block), freed(7000);
        void *stored = NULL;
        if (tc_posix_memalign(&stored, (size_t)64, (size_t)400) != 0) exit(6);
        made(stored, 400);
        tc_delete(made(tc_new((size_t)33), 33)), freed(33);
        tc_deletearray(made(tc_newarray((size_t)34), 34)), freed(34);
        tc_delete_nothrow(made(tc_new_nothrow((size_t)35), 35)), freed(35);
        made(tc_new((size_t)36), 36);
    }
}

int main(int count, char **arguments) {
    int times = atoi(arguments[1]);
    if (count > 2 && strchr(arguments[2], '/') && !dlopen(arguments[2], RTLD_NOW | RTLD_GLOBAL)) exit(8);
    const char *name = "none";
    if (FIND("mallocx") != NULL) jemalloc(times), name = "jemalloc";
    if (FIND("mi_malloc") != NULL) mimalloc(times), name = "mimalloc";
    if (FIND("tc_malloc") != NULL) tcmalloc(times), name = "tcmalloc";
    if (*PREFIX && FIND("malloc") != NULL) prefixed(times);
    printf("%ld %ld %ld %ld %ld %s\n", allocations, frees, reallocations, bytes, blocks, name);
}
