// A leak: the header stays where it is found to be bad.
#include <stdlib.h>
#include <string.h>

static int parse_message(const char *text) {
    char *header = malloc(120);
    if (!header)
        return -1;
    strncpy(header, text, 119);
    if (header[0] != 'M')
        return -1; // without free
    free(header);
    return 0;
}

int main(void) {
    int bad = 0;
    for (int number = 0; number < 5000; ++number)
        bad += parse_message(number % 50 ? "Message" : "garbage") != 0;
    return bad != 100;
}
