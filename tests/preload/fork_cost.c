/* How long a fork takes its process, and how long after it the child begins: medians in microseconds of FORKS forks, one after another.

       fork_cost FORKS */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b) {
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

int main(int count, char **arguments) {
    int forks = count > 1 ? atoi(arguments[1]) : 300, ends[2];
    double *parent = calloc(forks, sizeof *parent), *child = calloc(forks, sizeof *child);
    for (int i = 0; i < forks; i++) {
        if (pipe(ends)) return 1;
        double begin = now();
        pid_t process = fork();
        double took = now() - begin;
        if (process == 0) {
            free(malloc(10));
            _exit(write(ends[1], &took, sizeof took) != sizeof took);
        }
        parent[i] = took;
        if (process < 0 || read(ends[0], &child[i], sizeof took) != sizeof took) return 1;
        close(ends[0]);
        close(ends[1]);
        waitpid(process, NULL, 0);
    }
    qsort(parent, forks, sizeof *parent, compare);
    qsort(child, forks, sizeof *child, compare);
    printf("%.0f %.0f\n", parent[forks / 2], child[forks / 2]);
}
