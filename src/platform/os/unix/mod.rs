//! What Linux and macOS have in common: POSIX, through `libc`.
//!
//! NOTE: functions marked *Hook* run inside an `alloc` or `free` of the program. They neither allocate nor
//! lock, and restore `errno`, since a program may read it after `free`.
#![expect(unsafe_code, reason = "system calls")]

pub(super) mod before_main;
mod blocked;
pub(super) mod descriptors;
pub(super) mod files;
mod own;
pub(super) mod process;
pub(crate) mod signals;
mod target_file;
pub(super) mod thread_exit;

pub(crate) use blocked::{AllBlocked, BlockedSignals};
pub(crate) use files::{
    create_in, descriptor, is_terminal, lock_alone, lock_shared, mode_for_others, readable,
    send_some, set_mode, stop_listening, terminal_width, unlock, watch_connection, write_all,
    write_file,
};
pub(crate) use own::OwnDescriptor;
#[cfg(c_malloc)]
pub(crate) use process::errno;
pub(crate) use process::{KeepErrno, at_exit, at_fork, has_env, parent_process_id, process_id};
pub(crate) use signals::{
    dismiss_waiting_thread, end_waiting, forget_signals, handle_ending_signals,
    handle_late_crashes, has_late_crashes, has_waiting_thread, is_report_awaited,
    keep_waiting_thread, wait_for_ending_signal,
};
pub(crate) use std::os::fd::RawFd;
pub(crate) use target_file::TargetFile;
pub(crate) use thread_exit::on_thread_exit;
