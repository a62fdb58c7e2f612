// Opened with RTLD_DEEPBIND, so that its functions of C are not those that the program has.
#include <stdlib.h>
void *make(size_t bytes) { return malloc(bytes); }
void destroy(void *block) { free(block); }
void *grow(void *block, size_t bytes) { return realloc(block, bytes); }
