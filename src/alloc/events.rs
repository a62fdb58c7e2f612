//! The declarations of the allocator's events: Unreal's memory events, and two of our own, for
//! facts that Unreal's events cannot express. [`record`](super::record) writes them.
//!
//! A *root heap* is an address space of its own: a block is freed in the heap that it was allocated in.
//! The events of [`RUST`] imply their heap; those of another heap have its number.

use crate::events::channel::Channel;
use crate::trace::worker::{EventProvider, Importants};
use memledger_format::encode::Declaration;
use memledger_format::schema::{
    FieldType::{AnsiString, U8, U16, U32, U64},
    IMPORTANT, NO_SYNC,
};
use memledger_format::stream_events::MARKER_PERIOD;
use std::sync::atomic::{AtomicBool, Ordering};

/// An event of an allocation has `size >> SIZE_SHIFT` in its size field. The lower bits of the size
/// share a byte with the alignment.
pub(crate) const SIZE_SHIFT: u32 = 3;

/// The channel of allocations, reallocations and frees.
pub(crate) static CHANNEL: Channel = Channel::ours("Memory");

pub(crate) static INIT: Declaration = Declaration {
    uid: 32,
    logger: "Memory",
    event: "Init",
    flags: IMPORTANT | NO_SYNC,
    fields: &[("MarkerPeriod", U32), ("Version", U8), ("MinAlignment", U8), ("SizeShift", U8)],
};

const ALLOC_FIELDS: &[(&str, memledger_format::schema::FieldType)] =
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
pub(crate) static REALLOC_FAILED: Declaration = Declaration {
    uid: 37,
    logger: "Memledger",
    event: "ReallocFailed",
    flags: NO_SYNC,
    fields: &[("Address", U64)],
};

/// The size in bytes of the block that this thread allocated last. Unreal's field cannot hold that
/// size.
pub(crate) static LARGE_SIZE: Declaration = Declaration {
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

/// [`ALLOC`] in the heap that a field says.
pub(crate) static ALLOC_IN_HEAP: Declaration = Declaration {
    uid: 40,
    logger: "Memory",
    event: "Alloc",
    flags: 0,
    fields: ALLOC_IN_HEAP_FIELDS,
};

/// [`FREE`] in the heap that a field says.
pub(crate) static FREE_IN_HEAP: Declaration =
    Declaration { uid: 41, logger: "Memory", event: "Free", flags: 0, fields: FREE_IN_HEAP_FIELDS };

/// [`REALLOC_ALLOC`] in the heap that a field says.
pub(crate) static REALLOC_ALLOC_IN_HEAP: Declaration = Declaration {
    uid: 42,
    logger: "Memory",
    event: "ReallocAlloc",
    flags: 0,
    fields: ALLOC_IN_HEAP_FIELDS,
};

/// [`REALLOC_FREE`] in the heap that a field says.
pub(crate) static REALLOC_FREE_IN_HEAP: Declaration = Declaration {
    uid: 43,
    logger: "Memory",
    event: "ReallocFree",
    flags: 0,
    fields: FREE_IN_HEAP_FIELDS,
};

const ALLOC_IN_HEAP_FIELDS: &[(&str, memledger_format::schema::FieldType)] = &[
    ("Address", U64),
    ("CallstackId", U32),
    ("Size", U32),
    ("AlignmentPow2_SizeLower", U8),
    ("RootHeap", U8),
];

/// NOTE: the compact coding predicts a heap only behind a call stack, which is 0 here.
const FREE_IN_HEAP_FIELDS: &[(&str, memledger_format::schema::FieldType)] =
    &[("Address", U64), ("CallstackId", U32), ("RootHeap", U8)];

/// Something has happened to addresses that the program maps: a state of
/// [`mapping`](memledger_format::schema::mapping).
pub(crate) static MAPPING: Declaration = Declaration {
    uid: 45,
    logger: "Memledger",
    event: "Mapping",
    flags: 0,
    fields: &[
        ("Address", U64),
        ("CallstackId", U32),
        ("Size", U64),
        ("RootHeap", U8),
        ("State", U8),
    ],
};

/// The name of a heap.
static HEAP_SPEC: Declaration = Declaration {
    uid: 44,
    logger: "Memory",
    event: "HeapSpec",
    flags: IMPORTANT | NO_SYNC,
    fields: &[("Id", U32), ("ParentId", U32), ("Flags", U16), ("Name", AnsiString)],
};
/// The flag of a heap that is in no other heap.
const ROOT_HEAP: u16 = 1;
/// Instead of the heap that a heap is in.
const NO_PARENT: u32 = u32::MAX;

/// The heap of Rust's global allocator: Unreal's "system memory".
pub(crate) const RUST: u8 = 0;
/// The heap of `malloc`. Unreal has 1 for video memory.
pub(crate) const C: u8 = 2;

/// The heap of what the program maps from the system.
pub(crate) const MAPPED: u8 = 3;

/// The heaps of a program that has the heap of `malloc`, and their names.
const HEAPS: &[(u8, &str)] = match cfg!(c_mmap) {
    true => &[(RUST, "Rust"), (C, "C"), (MAPPED, "Mapped")],
    false => &[(RUST, "Rust"), (C, "C")],
};

/// Whether the heap of `malloc` is in use.
static HAS_C_HEAP: AtomicBool = AtomicBool::new(false);

/// Makes the worker announce the heap of `malloc`, before the next events that it sends.
#[cfg(c_malloc)]
pub(crate) fn use_c_heap() {
    HAS_C_HEAP.store(true, Ordering::Release);
}

pub(crate) static TYPES: &[&Declaration] = &[
    &INIT,
    &ALLOC,
    &FREE,
    &REALLOC_ALLOC,
    &REALLOC_FREE,
    &REALLOC_FAILED,
    &LARGE_SIZE,
    &UPDATE,
    &ALLOC_IN_HEAP,
    &FREE_IN_HEAP,
    &REALLOC_ALLOC_IN_HEAP,
    &REALLOC_FREE_IN_HEAP,
    &HEAP_SPEC,
    &MAPPING,
];

/// Announces the types, and the constants that readers need.
pub(crate) struct MemoryEvents {
    announced: bool,
    announced_heaps: bool,
}

impl MemoryEvents {
    pub(crate) fn new() -> Self {
        Self { announced: false, announced_heaps: false }
    }
}

impl EventProvider for MemoryEvents {
    fn types(&self) -> &'static [&'static Declaration] {
        TYPES
    }

    fn position(&self) -> u64 {
        u64::from(self.announced) | u64::from(self.announced_heaps) << 1
    }

    fn continue_after(&mut self, position: u64) -> bool {
        (self.announced, self.announced_heaps) = (position & 1 != 0, position & 2 != 0);
        true
    }

    fn announce(&mut self, importants: &mut Importants) {
        if !std::mem::replace(&mut self.announced, true) {
            let (period, version, min_align) = (MARKER_PERIOD.into(), 1_u32.into(), 1_u32.into());
            importants.add(&INIT, &[period, version, min_align, SIZE_SHIFT.into()]);
        }
        // A program with one heap needs no name for it.
        if !self.announced_heaps && HAS_C_HEAP.load(Ordering::Acquire) {
            self.announced_heaps = true;
            for &(heap, name) in HEAPS {
                let (id, parent, flags) = (u32::from(heap), NO_PARENT, u32::from(ROOT_HEAP));
                importants.add(&HEAP_SPEC, &[id.into(), parent.into(), flags.into(), name.into()]);
            }
        }
    }
}
