/* What a program takes from Microsoft's `msvcrt.lib` itself; all else in that library comes from ucrtbase.dll and
   vcruntime140.dll. Written from "CRT initialization", "PE Format" and what Microsoft says of its startup:
     .CRT$XIA to XIZ    functions before `main` that may fail; .CRT$XCA to XCZ, those that do not
     .CRT$XLA to XLZ    functions that the loader calls at the start and the end of each thread
     atexit             in a program, of ucrtbase.dll; in a library, a list of its own, which runs when it is unloaded
   msvc.sh compiles this with clang, for a program and for libraries. */
typedef void (*Function)(void);
typedef int (*Checked)(void);

#define SECTION(name) __attribute__((section(name), used))
SECTION(".CRT$XIA") static const Checked first_checked[1];
SECTION(".CRT$XIZ") static const Checked last_checked[1];
SECTION(".CRT$XCA") static const Function first[1];
SECTION(".CRT$XCZ") static const Function last[1];
SECTION(".CRT$XLA") static const Function first_of_threads[1];
SECTION(".CRT$XLZ") static const Function last_of_threads[1];
SECTION(".tls") static char values_of_threads[8];
SECTION(".tls$ZZZ") static char end_of_values[8];

/* What the loader reads of a module that has values for each thread (IMAGE_TLS_DIRECTORY64). */
unsigned _tls_index;
SECTION(".rdata$T")
const struct {
    const void *start, *end, *index, *functions;
    unsigned zeros, flags;
} _tls_used = {values_of_threads, end_of_values, &_tls_index, first_of_threads + 1, 0, 0};

/* A module that has it uses numbers with a fraction. */
int _fltused = 0x9875;
/* The table of a class of C++ that describes types. A panic of Rust has such a description. */
const void *const table_of_type_info[2] __asm__("??_7type_info@@6B@") = {0};

/* Touches each page of the next %rax bytes of the stack, and changes nothing but %r10 and %r11. */
__asm__(".globl __chkstk\n"
        "__chkstk: leaq 8(%rsp), %r10\n"
        "          movq %rax, %r11\n"
        "1:        cmpq $0x1000, %r11\n"
        "          jb 2f\n"
        "          subq $0x1000, %r10\n"
        "          testl %eax, (%r10)\n"
        "          subq $0x1000, %r11\n"
        "          jmp 1b\n"
        "2:        subq %r11, %r10\n"
        "          testl %eax, (%r10)\n"
        "          ret\n");

int _crt_atexit(Function), _register_onexit_function(Function[3], Checked);
int _initialize_onexit_table(Function[3]), _execute_onexit_table(Function[3]);
int _initterm_e(const Checked *, const Checked *), _set_app_type(int);
void _initterm(const Function *, const Function *);
int _configure_narrow_argv(int), _initialize_narrow_environment(void), *__p___argc(void);
char ***__p___argv(void), **_get_initial_narrow_environment(void);
int _seh_filter_exe(unsigned long, void *);
void exit(int), _exit(int);

/* The list of a library. */
static int is_library;
static Function at_unload[3];

int atexit(Function function) {
    return is_library ? _register_onexit_function(at_unload, (Checked)function) : _crt_atexit(function);
}

static int initialize(void) {
    if (_initterm_e(first_checked, last_checked) != 0) return 0;
    _initterm(first, last);
    return 1;
}

/* A library has no `main`, and most have no `DllMain`. */
__attribute__((weak)) int main(int count, char **arguments, char **environment) { return 0; }
__attribute__((weak)) int DllMain(void *library, unsigned reason, void *reserved) { return 1; }

/* The entry of a program. */
int mainCRTStartup(void) {
    int status = 255;
    __try {
        _set_app_type(1);
        _configure_narrow_argv(1);
        _initialize_narrow_environment();
        if (initialize()) status = main(*__p___argc(), *__p___argv(), _get_initial_narrow_environment());
        exit(status);
    } __except (_seh_filter_exe(__exception_code(), __exception_info())) {
        _exit(__exception_code());
    }
    return status;
}

/* The entry of a library. Of its reasons, 1 is that it is loaded, and 0 that it is unloaded or the process ends. */
int _DllMainCRTStartup(void *library, unsigned reason, void *reserved) {
    if (reason == 1) {
        is_library = 1;
        if (_initialize_onexit_table(at_unload) != 0 || !initialize()) return 0;
    }
    int is_well = DllMain(library, reason, reserved);
    if (reason == 0) _execute_onexit_table(at_unload);
    return is_well;
}
