// The functions of glibc's own `malloc`, by a handle of its library, in turn with those that are called: as often as the argument says. Prints its own count: allocations, frees,
// reallocations, bytes and blocks at the end. With `apart`, blocks go by the door they came by: another allocator has `malloc`.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *kept[2];

int main(int count, char **arguments) {
    long times = atol(arguments[1]);
    void *library = dlopen("libc.so.6", RTLD_NOW);
#define GET(type, name) type (*its_##name)() = (type (*)())dlsym(library, #name); if (its_##name == NULL) exit(1)
    GET(void *, malloc); GET(void *, realloc); GET(void, free); GET(int, posix_memalign); GET(void *, memalign); GET(void *, reallocarray); GET(void *, strdup);
    void *(*its_calloc)() = (void *(*)())dlvsym(library, "calloc", "GLIBC_2.2.5");
    if (its_calloc == NULL) exit(2);
    // What is not there stays so, and what is asked by its place finds what it found.
    if (dlsym(library, "no_such_function") != NULL || dlerror() == NULL) exit(3);
    if (dlsym(RTLD_NEXT, "malloc") == NULL || dlvsym(RTLD_NEXT, "free", "GLIBC_2.2.5") == NULL || dlerror() != NULL) exit(4);
    if (count > 2 && strcmp(arguments[2], "apart") == 0) {
        for (long i = 0; i < times; i++) its_free(its_malloc((size_t)100)), kept[i & 1] = its_malloc((size_t)1000);
        return 0;
    }
    // As in a program alone.
    if (dlsym(library, "malloc") != (void *)malloc) exit(5);
    for (long i = 0; i < times; i++) {
        void *stored = NULL;
        free(its_malloc((size_t)100));
        its_free(malloc(200));
        its_free(its_calloc((size_t)3, (size_t)100));
        its_free(its_realloc(malloc(10), (size_t)3000));
        free(realloc(its_malloc((size_t)20), 4000));
        free(its_reallocarray(its_malloc((size_t)20), (size_t)40, (size_t)100));
        if (its_posix_memalign(&stored, (size_t)64, (size_t)400) != 0) exit(6);
        free(stored);
        its_free(its_memalign((size_t)128, (size_t)500));
        its_free(its_strdup("a text"));
        // One stays.
        kept[i & 1] = its_malloc((size_t)1000);
    }
    printf("%ld %ld %ld %ld %ld\n", 10 * times, 9 * times, 3 * times, 1000 * times, times);
}
