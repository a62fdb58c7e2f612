/* Makes 5,000 allocations and 1,000 reallocations and frees 1,000 blocks; 4,000 blocks of 1,000,000 bytes stay. A library below
 * `malloc` may raise a signal in each of 6,000 calls, whose handler allocates a block of 7 bytes that stays. */
#include <signal.h>
#include <stdlib.h>

volatile int in_handler = 1;
static void *volatile kept;

static void allocate(int signal) {
    (void)signal;
    in_handler = 1;
    kept = malloc(7);
    in_handler = 0;
}

int main(void) {
    signal(SIGUSR1, allocate);
    in_handler = 0;
    for (int i = 0; i < 1000; i++) {
        kept = malloc(100);
        kept = calloc(10, 20);
        kept = realloc(malloc(50), 300);
        if (posix_memalign((void **)&kept, 64, 400)) return 1;
        free(malloc(10));
    }
    in_handler = 1;
    return 0;
}
