// Forks ten children that allocate, one after the other.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    for (int i = 0; i < 10; i++) {
        void *block = malloc(1000);
        pid_t child = fork();
        if (child == 0) {
            for (int of = 0; of < 100; of++) free(malloc(50));
            return 0;
        }
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return 1;
        free(block);
    }
}
