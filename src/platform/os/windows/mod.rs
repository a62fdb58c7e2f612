//! 64-bit Windows, by its documented functions, as `windows-sys` declares them.
//!
//! NOTE: functions marked *Hook* run inside an `alloc` or `free` of the program. They neither allocate nor
//! lock, and restore the thread's last error, since a program may read it after `free`.
#![expect(unsafe_code, reason = "system calls")]

mod before_main;
mod clocks;
mod ends;
mod exit_process;
mod files;
mod memory_limit;
#[cfg(takes_stacks)]
mod modules;
pub(crate) mod pages;
mod process;
mod resident;
pub(in crate::platform::os) mod slots;
mod target_file;
mod thread_end;
mod threads;

pub(crate) use before_main::{keep_before_main, main_thread_of, prepare_before_main, program_name};
pub(crate) use clocks::now;
#[cfg(feature = "perfetto")]
pub(crate) use clocks::{clocks, counter, has_steady_counter, since_boot};
pub(crate) use ends::{
    dismiss_waiting_thread, end_waiting, forget_signals, handle_ending_signals,
    handle_late_crashes, has_late_crashes, has_waiting_thread, is_report_awaited,
    keep_waiting_thread, wait_for_ending_signal,
};
pub(crate) use files::{
    OwnDescriptor, RawFd, create_in, descriptor, is_terminal, lock_alone, lock_shared,
    mode_for_others, readable, send_some, send_to_socket, set_mode, stop_listening, terminal_width,
    unlock, watch_connection, write_all, write_file,
};
pub(crate) use memory_limit::memory_limit;
#[cfg(takes_stacks)]
pub(crate) use modules::{
    FileId, LIST_OF_MODULES, LoadedFile, Memory, copy_bytes, is_readable, loaded_files,
    main_stack_end, own_stack_end,
};
pub(crate) use pages::{SMALLEST_PAGE, page_bytes};
pub(crate) use process::{
    AllBlocked, BlockedSignals, KeepErrno, at_exit, at_fork, at_quick_exit, barrier_on_all_threads,
    end_process, forget_ends, has_env, left_alone, parent_process_id, process_id, register_barrier,
    secure_env, wait, wake_all,
};
pub(crate) use resident::{allocator_statistics, resident_memory, rss_sums};
pub(crate) use target_file::TargetFile;
pub(in crate::platform::os) use thread_end::await_thread_end;
pub(super) use thread_end::is_ending;
pub(crate) use thread_end::on_thread_exit;
pub(in crate::platform::os) use threads::{
    StartedThread, give_memory_back, start_thread, take_memory,
};
pub(crate) use threads::{
    is_thread_alive, name_thread, processor_time_of, thread_id, thread_name, thread_name_of,
};
