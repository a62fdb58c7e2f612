//! Linux, by plain system calls through `libc`.
//!
//! NOTE: functions marked *Hook* run inside an `alloc` or `free` of the program. They neither
//! allocate nor lock, and restore `errno`, since a program may read it after `free`.
#![expect(unsafe_code, reason = "system calls")]

#[cfg(redirects)]
pub(crate) mod again;
mod allocators;
mod before_main;
mod cgroup;
mod clocks;
mod control_block;
#[cfg(feature = "perfetto")]
mod counter;
mod descriptors;
#[cfg(redirects)]
pub(crate) mod exec;
mod family;
mod filter;
mod last_thread;
mod library;
#[cfg(redirects)]
pub(crate) mod loaded;
mod loads;
#[cfg(redirects)]
pub(crate) mod main_function;
mod modules;
#[cfg(c_filter)]
pub(crate) mod next_filter;
#[cfg(c_identity)]
mod next_functions;
#[cfg(c_identity)]
pub(crate) mod next_identity;
#[cfg(c_malloc)]
pub(crate) mod next_malloc;
#[cfg(preload)]
pub(crate) mod next_signals;
mod objects;
mod on_call;
#[cfg(other_allocators)]
pub(crate) mod other_allocators;
mod own_table;
mod packed;
pub(crate) mod pages;
mod passing;
mod process;
#[cfg(other_allocators)]
mod program_file;
#[cfg(redirects)]
pub(crate) mod redirect;
mod reserved_names;
mod resident;
mod thread_stacks;
mod threads;
mod watched;

use super::unix::files::identity;
pub(crate) use super::unix::*;
#[cfg(preload)]
pub(crate) use before_main::program_has_tracker;
pub(crate) use before_main::{keep_before_main, main_thread_of, prepare_before_main, program_name};
pub(crate) use cgroup::memory_limit;
pub(crate) use clocks::now;
#[cfg(by_distance)]
pub(crate) use control_block::control_block;
#[cfg(takes_stacks)]
pub(crate) use control_block::own_stack_end;
#[cfg(feature = "perfetto")]
pub(crate) use counter::{clocks, counter, has_steady_counter, since_boot};
pub(crate) use descriptors::{path_of_descriptor, send_to_socket};
pub(crate) use family::{
    Family, Request, StartedFamily, duplicate, has_no_name, lock_for_watcher, path_of,
    start_family, use_as_stderr,
};
#[cfg(c_filter)]
pub(crate) use filter::{add_filter, remove_filter};
pub(crate) use filter::{is_filtered, is_kernel_closed};
pub(in crate::platform::os) use last_thread::thread_ends;
#[cfg(c_mmap)]
pub(crate) use last_thread::{begin_counted_thread, count_thread, uncount_thread};
pub(crate) use last_thread::{end_process, forget_ends, left_alone};
#[cfg_attr(not(takes_stacks), allow(unused_imports, reason = "only call stacks need it"))]
pub(crate) use loads::{is_lasting, loads, unloads};
#[cfg(redirects)]
pub(crate) use main_function::run_before_main;
#[cfg(preload)]
pub(crate) use objects::has_static_thread_memory;
pub(crate) use on_call::take_unanswered;
pub(crate) use own_table::{
    InProgramTable, OwnTable, Packed, close_gate, forget_threads, leave_streams, open_gate, pack,
    run_in_own_table, run_in_program_table, run_on_table_thread, serve, table_threads, unpack,
    write_to_stderr,
};
pub(crate) use pages::{SMALLEST_PAGE, page_bytes};
#[cfg(redirects)]
pub(crate) use process::in_children;
pub(crate) use process::{
    at_quick_exit, barrier_on_all_threads, is_thread_alive, register_barrier, secure_env,
    thread_id, thread_name, thread_name_of, wait, wake_all,
};
pub(in crate::platform::os) use process::{discard_pending, send_again};
pub(in crate::platform::os) use reserved_names::{FOLDER, names_descriptor, release, reserve};
#[cfg(c_mmap)]
pub(crate) use threads::is_own_start;
pub(crate) use threads::{
    STACK, has_own_threads, name_thread, processor_time_of, run_on_new_thread, spawn, wait_for_ends,
};
pub(crate) use watched::{
    FOLLOWS_FORKS, HAS_WATCHERS, Started, Watcher, clear_in_children, connection, end_watcher,
    forget_shared, has_one_thread, is_in_loaded_file, map_shared, map_shared_file, share_again,
    share_in_place, start_watcher, unshare_all,
};

pub(crate) use allocators::allocator_statistics;
#[cfg_attr(not(takes_stacks), allow(unused_imports, reason = "only call stacks need it"))]
pub(crate) use modules::{
    FileId, LIST_OF_MODULES, LoadedFile, Memory, copy_bytes, is_readable, loaded_files,
    loader_state, main_stack_end,
};
pub(crate) use resident::{resident_memory, rss_sums};
