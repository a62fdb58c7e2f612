//! How much memory a piece of the program may use.

use super::session::MeasureSession;
use crate::Name;
use crate::dump::Figures;
use crate::error::Unmeasured;
use std::fmt::{Debug, Display, Formatter};

/// How much memory a piece of the program may use; [`budget`] makes it, [`run`](Self::run) checks
/// it.
///
/// ```
/// # use memledger::{TrackingAllocator, budget};
/// # #[global_allocator]
/// # static ALLOC: TrackingAllocator = TrackingAllocator::system();
/// # fn main() {
/// let small = budget("count words").peak_bytes(1 << 10).allocated_bytes(1 << 10).allocations(1);
/// let leaves_nothing = small.live_bytes(0).live_blocks(0).frees(1).reallocations(0);
/// # #[cfg(report)]
/// assert_eq!(leaves_nothing.run(|| "one two".split(' ').collect::<Vec<_>>().len()), 2);
/// # #[cfg(not(report))]
/// # let _ = leaves_nothing;
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use = "a budget is checked where it is run"]
#[allow(dead_code, reason = "without a tracker, nothing can be checked")]
pub struct Budget {
    pub(super) name: Name,
    pub(super) peak_bytes: Option<u64>,
    pub(super) live_bytes: Option<u64>,
    pub(super) live_blocks: Option<u64>,
    pub(super) allocated_bytes: Option<u64>,
    pub(super) allocations: Option<u64>,
    pub(super) frees: Option<u64>,
    pub(super) reallocations: Option<u64>,
}

/// Why code is not within its [`Budget`].
///
/// [`Display`] gives the reason; of an exceeded budget several lines, with who holds the most.
/// [`Debug`](std::fmt::Debug), which `unwrap` prints, gives the same. [`Budget::try_run`] has an example.
#[derive(Clone)]
#[non_exhaustive]
pub enum BudgetError {
    /// It exceeds a limit.
    #[non_exhaustive]
    Over {
        /// What the code did with memory.
        figures: Figures,
        /// By how much it exceeds which limits, and which scopes, tags and call stacks hold the most.
        text: String,
    },
    /// What it does with memory could not be measured.
    Unmeasured(Unmeasured),
}

impl Display for BudgetError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Over { text, .. } => f.write_str(text),
            Self::Unmeasured(why) => Display::fmt(why, f),
        }
    }
}

impl Debug for BudgetError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        Display::fmt(self, f)
    }
}

impl std::error::Error for BudgetError {}

/// A budget without limits yet, which a test gives to the code it runs.
///
/// ```
/// use memledger::{TrackingAllocator, budget};
///
/// #[global_allocator]
/// static ALLOC: TrackingAllocator = TrackingAllocator::system();
///
/// // #[test]
/// fn parsing_stays_small() {
///     let sum = budget("parse").peak_bytes(64 << 10).live_bytes(0).allocations(100).run(|| {
///         let numbers: Vec<u32> = (0..1000).collect();
///         numbers.iter().sum::<u32>()
///     });
///     assert_eq!(sum, 499_500);
/// }
/// # fn main() { if cfg!(report) { parsing_stays_small() } }
/// ```
///
/// A future is polled within the budget; `run(|| async { .. })` would only make it:
/// ```
/// # use memledger::{TrackingAllocator, budget};
/// # #[global_allocator]
/// # static ALLOC: TrackingAllocator = TrackingAllocator::system();
/// # fn block_on<F: Future>(task: F) -> F::Output {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     match std::pin::pin!(task).poll(&mut context) {
/// #         std::task::Poll::Ready(value) => value,
/// #         std::task::Poll::Pending => unreachable!(),
/// #     }
/// # }
/// # async fn receive() -> Vec<u8> { vec![1] }
/// # fn main() {
/// # #[cfg(report)] {
/// let received = budget("receive").allocations(1).run(|| block_on(receive()));
/// # assert_eq!(received, [1]);
/// # }
/// # }
/// ```
///
/// The measured code runs in a scope of this name; the message shows it, and so does the report of
/// a ledger that runs meanwhile. [`measure`](crate::measure) documents what counts, what it costs
/// and what it requires.
pub fn budget(name: impl Into<Name>) -> Budget {
    Budget {
        name: name.into(),
        peak_bytes: None,
        live_bytes: None,
        live_blocks: None,
        allocated_bytes: None,
        allocations: None,
        frees: None,
        reallocations: None,
    }
}

impl Budget {
    /// At most this many bytes may be live at any moment. [`Budget`] has an example.
    pub fn peak_bytes(self, bytes: u64) -> Self {
        Self { peak_bytes: Some(bytes), ..self }
    }

    /// At most this many bytes may be live at the end, those of the result included.
    /// [`Budget`] has an example.
    pub fn live_bytes(self, bytes: u64) -> Self {
        Self { live_bytes: Some(bytes), ..self }
    }

    /// At most this many blocks may be live at the end. [`Budget`] has an example.
    pub fn live_blocks(self, blocks: u64) -> Self {
        Self { live_blocks: Some(blocks), ..self }
    }

    /// At most this many bytes may be allocated in total, those that are freed again included.
    /// [`Budget`] has an example.
    pub fn allocated_bytes(self, bytes: u64) -> Self {
        Self { allocated_bytes: Some(bytes), ..self }
    }

    /// At most this many blocks may be allocated. A reallocation is not one. [`Budget`] has an example.
    pub fn allocations(self, blocks: u64) -> Self {
        Self { allocations: Some(blocks), ..self }
    }

    /// At most this many of these blocks may be freed. [`Budget`] has an example.
    pub fn frees(self, blocks: u64) -> Self {
        Self { frees: Some(blocks), ..self }
    }

    /// Blocks may be reallocated at most this many times, wherever they were allocated: with 0, a
    /// `Vec` from outside may not grow either. [`Budget`] has an example.
    pub fn reallocations(self, times: u64) -> Self {
        Self { reallocations: Some(times), ..self }
    }

    /// Runs `body` and returns its result. [`budget`] has an example.
    ///
    /// # Panics
    /// If [`try_run`](Self::try_run) would return an error, with its text; and if `body` panics.
    #[track_caller]
    pub fn run<R>(self, body: impl FnOnce() -> R) -> R {
        match self.try_run(body) {
            (value, Ok(_)) => value,
            (_, Err(error)) => panic!("{error}"),
        }
    }

    /// Runs `body`; returns its result, and the figures if they are within all limits.
    ///
    /// ```
    /// use memledger::{BudgetError, TrackingAllocator, budget};
    ///
    /// #[global_allocator]
    /// static ALLOC: TrackingAllocator = TrackingAllocator::system();
    ///
    /// # fn main() {
    /// # #[cfg(report)] {
    /// let (sum, checked) = budget("parse").allocations(0).try_run(|| vec![1, 2, 3].iter().sum::<u32>());
    /// assert_eq!(sum, 6);
    /// let Err(BudgetError::Over { figures, .. }) = checked else { panic!("it allocates a vector") };
    /// assert_eq!(figures.allocations, 1);
    /// # }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`BudgetError::Over`] if it exceeds a limit: by how much, and which scopes and tags hold the most.
    /// [`BudgetError::Unmeasured`] if that cannot be measured, as [`measure`](crate::measure) says, and
    /// for a budget without any limit. `body` is run once in any case.
    ///
    /// # Panics
    /// If `body` does.
    #[track_caller]
    pub fn try_run<R>(self, body: impl FnOnce() -> R) -> (R, Result<Figures, BudgetError>) {
        let session = MeasureSession::begin(self.name.as_str());
        let value = body();
        let checked = session.map_err(BudgetError::Unmeasured);
        (value, checked.and_then(|session| session.check(self)))
    }
}
