//! What an event type means to the analyzer: found once by name, when the type is announced.
//!
//! After that an event costs one look into a table and loads at known offsets.

use crate::trace::format::schema::{EventType, FieldType};

/// Offset of a field that the type does not have.
const ABSENT: u16 = u16::MAX;

/// Which root heap an event speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeapField {
    /// Offset of `RootHeap`, [`ABSENT`] where the event's name implies the heap.
    offset: u16,
    implied: u8,
}

impl HeapField {
    #[inline]
    pub(super) fn of(self, fixed: &[u8]) -> usize {
        if self.offset == ABSENT {
            usize::from(self.implied)
        } else {
            fixed.get(usize::from(self.offset)).copied().map_or(usize::MAX, usize::from)
        }
    }
}

/// What to do with the events of one type; the numbers are offsets in the fixed part, or, for
/// texts, indices of fields.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Ignored,
    Alloc { address: u16, size: u16, low: u16, heap: HeapField, realloc: bool },
    Free { address: u16, heap: HeapField, realloc: bool },
    Marker { cycle: u16 },
    MemoryScope { tag: u16 },
    MemoryScopePtr { address: u16, heap: HeapField },
    Update { address: u16, heap: HeapField },
    HeapMark { address: u16 },
    HeapUnmark { address: u16 },
    NewTrace { start: u16, frequency: u16 },
    ThreadInfo { thread: u16, system: u16, name: usize },
    Session { program: usize },
    Init { shift: u16 },
    TagSpec { tag: u16, parent: u16, name: usize, kinds: Option<(u16, u16)> },
    OurTrace { version: u16, pid: u16, from_start: u16, optimized: Option<u16> },
    ThreadStart { id: u16, system: u16, name: usize },
    Lost { events: u16 },
    LargeSize { address: u16, size: u16 },
    ReallocFailed { address: u16 },
    Alive { blocks: u16 },
    ScopeEntries { tag: u16, entries: u16, before: u16 },
    Report { cycle: u16, overhead: u16, lost: u16, misuses: u16 },
    Channel { id: u16, enabled: u16, name: Option<usize> },
    BookmarkSpec { point: u16, format: usize },
    Bookmark { cycle: u16, point: u16, arguments: usize },
}

const U8: &[FieldType] = &[FieldType::U8];
const U32: &[FieldType] = &[FieldType::U32];
const U64: &[FieldType] = &[FieldType::U64];
/// Unreal 5.0 announces signed integers as unsigned ones.
const I32: &[FieldType] = &[FieldType::I32, FieldType::U32];
const TEXT: &[FieldType] = &[FieldType::AnsiString, FieldType::WideString];

struct Fields<'a>(&'a EventType);

impl Fields<'_> {
    /// The position of the field `name`, which must have one of `types`.
    fn index(&self, name: &str, types: &[FieldType]) -> Result<usize, String> {
        let Some(index) = self.0.field(name) else {
            return Err(format!("{} has no field {name}; its events are ignored", self.0.name()));
        };
        if types.contains(&self.0.fields[index].field_type) {
            Ok(index)
        } else {
            Err(format!(
                "{} has a field {name} of another type than expected ({:?}); its events are ignored",
                self.0.name(),
                self.0.fields[index].field_type
            ))
        }
    }

    /// The offset of the field `name`.
    fn at(&self, name: &str, types: &[FieldType]) -> Result<u16, String> {
        Ok(self.0.fields[self.index(name, types)?].offset)
    }

    fn heap(&self) -> Result<HeapField, String> {
        Ok(HeapField { offset: self.at("RootHeap", U8)?, implied: 0 })
    }

    /// A channel is announced with its name, or turned on or off.
    fn channel(&self, name: Option<usize>) -> Result<Role, String> {
        Ok(Role::Channel { id: self.at("Id", U32)?, enabled: self.at("IsEnabled", U8)?, name })
    }

    fn heap_or_system(&self) -> HeapField {
        self.heap().unwrap_or(SYSTEM)
    }
}

pub(super) const SYSTEM: HeapField = HeapField { offset: ABSENT, implied: 0 };
const VIDEO: HeapField = HeapField { offset: ABSENT, implied: 1 };

/// The role of `event_type`; `Err` says why events of a type we know by name cannot be used.
pub(super) fn role_of(event_type: &EventType) -> Result<Role, String> {
    let fields = Fields(event_type);
    let alloc = |heap, realloc| {
        Ok(Role::Alloc {
            address: fields.at("Address", U64)?,
            size: fields.at("Size", U32)?,
            low: fields.at("AlignmentPow2_SizeLower", U8)?,
            heap,
            realloc,
        })
    };
    let free =
        |heap, realloc| Ok(Role::Free { address: fields.at("Address", U64)?, heap, realloc });
    match (event_type.logger.as_ref(), event_type.event.as_ref()) {
        ("Memory", "Alloc") => alloc(fields.heap()?, false),
        ("Memory", "AllocSystem") => alloc(SYSTEM, false),
        ("Memory", "AllocVideo") => alloc(VIDEO, false),
        ("Memory", "ReallocAlloc") => alloc(fields.heap()?, true),
        ("Memory", "ReallocAllocSystem") => alloc(SYSTEM, true),
        ("Memory", "Free") => free(fields.heap()?, false),
        ("Memory", "FreeSystem") => free(SYSTEM, false),
        ("Memory", "FreeVideo") => free(VIDEO, false),
        ("Memory", "ReallocFree") => free(fields.heap()?, true),
        ("Memory", "ReallocFreeSystem") => free(SYSTEM, true),
        ("Memory", "Marker") => Ok(Role::Marker { cycle: fields.at("Cycle", U64)? }),
        ("Memory", "MemoryScope") => Ok(Role::MemoryScope { tag: fields.at("Tag", I32)? }),
        ("Memory", "MemoryScopePtr") => Ok(Role::MemoryScopePtr {
            address: fields.at("Ptr", U64)?,
            heap: fields.heap_or_system(),
        }),
        ("Memory", "UpdateAlloc") => {
            Ok(Role::Update { address: fields.at("Address", U64)?, heap: fields.heap_or_system() })
        }
        ("Memory", "HeapMarkAlloc") => Ok(Role::HeapMark { address: fields.at("Address", U64)? }),
        ("Memory", "HeapUnmarkAlloc") => {
            Ok(Role::HeapUnmark { address: fields.at("Address", U64)? })
        }
        ("Memory", "Init") => Ok(Role::Init { shift: fields.at("SizeShift", U8)? }),
        ("Memory", "TagSpec") => Ok(Role::TagSpec {
            tag: fields.at("Tag", I32)?,
            parent: fields.at("Parent", I32)?,
            // The `Display` of our writer is for Unreal's tools.
            name: fields.index("Name", TEXT).or_else(|_| fields.index("Display", TEXT))?,
            kinds: fields.at("Kind", U8).and_then(|k| Ok((k, fields.at("Owner", I32)?))).ok(),
        }),
        ("$Trace", "NewTrace") => Ok(Role::NewTrace {
            start: fields.at("StartCycle", U64)?,
            frequency: fields.at("CycleFrequency", U64)?,
        }),
        ("$Trace", "ThreadInfo") => Ok(Role::ThreadInfo {
            thread: fields.at("ThreadId", U32)?,
            system: fields.at("SystemId", U32)?,
            name: fields.index("Name", TEXT)?,
        }),
        ("Diagnostics", "Session2") => {
            Ok(Role::Session { program: fields.index("AppName", TEXT)? })
        }
        ("Memledger", "Trace") => Ok(Role::OurTrace {
            version: fields.at("Version", U8)?,
            pid: fields.at("Pid", U32)?,
            from_start: fields.at("FromProcessStart", U8)?,
            optimized: fields.at("Optimized", U8).ok(),
        }),
        ("Memledger", "ThreadStart") => Ok(Role::ThreadStart {
            id: fields.at("Id", U32)?,
            system: fields.at("SystemId", U32)?,
            name: fields.index("Name", TEXT)?,
        }),
        ("Memledger", "Lost") => Ok(Role::Lost { events: fields.at("Events", U64)? }),
        ("Memledger", "LargeSize") => Ok(Role::LargeSize {
            address: fields.at("Address", U64)?,
            size: fields.at("Size", U64)?,
        }),
        ("Memledger", "ReallocFailed") => {
            Ok(Role::ReallocFailed { address: fields.at("Address", U64)? })
        }
        ("Memledger", "Alive") => Ok(Role::Alive { blocks: fields.at("Blocks", U64)? }),
        ("Memledger", "ScopeEntries") => Ok(Role::ScopeEntries {
            tag: fields.at("Tag", I32)?,
            entries: fields.at("Entries", U64)?,
            before: fields.at("Before", U8)?,
        }),
        ("Memledger", "Report") => Ok(Role::Report {
            cycle: fields.at("Cycle", U64)?,
            overhead: fields.at("OverheadBytes", U64)?,
            lost: fields.at("LostEvents", U64)?,
            misuses: fields.at("ScopeMisuses", U64)?,
        }),
        // Fields of other writers may differ; nothing depends on them.
        ("Trace", "ChannelAnnounce") => {
            let name = fields.index("Name", TEXT);
            Ok(name.and_then(|name| fields.channel(Some(name))).unwrap_or(Role::Ignored))
        }
        ("Trace", "ChannelToggle") => Ok(fields.channel(None).unwrap_or(Role::Ignored)),
        ("Misc", "BookmarkSpec") => Ok(Role::BookmarkSpec {
            point: fields.at("BookmarkPoint", U64)?,
            format: fields.index("FormatString", TEXT)?,
        }),
        ("Misc", "Bookmark") => Ok(Role::Bookmark {
            cycle: fields.at("Cycle", U64)?,
            point: fields.at("BookmarkPoint", U64)?,
            arguments: fields.index("FormatArgs", &[FieldType::U8Array])?,
        }),
        _ => Ok(Role::Ignored),
    }
}

/// The `u64` at `offset`; 0 if it lies outside, which [`role_of`] rules out.
#[inline]
pub(super) fn u64_at(fixed: &[u8], offset: u16) -> u64 {
    let start = usize::from(offset);
    fixed.get(start..start + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The `u32` at `offset`, like [`u64_at`].
#[inline]
pub(super) fn u32_at(fixed: &[u8], offset: u16) -> u32 {
    let start = usize::from(offset);
    fixed.get(start..start + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// The byte at `offset`, like [`u64_at`].
#[inline]
pub(super) fn u8_at(fixed: &[u8], offset: u16) -> u8 {
    fixed.get(usize::from(offset)).copied().unwrap_or(0)
}
