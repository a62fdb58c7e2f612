//! Counts what a session drops.

use crate::trace::write::declared;
use memledger_format::encode::Declaration;
use memledger_format::handshake::PROTOCOL;
use memledger_format::layout::{ByUid, EventLayout, StreamItem, split_item};

/// Counts the track events, and the other events of the program, in packets that a session drops.
pub(crate) struct EventCounter {
    types: ByUid<(EventLayout, bool)>,
    /// The number of the program's types in `types`.
    programs: usize,
}

impl EventCounter {
    /// `types` are all types of the tracker.
    pub(crate) fn new(types: &[&'static [&'static Declaration]]) -> Self {
        let mut known = ByUid::default();
        for declaration in types.iter().copied().flatten() {
            known.insert(declaration.uid, (declaration.layout(), false));
        }
        Self { types: known, programs: 0 }
    }

    /// The number of such events in the payload of a packet.
    pub(crate) fn count(&mut self, payload: &[u8]) -> u64 {
        while let Some(logged) = declared::registered(self.programs) {
            let info = (logged.declared().layout(), true);
            self.types.insert(declared::uid_of(self.programs), info);
            self.programs += 1;
        }
        let (mut rest, mut events) = (payload, 0);
        let mut is_counted = false;
        while let Some((item, _, after)) = split_item(rest, PROTOCOL, |uid| {
            let (layout, counts) = self.types.get(uid)?;
            is_counted = counts;
            Some(layout)
        }) {
            events += u64::from(matches!(item, StreamItem::Event(..)) && is_counted);
            rest = after;
        }
        events
    }
}
