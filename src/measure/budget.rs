//! How much memory a piece of the program may use.

#[cfg(tracking)]
use super::session::{Failure, MeasureSession, Outcome};
use crate::Name;
use crate::error::Error;
#[cfg(tracking)]
use crate::error::Unmeasured;
#[cfg(tracking)]
use crate::ledger::report::find_functions;
#[cfg(tracking)]
use memledger_analysis::dump::text::{count, tag};
#[cfg(tracking)]
use memledger_analysis::in_process::{Holder, Holders, MeasuredFigures};
#[cfg(tracking)]
use memledger_analysis::in_process::{HolderColumn as Column, functions, holders};
#[cfg(tracking)]
use std::collections::BTreeMap;
#[cfg(tracking)]
use std::panic::Location;

/// How much memory a piece of the program may use; [`budget`] makes it, [`run`](Self::run) checks
/// it.
#[derive(Clone, Copy, Debug)]
#[must_use = "a budget is checked where it is run"]
#[cfg_attr(not(tracking), expect(dead_code, reason = "nothing can be checked"))]
pub struct Budget {
    name: Name,
    peak: Option<u64>,
    live: Option<u64>,
    allocated: Option<u64>,
    allocations: Option<u64>,
    reallocations: Option<u64>,
}

/// A budget without limits yet, which a test gives to the code it runs.
///
#[cfg_attr(tracking, doc = "```")]
#[cfg_attr(not(tracking), doc = "```should_panic")]
/// use memledger::{TrackingAllocator, budget};
///
/// #[global_allocator]
/// static ALLOC: TrackingAllocator = TrackingAllocator::system();
///
/// // #[test]
/// fn parsing_stays_small() {
///     let sum = budget("parse").peak(64 << 10).live(0).allocations(100).run(|| {
///         let numbers: Vec<u32> = (0..1000).collect();
///         numbers.iter().sum::<u32>()
///     });
///     assert_eq!(sum, 499_500);
/// }
/// # fn main() { parsing_stays_small() }
/// ```
///
/// A future is polled within the budget; `run(|| async { .. })` would only make it:
#[cfg_attr(tracking, doc = "```")]
#[cfg_attr(not(tracking), doc = "```should_panic")]
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
/// let received = budget("receive").allocations(1).run(|| block_on(receive()));
/// # assert_eq!(received, [1]);
/// # }
/// ```
///
/// The measured code runs in a scope of this name; the message shows it, and so does the report of
/// a ledger that runs meanwhile. [`measure`](crate::measure) documents what counts, what it costs
/// and what it requires.
pub fn budget(name: impl Into<Name>) -> Budget {
    Budget {
        name: name.into(),
        peak: None,
        live: None,
        allocated: None,
        allocations: None,
        reallocations: None,
    }
}

impl Budget {
    /// At most this many bytes may be live at any moment.
    pub fn peak(self, bytes: u64) -> Self {
        Self { peak: Some(bytes), ..self }
    }

    /// At most this many bytes may be live at the end, those of the result included.
    pub fn live(self, bytes: u64) -> Self {
        Self { live: Some(bytes), ..self }
    }

    /// At most this many bytes may be allocated in total, those that are freed again included.
    pub fn allocated(self, bytes: u64) -> Self {
        Self { allocated: Some(bytes), ..self }
    }

    /// At most this many blocks may be allocated. A reallocation is not one.
    pub fn allocations(self, blocks: u64) -> Self {
        Self { allocations: Some(blocks), ..self }
    }

    /// Blocks may be reallocated at most this many times, wherever they were allocated: with 0, a
    /// `Vec` from outside may not grow either.
    pub fn reallocations(self, times: u64) -> Self {
        Self { reallocations: Some(times), ..self }
    }

    /// Runs `body` and returns its result.
    ///
    /// # Panics
    /// If [`try_run`](Self::try_run) would return an error, with its text; and if `body` panics.
    #[track_caller]
    pub fn run<R>(self, body: impl FnOnce() -> R) -> R {
        match self.try_run(body) {
            Ok(value) => value,
            Err(error) => panic!("{error}"),
        }
    }

    /// Runs `body` and returns its result, if that stays within all limits.
    ///
    /// # Errors
    /// [`Error::OverBudget`] if it exceeds a limit: by how much, and which scopes and tags hold the
    /// most.
    /// [`Error::Unmeasured`] if that cannot be measured, as [`measure`](crate::measure) says, and
    /// for a budget without any limit. `body` is run once in any case.
    ///
    /// # Panics
    /// If `body` does.
    #[track_caller]
    pub fn try_run<R>(self, body: impl FnOnce() -> R) -> Result<R, Error> {
        #[cfg(tracking)]
        {
            let session = MeasureSession::begin(self.name.as_str(), Location::caller());
            let value = body();
            session?.end(|found| self.check(found))?;
            Ok(value)
        }
        #[cfg(not(tracking))]
        {
            drop(body());
            Err(super::not_tracking())
        }
    }

    #[cfg(tracking)]
    fn check(self, found: &mut Outcome<'_>) -> Result<(), Failure> {
        let Self { name, peak, live, allocated, allocations, reallocations } = self;
        let figures = found.figures;
        let limits = [
            ("peak", figures.peak_bytes, " bytes", peak),
            ("live", figures.live_bytes, " bytes", live),
            ("allocated", figures.tally.allocated_bytes, " bytes", allocated),
            ("allocations", figures.tally.allocations, "", allocations),
            ("reallocations", reallocated(&figures), "", reallocations),
        ];
        if limits.iter().all(|(.., limit)| limit.is_none()) {
            let error = Error::Unmeasured(Unmeasured::NoLimit(name.as_str()));
            return Err(Box::new(|| error));
        }
        let over = |(what, found, unit, limit): (&str, u64, &str, Option<u64>)| {
            let over = found.checked_sub(limit?).filter(|&over| over > 0)?;
            let [found, over, limit] = [found, over, limit?].map(count);
            Some(format!("\n  {what:<14} {found}{unit}, {over} more than {limit}"))
        };
        let mut lines: String = limits.into_iter().filter_map(over).collect();
        if lines.is_empty() {
            return Ok(());
        }
        let foreign = figures.foreign_reallocations;
        if foreign > 0 && reallocations.is_some_and(|limit| reallocated(&figures) > limit) {
            // This extends the last line, which is the one about reallocations.
            lines += &format!("; {} of them of blocks from outside", count(foreign));
        }
        let found = found.holders();
        Err(Box::new(move || {
            let who = self.who(&figures, found);
            Error::OverBudget(format!("the budget {:?} is exceeded{lines}\n{who}", name.as_str()))
        }))
    }

    /// The scopes, tags and stacks with the largest share of the first figure that is over its
    /// budget.
    #[cfg(tracking)]
    fn who(&self, figures: &MeasuredFigures, found: Holders) -> String {
        let is_over = |found: u64, limit: Option<u64>| limit.is_some_and(|limit| found > limit);
        let peak = is_over(figures.peak_bytes, self.peak);
        let live = is_over(figures.live_bytes, self.live);
        let allocated = is_over(figures.tally.allocated_bytes, self.allocated);
        let allocations = is_over(figures.tally.allocations, self.allocations);
        let reallocations = is_over(reallocated(figures), self.reallocations);
        let key = |holder: &Holder| {
            if peak {
                (holder.bytes_at_peak, holder.live_bytes)
            } else if live {
                (holder.live_bytes, holder.tally.allocated_bytes)
            } else if allocated {
                (holder.tally.allocated_bytes, holder.tally.allocations)
            } else if allocations {
                (holder.tally.allocations, holder.tally.allocated_bytes)
            } else {
                (holder.tally.reallocations, holder.tally.allocated_bytes)
            }
        };
        let columns: [(bool, Column); 6] = [
            (peak, ("at peak", |holder| holder.bytes_at_peak)),
            (true, ("live bytes", |holder| holder.live_bytes)),
            (true, ("blocks", |holder| holder.live_blocks)),
            (true, ("allocated", |holder| holder.tally.allocated_bytes)),
            (true, ("count", |holder| holder.tally.allocations)),
            (reallocations, ("reallocations", |holder| holder.tally.reallocations)),
        ];
        let shown = columns.into_iter().filter(|(is_shown, _)| *is_shown);
        let columns: Vec<_> = shown.map(|(_, column)| column).collect();
        let Holders { scopes, tags, by_stack, mut stacks } = found;
        let scope = |path: &[String]| path.join(" > ");
        let mut text = holders("Within it, by scope", scope, scopes, &columns, key);
        // Without tags the table would have one row, "Unnamed".
        if tags.iter().any(|tag| tag.path != ["Unknown", "Unnamed"]) {
            let name = |path: &[String]| {
                path.split_last().map_or_else(String::new, |(name, group)| tag(group, name))
            };
            text += &holders("By name", name, tags, &columns, key);
        }
        if !by_stack.is_empty() {
            find_functions(&mut stacks);
            // Stacks that differ only further out are one row.
            let mut rows = BTreeMap::<_, Holder>::new();
            for (path, holder) in functions(&stacks).into_iter().zip(&by_stack) {
                rows.entry(path).or_default().add_holder(holder);
            }
            let row = |(path, holder)| Holder { path: vec![path], ..holder };
            let title = match stacks.stack_sampling_bytes {
                None => "By stack",
                Some(_) => "By stack, of a sample",
            };
            let name = |path: &[String]| path.concat();
            text += &holders(title, name, rows.into_iter().map(row).collect(), &columns, key);
        }
        text
    }
}

/// Reallocations in the measured code, of any block.
#[cfg(tracking)]
fn reallocated(figures: &MeasuredFigures) -> u64 {
    figures.tally.reallocations + figures.foreign_reallocations
}
