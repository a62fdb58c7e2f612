#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
static void *next(size_t align, size_t size) { return ((void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc"))(align, size); }
void *memalign(size_t align, size_t size) { return next(align, size); }
int posix_memalign(void **stored, size_t align, size_t size) { return (*stored = next(align, size)) ? 0 : 12; }
