// Exchanges blocks with a plug-in. All are freed at its end.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **arguments) {
    void *plugin = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_DEEPBIND) : NULL;
    if (!plugin) return fprintf(stderr, "no plug-in: %s\n", dlerror()), 1;
    void *(*make)(size_t) = (void *(*)(size_t))dlsym(plugin, "make");
    void (*destroy)(void *) = (void (*)(void *))dlsym(plugin, "destroy");
    void *(*grow)(void *, size_t) = (void *(*)(void *, size_t))dlsym(plugin, "grow");
    for (int i = 0; i < 1000; i++) {
        destroy(malloc(100));
        free(make(200));
        free(grow(malloc(50), 300));
    }
}
