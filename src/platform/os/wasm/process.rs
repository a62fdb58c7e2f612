//! The program, of which WebAssembly knows nothing but its memory.

use super::super::own_pages::own_pages;
use super::super::{AllocatorStatistics, AnonymousRange, ResidentMemory};
use std::ffi::{CStr, OsString, c_int};
use std::io;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;

/// There is no error number that a call could change.
pub(crate) struct KeepErrno(());

impl KeepErrno {
    pub(crate) fn new() -> Self {
        Self(())
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {}
}

/// There are no signals, here and below.
pub(crate) struct BlockedSignals(PhantomData<*mut ()>);

impl BlockedSignals {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

pub(crate) struct AllBlocked(());

impl AllBlocked {
    pub(crate) fn new() -> Self {
        Self(())
    }
}

impl Drop for AllBlocked {
    fn drop(&mut self) {}
}

/// *Hook.* Returns at once: no other thread would change the word meanwhile.
pub(crate) fn wait(_word: &AtomicU32, _expected: u32, _nanos: u64) {}

/// *Hook.* No thread waits.
pub(crate) fn wake_all(_word: &AtomicU32) {}

/// One thread sees its own writes in their order, so the barrier is there and does nothing.
pub(crate) fn register_barrier() -> bool {
    true
}

pub(crate) fn barrier_on_all_threads() {}

/// *Hook.* The number of the only process.
pub(crate) fn process_id() -> u32 {
    1
}

pub(crate) fn parent_process_id() -> u32 {
    0
}

/// A program has no end that it would know of.
pub(crate) fn at_exit(_function: extern "C" fn()) {}

pub(crate) fn at_quick_exit(_function: extern "C" fn()) {}

pub(crate) fn at_fork(_before: extern "C" fn(), _parent: extern "C" fn(), _child: extern "C" fn()) {
}

pub(crate) fn left_alone() -> Option<c_int> {
    None
}

pub(crate) fn forget_ends() {}

pub(crate) fn end_process(_status: c_int) -> ! {
    core::arch::wasm32::unreachable()
}

pub(crate) fn has_env(_prefix: &[u8]) -> bool {
    false
}

pub(crate) fn secure_env(_name: &CStr) -> Option<OsString> {
    None
}

/// Nothing runs before what the host calls first.
pub(crate) fn keep_before_main() {}

pub(crate) fn prepare_before_main() {}

pub(crate) fn program_name() -> OsString {
    "wasm".into()
}

pub(crate) fn handle_ending_signals() {}

pub(crate) fn forget_signals() {}

pub(crate) fn has_waiting_thread() -> bool {
    false
}

pub(crate) fn is_report_awaited() -> bool {
    false
}

pub(crate) fn end_waiting() {}

pub(crate) fn dismiss_waiting_thread() {}

pub(crate) fn keep_waiting_thread() -> bool {
    false
}

/// Nothing arrives, so the thread is dismissed at once.
pub(crate) fn wait_for_ending_signal() -> bool {
    false
}

pub(crate) fn has_late_crashes() -> bool {
    false
}

pub(crate) fn handle_late_crashes() -> bool {
    true
}

/// The bytes of the memory now. It never shrinks, so that is also the most so far.
pub(crate) fn rss_sums() -> Option<[u64; 3]> {
    let bytes = memory_bytes();
    Some([bytes; 3])
}

fn memory_bytes() -> u64 {
    core::arch::wasm32::memory_size::<0>() as u64 * super::SMALLEST_PAGE as u64
}

/// The host does not say how far the memory may grow.
pub(crate) fn memory_limit() -> Option<u64> {
    None
}

pub(crate) fn allocator_statistics() -> Vec<AllocatorStatistics> {
    Vec::new()
}

/// What the memory is: the tracker's pages, and the rest in one range.
///
/// # Errors
/// None here.
pub(crate) fn resident_memory(_step: impl Fn()) -> io::Result<ResidentMemory> {
    let tracker = own_pages().map(|(_, bytes)| bytes).sum();
    let bytes = memory_bytes();
    let rest = AnonymousRange { start: 0, bytes, resident_bytes: bytes.saturating_sub(tracker) };
    Ok(ResidentMemory { tracker, anonymous: vec![rest], ..ResidentMemory::default() })
}
