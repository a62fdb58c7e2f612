//! Which stream carries which thread's packets.
//!
//! Stream ids have 14 bits and are reused, unlike thread ids. So a thread's events begin with
//! `Memledger.ThreadStart`, which names the thread that the stream belongs to from there on.

use crate::trace::write::registry;
use memledger_format::packet::{FIRST_THREAD, LAST_OWN, LAST_THREAD};
use std::collections::VecDeque;

/// The worker's stream for events that take effect at once: none of them has a serial, so a reader
/// never holds them back.
pub(crate) const CONTROL: u16 = FIRST_THREAD;
/// The worker's stream for markers and the end.
pub(super) const WORKER: u16 = FIRST_THREAD + 1;
/// The stream for the blocks that were live when a late stream began.
pub(crate) const BLOCKS: u16 = LAST_OWN;
const FIRST: u16 = LAST_OWN + 1;

/// The `SystemId` of a stream that belongs to no thread. Unreal's readers keep the open scopes of
/// each `SystemId`, so it is a number that no thread of the system has: Linux uses none from 2^22
/// on.
pub(crate) fn own_system_id(stream: u16) -> u32 {
    0xffff_ff00 | u32::from(stream)
}

/// The ids of streams: fresh ones first, then those retired longest ago.
pub(super) struct StreamIds {
    fresh: u16,
    retired: VecDeque<u16>,
}

impl StreamIds {
    pub(super) fn new() -> Self {
        Self { fresh: FIRST, retired: VecDeque::new() }
    }

    /// The first id that no thread has had.
    pub(super) fn fresh(&self) -> u16 {
        self.fresh
    }

    /// Continues where `fresh` is the first id that no thread has had, and `open` are in use.
    pub(super) fn continue_from(&mut self, fresh: u16, open: &[u16]) {
        self.fresh = fresh;
        self.retired = (FIRST..fresh).filter(|id| !open.contains(id)).collect();
    }

    pub(super) fn take(&mut self) -> Option<u16> {
        if self.fresh <= LAST_THREAD {
            self.fresh += 1;
            return Some(self.fresh - 1);
        }
        self.retired.pop_front()
    }

    pub(super) fn give_back(&mut self, stream: u16) {
        self.retired.push_back(stream);
    }
}

const _: () = assert!(registry::MAX_THREADS < (LAST_THREAD - FIRST) as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_ids_come_first_then_the_longest_retired() {
        let mut ids = StreamIds::new();
        assert_eq!((ids.take(), ids.take()), (Some(FIRST), Some(FIRST + 1)));
        ids.give_back(FIRST + 1);
        ids.give_back(FIRST);
        for id in FIRST + 2..=LAST_THREAD {
            assert_eq!(ids.take(), Some(id));
        }
        assert_eq!((ids.take(), ids.take(), ids.take()), (Some(FIRST + 1), Some(FIRST), None));
    }
}
