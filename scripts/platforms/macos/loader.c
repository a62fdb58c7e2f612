// Runs a program for x86-64 macOS in a process of Linux. It is only for tests: it shows what the code that is
// compiled for macOS does, not what macOS does.
//
//     loader [--argv0 NAME] PROGRAM ARGUMENT...
//
// Libraries that DYLD_INSERT_LIBRARIES names are loaded, too (man 1 dyld).
//
// Both systems call functions in the same manner (System V's ABI), so the program's own code runs as it is.
// This file maps it, binds its imports to the functions of the other files, gives it thread-local values, and
// calls `main`. An import that none of them has ends the process at its first call, with its name.
//
// Where a function's behaviour is not that of a manual page, the comment says where it is from: the sources
// that Apple publishes (github.com/apple-oss-distributions), by the name of the project.
#include "loader.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unwind.h>

// Of mach-o/loader.h.
struct header { uint32_t magic, processor, subtype, kind, commands, command_bytes, flags, reserved; };
struct command { uint32_t kind, bytes; };
struct segment {
    struct command command;
    char name[16];
    uint64_t address, bytes, file_offset, file_bytes;
    uint32_t most_access, access, sections, flags;
};
struct section {
    char name[16], segment[16];
    uint64_t address, bytes;
    uint32_t offset, align, relocations, relocation_count, flags, reserved[3];
};
struct dyld_info {
    struct command command;
    uint32_t rebase, rebase_bytes, bind, bind_bytes, weak, weak_bytes, lazy, lazy_bytes, exports, export_bytes;
};
struct symtab { struct command command; uint32_t symbols, count, strings, string_bytes; };
struct symbol { uint32_t name; uint8_t kind, section; uint16_t description; uint64_t value; };
struct entry { struct command command; uint64_t offset, stack; };
enum { MAGIC = 0xfeedfacf, X86_64 = 0x01000007, EXECUTE = 2, DYLIB = 6 };
enum { SEGMENT = 0x19, SYMTAB = 2, DYLD_INFO = 0x80000022, CHAINED = 0x80000034, MAIN = 0x80000028 };
enum { INITIALIZERS = 9, THREAD_REGULAR = 0x11, THREAD_ZEROS = 0x12, THREAD_VARIABLES = 0x13 };

struct image images[MAX_IMAGES];
uint32_t image_count;
static int program_argc;
static char **program_argv;

void fail(const char *what, const char *detail) {
    dprintf(2, "macOS loader: %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
    // As a status, since the program may handle SIGABRT.
    _exit(86);
}

static const struct command *first_command(const struct image *image) {
    return (const void *)(image->header + sizeof(struct header));
}
static const struct command *next_command(const struct command *command) {
    return (const void *)((const uint8_t *)command + command->bytes);
}
#define EACH_COMMAND(image, command)                                                                             \
    const struct command *command = first_command(image),                                                        \
                         *end_ = (const void *)((uint8_t *)command + ((struct header *)(image)->header)->command_bytes); \
    command < end_;                                                                                              \
    command = next_command(command)

static const struct command *find_command(const struct image *image, uint32_t kind) {
    for (EACH_COMMAND(image, command))
        if (command->kind == kind) return command;
    return NULL;
}

// Calls `visit` for each section of a type; -1 for all.
static void each_section(struct image *image, int type, void (*visit)(struct image *, const struct section *)) {
    for (int i = 0; i < image->segment_count; i++) {
        const struct section *section = (const void *)(image->segments[i] + 1);
        for (uint32_t j = 0; j < image->segments[i]->sections; j++, section++)
            if (type < 0 || (section->flags & 0xff) == (uint32_t)type) visit(image, section);
    }
}

static const struct section *find_section(const struct image *image, const char *segment, const char *name) {
    for (int i = 0; i < image->segment_count; i++) {
        const struct section *section = (const void *)(image->segments[i] + 1);
        for (uint32_t j = 0; j < image->segments[i]->sections; j++, section++)
            if (strncmp(section->segment, segment, 16) == 0 && strncmp(section->name, name, 16) == 0) return section;
    }
    return NULL;
}

// Mapping ---------------------------------------------------------------------------------------------------

static void find_segments(struct image *image) {
    image->segment_count = 0;
    for (EACH_COMMAND(image, command))
        // __PAGEZERO has no access; Linux maps nothing there either.
        if (command->kind == SEGMENT) image->segments[image->segment_count++] = (struct segment *)command;
}

// Maps the segments: those of a program where they want to be, but for a slide of some pages, as macOS does.
static void map_segments(struct image *image, int descriptor, uint32_t kind) {
    const struct header *header = (const void *)image->file;
    if (image->file_bytes < sizeof *header || header->magic != MAGIC || header->processor != X86_64 || header->kind != kind)
        fail(kind == EXECUTE ? "this is no program for x86-64 macOS" : "this is no library for x86-64 macOS", image->path);
    image->header = image->file;
    find_segments(image);
    uint64_t wanted = 0, bytes = 0;
    for (int i = 0; i < image->segment_count; i++) {
        struct segment *segment = image->segments[i];
        uint64_t end = segment->address + segment->bytes;
        if (segment->access && end > bytes) bytes = end;
        if (strcmp(segment->name, "__TEXT") == 0) wanted = segment->address;
    }
    bytes -= wanted;
    uint16_t pages;
    getrandom(&pages, sizeof pages, 0);
    void *place = wanted ? (void *)(wanted + (pages & 0x3fff) * 4096ul) : NULL;
    place = mmap(place, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | (place ? MAP_FIXED_NOREPLACE : 0), -1, 0);
    if (place == MAP_FAILED) fail("no place for", image->path);
    image->slide = (intptr_t)place - (intptr_t)wanted;
    for (int i = 0; i < image->segment_count; i++) {
        struct segment *segment = image->segments[i];
        uint8_t *at = (uint8_t *)segment->address + image->slide;
        if (!segment->access) continue;
        size_t of_file = (segment->file_bytes + 4095) & ~4095ul;
        int access = PROT_READ | PROT_WRITE;
        if (of_file && mmap(at, of_file, access, MAP_PRIVATE | MAP_FIXED, descriptor, segment->file_offset) == MAP_FAILED)
            fail("cannot map", segment->name);
        if (segment->bytes > of_file)
            mmap(at + of_file, segment->bytes - of_file, access, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
        memset(at + segment->file_bytes, 0, segment->bytes < of_file ? 0 : of_file - segment->file_bytes);
    }
    image->header = place;
    // From here on, those of the mapped header, which the program sees, too.
    find_segments(image);
}

static void protect_segments(const struct image *image) {
    for (int i = 0; i < image->segment_count; i++) {
        const struct segment *segment = image->segments[i];
        if (segment->access) {
            // The numbers of the rights are those of Linux.
            size_t bytes = (segment->bytes + 4095) & ~4095ul;
            mprotect((uint8_t *)segment->address + image->slide, bytes, segment->access);
        }
    }
}

// Binding ---------------------------------------------------------------------------------------------------

const void *find_function(const char *name) {
    static const struct function *const lists[] = {of_loader,  of_files,   of_processes, of_memory,
                                                   of_signals, of_sockets, of_threads};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const struct function *function = lists[i]; function->name; function++)
            if (strcmp(function->name, name) == 0) return function->address;
    return NULL;
}

static _Noreturn void has_no_function(const char *name) { fail("this function is not there", name); }

// A function that ends the process with a name.
static void *make_missing(const char *name) {
    static uint8_t *at, *end;
    if (at == end) {
        at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        end = at + 4096 / 24 * 24;
    }
    // movabs $name, %rdi; movabs $has_no_function, %rax; jmp *%rax
    uint8_t *made = at;
    const void *function = (const void *)has_no_function;
    memcpy(made, "\x48\xbf", 2);
    memcpy(made + 2, &name, 8);
    memcpy(made + 10, "\x48\xb8", 2);
    memcpy(made + 12, &function, 8);
    memcpy(made + 20, "\xff\xe0", 2);
    at += 24;
    return made;
}

static uint64_t read_uleb(const uint8_t **at) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return value;
    }
}

static int64_t read_sleb(const uint8_t **at) {
    int64_t value = 0;
    for (int shift = 0;;) {
        uint8_t byte = *(*at)++;
        value |= (int64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80)) return byte & 0x40 && shift < 64 ? value | (int64_t)(~0ul << shift) : value;
    }
}

static uint8_t *place(const struct image *image, int segment, uint64_t offset) {
    return (uint8_t *)image->segments[segment]->address + image->slide + offset;
}

static void rebase_one(const struct image *image, uint8_t *at) { *(uint64_t *)at += image->slide; }

// The codes of mach-o/loader.h (REBASE_OPCODE_...), by which pointers into the program itself get its slide.
static void rebase(const struct image *image, const uint8_t *at, uint32_t bytes) {
    const uint8_t *end = at + bytes;
    uint8_t *to = NULL;
    while (at < end) {
        uint8_t code = *at++, low = code & 15;
        uint64_t count, skip;
        switch (code & 0xf0) {
        case 0x00: return;
        case 0x10: break;
        case 0x20: to = place(image, low, read_uleb(&at)); break;
        case 0x30: to += read_uleb(&at); break;
        case 0x40: to += low * 8; break;
        case 0x50:
        case 0x60:
            count = (code & 0xf0) == 0x50 ? low : read_uleb(&at);
            for (; count; count--, to += 8) rebase_one(image, to);
            break;
        case 0x70:
            rebase_one(image, to);
            to += 8 + read_uleb(&at);
            break;
        case 0x80:
            count = read_uleb(&at);
            skip = read_uleb(&at);
            for (; count; count--, to += 8 + skip) rebase_one(image, to);
            break;
        default: fail("unknown code of a rebase", NULL);
        }
    }
}

enum bind_kind { STRONG, WEAK, LAZY };

// Functions that inserted libraries have for others (mach-o/dyld-interposing.h).
struct interposed { const void *new, *old; };
static const struct interposed *interposed[MAX_IMAGES];
static size_t interposed_count[MAX_IMAGES];

// The calls of the library itself stay as they are.
static const void *put_in_place(const struct image *image, const void *function) {
    for (uint32_t i = 1; function && i < image_count; i++)
        for (size_t j = 0; image != images + i && j < interposed_count[i]; j++)
            if (interposed[i][j].old == function) return interposed[i][j].new;
    return function;
}

static void bind_one(const struct image *image, uint8_t *to, const char *name, bool may_be_missing, int64_t addend,
                     enum bind_kind kind) {
    const void *function = put_in_place(image, find_function(name + 1));
    // NOTE: for a weak name, the program's own is there already.
    if (!function && kind == WEAK) return;
    if (!function && !may_be_missing) function = make_missing(name + 1);
    *(uint64_t *)to = (uint64_t)function + addend;
}

// The codes BIND_OPCODE_... All is bound at once, also what dyld would bind at its first call.
static void bind(const struct image *image, const uint8_t *at, uint32_t bytes, enum bind_kind kind) {
    const uint8_t *end = at + bytes;
    uint8_t *to = NULL;
    const char *name = "";
    bool may_be_missing = false;
    int64_t addend = 0;
    while (at < end) {
        uint8_t code = *at++, low = code & 15;
        uint64_t count, skip;
        switch (code & 0xf0) {
        case 0x00:
            if (kind != LAZY) return;
            break;
        case 0x10: case 0x30: case 0x50: break;
        case 0x20: read_uleb(&at); break;
        case 0x40:
            name = (const char *)at;
            at += strlen(name) + 1;
            may_be_missing = low & 1;
            break;
        case 0x60: addend = read_sleb(&at); break;
        case 0x70: to = place(image, low, read_uleb(&at)); break;
        case 0x80: to += read_uleb(&at); break;
        case 0x90: case 0xa0: case 0xb0:
            bind_one(image, to, name, may_be_missing, addend, kind);
            skip = (code & 0xf0) == 0x90 ? 0 : (code & 0xf0) == 0xa0 ? read_uleb(&at) : low * 8;
            to += 8 + skip;
            break;
        case 0xc0:
            count = read_uleb(&at);
            skip = read_uleb(&at);
            for (; count; count--, to += 8 + skip) bind_one(image, to, name, may_be_missing, addend, kind);
            break;
        default: fail("unknown code of a binding", NULL);
        }
    }
}

static void fix_pointers(struct image *image) {
    const struct dyld_info *info = (const void *)find_command(image, DYLD_INFO);
    if (!info) fail("the linker has written chained fixups: link for an older macOS, by -platform_version", NULL);
    rebase(image, image->file + info->rebase, info->rebase_bytes);
    bind(image, image->file + info->bind, info->bind_bytes, STRONG);
    bind(image, image->file + info->weak, info->weak_bytes, WEAK);
    bind(image, image->file + info->lazy, info->lazy_bytes, LAZY);
    const struct section *section = image == images ? NULL : find_section(image, "__DATA", "__interpose");
    if (section) {
        interposed[image - images] = (const void *)(section->address + image->slide);
        interposed_count[image - images] = section->bytes / sizeof(struct interposed);
    }
}

// Thread-local values (dyld, libdyld/ThreadLocalVariables.cpp and threadLocalHelpers.s) ---------------------
//
// All those of an image are one block for each thread, which the thread's first use takes from `malloc`. It
// is the value of a thread key, whose destructor is `free`. Here the key of a descriptor is where the block's
// address is in `tlv_blocks`. Destructors of single values are a list in a key
// that is older.

static __thread uint8_t *tlv_blocks[MAX_IMAGES] __attribute__((tls_model("initial-exec"), used));
static pthread_key_t terminators_key, block_keys[MAX_IMAGES];

// Returns the value of the descriptor in %rdi, and keeps all other registers.
void tlv_get_addr(void);
__asm__(".text\n"
        "tlv_get_addr:\n"
        "  movq tlv_blocks@gottpoff(%rip), %rax\n"
        "  addq 8(%rdi), %rax\n"
        "  movq %fs:(%rax), %rax\n"
        "  testq %rax, %rax\n"
        "  je 1f\n"
        "  addq 16(%rdi), %rax\n"
        "  ret\n"
        "1: pushq %rbp\n"
        "  movq %rsp, %rbp\n"
        "  pushq %rdi; pushq %rsi; pushq %rdx; pushq %rcx; pushq %r8; pushq %r9; pushq %r10; pushq %r11\n"
        "  subq $4096, %rsp\n"
        "  andq $-64, %rsp\n"
        // The part that XSAVE only reads must be zeros.
        "  xorl %eax, %eax\n"
        "  movq %rax, 512(%rsp); movq %rax, 520(%rsp); movq %rax, 528(%rsp); movq %rax, 536(%rsp)\n"
        "  movq %rax, 544(%rsp); movq %rax, 552(%rsp); movq %rax, 560(%rsp); movq %rax, 568(%rsp)\n"
        "  movl $0xe7, %eax; xorl %edx, %edx\n"
        "  xsave64 (%rsp)\n"
        "  movq 8(%rdi), %rdi\n"
        "  call tlv_make_block\n"
        "  movq %rax, %rcx\n"
        "  movl $0xe7, %eax; xorl %edx, %edx\n"
        "  xrstor64 (%rsp)\n"
        "  movq %rcx, %rax\n"
        "  leaq -64(%rbp), %rsp\n"
        "  popq %r11; popq %r10; popq %r9; popq %r8; popq %rcx; popq %rdx; popq %rsi; popq %rdi\n"
        "  popq %rbp\n"
        "  addq 16(%rdi), %rax\n"
        "  ret\n");

__attribute__((used)) uint8_t *tlv_make_block(size_t key) {
    size_t number = key / sizeof *tlv_blocks;
    const struct image *image = images + number;
    uint8_t *block = malloc(image->tlv_bytes);
    if (!block) fail("no memory for thread-local values", NULL);
    memcpy(block, image->tlv_content, image->tlv_bytes);
    tlv_blocks[number] = block;
    pthread_setspecific(block_keys[number], block);
    return block;
}

static void free_block(void *block) {
    for (uint32_t i = 0; i < image_count; i++)
        if (tlv_blocks[i] == block) {
            tlv_blocks[i] = NULL;
            // What uses a value of it now shows that soon.
            memset(block, 0xdf, images[i].tlv_bytes);
        }
    free(block);
}

struct terminator {
    void (*function)(void *);
    void *object;
    struct terminator *next;
};

// Those that are added meanwhile run at once.
static void run_terminators_of(void *list) {
    for (struct terminator *one = list, *next; one; one = next) {
        one->function(one->object);
        next = one->next;
        free(one);
        run_terminators();
    }
}

void run_terminators(void) {
    void *list = pthread_getspecific(terminators_key);
    pthread_setspecific(terminators_key, NULL);
    if (list) run_terminators_of(list);
}

static void mac__tlv_atexit(void (*function)(void *), void *object) {
    struct terminator *one = malloc(sizeof *one);
    *one = (struct terminator){function, object, pthread_getspecific(terminators_key)};
    pthread_setspecific(terminators_key, one);
}

static void mac__tlv_bootstrap(void) { fail("a thread-local value that has not been set up", NULL); }

static void add_content(struct image *image, const struct section *section) {
    const uint8_t *start = (uint8_t *)section->address + image->slide;
    if (!image->tlv_content) image->tlv_content = start;
    image->tlv_bytes = start + section->bytes - image->tlv_content;
}
static void set_descriptors(struct image *image, const struct section *section) {
    struct { const void *function; uint64_t key, offset; } *one = (void *)(section->address + image->slide);
    for (uint64_t i = 0; i < section->bytes / sizeof *one; i++) {
        one[i].function = (const void *)tlv_get_addr;
        one[i].key = (image - images) * sizeof *tlv_blocks;
    }
}
static void set_thread_locals(struct image *image) {
    pthread_key_create(block_keys + (image - images), free_block);
    each_section(image, THREAD_REGULAR, add_content);
    each_section(image, THREAD_ZEROS, add_content);
    each_section(image, THREAD_VARIABLES, set_descriptors);
}

// What the loader says of itself (man 3 dyld, man 3 dladdr) -------------------------------------------------
//
// What the images import is Linux's, and in none of them.

static uint32_t mac__dyld_image_count(void) { return image_count; }
// In the order of dyld's list: the program after what is inserted (DyldRuntimeState.cpp, loadInsertedLibraries).
static const struct image *image_at(uint32_t index) {
    static const struct image none;
    return index < image_count ? images + (index + 1) % image_count : &none;
}
static const void *mac__dyld_get_image_header(uint32_t index) { return image_at(index)->header; }
static intptr_t mac__dyld_get_image_vmaddr_slide(uint32_t index) { return image_at(index)->slide; }
static const char *mac__dyld_get_image_name(uint32_t index) { return image_at(index)->path; }

// At once for each image that is loaded, and then for each that is loaded later: there are none.
static void mac__dyld_register_func_for_add_image(void (*function)(const void *, intptr_t)) {
    for (uint32_t i = 0; i < image_count; i++) function(images[i].header, images[i].slide);
}
static void mac__dyld_register_func_for_remove_image(void (*function)(const void *, intptr_t)) { (void)function; }

// The segment with an address, and its image.
static const struct segment *segment_of(uint64_t address, const struct image **in) {
    for (*in = images; *in < images + image_count; ++*in)
        for (int i = 0; i < (*in)->segment_count; i++) {
            const struct segment *segment = (*in)->segments[i];
            uint64_t start = segment->address + (*in)->slide;
            if (segment->access && address >= start && address - start < segment->bytes) return segment;
        }
    return NULL;
}

// dyld, DyldAPIs.cpp: memory of an image that is never unloaded, in a segment that cannot be written.
static bool mac__dyld_is_memory_immutable(const void *address, size_t bytes) {
    const struct image *image;
    const struct segment *segment = segment_of((uint64_t)address, &image);
    if (!segment || segment->access & PROT_WRITE) return false;
    return (uint64_t)address + bytes <= segment->address + image->slide + segment->bytes;
}

static uint8_t *mac_getsegmentdata(const void *header, const char *name, unsigned long *bytes) {
    for (const struct image *image = images; image < images + image_count; image++)
        for (int i = 0; header == image->header && i < image->segment_count; i++)
            if (strncmp(image->segments[i]->name, name, 16) == 0) {
                *bytes = image->segments[i]->bytes;
                return (uint8_t *)image->segments[i]->address + image->slide;
            }
    return NULL;
}
static uint8_t *mac_getsectiondata(const void *header, const char *segment, const char *name, unsigned long *bytes) {
    for (const struct image *image = images; image < images + image_count; image++) {
        const struct section *section = header == image->header ? find_section(image, segment, name) : NULL;
        if (!section) continue;
        *bytes = section->bytes;
        return (uint8_t *)section->address + image->slide;
    }
    return NULL;
}

// The nearest symbol at or below an address.
static int mac_dladdr(const void *address, Dl_info *found) {
    const struct image *image;
    if (!segment_of((uint64_t)address, &image)) return 0;
    *found = (Dl_info){.dli_fname = image->path, .dli_fbase = (void *)image->header};
    const struct symtab *table = (const void *)find_command(image, SYMTAB);
    const struct symbol *symbols = (const void *)(image->file + table->symbols), *best = NULL;
    uint64_t unslid = (uint64_t)address - image->slide;
    for (uint32_t i = 0; i < table->count; i++) {
        bool is_defined = (symbols[i].kind & 0xee) == 0x0e;
        if (is_defined && symbols[i].value <= unslid && (!best || symbols[i].value > best->value)) best = symbols + i;
    }
    if (best && best->value + image->slide != (uint64_t)image->header) {
        // Without the underscore (man 3 dladdr).
        found->dli_sname = (const char *)image->file + table->strings + best->name + 1;
        found->dli_saddr = (void *)(best->value + image->slide);
    }
    return 1;
}

// RTLD_NOLOAD and RTLD_NODELETE: what is loaded stays so anyway.
static void *mac_dlopen(const char *path, int flags) {
    for (uint32_t i = 0; path && flags & 0x10 && i < image_count; i++)
        if (strcmp(images[i].path, path) == 0) return images + i;
    fail("nothing is loaded later", path);
}

// RTLD_DEFAULT (-2), RTLD_SELF (-3) and RTLD_MAIN_ONLY (-5). A name that MACOS_LACKS names is not there.
static const void *mac_dlsym(void *handle, const char *name) {
    (void)handle;
    const char *lacks = getenv("MACOS_LACKS");
    if (lacks && strncmp(name, lacks, strlen(lacks)) == 0) return NULL;
    return find_function(name);
}

static int mac__NSGetExecutablePath(char *to, uint32_t *bytes) {
    uint32_t needed = strlen(images[0].path) + 1;
    if (*bytes < needed) {
        *bytes = needed;
        return -1;
    }
    memcpy(to, images[0].path, needed);
    return 0;
}
static int *mac__NSGetArgc(void) { return &program_argc; }
static char ***mac__NSGetArgv(void) { return &program_argv; }
static char ***mac__NSGetEnviron(void) { return &environ; }

// Up to the frame that has called the image's first function. What is further out is none of macOS.
struct trace { _Unwind_Trace_Fn function; void *argument; bool has_begun, has_ended; };
static _Unwind_Reason_Code step_out(struct _Unwind_Context *context, void *passed) {
    struct trace *trace = passed;
    if (trace->has_ended) return _URC_END_OF_STACK;
    const struct image *image;
    bool is_own = segment_of(_Unwind_GetIP(context), &image);
    // The function below is the first frame.
    if (!is_own && !trace->has_begun) return _URC_NO_REASON;
    trace->has_begun = true;
    trace->has_ended = !is_own;
    return trace->function(context, trace->argument);
}
static _Unwind_Reason_Code mac__Unwind_Backtrace(_Unwind_Trace_Fn function, void *argument) {
    struct trace trace = {function, argument, false, false};
    return _Unwind_Backtrace(step_out, &trace);
}

const struct function of_loader[] = {
    OURS(_tlv_atexit), OURS(_tlv_bootstrap), OURS(_dyld_image_count), OURS(_dyld_get_image_header),
    OURS(_dyld_get_image_vmaddr_slide), OURS(_dyld_get_image_name), OURS(_dyld_register_func_for_add_image),
    OURS(_dyld_register_func_for_remove_image), OURS(_dyld_is_memory_immutable), OURS(getsegmentdata), OURS(getsectiondata), OURS(dladdr),
    OURS(dlopen), OURS(dlsym), OURS(_NSGetExecutablePath), OURS(_NSGetArgc), OURS(_NSGetArgv), OURS(_NSGetEnviron),
    OURS(_Unwind_Backtrace), SAME(_Unwind_DeleteException), SAME(_Unwind_GetDataRelBase), SAME(_Unwind_GetIP),
    SAME(_Unwind_GetIPInfo), SAME(_Unwind_GetLanguageSpecificData), SAME(_Unwind_GetRegionStart),
    SAME(_Unwind_GetTextRelBase), SAME(_Unwind_RaiseException), SAME(_Unwind_Resume), SAME(_Unwind_SetGR),
    SAME(_Unwind_SetIP), SAME(_Unwind_GetCFA), SAME(_Unwind_FindEnclosingFunction),
    // Nothing calls it, since all is bound.
    {"dyld_stub_binder" + 1, mac__tlv_bootstrap},
    END,
};

// Running ---------------------------------------------------------------------------------------------------

static const uint8_t *section_start(const struct image *image, const char *segment, const char *name) {
    const struct section *section = find_section(image, segment, name);
    return section ? (uint8_t *)section->address + image->slide : NULL;
}

static void load(const char *path, uint32_t kind) {
    if (image_count == MAX_IMAGES) fail("too many libraries", path);
    struct image *image = images + image_count++;
    image->path = path;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status) != 0) fail("cannot open", path);
    image->file_bytes = status.st_size;
    image->file = mmap(NULL, image->file_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    map_segments(image, descriptor, kind);
    close(descriptor);
}

// Loads what DYLD_INSERT_LIBRARIES names, with colons between.
static void load_inserted(void) {
    const char *list = getenv("DYLD_INSERT_LIBRARIES");
    char *paths = list ? strdup(list) : NULL;
    for (char *path = paths ? strtok(paths, ":") : NULL; path; path = strtok(NULL, ":")) load(path, DYLIB);
}

static const char *apple[2];
static void run_initializers(struct image *image, const struct section *section) {
    typedef void initializer(int, char **, char **, const char **);
    initializer **functions = (void *)(section->address + image->slide);
    for (uint64_t i = 0; i < section->bytes / 8; i++) functions[i](program_argc, program_argv, environ, apple);
}

int main(int argc, char **argv) {
    char *name = NULL;
    if (argc > 2 && strcmp(argv[1], "--argv0") == 0) {
        name = argv[2];
        argv += 2;
        argc -= 2;
    }
    if (argc < 2) fail("usage: loader [--argv0 NAME] PROGRAM ARGUMENT...", NULL);
    program_argc = argc - 1;
    program_argv = argv + 1;
    const char *path = strdup(argv[1]);
    if (name) program_argv[0] = name;
    load(path, EXECUTE);
    load_inserted();
    pthread_key_create(&terminators_key, run_terminators_of);
    // The program last: its calls go to what the libraries have for it.
    for (struct image *image = images + image_count; image-- > images;) {
        fix_pointers(image);
        set_thread_locals(image);
        protect_segments(image);
        add_unwind_tables(image->header, section_start(image, "__TEXT", "__unwind_info"),
                          section_start(image, "__TEXT", "__eh_frame"));
    }
    begin_threads();
    keep_ignored_signals();
    if (asprintf((char **)&apple[0], "executable_path=%s", path) < 0) fail("no memory", NULL);
    // The program's last, too (man 1 dyld).
    for (uint32_t i = 1; i <= image_count; i++) each_section(images + i % image_count, INITIALIZERS, run_initializers);
    const struct entry *entry = (const void *)find_command(images, MAIN);
    if (!entry) fail("the program has no LC_MAIN", NULL);
    typedef int main_function(int, char **, char **, const char **);
    main_function *function = (main_function *)(images[0].header + entry->offset);
    ((void (*)(int))find_function("exit"))(function(program_argc, program_argv, environ, apple));
}
