// Opened with RTLD_DEEPBIND, so that its functions of C are not those that the program has. With -DEARLY it allocates before it is open.
#include <stdlib.h>
static void *early;
#ifdef EARLY
__attribute__((constructor)) static void begin() { early = malloc(500); }
#endif
void *make(size_t bytes) {
    free(early);
    early = NULL;
    return malloc(bytes);
}
void destroy(void *block) { free(block); }
void *grow(void *block, size_t bytes) { return realloc(block, bytes); }
