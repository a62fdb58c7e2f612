// Runs a program for x86-64 macOS in a process of Linux. It is only for tests: it shows what the code that is
// compiled for macOS does, not what macOS does.
//
//     loader [--argv0 NAME] PROGRAM ARGUMENT...
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
enum { MAGIC = 0xfeedfacf, X86_64 = 0x01000007, EXECUTE = 2 };
enum { SEGMENT = 0x19, SYMTAB = 2, DYLD_INFO = 0x80000022, CHAINED = 0x80000034, MAIN = 0x80000028 };
enum { INITIALIZERS = 9, THREAD_REGULAR = 0x11, THREAD_ZEROS = 0x12, THREAD_VARIABLES = 0x13 };

struct image image;
static const uint8_t *file;
static size_t file_bytes;
static struct segment *segments[16];
static int segment_count;

void fail(const char *what, const char *detail) {
    dprintf(2, "macOS loader: %s%s%s\n", what, detail ? ": " : "", detail ? detail : "");
    // As a status, since the program may handle SIGABRT.
    _exit(86);
}

static const struct command *first_command(void) { return (const void *)(image.header + sizeof(struct header)); }
static const struct command *next_command(const struct command *command) {
    return (const void *)((const uint8_t *)command + command->bytes);
}
#define EACH_COMMAND(command)                                                                                    \
    const struct command *command = first_command(),                                                             \
                         *end_ = (const void *)((uint8_t *)command + ((struct header *)image.header)->command_bytes); \
    command < end_;                                                                                              \
    command = next_command(command)

static const struct command *find_command(uint32_t kind) {
    for (EACH_COMMAND(command))
        if (command->kind == kind) return command;
    return NULL;
}

// Calls `visit` for each section of a type; -1 for all.
static void each_section(int type, void (*visit)(const struct section *)) {
    for (int i = 0; i < segment_count; i++) {
        const struct section *section = (const void *)(segments[i] + 1);
        for (uint32_t j = 0; j < segments[i]->sections; j++, section++)
            if (type < 0 || (section->flags & 0xff) == (uint32_t)type) visit(section);
    }
}

// Mapping ---------------------------------------------------------------------------------------------------

// Maps the segments where they want to be, but for a slide of some pages: so does macOS.
static void map_segments(int descriptor) {
    const struct header *header = (const void *)file;
    if (file_bytes < sizeof *header || header->magic != MAGIC || header->processor != X86_64 || header->kind != EXECUTE)
        fail("this is no program for x86-64 macOS", image.path);
    image.header = file;
    for (EACH_COMMAND(command)) {
        struct segment *segment = (struct segment *)command;
        // __PAGEZERO has no access; Linux maps nothing there either.
        if (command->kind != SEGMENT) continue;
        segments[segment_count++] = segment;
        uint64_t end = segment->address + segment->bytes;
        if (segment->access && end > image.bytes) image.bytes = end;
    }
    uint64_t wanted = 0;
    for (int i = 0; i < segment_count; i++)
        if (strcmp(segments[i]->name, "__TEXT") == 0) wanted = segments[i]->address;
    uint16_t pages;
    getrandom(&pages, sizeof pages, 0);
    image.slide = (intptr_t)(pages & 0x3fff) * 4096;
    image.bytes -= wanted;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (mmap((void *)(wanted + image.slide), image.bytes, PROT_NONE, flags, -1, 0) == MAP_FAILED)
        fail("no place for the program", NULL);
    for (int i = 0; i < segment_count; i++) {
        struct segment *segment = segments[i];
        uint8_t *at = (uint8_t *)segment->address + image.slide;
        if (!segment->access) continue;
        size_t of_file = (segment->file_bytes + 4095) & ~4095ul;
        int access = PROT_READ | PROT_WRITE;
        if (of_file && mmap(at, of_file, access, MAP_PRIVATE | MAP_FIXED, descriptor, segment->file_offset) == MAP_FAILED)
            fail("cannot map", segment->name);
        if (segment->bytes > of_file)
            mmap(at + of_file, segment->bytes - of_file, access, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
        memset(at + segment->file_bytes, 0, segment->bytes < of_file ? 0 : of_file - segment->file_bytes);
    }
    image.header = (const uint8_t *)wanted + image.slide;
    // From here on, those of the mapped header, which the program sees, too.
    segment_count = 0;
    for (EACH_COMMAND(command))
        if (command->kind == SEGMENT) segments[segment_count++] = (struct segment *)command;
}

static void protect_segments(void) {
    for (int i = 0; i < segment_count; i++)
        if (segments[i]->access) {
            // The numbers of the rights are those of Linux.
            size_t bytes = (segments[i]->bytes + 4095) & ~4095ul;
            mprotect((uint8_t *)segments[i]->address + image.slide, bytes, segments[i]->access);
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

static uint8_t *place(int segment, uint64_t offset) {
    return (uint8_t *)segments[segment]->address + image.slide + offset;
}

static void rebase_one(uint8_t *at) { *(uint64_t *)at += image.slide; }

// The codes of mach-o/loader.h (REBASE_OPCODE_...), by which pointers into the program itself get its slide.
static void rebase(const uint8_t *at, uint32_t bytes) {
    const uint8_t *end = at + bytes;
    uint8_t *to = NULL;
    while (at < end) {
        uint8_t code = *at++, low = code & 15;
        uint64_t count, skip;
        switch (code & 0xf0) {
        case 0x00: return;
        case 0x10: break;
        case 0x20: to = place(low, read_uleb(&at)); break;
        case 0x30: to += read_uleb(&at); break;
        case 0x40: to += low * 8; break;
        case 0x50:
        case 0x60:
            count = (code & 0xf0) == 0x50 ? low : read_uleb(&at);
            for (; count; count--, to += 8) rebase_one(to);
            break;
        case 0x70:
            rebase_one(to);
            to += 8 + read_uleb(&at);
            break;
        case 0x80:
            count = read_uleb(&at);
            skip = read_uleb(&at);
            for (; count; count--, to += 8 + skip) rebase_one(to);
            break;
        default: fail("unknown code of a rebase", NULL);
        }
    }
}

enum bind_kind { STRONG, WEAK, LAZY };

static void bind_one(uint8_t *to, const char *name, bool may_be_missing, int64_t addend, enum bind_kind kind) {
    const void *function = find_function(name + 1);
    // NOTE: for a weak name, the program's own is there already.
    if (!function && kind == WEAK) return;
    if (!function && !may_be_missing) function = make_missing(name + 1);
    *(uint64_t *)to = (uint64_t)function + addend;
}

// The codes BIND_OPCODE_... All is bound at once, also what dyld would bind at its first call.
static void bind(const uint8_t *at, uint32_t bytes, enum bind_kind kind) {
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
        case 0x70: to = place(low, read_uleb(&at)); break;
        case 0x80: to += read_uleb(&at); break;
        case 0x90: case 0xa0: case 0xb0:
            bind_one(to, name, may_be_missing, addend, kind);
            skip = (code & 0xf0) == 0x90 ? 0 : (code & 0xf0) == 0xa0 ? read_uleb(&at) : low * 8;
            to += 8 + skip;
            break;
        case 0xc0:
            count = read_uleb(&at);
            skip = read_uleb(&at);
            for (; count; count--, to += 8 + skip) bind_one(to, name, may_be_missing, addend, kind);
            break;
        default: fail("unknown code of a binding", NULL);
        }
    }
}

static void fix_pointers(void) {
    const struct dyld_info *info = (const void *)find_command(DYLD_INFO);
    if (!info) fail("the linker has written chained fixups: link for an older macOS, by -platform_version", NULL);
    rebase(file + info->rebase, info->rebase_bytes);
    bind(file + info->bind, info->bind_bytes, STRONG);
    bind(file + info->weak, info->weak_bytes, WEAK);
    bind(file + info->lazy, info->lazy_bytes, LAZY);
}

// Thread-local values (dyld, libdyld/ThreadLocalVariables.cpp and threadLocalHelpers.s) ---------------------
//
// All those of an image are one block for each thread, which the thread's first use takes from `malloc`. It
// is the value of a thread key, whose destructor is `free`. Destructors of single values are a list in a key
// that is older.

static __thread uint8_t *tlv_block __attribute__((tls_model("initial-exec"), used));
static const uint8_t *tlv_content;
static size_t tlv_bytes;
static pthread_key_t terminators_key, block_key;

// Returns the value of the descriptor in %rdi, and keeps all other registers.
void tlv_get_addr(void);
__asm__(".text\n"
        "tlv_get_addr:\n"
        "  movq tlv_block@gottpoff(%rip), %rax\n"
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

__attribute__((used)) uint8_t *tlv_make_block(void) {
    tlv_block = malloc(tlv_bytes);
    if (!tlv_block) fail("no memory for thread-local values", NULL);
    memcpy(tlv_block, tlv_content, tlv_bytes);
    pthread_setspecific(block_key, tlv_block);
    return tlv_block;
}

static void free_block(void *block) {
    tlv_block = NULL;
    // What uses a value of it now shows that soon.
    memset(block, 0xdf, tlv_bytes);
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

static void add_content(const struct section *section) {
    const uint8_t *start = (uint8_t *)section->address + image.slide;
    if (!tlv_content) tlv_content = start;
    tlv_bytes = start + section->bytes - tlv_content;
}
static void set_descriptors(const struct section *section) {
    struct { const void *function; uint64_t key, offset; } *one = (void *)(section->address + image.slide);
    for (uint64_t i = 0; i < section->bytes / sizeof *one; i++) one[i].function = (const void *)tlv_get_addr;
}
static void set_thread_locals(void) {
    pthread_key_create(&terminators_key, run_terminators_of);
    pthread_key_create(&block_key, free_block);
    each_section(THREAD_REGULAR, add_content);
    each_section(THREAD_ZEROS, add_content);
    each_section(THREAD_VARIABLES, set_descriptors);
}

// What the loader says of itself (man 3 dyld, man 3 dladdr) -------------------------------------------------
//
// The only image is the program: what it imports is Linux's.

static uint32_t mac__dyld_image_count(void) { return 1; }
static const void *mac__dyld_get_image_header(uint32_t index) { return index ? NULL : image.header; }
static intptr_t mac__dyld_get_image_vmaddr_slide(uint32_t index) { return index ? 0 : image.slide; }
static const char *mac__dyld_get_image_name(uint32_t index) { return index ? NULL : image.path; }

// At once for each image that is loaded, and then for each that is loaded later: there are none.
static void mac__dyld_register_func_for_add_image(void (*function)(const void *, intptr_t)) {
    function(image.header, image.slide);
}
static void mac__dyld_register_func_for_remove_image(void (*function)(const void *, intptr_t)) { (void)function; }

static const struct segment *segment_of(uint64_t address) {
    for (int i = 0; i < segment_count; i++) {
        uint64_t start = segments[i]->address + image.slide;
        if (segments[i]->access && address >= start && address - start < segments[i]->bytes) return segments[i];
    }
    return NULL;
}

// dyld, DyldAPIs.cpp: memory of an image that is never unloaded, in a segment that cannot be written.
static bool mac__dyld_is_memory_immutable(const void *address, size_t bytes) {
    const struct segment *segment = segment_of((uint64_t)address);
    if (!segment || segment->access & PROT_WRITE) return false;
    return (uint64_t)address + bytes <= segment->address + image.slide + segment->bytes;
}

static uint8_t *mac_getsegmentdata(const void *header, const char *name, unsigned long *bytes) {
    for (int i = 0; header == image.header && i < segment_count; i++)
        if (strncmp(segments[i]->name, name, 16) == 0) {
            *bytes = segments[i]->bytes;
            return (uint8_t *)segments[i]->address + image.slide;
        }
    return NULL;
}

// The nearest symbol at or below an address.
static int mac_dladdr(const void *address, Dl_info *found) {
    if (!segment_of((uint64_t)address)) return 0;
    *found = (Dl_info){.dli_fname = image.path, .dli_fbase = (void *)image.header};
    const struct symtab *table = (const void *)find_command(SYMTAB);
    const struct symbol *symbols = (const void *)(file + table->symbols), *best = NULL;
    uint64_t unslid = (uint64_t)address - image.slide;
    for (uint32_t i = 0; i < table->count; i++) {
        bool is_defined = (symbols[i].kind & 0xee) == 0x0e;
        if (is_defined && symbols[i].value <= unslid && (!best || symbols[i].value > best->value)) best = symbols + i;
    }
    if (best && best->value + image.slide != (uint64_t)image.header) {
        // Without the underscore (man 3 dladdr).
        found->dli_sname = (const char *)file + table->strings + best->name + 1;
        found->dli_saddr = (void *)(best->value + image.slide);
    }
    return 1;
}

// RTLD_DEFAULT (-2), RTLD_SELF (-3) and RTLD_MAIN_ONLY (-5). A name that MACOS_LACKS names is not there.
static const void *mac_dlsym(void *handle, const char *name) {
    (void)handle;
    const char *lacks = getenv("MACOS_LACKS");
    if (lacks && strncmp(name, lacks, strlen(lacks)) == 0) return NULL;
    return find_function(name);
}

static int mac__NSGetExecutablePath(char *to, uint32_t *bytes) {
    uint32_t needed = strlen(image.path) + 1;
    if (*bytes < needed) {
        *bytes = needed;
        return -1;
    }
    memcpy(to, image.path, needed);
    return 0;
}
static int *mac__NSGetArgc(void) { return &image.argc; }
static char ***mac__NSGetArgv(void) { return &image.argv; }
static char ***mac__NSGetEnviron(void) { return &environ; }

// Up to the frame that has called the program's first function. What is further out is none of macOS.
struct trace { _Unwind_Trace_Fn function; void *argument; bool has_begun, has_ended; };
static _Unwind_Reason_Code step_out(struct _Unwind_Context *context, void *passed) {
    struct trace *trace = passed;
    if (trace->has_ended) return _URC_END_OF_STACK;
    bool is_own = segment_of(_Unwind_GetIP(context));
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
    OURS(_dyld_register_func_for_remove_image), OURS(_dyld_is_memory_immutable), OURS(getsegmentdata), OURS(dladdr),
    OURS(dlsym), OURS(_NSGetExecutablePath), OURS(_NSGetArgc), OURS(_NSGetArgv), OURS(_NSGetEnviron),
    OURS(_Unwind_Backtrace), SAME(_Unwind_DeleteException), SAME(_Unwind_GetDataRelBase), SAME(_Unwind_GetIP),
    SAME(_Unwind_GetIPInfo), SAME(_Unwind_GetLanguageSpecificData), SAME(_Unwind_GetRegionStart),
    SAME(_Unwind_GetTextRelBase), SAME(_Unwind_RaiseException), SAME(_Unwind_Resume), SAME(_Unwind_SetGR),
    SAME(_Unwind_SetIP), SAME(_Unwind_GetCFA), SAME(_Unwind_FindEnclosingFunction),
    // Nothing calls it, since all is bound.
    {"dyld_stub_binder" + 1, mac__tlv_bootstrap},
    END,
};

// Running ---------------------------------------------------------------------------------------------------

static const uint8_t *unwind_info, *eh_frame;
static void find_unwind(const struct section *section) {
    const uint8_t *start = (uint8_t *)section->address + image.slide;
    if (strncmp(section->name, "__unwind_info", 16) == 0) unwind_info = start;
    if (strncmp(section->name, "__eh_frame", 16) == 0) eh_frame = start;
}

static const char *apple[2];
static void run_initializers(const struct section *section) {
    typedef void initializer(int, char **, char **, const char **);
    initializer **functions = (void *)(section->address + image.slide);
    for (uint64_t i = 0; i < section->bytes / 8; i++) functions[i](image.argc, image.argv, environ, apple);
}

int main(int argc, char **argv) {
    char *name = NULL;
    if (argc > 2 && strcmp(argv[1], "--argv0") == 0) {
        name = argv[2];
        argv += 2;
        argc -= 2;
    }
    if (argc < 2) fail("usage: loader [--argv0 NAME] PROGRAM ARGUMENT...", NULL);
    image.path = strdup(argv[1]);
    image.argc = argc - 1;
    image.argv = argv + 1;
    if (name) image.argv[0] = name;
    int descriptor = open(image.path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (descriptor < 0 || fstat(descriptor, &status) != 0) fail("cannot open", image.path);
    file_bytes = status.st_size;
    file = mmap(NULL, file_bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
    map_segments(descriptor);
    close(descriptor);
    fix_pointers();
    set_thread_locals();
    protect_segments();
    each_section(-1, find_unwind);
    add_unwind_tables(image.header, unwind_info, eh_frame);
    begin_threads();
    keep_ignored_signals();
    if (asprintf((char **)&apple[0], "executable_path=%s", image.path) < 0) fail("no memory", NULL);
    each_section(INITIALIZERS, run_initializers);
    const struct entry *entry = (const void *)find_command(MAIN);
    if (!entry) fail("the program has no LC_MAIN", NULL);
    typedef int main_function(int, char **, char **, const char **);
    main_function *function = (main_function *)(image.header + entry->offset);
    ((void (*)(int))find_function("exit"))(function(image.argc, image.argv, environ, apple));
}
