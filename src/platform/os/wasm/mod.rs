//! `wasm32-unknown-unknown`: WebAssembly without a system. The host gives memory and, if the program passes a
//! function for it, the time.
//!
//! - A program has one thread, so there is nothing to wait for: the worker is `Worker::Manual`, and a wait
//!   returns at once.
//! - There are no files, sockets, signals, variables of the environment, processes or call stacks. What asks
//!   for one gets an error, or nothing. Std's `File` and `TcpStream` have no value here.
//! - Nothing runs at exit, because a program has no end that it would know of.
#![expect(unsafe_code, reason = "functions that are unsafe on other systems")]

mod clocks;
mod files;
pub(crate) mod pages;
mod process;
mod threads;

pub(crate) use clocks::{Instant, now, set_clock, sleep};
#[cfg(feature = "perfetto")]
pub(crate) use clocks::{clocks, counter, has_steady_counter, since_boot};
pub(crate) use files::{
    OwnDescriptor, RawFd, TargetFile, create_in, descriptor, is_terminal, lock_alone, lock_shared,
    mode_for_others, readable, send_some, send_to_socket, set_mode, stop_listening, terminal_width,
    unlock, watch_connection, write_all, write_file,
};
pub(crate) use pages::{SMALLEST_PAGE, page_bytes};
pub(crate) use process::{
    AllBlocked, BlockedSignals, KeepErrno, allocator_statistics, at_exit, at_fork, at_quick_exit,
    barrier_on_all_threads, dismiss_waiting_thread, end_process, end_waiting, forget_ends,
    forget_signals, handle_ending_signals, handle_late_crashes, has_env, has_late_crashes,
    has_waiting_thread, is_report_awaited, keep_before_main, keep_waiting_thread, left_alone,
    memory_limit, parent_process_id, prepare_before_main, process_id, program_name,
    register_barrier, resident_memory, rss_sums, secure_env, wait, wait_for_ending_signal,
    wake_all,
};
pub(crate) use threads::{
    Body, STACK, forget_threads, has_own_threads, is_thread_alive, main_thread_of, name_thread,
    on_thread_exit, processor_time_of, run_on_new_thread, spawn, thread_id, thread_name,
    thread_name_of, wait_for_ends,
};
