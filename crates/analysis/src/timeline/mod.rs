//! The time of a trace, and what happened at which time.
//!
//! | file | what |
//! |---|---|
//! | `bookmarks.rs` | moments that the program has named |
//! | `clock.rs` | cycles to nanoseconds |
//! | `scopes_off.rs` | when the channel `scope` was off |
//! | `series.rs` | the figures of all blocks over time |

mod bookmarks;
mod clock;
mod scopes_off;
mod series;

pub(super) use bookmarks::Bookmarks;
pub use bookmarks::bookmark_text;
use clock::Clock;
use memledger_document::TimeSpan;
use scopes_off::ScopesOff;
pub(super) use scopes_off::{FREE_SCOPE_CHANNEL, MEMORY_CHANNEL, SCOPE_CHANNEL};
pub(super) use series::{Series, ThreadPoint};

/// The time, and what happened when.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    clock: Clock,
    bookmarks: Bookmarks,
    scopes_off: ScopesOff,
    peak: PeakBracket,
    series: Series,
}

/// The last new maximum of the total, between two times of the trace.
#[derive(Clone, Copy, Debug, Default)]
struct PeakBracket {
    /// Its peak generation.
    generation: u64,
    /// The first time in the trace after that maximum.
    before: u64,
}

impl Timeline {
    #[inline]
    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    #[inline]
    pub(super) fn clock_mut(&mut self) -> &mut Clock {
        &mut self.clock
    }

    /// Notes that the last new maximum, which began this peak generation, was reached before
    /// `time`, the first time in the trace after that maximum.
    pub(super) fn note_peak_before(&mut self, generation: u64, time: u64) {
        if self.peak.generation != generation {
            self.peak = PeakBracket { generation, before: time };
        }
    }

    /// The first time in the trace after the new maximum of this generation, if there was one.
    pub(super) fn time_after_peak(&self, generation: u64) -> Option<u64> {
        (self.peak.generation == generation).then_some(self.peak.before)
    }

    /// Notes that the stream joined a recording here.
    pub(super) fn joined(&mut self) {
        // The distances between earlier times are not those of the recording.
        self.clock.reset_resolution();
        self.scopes_off.begin(self.clock.now());
    }

    pub(super) fn series(&self) -> &Series {
        &self.series
    }

    pub(super) fn series_mut(&mut self) -> &mut Series {
        &mut self.series
    }

    pub(super) fn bookmarks(&self) -> &Bookmarks {
        &self.bookmarks
    }

    pub(super) fn bookmarks_mut(&mut self) -> &mut Bookmarks {
        &mut self.bookmarks
    }

    /// The channel `scope` has this id, and is on or off.
    pub(super) fn scope_channel(&mut self, id: u32, is_on: bool) {
        self.scopes_off.announced(id, is_on, self.clock.now());
    }

    /// A channel is turned on or off.
    pub(super) fn channel_toggled(&mut self, id: u32, is_on: bool) {
        self.scopes_off.toggled(id, is_on, self.clock.now());
    }

    /// Whether the channel `scope` is on now.
    pub(super) fn scopes_are_on(&self) -> bool {
        self.scopes_off.is_on()
    }

    /// When the channel `scope` was off, up to `now`.
    pub(super) fn scopes_off(&self, now: u64) -> Vec<TimeSpan> {
        self.scopes_off.spans_until(now)
    }
}
