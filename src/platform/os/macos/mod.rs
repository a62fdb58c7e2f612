//! macOS, by its documented functions, through `libc`. No Mac has run it: it is reviewed against the manual
//! and the sources that Apple publishes (github.com/apple-oss-distributions).
//!
//! NOTE: functions marked *Hook* run inside an `alloc` or `free` of the program. They neither allocate nor
//! lock, and restore `errno`, since a program may read it after `free`.
//!
//! - Thread-local values of the hook are in slots of the system (`os/own_values.rs`). Std's would take memory
//!   from C's `malloc` at their first use on a thread, in the loader's `tlv_get_addr`. That would be no
//!   recursion, since the hook is not one of C's `malloc`. But the loader gives that memory back in the first
//!   of a thread's rounds of destructors.
//! - No call makes all threads pass a barrier, so the hook has a fence of its own.
//! - Files are in the program's table of descriptors (`one_table.rs`), nothing watches a process from outside
//!   (`unwatched.rs`), and the child of a fork records nothing.
#![expect(unsafe_code, reason = "system calls")]

mod before_main;
mod clocks;
pub(super) mod descriptors;
#[cfg(takes_stacks)]
mod modules;
pub(super) mod pages;
mod process;
mod resident;
pub(super) mod slots;
mod threads;
mod waiting;

pub(crate) use super::unix::*;
pub(crate) use before_main::{keep_before_main, main_thread_of, prepare_before_main, program_name};
pub(crate) use clocks::now;
#[cfg(feature = "perfetto")]
pub(crate) use clocks::{clocks, counter, has_steady_counter, since_boot};
pub(crate) use descriptors::send_to_socket;
pub(super) use descriptors::{FOLDER, names_descriptor, release, reserve};
#[cfg(takes_stacks)]
pub(crate) use modules::{
    FileId, LIST_OF_MODULES, LoadedFile, Memory, copy_bytes, is_readable, loaded_files,
    main_stack_end, own_stack_end,
};
pub(crate) use pages::{SMALLEST_PAGE, page_bytes};
pub(crate) use process::{
    at_quick_exit, barrier_on_all_threads, end_process, forget_ends, left_alone, memory_limit,
    register_barrier, secure_env,
};
pub(super) use process::{discard_pending, send_again};
pub(crate) use resident::{allocator_statistics, resident_memory, rss_sums};
pub(super) use threads::{
    StartedThread, await_thread_end, give_memory_back, is_ending, start_thread, take_memory,
    thread_ends,
};
pub(crate) use threads::{
    is_thread_alive, name_thread, processor_time_of, thread_id, thread_name, thread_name_of,
};
pub(crate) use waiting::{wait, wake_all};
