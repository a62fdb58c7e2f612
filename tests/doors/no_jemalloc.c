static char block[8192] __attribute__((aligned(4096)));
void *own_je_malloc() { return block; }
void *own_je_calloc() { return block; }
void *own_je_realloc() { return block; }
void *own_je_aligned_alloc() { return block; }
int own_je_posix_memalign(void **stored) { return *stored = block, 0; }
void own_je_free() {}
unsigned long own_je_malloc_usable_size() { return 8192; }
int own_je_mallctl() { return 22; }
