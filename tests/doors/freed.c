// Frees 1 GiB of small blocks before its end.
#include <stdlib.h>
#include <string.h>
int main() {
    enum { BLOCKS = 1 << 20, BYTES = 1 << 10 };
    char **blocks = malloc(BLOCKS * sizeof *blocks);
    for (int i = 0; i < BLOCKS; i++) memset(blocks[i] = malloc(BYTES), 1, BYTES);
    for (int i = 1; i < BLOCKS; i++) free(blocks[i]);
}
