//! What the events of a type mean, and where their fields are.

use crate::callstacks::{BaseField, SpecForm};

/// Offset of a field that the type does not have.
pub(crate) const ABSENT: u16 = u16::MAX;

/// The root heap of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeapField {
    /// Offset of `RootHeap`, [`ABSENT`] where the event's name implies the heap.
    pub(super) offset: u16,
    pub(super) implied: u8,
}

impl HeapField {
    #[inline]
    pub(crate) fn of(self, fixed: &[u8]) -> usize {
        if self.offset == ABSENT {
            usize::from(self.implied)
        } else {
            fixed.get(usize::from(self.offset)).copied().map_or(usize::MAX, usize::from)
        }
    }
}

/// What the events of one type mean. The numbers are offsets in the fixed part, or, for texts,
/// indices of fields.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Role {
    Ignored,
    Alloc { address: u16, stack: u16, size: u16, low: u16, heap: HeapField, realloc: bool },
    Free { address: u16, heap: HeapField, realloc: bool },
    Scope(ScopeRole),
    Block(BlockRole),
    Time(TimeRole),
    Name(NameRole),
    Trace(TraceRole),
    Stack(StackRole),
    Llm(LlmRole),
    Rss(RssRole),
}

/// Events that open a scope.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScopeRole {
    Tag { tag: u16 },
    OfBlock { address: u16, heap: HeapField },
}

/// Events about a block that exists.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BlockRole {
    Rename { address: u16, heap: HeapField },
    Mapping { address: u16, stack: u16, size: u16, heap: HeapField, state: u16 },
    HeapMark { address: u16 },
    HeapUnmark { address: u16 },
    LargeSize { address: u16, size: u16 },
    ReallocFailed { address: u16 },
}

/// Events that give the time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TimeRole {
    NewTrace { start: u16, frequency: u16 },
    Marker { cycle: u16 },
    BookmarkSpec { point: u16, format: usize },
    Bookmark { cycle: u16, point: u16, arguments: usize },
}

/// Events about threads, scopes, groups and tags.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NameRole {
    ThreadInfo { thread: u16, system: u16, name: usize },
    ThreadStart { id: u16, system: u16, name: usize },
    TagSpec { tag: u16, parent: u16, name: usize, kinds: Option<(u16, u16)> },
    HeapSpec { id: u16, name: usize },
    ScopeEntries { tag: u16, entries: u16, before: u16 },
}

/// Events about the program and the stream itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TraceRole {
    Session {
        program: usize,
    },
    Init {
        shift: u16,
    },
    OurTrace {
        version: u16,
        pid: u16,
        from_start: u16,
        optimized: Option<u16>,
        parent: Option<u16>,
    },
    InitialLiveSet {
        blocks: u16,
        /// Absent in traces of earlier versions.
        missed: Option<u16>,
    },
    Channel {
        id: u16,
        enabled: u16,
        name: Option<usize>,
    },
    Lost {
        events: u16,
    },
    Report {
        cycle: u16,
        overhead: u16,
        lost: u16,
        misuses: u16,
        /// Absent in traces of earlier versions.
        in_flight: Option<u16>,
    },
}

impl Role {
    /// Whether its events have a number. Those that say which frames a call stack has have none: how many
    /// there are depends on the transport.
    pub(crate) fn is_counted(&self) -> bool {
        !matches!(
            self,
            Self::Stack(
                StackRole::Spec { .. }
                    | StackRole::Relative { .. }
                    | StackRole::Guess { .. }
                    | StackRole::End { .. }
            )
        )
    }
}

/// Events about call stacks and the files that their frames are in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StackRole {
    Spec {
        id: u16,
        frames: usize,
        form: SpecForm,
    },
    /// Several stacks, each from an earlier one.
    Relative {
        first: u16,
        stacks: usize,
    },
    End {
        id: u16,
        reason: u16,
    },
    Guess {
        id: u16,
        from: u16,
    },
    Sampling {
        mean: u16,
    },
    ModuleInit {
        shift: Option<u16>,
    },
    ModuleLoad {
        name: usize,
        base: u16,
        field: BaseField,
        size: u16,
        build_id: Option<usize>,
        /// Inode and change time.
        stamp: Option<[u16; 2]>,
    },
    ModuleUnload {
        base: u16,
        field: BaseField,
    },
    SymbolModule {
        id: u16,
        name: usize,
        build_id: usize,
    },
    SymbolFunction {
        id: u16,
        function: usize,
        file: usize,
    },
    Symbol {
        module: u16,
        offset: u16,
        functions: usize,
        lines: usize,
    },
}

/// Events about the values of Unreal's memory tags. A name that the type does not have is in the attachment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LlmRole {
    Tag { tag: u16, parent: u16, pointer: BaseField, name: Option<usize> },
    Tracker { tracker: u16, name: Option<usize> },
    Values { tracker: u16, cycle: u16, tags: usize, values: usize },
}

/// Events about the resident memory of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RssRole {
    Now {
        cycle: u16,
        bytes: u16,
        most: u16,
        limit: u16,
        anonymous: u16,
        /// What the program has mapped that is in no block; earlier traces lack it.
        mapped: Option<u16>,
    },
    /// What it is.
    Parts(PartsFields),
    /// Which pages of a range are resident.
    Pages { cycle: u16, address: u16, page_bytes: u16, bits: usize },
    /// What an allocator says of itself.
    Allocator { allocator: usize, names: usize, bytes: usize },
    /// Blocks are not recorded, for a reason.
    Untracked { reason: u16, function: usize, file: usize },
}

/// The offsets of an event that says what the resident memory is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartsFields {
    pub(crate) cycle: u16,
    /// [`RSS_SUMS`].
    pub(crate) sums: [u16; RSS_SUMS.len()],
    /// [`MORE_RSS_SUMS`].
    pub(crate) more: [u16; MORE_RSS_SUMS.len()],
    /// The most that the first of them was.
    pub(crate) most_own: u16,
    /// Whether it was read at the end of the program; earlier traces lack it.
    pub(crate) is_last: Option<u16>,
    pub(crate) ranges: [usize; 3],
    /// Which of them allocators have mapped; earlier traces lack it.
    pub(crate) allocators: Option<usize>,
    /// Shared memory, and changed files, if the trace says where they are.
    pub(crate) shared: Option<[usize; 3]>,
    pub(crate) changed: Option<[usize; 3]>,
}

/// The fields of an event that says what the resident memory is, but those of ranges.
pub(crate) const RSS_SUMS: [&str; 8] =
    ["OwnBytes", "Tracker", "Stacks", "Binaries", "Files", "Shared", "Other", "OtherAnonymous"];
/// The same of those that earlier traces do not have.
pub(crate) const MORE_RSS_SUMS: [&str; 7] =
    ["EndedStacks", "Data", "ChangedFiles", "HugePages", "Swap", "Private", "Risen"];

pub(super) const SYSTEM: HeapField = HeapField { offset: ABSENT, implied: 0 };
pub(super) const VIDEO: HeapField = HeapField { offset: ABSENT, implied: 1 };
