#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **arguments) {
    for (int fd = 0; fd < 1100; fd++)
        if (fcntl(fd, F_GETFD) >= 0) dprintf(9, "%d ", fd);
    dprintf(9, "%zd %zd\n", write(1, "one\n", 4), write(2, "two\n", 4));
    free(malloc(1000003));
}
