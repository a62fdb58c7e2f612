#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const char *library;
static void *address;

static void *cycle(void *round) {
    void *loaded = dlopen(library, RTLD_NOW);
    if (!loaded) { fprintf(stderr, "%s\n", dlerror()); exit(2); }
    unsigned char *(*work)(size_t) = (unsigned char *(*)(size_t))dlsym(loaded, "work");
    address = (void *)work;
    free(work((size_t)round));
    dlclose(loaded);
    return NULL;
}

static long pages(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (fscanf(file, "%ld", &pages) != 1) exit(3);
    fclose(file);
    return pages;
}

int main(int count, char **arguments) {
    library = arguments[1];
    size_t at_once = strtoul(arguments[2], NULL, 10), rounds = 1200;
    long before = 0;
    if (count != 3 || at_once > 8) return 4;
    for (size_t round = 0; round < rounds; round += at_once) {
        pthread_t threads[8];
        for (size_t i = 0; i < at_once; i++)
            if (pthread_create(&threads[i], NULL, cycle, (void *)(round + i))) return 5;
        for (size_t i = 0; i < at_once; i++) pthread_join(threads[i], NULL);
        if (round == 80) before = pages();
    }
    pthread_key_t key;
    int keys = 0;
    while (pthread_key_create(&key, NULL) == 0) keys++;
    printf("%d keys left, %ld pages more\n", keys, pages() - before);
    if (keys < 1000) return 6;
    /* 1 MiB a cycle was lost where each loaded the library anew; an arena of malloc is 64 MiB of addresses. */
    if (pages() - before > 600 << 8) return 7;
    Dl_info info;
    return dladdr(address, &info) ? 0 : 8;
}
