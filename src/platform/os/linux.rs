//! Linux, by plain system calls through `libc`.
//!
//! NOTE: functions marked *Hook* run inside an `alloc` or `free` of the program. They neither
//! allocate nor lock, and restore `errno`, since a program may read it after `free`.
#![expect(unsafe_code, reason = "system calls")]

mod allocators;
mod before_main;
mod blocked;
mod cgroup;
mod clocks;
mod control_block;
#[cfg(feature = "perfetto")]
mod counter;
mod descriptors;
#[cfg(redirects)]
pub(crate) mod exec;
mod family;
mod files;
mod last_thread;
mod library;
#[cfg(redirects)]
pub(crate) mod loaded;
mod loads;
#[cfg(redirects)]
pub(crate) mod main_function;
mod modules;
#[cfg(c_identity)]
mod next_functions;
#[cfg(c_identity)]
pub(crate) mod next_identity;
#[cfg(c_malloc)]
pub(crate) mod next_malloc;
#[cfg(preload)]
pub(crate) mod next_signals;
mod objects;
#[cfg(other_allocators)]
pub(crate) mod other_allocators;
mod own;
mod own_table;
mod packed;
pub(crate) mod pages;
mod passing;
mod process;
#[cfg(redirects)]
pub(crate) mod redirect;
mod regular_file;
mod resident;
mod servant;
mod signals;
mod target_file;
mod thread_exit;
mod threads;
mod watched;

#[cfg(preload)]
pub(crate) use before_main::program_has_tracker;
pub(crate) use before_main::{keep_before_main, prepare_before_main, program_name};
pub(crate) use blocked::{AllBlocked, BlockedSignals};
pub(crate) use cgroup::memory_limit;
pub(crate) use clocks::now;
#[cfg(by_distance)]
pub(crate) use control_block::control_block;
#[cfg(takes_stacks)]
pub(crate) use control_block::own_stack_end;
#[cfg(feature = "perfetto")]
pub(crate) use counter::{clocks, counter, has_steady_counter, since_boot};
pub(crate) use descriptors::{keep_apart, send_to_socket};
pub(crate) use family::{
    Family, Request, StartedFamily, duplicate, has_no_name, lock_for_watcher, path_of,
    start_family, use_as_stderr,
};
pub(crate) use files::{
    create_in, descriptor, identity, is_terminal, lock_alone, lock_shared, path_of_descriptor,
    readable, set_mode, stop_listening, terminal_width, unlock, watch_connection, write_all,
    write_file,
};
#[cfg(c_mmap)]
pub(crate) use last_thread::{begin_counted_thread, count_thread, uncount_thread};
pub(crate) use last_thread::{end_process, forget_ends, left_alone};
#[cfg_attr(not(takes_stacks), allow(unused_imports, reason = "only call stacks need it"))]
pub(crate) use loads::{is_lasting, loads, unloads};
#[cfg(redirects)]
pub(crate) use main_function::run_before_main;
#[cfg(preload)]
pub(crate) use objects::has_static_thread_memory;
pub(crate) use own::OwnDescriptor;
pub(crate) use own_table::{
    InProgramTable, OwnTable, Packed, close_gate, forget_threads, leave_streams, open_gate, pack,
    run_in_own_table, run_in_program_table, run_on_keeper, servants, serve, unpack,
    write_to_stderr,
};
pub(crate) use pages::{SMALLEST_PAGE, page_bytes};
#[cfg(redirects)]
pub(crate) use process::in_children;
pub(crate) use process::{
    KeepErrno, at_exit, at_fork, at_quick_exit, barrier_on_all_threads, has_env, is_thread_alive,
    parent_process_id, process_id, register_barrier, secure_env, thread_id, thread_name,
    thread_name_of, wait, wake_all,
};
pub(crate) use regular_file::{open_regular, read_at};
pub(crate) use servant::take_unanswered;
pub(crate) use signals::{
    dismiss_waiting_thread, end_waiting, forget_signals, handle_ending_signals,
    handle_late_crashes, has_late_crashes, has_waiting_thread, is_report_awaited,
    keep_waiting_thread, wait_for_ending_signal,
};
pub(crate) use std::os::fd::RawFd;
pub(crate) use target_file::TargetFile;
pub(crate) use thread_exit::on_thread_exit;
#[cfg(c_mmap)]
pub(crate) use threads::is_own_start;
pub(crate) use threads::{
    STACK, has_own_threads, name_thread, processor_time_of, run_on_new_thread, spawn, wait_for_ends,
};
pub(crate) use watched::{
    HAS_WATCHERS, Started, Watcher, clear_in_children, connection, end_watcher, forget_shared,
    has_one_thread, is_in_loaded_file, map_shared, map_shared_file, share_again, share_in_place,
    start_watcher, unshare_all,
};

pub(crate) use allocators::allocator_statistics;
#[cfg_attr(not(takes_stacks), allow(unused_imports, reason = "only call stacks need it"))]
pub(crate) use modules::{
    FileId, LoadedFile, Memory, copy_bytes, is_readable, loaded_files, loader_state, main_stack_end,
};
pub(crate) use resident::{resident_memory, rss_now_and_most};
