//! Why a measurement has no figures.

use super::Error;

/// Why [`measure`](crate::measure) or a [`Budget`](crate::Budget) has no exact figures.
///
/// ```
/// use memledger::{UnmeasuredKind, measure};
///
/// // In a program without a `TrackingAllocator`:
/// let (sum, figures) = measure(|| [1, 2, 3].iter().sum::<u32>());
/// assert_eq!(sum, 6);
/// # #[cfg(report)]
/// assert_eq!(figures.unwrap_err().kind(), UnmeasuredKind::NotGlobalAllocator);
/// ```
pub type Unmeasured = memledger_format::Error<UnmeasuredKind>;

/// What a caller may want to handle of an [`Unmeasured`].
///
/// [`Unmeasured`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnmeasuredKind {
    /// [`TrackingAllocator`](crate::TrackingAllocator) is not the program's global allocator.
    NotGlobalAllocator,
    /// No recording could be started; the sentence is that of the [`Error`].
    NotStarted,
    /// The ledger that is running does not record the channel `memory` or `scope`, or it was turned off while
    /// the code was measured.
    ChannelOff,
    /// Events were lost while the code was measured.
    EventsLost,
    /// The ledger was dropped or finished while the code was measured.
    RecordingEnded,
    /// The process was forked while the code was measured, and this is the child.
    Forked,
    /// The measured code has dropped the guard of a scope that was entered outside the measured
    /// code.
    LeftScope,
    /// The table of scopes and names is full.
    TableFull,
    /// The operation has waited for as long as it may: for the worker, which is stuck in a write, or for all
    /// events.
    TimedOut,
    /// The budget has no limit.
    NoLimit,
    /// The measured code is the tracker's own.
    TrackerCode,
}

/// With the words that begin each sentence.
pub(crate) fn unmeasured(kind: UnmeasuredKind, why: impl std::fmt::Display) -> Unmeasured {
    Unmeasured::new(kind, format!("memory could not be measured: {why}"))
}

/// [`UnmeasuredKind::NotStarted`].
pub(crate) fn not_started(error: &Error) -> Unmeasured {
    unmeasured(UnmeasuredKind::NotStarted, format_args!("{error:#}"))
}
