//! What a piece of the program does with memory.

use super::session::MeasureSession;
use crate::dump::Figures;
use crate::error::Unmeasured;

/// Runs `body` and measures what it does with memory: on this thread, and wherever a context that was
/// captured in it is entered ([`ScopeContext`](crate::ScopeContext), [`spawn`](crate::spawn)). Returns what
/// `body` returns, whose memory counts as live, and the figures.
///
/// ```
/// use memledger::{TrackingAllocator, measure};
///
/// #[global_allocator]
/// static ALLOC: TrackingAllocator = TrackingAllocator::system();
///
/// # fn main() {
/// # #[cfg(report)] {
/// let (letters, figures) = measure(|| {
///     let words: Vec<String> = "one two three".split(' ').map(String::from).collect();
///     words.iter().map(String::len).sum::<usize>()
/// });
/// let figures = figures.unwrap();
/// assert_eq!(letters, 11);
/// assert_eq!(figures.allocations, 4); // the vector and three strings
/// assert_eq!(figures.live_bytes, 0);
/// # }
/// # }
/// ```
///
/// No [`Ledger`](crate::Ledger) has to be started, and none can start meanwhile. If one is running, the
/// measurement uses its analyzer (or starts one), and its report shows the measurement as a
/// scope named `measured`. Other threads do not change the figures, whether they run measurements
/// of their own or not; a thread from a plain [`std::thread::spawn`] is such a thread.
///
/// - A block counts where it was allocated. A block from before `body` that is freed within it does not
///   count; a block from within that is freed after `body` has returned is live.
/// - A measurement within another counts for both.
/// - A thread that still runs when `body` returns counts up to that moment. Join it to count all of
///   it.
/// - If `body` panics, `measure` passes the panic on, and the measurement ends.
///
/// Costs about 20 µs if a ledger or another measurement is running, otherwise 0.3 ms; and the cost
/// of tracking while `body` runs. Each measurement is a scope in the table of at most 262 142
/// scopes and names that a process may use. The scope is reused once all its blocks are freed, but
/// not if a context was captured in it, because that context may be entered at any time.
///
/// # Errors
/// [`Unmeasured`] if the figures would not be exact: if [`TrackingAllocator`](crate::TrackingAllocator) is
/// not the global allocator; without the features `enable` and `report`; where nothing is recorded; if
/// an event was lost meanwhile; if a ledger is running that does not record the channels `memory` and
/// `scope`, or that ends meanwhile; in the child of a fork of a tracked process; if the table is full. `body`
/// is run once in any case.
///
/// # Panics
/// If `body` does.
#[doc(alias = "Region")]
#[doc(alias = "assert no allocation")]
#[track_caller]
pub fn measure<R>(body: impl FnOnce() -> R) -> (R, Result<Figures, Unmeasured>) {
    let session = MeasureSession::begin("measured");
    let value = body();
    (value, session.and_then(MeasureSession::figures))
}
