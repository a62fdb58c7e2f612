/* Libraries that define functions of malloc, each of which calls others by their names, so that the calls reach memledger's, too.
 * With -DZEROING: malloc alone, which is calloc. Else: an allocator that looks for errors, with a head before each block. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef ZEROING
void *malloc(size_t size) { return calloc(1, size); }
#else

struct head {
    void *start;
    size_t size, mark[2];
};
enum { MARK = 0x5aa5 };

/* Of the program: whether its handler of signals runs. */
extern volatile int in_handler __attribute__((weak));

static void *(*next_malloc)(size_t);
static void (*next_free)(void *);

/* What dlsym allocates. */
static char early[8192];
static size_t early_used;

void *memalign(size_t align, size_t size) {
    static int is_finding;
    size_t room = size + align + sizeof(struct head);
    char *start;
    if (size > PTRDIFF_MAX) {
        errno = ENOMEM;
        return 0;
    }
    if (!next_malloc && is_finding) {
        start = early + early_used;
        early_used += (room + 63) & ~(size_t)63;
    } else {
        if (!next_malloc) {
            is_finding = 1;
            next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
            next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
        }
        start = next_malloc(room);
        if (&in_handler && !in_handler) raise(SIGUSR1);
    }
    if (!start) return 0;
    char *block = (char *)(((uintptr_t)start + sizeof(struct head) + align - 1) & -align);
    ((struct head *)block)[-1] = (struct head){start, size, {MARK, MARK}};
    return block;
}

/* NOTE: a compiler makes some of these calls jumps, and some not. */
void *malloc(size_t size) { return memalign(16, size); }
void *aligned_alloc(size_t align, size_t size) { return memalign(align, size); }

void *calloc(size_t count, size_t size) {
    void *block = malloc(count * size);
    return block ? memset(block, 0, count * size) : 0;
}

size_t malloc_usable_size(void *block) { return block ? ((struct head *)block)[-1].size : 0; }

void free(void *block) {
    if (!block) return;
    struct head *head = (struct head *)block - 1;
    if (head->mark[0] != MARK || head->mark[1] != MARK) abort();
    head->mark[0] = 0;
    char *start = head->start;
    if (start < early || start >= early + sizeof early) next_free(start);
}

void *realloc(void *block, size_t size) {
    void *new = malloc(size);
    if (new && block) {
        size_t old = malloc_usable_size(block);
        memcpy(new, block, old < size ? old : size);
        free(block);
    }
    return new;
}

int posix_memalign(void **block, size_t align, size_t size) {
    void *new = memalign(align, size);
    if (!new) return ENOMEM;
    *block = new;
    return 0;
}
#endif
