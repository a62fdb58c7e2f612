// A request that is refused returns before its memory is freed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) static char *copy_of(const char *text, size_t size) {
    char *copy = malloc(size); // found here
    strncpy(copy, text, size);
    return copy;
}

__attribute__((noinline)) static int handle(int number) {
    char *request = copy_of("GET /index.html", 900);
    if (number % 20 == 0)
        return -1;
    int length = (int)strlen(request);
    free(request);
    return length;
}

int main(void) {
    long sum = 0;
    for (int number = 0; number < 20000; number++) {
        sum += handle(number);
        if (number % 100 == 0)
            usleep(10000);
    }
    printf("%ld\n", sum);
    return 0;
}
