//! What the tracker needs of the system, and nothing above names the system itself. A folder for each has the
//! functions of this page.
//!
//! | group | functions | promise |
//! |---|---|---|
//! | pages | `map`, `unmap`, `page_bytes` | *Hook*; zeroed pages, or `None` |
//! | order | `register_barrier`, `barrier_on_all_threads` | a full barrier on every thread that runs; where `register_barrier` returns `false`, the hook has a fence of its own |
//! | waiting | `wait`, `wake_all` | *Hook*; wait at most the given time, and may return early |
//! | time | `now`, `since_boot`, `clocks`, `counter` | *Hook*; nanoseconds that never depend on the time of day |
//! | limits of time | `Instant`, `sleep`, `time_of_day` | std's, but where they panic |
//! | this thread | `thread_id`, `main_thread_of`, `thread_name`, `on_thread_exit`, `KeepErrno` | *Hook*; what runs at a thread's end runs after its destructors, or the worker finds that the thread has ended |
//! | other threads | `is_thread_alive`, `thread_name_of`, `processor_time_of` | answer for threads that may end at any time |
//! | thread-local values | `slots` | *Hook*; only where std's values are no good for it (`own_values.rs`): a slot keeps its value until the thread has ended |
//! | own threads | `spawn`, `run_on_new_thread`, `name_thread` | a stack of `STACK` bytes, whatever the program's default is |
//! | start and end | `keep_before_main`, `at_exit`, `handle_ending_signals`, `wait_for_ending_signal` | what runs at exit has the program's other threads still running; an end from outside or a crash waits for the report, at most 30 s |
//! | forks | `at_fork`, `forget_threads`, `forget_ends` | nothing, where no process is the copy of another |
//! | watchers | `start_watcher`, `map_shared`, `Family` and what they need | refused, where `HAS_WATCHERS` is `false` |
//! | descriptors | `OwnTable`, `run_in_own_table`, `run_in_program_table`, `OwnDescriptor` | what the tracker has open is not among the program's, where the system allows that |
//! | sockets | `send_some`, `readable` | wait no longer than the given time |
//! | files | `TargetFile`, `create_in`, `lock_alone`, `write_file` | a file is never emptied before it is locked; others can read it meanwhile |
//! | memory | `rss_sums`, `resident_memory`, `memory_limit` | the system's own figures, in bytes |
//! | loaded files | `loaded_files`, `Memory`, `loads`, `unloads` | only where call stacks are taken |
//!
//! *Hook*: runs inside an `alloc` or `free` of the program, so it neither allocates from the global allocator
//! nor locks nor panics, and restores the error number of the thread.
//!
//! | folder | state |
//! |---|---|
//! | `linux`, `windows` | tested |
//! | `wasm` | tested by node: one thread, and no files |
//! | `macos` | reviewed against the system's documentation, compiled and linted; not run |
//! | `unix` | what `linux` and `macos` have in common |
//!
//! Where `build.rs` does not set `tracking`, none of this is compiled, nothing is recorded, and starting a
//! ledger returns `ErrorKind::UnsupportedPlatform`. `RUSTFLAGS="--cfg memledger_portable"` does the same on
//! any system, so that it can be checked there.

pub(crate) mod before_main;
pub(crate) mod copies;
#[cfg(all(takes_stacks, not(target_os = "linux")))]
mod counted_loads;
#[cfg(not(any(target_os = "linux", wasm)))]
mod counted_threads;
#[cfg_attr(not(redirects), allow(dead_code, reason = "only the library of preload/ notes it"))]
pub(crate) mod executed;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(not(target_os = "linux"))]
mod one_table;
mod own_pages;
#[cfg(own_values)]
pub(crate) mod own_values;
#[cfg(test)]
mod tests;
#[cfg(unix)]
mod unix;
#[cfg(not(target_os = "linux"))]
mod unwatched;
#[cfg(not(wasm))]
mod version;
#[cfg(wasm)]
mod wasm;
#[cfg(windows)]
mod windows;

#[cfg(all(takes_stacks, not(target_os = "linux")))]
pub(crate) use counted_loads::{is_lasting, loader_state, loads, unloads};
#[cfg(not(any(target_os = "linux", wasm)))]
pub(crate) use counted_threads::{
    Body, STACK, forget_threads, has_own_threads, run_on_new_thread, spawn, wait_for_ends,
};
#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(target_os = "macos")]
pub(crate) use macos::*;
#[cfg(not(target_os = "linux"))]
pub(crate) use one_table::{
    InProgramTable, OwnTable, Packed, close_gate, leave_streams, open_gate, pack, run_in_own_table,
    run_in_program_table, run_on_table_thread, serve, table_threads, take_unanswered, unpack,
    write_to_stderr,
};
#[cfg(c_mmap)]
pub(crate) use own_pages::{Mappings, OF_ALLOCATORS, own_mappings};
pub(crate) use own_pages::{map, unmap};
#[cfg(not(target_os = "linux"))]
pub(crate) use unwatched::{
    FOLLOWS_FORKS, Family, HAS_WATCHERS, Request, Started, StartedFamily, Watcher,
    clear_in_children, connection, duplicate, end_watcher, forget_shared, has_no_name,
    has_one_thread, is_in_loaded_file, lock_for_watcher, map_shared, map_shared_file, path_of,
    path_of_descriptor, share_again, share_in_place, start_family, start_watcher, unshare_all,
    use_as_stderr,
};
#[cfg(wasm)]
pub(crate) use wasm::*;
#[cfg(windows)]
pub(crate) use windows::*;

use std::sync::OnceLock;
use std::time::Duration;

// WebAssembly has its own: std's panic there.
#[cfg(not(wasm))]
pub(crate) use std::{thread::sleep, time::Instant};

/// Whether a program can have a second thread, such as the worker.
pub(crate) const HAS_THREADS: bool = !cfg!(wasm);

/// Whether what is to run before `main` does; else the first start in code runs it.
pub(crate) const RUNS_BEFORE_MAIN: bool = !cfg!(wasm);

/// Whether the program filters its system calls, and so this thread may not ask the kernel anything.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_kernel_closed() -> bool {
    false
}

/// Whether the program filters its system calls.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_filtered() -> bool {
    false
}

/// The time of day; `None` on WebAssembly, where nothing says it.
pub(crate) fn time_of_day() -> Option<std::time::SystemTime> {
    (!cfg!(wasm)).then(std::time::SystemTime::now)
}

/// See [`set_before_end`].
static BEFORE_END: OnceLock<fn()> = OnceLock::new();

/// Sets what runs before the process ends by `_exit`, or becomes another program by a function of C, where
/// such functions are the library's.
pub(crate) fn set_before_end(run: fn()) {
    let _ = BEFORE_END.set(run);
}

/// Called by such functions.
#[cfg(preload)]
pub(in crate::platform) fn before_end() {
    if let Some(run) = BEFORE_END.get() {
        let _errno = KeepErrno::new();
        run();
    }
}

/// The name of a thread as the kernel keeps it: at most 15 bytes, padded with NULs.
pub(crate) type ThreadName = [u8; 16];

/// Addresses, and how much of them is resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnonymousRange {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) resident_bytes: u64,
}

/// What an allocator says of itself: its name, and figures in bytes with their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AllocatorStatistics {
    pub(crate) allocator: &'static str,
    pub(crate) figures: Vec<(&'static str, u64)>,
}

/// The resident memory of this process in bytes. On Linux the sum of all parts is `rss`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResidentMemory {
    /// The processor time of the reading. What it waited for a processor is not in it.
    pub(crate) took: Duration,
    /// The sum of the lines `Rss` of `/proc/self/smaps`, from the same pass.
    pub(crate) rss: u64,
    /// Pages that the tracker has mapped.
    pub(crate) tracker: u64,
    pub(crate) stacks: u64,
    /// What the C library keeps of threads that have ended.
    pub(crate) ended_stacks: u64,
    /// Programs and libraries: what is unchanged of their files.
    pub(crate) binaries: u64,
    /// Their static variables: changed pages, and memory that was mapped with the files.
    pub(crate) data: u64,
    pub(crate) files: u64,
    /// Private pages of other files, which the program has changed.
    pub(crate) changed_files: u64,
    /// Memory that other processes can share.
    pub(crate) shared: u64,
    /// What the kernel maps (`[vdso]`).
    pub(crate) other: u64,
    /// Huge pages of anonymous memory, and what is swapped out; neither is a part.
    pub(crate) huge_pages: u64,
    pub(crate) swap: u64,
    /// What no other process has of it.
    pub(crate) private: u64,
    /// Anonymous memory, in the order of addresses.
    pub(crate) anonymous: Vec<AnonymousRange>,
    /// The same that allocators have mapped whose functions are recorded.
    pub(crate) of_allocators: Vec<AnonymousRange>,
    /// Where `shared` and `changed_files` are.
    pub(crate) shared_ranges: Vec<AnonymousRange>,
    pub(crate) changed_ranges: Vec<AnonymousRange>,
    /// The pages of static variables, where they have much of `data`.
    pub(crate) static_pages: Vec<PageBits>,
}

/// Which pages of a range are resident and in no file: a bit for each, the first one the lowest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageBits {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) resident_bytes: u64,
    pub(crate) bits: Vec<u8>,
}
