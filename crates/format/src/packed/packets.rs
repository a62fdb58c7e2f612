//! The packets of a chunk: the stream and the size of each.

use super::range::{Coder, Number, Prob};

/// The probabilities of streams and sizes.
pub(super) struct PacketProbs {
    /// The stream of the last packet.
    last: u16,
    same: [Prob; 2],
    stream: Number,
    /// The sizes of packets of the writer's streams, and of those of threads.
    sizes: [Number; 2],
    runs: Number,
    skips: Prob,
}

impl PacketProbs {
    pub(super) fn new() -> Self {
        Self {
            last: 0,
            same: [Prob::HALF; 2],
            stream: Number::EVEN,
            sizes: [const { Number::EVEN }; 2],
            runs: Number::EVEN,
            skips: Prob::HALF,
        }
    }

    /// Codes the stream and the size of the next packet.
    pub(super) fn start(
        &mut self,
        coder: &mut impl Coder,
        stream: u16,
        size: usize,
    ) -> (u16, usize) {
        let is_thread = |stream: u16| usize::from(stream > 4);
        let same = &mut self.same[is_thread(self.last)];
        if !coder.bit(same, stream == self.last) {
            self.last = self.stream.code(coder, stream.into()) as u16;
        }
        let size = self.sizes[is_thread(self.last)].code(coder, size as u64);
        (self.last, size as usize)
    }

    /// Codes the size of a run of bytes without a shape.
    pub(super) fn run(&mut self, coder: &mut impl Coder, size: usize) -> usize {
        self.runs.code(coder, size as u64) as usize
    }

    /// Codes whether the serials of the packet are not all consecutive.
    pub(super) fn skips(&mut self, coder: &mut impl Coder, skips: bool) -> bool {
        coder.bit(&mut self.skips, skips)
    }
}
