//! Why a measurement has no figures.

use super::Error;
use std::fmt::{Debug, Display, Formatter, Result};
use std::time::Duration;

/// The sentence for a program that does not use the tracker, and what to do about it.
pub(crate) const NOT_LINKED: &str = "memledger::TrackingAllocator is not this program's global allocator; add: #[global_allocator] static ALLOC: memledger::TrackingAllocator = memledger::TrackingAllocator::system();";

/// Why [`measure`](crate::measure) or a [`Budget`](crate::Budget) has no exact figures.
#[derive(Clone)]
#[non_exhaustive]
pub enum Unmeasured {
    /// [`TrackingAllocator`](crate::TrackingAllocator) is not the program's global allocator.
    NotGlobalAllocator,
    /// No recording could be started.
    NotStarted(Box<Error>),
    /// The ledger that is running does not record this channel, `memory` or `scope`.
    ChannelOff(&'static str),
    /// This channel was turned off while the code was measured.
    ChannelTurnedOff(&'static str),
    /// This many events were lost while the code was measured.
    EventsLost(u64),
    /// The ledger was dropped or finished while the code was measured.
    RecordingEnded,
    /// The process was forked while the code was measured, and this is the child.
    Forked,
    /// The measured code has dropped the guard of a scope that was entered outside the measured
    /// code.
    LeftScope,
    /// The table of scopes and names is full; this many fit in.
    TableFull(usize),
    /// The worker has been stuck in a write for this long.
    WorkerStuck(Duration),
    /// The tracker could not collect everything within this time.
    NotCollected(Duration),
    /// The budget of this name has no limit.
    NoLimit(&'static str),
    /// The measured code is the tracker's own.
    TrackerCode,
}

/// The same sentence as [`Display`], which `unwrap` prints.
impl Debug for Unmeasured {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Display::fmt(self, f)
    }
}

impl std::error::Error for Unmeasured {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NotStarted(error) => std::error::Error::source(&**error),
            _ => None,
        }
    }
}

impl Display for Unmeasured {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("memory could not be measured: ")?;
        match self {
            Self::NotGlobalAllocator => f.write_str(NOT_LINKED),
            Self::NotStarted(error) => write!(f, "{error}"),
            Self::ChannelOff("memory") => f.write_str(
                "the ledger that is running does not record the channel \"memory\", or has failed (Ledger::problems says why)",
            ),
            Self::ChannelOff(channel) => {
                write!(f, "the ledger that is running does not record the channel {channel:?}")
            }
            Self::ChannelTurnedOff(channel) => {
                write!(f, "the channel {channel:?} was turned off meanwhile")
            }
            Self::EventsLost(events) => write!(
                f,
                "{events} events were lost meanwhile, since the buffers were full and the worker did not come in time; start a ledger before, with a larger LedgerBuilder::buffer_limit and OnFull::Wait"
            ),
            Self::RecordingEnded => f.write_str(
                "the recording ended meanwhile: its ledger was dropped or finished",
            ),
            Self::Forked => {
                f.write_str("the process was forked meanwhile, and this is the child")
            }
            Self::LeftScope => f.write_str(
                "the measured code has left its own scope, by dropping a guard from outside it",
            ),
            Self::TableFull(size) => {
                write!(f, "the table of scopes and names is full: all {size} are used up")
            }
            Self::WorkerStuck(waited) => {
                write!(f, "the worker has been stuck in a write for {} s", waited.as_secs())
            }
            Self::NotCollected(waited) => write!(
                f,
                "the tracker could not collect everything within {} s; Ledger::problems may say why",
                waited.as_secs()
            ),
            Self::NoLimit(budget) => {
                write!(f, "the budget {budget:?} has no limit, so nothing can go over it")
            }
            Self::TrackerCode => {
                f.write_str("this is the tracker's own code, whose memory is not recorded")
            }
        }
    }
}
