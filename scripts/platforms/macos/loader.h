// Shared by the files of the loader, which runs a program for x86-64 macOS in a process of Linux. See
// loader.c.
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A function of macOS's libSystem, by its name in C.
struct function {
    const char *name;
    const void *address;
};
// Linux's function, whose arguments and results are those of macOS, and which sets no error number.
#define SAME(name) {#name, (const void *)name}
// Functions of these files, named mac_NAME.
#define OURS(name) {#name, (const void *)mac_##name}
#define END {NULL, NULL}
// Lists that end with END.
extern const struct function of_loader[], of_files[], of_processes[], of_memory[], of_signals[], of_sockets[],
    of_threads[];

// The function of a name in C, or NULL.
const void *find_function(const char *name);
// Ends the process, and says why. `detail` may be NULL.
_Noreturn void fail(const char *what, const char *detail);

// Error numbers. macOS's one of the calling thread is `*mac___error()`.
int *mac___error(void);
int to_mac_error(int error);
int to_linux_error(int error);
// For functions that return -1 and set the error number: sets macOS's.
long answer(long result);
// For those that return NULL.
void *answer_pointer(void *result);
// For functions that fail for a reason of macOS's own.
long refuse(int error);

// Signals (signals.c).
int to_linux_signal(int signal);
int to_mac_signal(int signal);
void to_linux_set(uint32_t from, void *to);
void keep_ignored_signals(void);

// Threads (threads.c).
long futex(void *word, int operation, uint32_t value, const void *time);
void begin_threads(void);
bool is_on_stack(uint64_t address);
// Where the first thread's stack may grow: 64 MiB (MAXSSIZ).
bool is_below_main_stack(const void *address);

// Descriptors on which a write raises no SIGPIPE (files.c).
void set_raises_no_signal(int descriptor, bool set);
bool raises_no_signal(int descriptor);
int to_linux_folder(int folder);

// What is loaded (loader.c): the program, and the libraries that are inserted into it.
struct image {
    const char *path;
    const uint8_t *header, *file;
    size_t file_bytes;
    intptr_t slide;
    struct segment *segments[16];
    int segment_count;
    // What a thread's block of thread-local values begins with.
    const uint8_t *tlv_content;
    size_t tlv_bytes;
};
enum { MAX_IMAGES = 4 };
extern struct image images[MAX_IMAGES];
extern uint32_t image_count;
void run_terminators(void);
// Adds the tables by which exceptions find their way (unwind.c).
void add_unwind_tables(const uint8_t *text, const uint8_t *unwind_info, const uint8_t *eh_frame);
