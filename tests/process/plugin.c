/* A library that is loaded and unloaded. It allocates by a function of the program. */
#include <stddef.h>

#ifdef _WIN32
__declspec(dllexport)
#endif
void *WORK(void *(*allocate)(size_t), size_t size) {
    void *volatile block = allocate(size);
    return block;
}
