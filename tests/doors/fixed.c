#include <stdlib.h>
void *(*volatile function)(size_t) = malloc;
static void *volatile kept;
int main() { kept = function(100); }
