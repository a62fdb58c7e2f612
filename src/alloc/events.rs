//! The declarations of the allocator's events: Unreal's memory events, and two of our own, for
//! facts that Unreal's events cannot express. [`record`](super::record) writes them.

use crate::events::channel::Channel;
use crate::trace::format::encode::Declaration;
use crate::trace::format::schema::{
    FieldType::{U8, U32, U64},
    IMPORTANT, NO_SYNC,
};
use crate::trace::format::stream_events::MARKER_PERIOD;
use crate::trace::worker::{EventProvider, Importants};

/// An event of an allocation has `size >> SIZE_SHIFT` in its size field. The lower bits of the size
/// share a byte with the alignment.
pub(super) const SIZE_SHIFT: u32 = 3;

/// The channel of allocations, reallocations and frees.
pub(crate) static CHANNEL: Channel = Channel::ours("Memory");

pub(crate) static INIT: Declaration = Declaration {
    uid: 32,
    logger: "Memory",
    event: "Init",
    flags: IMPORTANT | NO_SYNC,
    fields: &[("MarkerPeriod", U32), ("Version", U8), ("MinAlignment", U8), ("SizeShift", U8)],
};

const ALLOC_FIELDS: &[(&str, crate::trace::format::schema::FieldType)] =
    &[("Address", U64), ("CallstackId", U32), ("Size", U32), ("AlignmentPow2_SizeLower", U8)];

pub(crate) static ALLOC: Declaration =
    Declaration { uid: 33, logger: "Memory", event: "AllocSystem", flags: 0, fields: ALLOC_FIELDS };

pub(crate) static FREE: Declaration = Declaration {
    uid: 34,
    logger: "Memory",
    event: "FreeSystem",
    flags: 0,
    fields: &[("Address", U64)],
};

pub(crate) static REALLOC_ALLOC: Declaration = Declaration {
    uid: 35,
    logger: "Memory",
    event: "ReallocAllocSystem",
    flags: 0,
    fields: ALLOC_FIELDS,
};

pub(crate) static REALLOC_FREE: Declaration = Declaration {
    uid: 36,
    logger: "Memory",
    event: "ReallocFreeSystem",
    flags: 0,
    fields: &[("Address", U64)],
};

/// The last reallocation of this thread failed: the block is unchanged.
pub(super) static REALLOC_FAILED: Declaration = Declaration {
    uid: 37,
    logger: "Memledger",
    event: "ReallocFailed",
    flags: NO_SYNC,
    fields: &[("Address", U64)],
};

/// The size in bytes of the block that this thread allocated last. Unreal's field cannot hold that
/// size.
pub(super) static LARGE_SIZE: Declaration = Declaration {
    uid: 38,
    logger: "Memledger",
    event: "LargeSize",
    flags: NO_SYNC,
    fields: &[("Address", U64), ("Size", U64)],
};

/// A live block has the tag of this thread from this event on.
pub(crate) static UPDATE: Declaration = Declaration {
    uid: 39,
    logger: "Memory",
    event: "UpdateAlloc",
    flags: 0,
    fields: &[("Address", U64), ("CallstackId", U32), ("RootHeap", U8)],
};

pub(crate) static TYPES: &[&Declaration] =
    &[&INIT, &ALLOC, &FREE, &REALLOC_ALLOC, &REALLOC_FREE, &REALLOC_FAILED, &LARGE_SIZE, &UPDATE];

/// Announces the types, and the constants that readers need.
pub(crate) struct MemoryEvents {
    announced: bool,
}

impl MemoryEvents {
    pub(crate) fn new() -> Self {
        Self { announced: false }
    }
}

impl EventProvider for MemoryEvents {
    fn types(&self) -> &'static [&'static Declaration] {
        TYPES
    }

    fn position(&self) -> u64 {
        self.announced.into()
    }

    fn continue_after(&mut self, position: u64) -> bool {
        self.announced = position > 0;
        true
    }

    fn announce(&mut self, importants: &mut Importants) {
        if !std::mem::replace(&mut self.announced, true) {
            let (period, version, min_align) = (MARKER_PERIOD.into(), 1_u32.into(), 1_u32.into());
            importants.add(&INIT, &[period, version, min_align, SIZE_SHIFT.into()]);
        }
    }
}
