// Calls of each function; it ends with 1,000,000 bytes in 4,000 blocks.
#include <stdlib.h>
static void *volatile kept;
int main() {
    for (int i = 0; i < 1000; i++) {
        void *aligned;
        kept = malloc(100);
        kept = calloc(10, 20);
        kept = realloc(malloc(50), 300);
        if (posix_memalign(&aligned, 64, 400) == 0) kept = aligned;
    }
}
