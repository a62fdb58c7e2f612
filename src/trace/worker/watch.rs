//! The worker's side of a watcher: when checkpoints are made, and how a watcher continues from one.

use super::checkpoint::{Checkpoints, Numbers};
use super::output::Output;
use super::threads::Threads;
use super::timeline::{Timeline, Trailer};
use crate::trace::write::{buffer_pool, loss};

/// What the announcer of a recording has announced.
#[derive(Clone, Debug, Default)]
pub(super) struct Announced {
    /// How many types of the program.
    pub(super) types: usize,
    /// By provider: see [`EventProvider::position`](super::EventProvider::position).
    pub(super) positions: Vec<u64>,
}

/// The checkpoints of a recording that is watched.
pub(super) struct Watch {
    pub(super) checkpoints: &'static Checkpoints,
    /// The figures for the end of the stream.
    pub(super) trailer: fn() -> Trailer,
}

impl Watch {
    /// Makes a checkpoint of all that was sent, which the file has, and releases the buffers and slots that waited for that.
    pub(super) fn commit(
        &self,
        threads: &mut Threads,
        timeline: &Timeline,
        output: &Output,
        announced: &Announced,
    ) {
        match output.watched_bytes() {
            Some(written) => {
                let numbers = self.numbers(written, threads, timeline, announced);
                self.checkpoints.write(numbers, threads.progress());
            }
            // The file could not be written any more, which was reported.
            None => self.checkpoints.clear(),
        }
        threads.release(self.checkpoints);
        buffer_pool::all_collected();
    }

    fn numbers(
        &self,
        written: u64,
        threads: &Threads,
        timeline: &Timeline,
        announced: &Announced,
    ) -> Numbers {
        let [next_serial, settled, marked, marked_at] = timeline.progress();
        let trailer = (self.trailer)();
        let mut numbers = Numbers {
            written,
            next_serial,
            settled,
            marked,
            marked_at,
            types: announced.types as u64,
            fresh_stream: threads.fresh_stream().into(),
            lost: loss::total(),
            overhead_bytes: trailer.overhead_bytes,
            scope_misuses: trailer.scope_misuses,
            failed_allocations: trailer.failed_allocations,
            ..Numbers::default()
        };
        for (position, announced) in numbers.positions.iter_mut().zip(&announced.positions) {
            *position = *announced;
        }
        numbers
    }
}
