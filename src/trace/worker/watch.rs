//! The worker's side of a watcher: when checkpoints are made, and how a watcher continues from one.

use super::checkpoint::{Announced, Checkpoint, Checkpoints};
use super::output::Output;
use super::threads::Threads;
use super::timeline::{Timeline, Trailer};
use crate::platform::os;
use crate::trace::write::{buffer_pool, loss};

/// The checkpoints of a recording that is watched.
pub(super) struct Watch {
    pub(super) checkpoints: &'static Checkpoints,
    /// The figures for the end of the stream.
    pub(super) trailer: fn() -> Trailer,
}

impl Watch {
    /// Makes a checkpoint of all that was sent, which the file has, and releases the buffers and slots that
    /// waited for that.
    pub(super) fn commit(
        &self,
        threads: &mut Threads,
        timeline: &Timeline,
        output: &Output,
        announced: Announced,
    ) {
        match output.watched_bytes() {
            Some(written) => {
                let checkpoint = Checkpoint {
                    written,
                    timeline: *timeline,
                    process: os::process_id(),
                    announced,
                    fresh_stream: threads.fresh_stream(),
                    lost: loss::total(),
                    trailer: (self.trailer)(),
                };
                self.checkpoints.write(checkpoint, threads.progress());
            }
            // The file could not be written any more, which was reported.
            None => self.checkpoints.clear(),
        }
        threads.release(self.checkpoints);
        buffer_pool::all_collected();
    }
}
