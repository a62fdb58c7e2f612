/* jemalloc's function with the prefix that it has in Rust programs. */
#include <stddef.h>

int mallctl(const char *name, void *old, size_t *old_len, void *new_value, size_t new_len) __attribute__((weak));

int _rjem_mallctl(const char *name, void *old, size_t *old_len, void *new_value, size_t new_len) {
    return mallctl ? mallctl(name, old, old_len, new_value, new_len) : -1;
}
