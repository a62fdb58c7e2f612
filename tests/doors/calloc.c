// An allocator whose `malloc` calls its own `calloc`, as some do that debug.
#include <stdlib.h>
void *malloc(size_t bytes) { return calloc(1, bytes); }
