/* Opens libraries with RTLD_DEEPBIND, and says what came of it, which is the same without the tracker. Its argument is a folder with
 * libcaller.so and sub/libplugin.so, both of this file: the first one has sub among the folders in which it looks for libraries. With
 * another argument, four threads open and close sub/libplugin0.so to sub/libplugin3.so 200 times each, and exchange 8,000 blocks. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined CALLER
void *open_it(const char *file, int mode) {
    void *opened = dlopen(file, mode);
    return opened;
}
#elif defined PLUGIN
/* What is in the memory of the library, and what calls return to it. */
void *(*const table[])(size_t) = {malloc};
void *make(size_t bytes) { return malloc(bytes); }
void *make_by_table(size_t bytes) { return table[0](bytes); }
void destroy(void *block) { free(block); }
void *grow(void *block, size_t bytes) { return realloc(block, bytes); }
char *copy(const char *text) { return strdup(text); }
void *open_it(const char *file, int mode) { return dlopen(file, mode); }
#else

typedef void *(*Open)(const char *, int);

static const char *folder;

static const char *said(void) {
    const char *text = dlerror();
    return text ? text : "no error";
}

static void *try(const char *what, Open open, const char *file, int mode) {
    void *opened = open(file, mode);
    printf("%s: %s, %s\n", what, opened ? "opened" : "not opened", said());
    printf("then %s\n", said());
    return opened;
}

static void use(void *plugin) {
    void *(*make)(size_t) = (void *(*)(size_t))dlsym(plugin, "make");
    void *(*make_by_table)(size_t) = (void *(*)(size_t))dlsym(plugin, "make_by_table");
    void (*destroy)(void *) = (void (*)(void *))dlsym(plugin, "destroy");
    void *(*grow)(void *, size_t) = (void *(*)(void *, size_t))dlsym(plugin, "grow");
    char *(*copy)(const char *) = (char *(*)(const char *))dlsym(plugin, "copy");
    Dl_info info;
    dladdr((void *)make, &info);
    printf("it is %s\n", strstr(info.dli_fname, "sub/"));
    for (int i = 0; i < 1000; i++) {
        destroy(malloc(100));
        free(make(200));
        free(make_by_table(300));
        free(grow(malloc(50), 300));
        destroy(copy("text"));
    }
}

static void close_all(void *opened) {
    int count = 0;
    char path[4096];
    snprintf(path, sizeof path, "%s/sub/libplugin.so", folder);
    for (;;) {
        void *again = dlopen(path, RTLD_NOW | RTLD_NOLOAD | RTLD_DEEPBIND);
        if (!again) break;
        dlclose(again);
        dlclose(opened);
        count++;
    }
    printf("closed %d times\n", count);
}

static void *open_and_close(void *number) {
    char path[4096];
    snprintf(path, sizeof path, "%s/sub/libplugin%d.so", folder, *(int *)number);
    for (int i = 0; i < 200; i++) {
        void *plugin = dlopen(path, (i % 2 ? RTLD_NOW : RTLD_LAZY) | RTLD_DEEPBIND);
        if (!plugin) abort();
        void *(*make)(size_t) = (void *(*)(size_t))dlsym(plugin, "make");
        void (*destroy)(void *) = (void (*)(void *))dlsym(plugin, "destroy");
        for (int block = 0; block < 5; block++) {
            free(make(200));
            destroy(malloc(100));
        }
        dlclose(plugin);
    }
    return NULL;
}

int main(int count, char **arguments) {
    char path[4096];
    if (count < 2) return 1;
    folder = arguments[1];
    if (count > 2) {
        pthread_t threads[4];
        int numbers[4] = {0, 1, 2, 3};
        for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, open_and_close, &numbers[i]);
        for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
        return 0;
    }
    snprintf(path, sizeof path, "%s/libcaller.so", folder);
    void *caller = dlopen(path, RTLD_NOW);
    Open open_it = (Open)dlsym(caller, "open_it");
    const int modes[] = {RTLD_NOW, RTLD_LAZY, RTLD_NOW | RTLD_GLOBAL};
    for (int i = 0; i < 3; i++) {
        const int mode = modes[i] | RTLD_DEEPBIND;
        try("a name, from here", dlopen, "libplugin.so", mode);
        void *plugin = try("a name, from a library with folders", open_it, "libplugin.so", mode);
        use(plugin);
        void *again = try("the same again", open_it, "libplugin.so", mode);
        printf("%s\n", again == plugin ? "the same" : "another");
        close_all(plugin);
        plugin = try("by $ORIGIN", open_it, "$ORIGIN/sub/libplugin.so", mode);
        use(plugin);
        /* From a library that was opened so. */
        open_it = (Open)dlsym(plugin, "open_it");
        try("from a plug-in, what is not there", open_it, "libnowhere.so", mode);
        open_it = (Open)dlsym(caller, "open_it");
        close_all(plugin);
    }
    try("what is not loaded", open_it, "libplugin.so", RTLD_NOW | RTLD_NOLOAD | RTLD_DEEPBIND);
    try("a mode that is none", open_it, "libplugin.so", RTLD_DEEPBIND);
    try("the program", dlopen, NULL, RTLD_NOW | RTLD_DEEPBIND);
    return 0;
}
#endif
