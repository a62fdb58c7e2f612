// Threads that open a library with an allocator of its own, take 10 blocks of it, and close it, as often as the argument says. The blocks stay.
#include <stddef.h>
#ifdef LIBRARY
#include <pthread.h>
#include <sys/mman.h>
static char *at;
// The pages outlive the library.
__attribute__((constructor)) static void map(void) { at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
void *mallocx(size_t size, int flags) { return __atomic_fetch_add(&at, (size + 63 + (size_t)flags) & ~(size_t)63, __ATOMIC_RELAXED); }
int mallctl(void) { return 0; }
#ifdef THREAD
static void *nothing(void *argument) { return argument; }
__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) == 0) pthread_join(thread, NULL);
}
#endif
#else
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
static const char *library;
static int times;
static pthread_barrier_t are_made;
static void *opens(void *argument) {
    pthread_barrier_wait(&are_made);
    for (int i = 0; i < times; i++) {
        void *handle = dlopen(library, RTLD_NOW);
        void *(*mallocx)(size_t, int) = (void *(*)(size_t, int))dlsym(handle, "mallocx");
        for (int of = 0; of < 10; of++) mallocx(40, 0);
        dlclose(handle);
    }
    return argument;
}
int main(int count, char **arguments) {
    pthread_t threads[4];
    if (count < 3) return 2;
    library = arguments[1], times = atoi(arguments[2]);
    pthread_barrier_init(&are_made, NULL, 4);
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, opens, NULL) != 0) return 3;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}
#endif
