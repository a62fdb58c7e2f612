//! Makes events by hand and gives them to an analyzer.

use memledger_analysis::read::{Event, Hole, Visitor};
use memledger_analysis::{
    Analyzer, BlockObserver, Module, NoObserver, Report, SourceFrame, Symbolizer,
};
use memledger_format::callstacks::{Callstack, CallstackWriter};
use memledger_format::schema::{EventType, Field, FieldFamily, FieldType as T};

/// One type: name, whether it is synchronised, fields.
type Declaration = (&'static str, bool, &'static [(&'static str, T)]);

const SIZED: &[(&str, T)] = &[
    ("Address", T::U64),
    ("CallstackId", T::U32),
    ("Size", T::U32),
    ("AlignmentPow2_SizeLower", T::U8),
    ("RootHeap", T::U8),
];
const ADDRESSED: &[(&str, T)] = &[("Address", T::U64), ("RootHeap", T::U8)];
const SPEC: &[(&str, T)] = &[("Tag", T::I32), ("Parent", T::I32), ("Display", T::AnsiString)];
const OUR_SPEC: &[(&str, T)] = &[
    ("Tag", T::I32),
    ("Parent", T::I32),
    ("Display", T::AnsiString),
    ("Kind", T::U8),
    ("Owner", T::I32),
];

const TYPES: &[Declaration] = &[
    ("Memory.Alloc", true, SIZED),
    ("Memory.Free", true, ADDRESSED),
    ("Memory.ReallocFree", true, ADDRESSED),
    ("Memory.ReallocAlloc", true, SIZED),
    ("Memory.Marker", true, &[("Cycle", T::U64)]),
    ("Memory.MemoryScope", false, &[("Tag", T::I32)]),
    ("Memory.TagSpec", false, OUR_SPEC),
    ("Memledger.LargeSize", false, &[("Address", T::U64), ("Size", T::U64)]),
    ("Memledger.ReallocFailed", false, &[("Address", T::U64)]),
    (
        "Memledger.ThreadStart",
        false,
        &[("Id", T::U32), ("SystemId", T::U32), ("Name", T::AnsiString)],
    ),
    (
        "Memledger.Report",
        false,
        &[
            ("Serial", T::U64),
            ("Cycle", T::U64),
            ("OverheadBytes", T::U64),
            ("LostEvents", T::U64),
            ("ScopeMisuses", T::U64),
            ("FailedAllocations", T::U64),
        ],
    ),
    (
        "Memledger.Trace",
        false,
        &[
            ("Version", T::U8),
            ("Pid", T::U32),
            ("FirstSerial", T::U64),
            ("FromProcessStart", T::U8),
        ],
    ),
    ("$Trace.NewTrace", false, &[("StartCycle", T::U64), ("CycleFrequency", T::U64)]),
    ("Memledger.Lost", false, &[("ThreadId", T::U32), ("Events", T::U64)]),
    ("Memory.HeapMarkAlloc", true, &[("Address", T::U64), ("Flags", T::U16), ("Heap", T::U32)]),
    ("Memory.HeapUnmarkAlloc", true, &[("Address", T::U64), ("Heap", T::U32)]),
    ("Memory.UpdateAlloc", true, ADDRESSED),
    ("Memory.MemoryScopePtr", false, &[("Ptr", T::U64)]),
    (
        "$Trace.ThreadInfo",
        false,
        &[
            ("ThreadId", T::U32),
            ("SystemId", T::U32),
            ("SortHint", T::I32),
            ("Name", T::AnsiString),
        ],
    ),
    ("Diagnostics.Session2", false, &[("AppName", T::AnsiString), ("CommandLine", T::WideString)]),
    ("Misc.BookmarkSpec", false, &[("BookmarkPoint", T::U64), ("FormatString", T::AnsiString)]),
    (
        "Misc.Bookmark",
        true,
        &[("Cycle", T::U64), ("BookmarkPoint", T::U64), ("FormatArgs", T::U8Array)],
    ),
    (
        "Trace.ChannelAnnounce",
        false,
        &[("Id", T::U32), ("IsEnabled", T::U8), ("ReadOnly", T::U8), ("Name", T::AnsiString)],
    ),
    ("Trace.ChannelToggle", false, &[("Id", T::U32), ("IsEnabled", T::U8)]),
    ("Memledger.Alive", false, &[("Blocks", T::U64)]),
    ("Memledger.ScopeEntries", false, &[("Tag", T::I32), ("Entries", T::U64), ("Before", T::U8)]),
    ("Other.Scope", false, &[("Value", T::U32)]),
    ("Memory.CallstackSpec", false, &[("CallstackId", T::U32), ("Frames", T::U64Array)]),
    (
        "Memory.CallstackSpecDelta7bit",
        false,
        &[("CallstackId", T::U32), ("CompressedFrames", T::U8Array)],
    ),
    ("Memledger.CallstackEnd", false, &[("CallstackId", T::U32), ("Reason", T::U8)]),
    ("Memledger.Callstacks", false, &[("First", T::U32), ("Stacks", T::U8Array)]),
    ("Memledger.CallstackGuess", false, &[("CallstackId", T::U32), ("From", T::U8)]),
    ("Memledger.StackSampling", false, &[("MeanBytes", T::U64)]),
    (
        "Diagnostics.ModuleInit",
        false,
        &[("SymbolFormat", T::AnsiString), ("ModuleBaseShift", T::U8)],
    ),
    (
        "Diagnostics.ModuleLoad",
        false,
        &[("Name", T::WideString), ("Base", T::U64), ("Size", T::U32), ("ImageId", T::U8Array)],
    ),
    ("Diagnostics.ModuleUnload", false, &[("Base", T::U64)]),
    (
        "Memory.HeapSpec",
        false,
        &[("Id", T::U32), ("ParentId", T::U32), ("Flags", T::U16), ("Name", T::AnsiString)],
    ),
    (
        "Memledger.Untracked",
        false,
        &[("Reason", T::U8), ("Function", T::AnsiString), ("File", T::AnsiString)],
    ),
    (
        "Memledger.Rss",
        false,
        &[
            ("Cycle", T::U64),
            ("Bytes", T::U64),
            ("MostBytes", T::U64),
            ("LimitBytes", T::U64),
            ("Anonymous", T::U64),
        ],
    ),
    (
        "Memledger.ResidentPages",
        false,
        &[("Cycle", T::U64), ("Address", T::U64), ("PageBytes", T::U64), ("Bits", T::U8Array)],
    ),
    (
        "Memledger.ResidentMemory",
        false,
        &[
            ("Cycle", T::U64),
            ("OwnBytes", T::U64),
            ("Tracker", T::U64),
            ("Stacks", T::U64),
            ("Binaries", T::U64),
            ("Files", T::U64),
            ("Shared", T::U64),
            ("Other", T::U64),
            ("OtherAnonymous", T::U64),
            ("Starts", T::U64Array),
            ("Sizes", T::U64Array),
            ("Resident", T::U64Array),
        ],
    ),
    (
        "Memledger.Mapping",
        true,
        &[
            ("Address", T::U64),
            ("CallstackId", T::U32),
            ("Size", T::U64),
            ("RootHeap", T::U8),
            ("State", T::U8),
        ],
    ),
];

/// The type `name` with these fields.
pub fn event_type(uid: u16, name: &str, synced: bool, fields: &[(&'static str, T)]) -> EventType {
    let (logger, event) = name.split_once('.').expect("a name has two parts");
    let mut offset = 0;
    let mut all = Vec::new();
    for &(name, field_type) in fields {
        all.push(Field { name: name.into(), field_type, family: FieldFamily::Regular, offset });
        offset += field_type.fixed_size() as u16;
    }
    EventType {
        uid,
        logger: logger.to_owned().into(),
        event: event.to_owned().into(),
        flags: if synced { 0 } else { 4 },
        fields: all.into(),
    }
}

/// A value of a field.
#[derive(Clone, Copy)]
pub enum V<'a> {
    N(u64),
    S(&'a str),
    /// The bytes of an array.
    B(&'a [u8]),
}
use V::{B, N, S};

/// An analyzer and what it takes to feed it.
pub struct Feed<O = NoObserver> {
    pub analyzer: Analyzer<O>,
    types: Vec<EventType>,
    serial: u64,
    pub events: u64,
    /// The root heap of an address.
    pub heap_of: fn(u64) -> u64,
}

impl Feed {
    /// A trace of our writer: nanosecond cycles from 0.
    pub fn new() -> Self {
        Self::ours(Analyzer::new())
    }

    /// A trace of Unreal's writer.
    pub fn unreal() -> Self {
        Self::with(Analyzer::new(), true)
    }
}

impl<O: BlockObserver> Feed<O> {
    /// A trace of our writer: nanosecond cycles from 0.
    pub fn ours(analyzer: Analyzer<O>) -> Self {
        let mut feed = Self::with(analyzer, false);
        feed.emit("Memledger.Trace", 1, &[N(1), N(77), N(0), N(1)]);
        feed
    }

    pub fn with(analyzer: Analyzer<O>, unreal: bool) -> Self {
        let mut types = Vec::new();
        for (index, &(name, synced, fields)) in TYPES.iter().enumerate() {
            let fields = if unreal && name == "Memory.TagSpec" { SPEC } else { fields };
            types.push(event_type(16 + index as u16, name, synced, fields));
        }
        let mut feed = Self { analyzer, types, serial: 0, events: 0, heap_of: |_| 0 };
        for (index, event_type) in feed.types.iter().enumerate() {
            feed.analyzer.event_type(index, event_type);
        }
        feed.emit("$Trace.NewTrace", 1, &[N(0), N(1_000_000_000)]);
        feed
    }

    /// The type `name` has a further field from here on.
    pub fn add_field(&mut self, name: &str, field: (&'static str, T)) {
        self.add_fields(name, &[field]);
    }

    pub fn add_fields(&mut self, name: &str, more: &[(&'static str, T)]) {
        let index = self.types.len();
        let known = self.types.iter().find(|t| t.name() == name).expect("a known name");
        let fields = TYPES.iter().find(|(of, ..)| *of == name).expect("a known name").2;
        let fields = [fields, more].concat();
        self.types.push(event_type(16 + index as u16, name, known.is_synced(), &fields));
        self.analyzer.event_type(index, &self.types[index]);
    }

    pub fn emit(&mut self, name: &str, stream: u16, values: &[V<'_>]) {
        // The last type of a name has all its fields.
        let type_index = self.types.iter().rposition(|t| t.name() == name).expect("a known name");
        let event_type = &self.types[type_index];
        let mut fixed = Vec::new();
        let mut aux = Vec::new();
        for (index, (field, value)) in event_type.fields.iter().zip(values).enumerate() {
            match value {
                N(n) => fixed.extend_from_slice(&n.to_le_bytes()[..field.field_type.fixed_size()]),
                S(s) => aux.push((index as u8, s.as_bytes())),
                B(b) => aux.push((index as u8, b)),
            }
        }
        assert_eq!(fixed.len(), event_type.fixed_size(), "{name}");
        let serial = event_type.is_synced().then_some(self.serial);
        self.serial += u64::from(event_type.is_synced());
        // Those that say what a stack is have no number.
        self.events += u64::from(!name.contains(".Callstack"));
        let enters_scope =
            matches!(name, "Memory.MemoryScope" | "Memory.MemoryScopePtr" | "Other.Scope");
        let mut event = Event::new(event_type, type_index, stream, &fixed);
        (event.serial, event.enters_scope, event.aux) = (serial, enters_scope, &aux);
        self.analyzer.event(&event);
    }

    /// Events that are missing, as the reader says it.
    pub fn lose(&mut self, first: u64, count: u64) {
        let mut hole = Hole::default();
        (hole.first, hole.count) = (first, count);
        self.analyzer.hole(hole);
    }

    fn sized(&mut self, name: &str, stream: u16, address: u64, size: u64, stack: u32) {
        let size = size.min((1 << 35) - 1);
        let heap = (self.heap_of)(address);
        let values = [N(address), N(stack.into()), N(size >> 3), N(size & 7 | 4 << 3), N(heap)];
        self.emit(name, stream, &values);
    }

    pub fn alloc(&mut self, stream: u16, address: u64, size: u64) {
        self.alloc_at(stream, address, size, 0);
    }

    /// An allocation with the stack of this id.
    pub fn alloc_at(&mut self, stream: u16, address: u64, size: u64, stack: u32) {
        self.sized("Memory.Alloc", stream, address, size, stack);
    }

    pub fn free(&mut self, stream: u16, address: u64) {
        self.emit("Memory.Free", stream, &[N(address), N((self.heap_of)(address))]);
    }

    pub fn realloc_free(&mut self, stream: u16, address: u64) {
        self.emit("Memory.ReallocFree", stream, &[N(address), N((self.heap_of)(address))]);
    }

    pub fn realloc_alloc(&mut self, stream: u16, address: u64, size: u64) {
        self.realloc_alloc_at(stream, address, size, 0);
    }

    pub fn realloc_alloc_at(&mut self, stream: u16, address: u64, size: u64, stack: u32) {
        self.sized("Memory.ReallocAlloc", stream, address, size, stack);
    }

    /// The frames of a stack, innermost first.
    pub fn stack(&mut self, id: u32, frames: &[u64]) {
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.to_le_bytes()).collect();
        self.emit("Memory.CallstackSpec", 1, &[N(id.into()), B(&bytes)]);
    }

    /// Stacks that each depend on earlier ones.
    pub fn callstacks(&mut self, stacks: &[Callstack<'_>]) {
        let (mut writer, mut other) = (CallstackWriter::default(), Vec::new());
        stacks.iter().for_each(|stack| writer.add(stack, &mut other));
        let first = stacks.first().map_or(0, |stack| stack.id);
        self.emit("Memledger.Callstacks", 1, &[N(first.into()), B(writer.list())]);
    }

    pub fn module(&mut self, path: &str, base: u64, size: u64) {
        let wide: Vec<u8> = path.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let values = [B(&wide), N(base), N(size), B(path.as_bytes())];
        self.emit("Diagnostics.ModuleLoad", 1, &values);
    }

    pub fn realloc(&mut self, stream: u16, from: u64, to: u64, size: u64) {
        self.realloc_free(stream, from);
        self.realloc_alloc(stream, to, size);
    }

    pub fn marker(&mut self, time: u64) {
        self.emit("Memory.Marker", 2, &[N(time)]);
    }

    /// A bookmark whose site prints only `name`.
    pub fn bookmark(&mut self, cycle: u64, point: u64, name: &str) {
        self.emit("Misc.BookmarkSpec", 1, &[N(point), S(name)]);
        self.emit("Misc.Bookmark", 3, &[N(cycle), N(point), S("")]);
    }

    /// Reports `entries` entries of the scope `tag`.
    pub fn entries(&mut self, tag: i32, entries: u64, before: bool) {
        let tag = u64::from(tag as u32);
        let values = [N(tag), N(entries), N(before.into())];
        self.emit("Memledger.ScopeEntries", 1, &values);
    }

    /// A `TagSpec` of our writer.
    pub fn spec(&mut self, kind: u8, tag: i32, parent: i32, owner: i32, name: &str) {
        let wide = |value: i32| N(u64::from(value as u32));
        let values = [wide(tag), wide(parent), S(name), N(u64::from(kind)), wide(owner)];
        self.emit("Memory.TagSpec", 1, &values);
    }

    /// A `TagSpec` of Unreal's.
    pub fn tag(&mut self, tag: i32, parent: i32, name: &str) {
        let wide = |value: i32| N(u64::from(value as u32));
        self.emit("Memory.TagSpec", 1, &[wide(tag), wide(parent), S(name)]);
    }

    pub fn enter(&mut self, stream: u16, tag: i32) {
        self.emit("Memory.MemoryScope", stream, &[N(u64::from(tag as u32))]);
    }

    pub fn leave(&mut self, stream: u16) {
        self.analyzer.leave_scope(stream);
    }

    pub fn thread(&mut self, stream: u16, id: u32, name: &str) {
        let system = u64::from(id) + 1000;
        self.emit("Memledger.ThreadStart", stream, &[N(u64::from(id)), N(system), S(name)]);
    }

    /// Reports whether the channel `name` is recorded.
    pub fn channel(&mut self, name: &str, enabled: bool) {
        self.emit("Trace.ChannelAnnounce", 1, &[N(1), N(enabled.into()), N(1), S(name)]);
    }

    pub fn our_report(&mut self, time: u64) {
        let values = [N(self.serial), N(time), N(4096), N(0), N(0), N(0)];
        self.emit("Memledger.Report", 2, &values);
    }

    pub fn report(&mut self) -> Report {
        self.analyzer.flush();
        self.analyzer.report()
    }
}

/// The functions of `Names`, by offset.
pub struct Names(pub &'static [(u64, &'static [(&'static str, u32)])], pub Vec<u64>);

impl Symbolizer for Names {
    fn frames(&mut self, module: &Module, offset: u64) -> Vec<SourceFrame> {
        assert_eq!(module.path, "/bin/program");
        self.1.push(offset);
        let found = self.0.iter().find(|(at, _)| *at == offset).map_or(&[][..], |(_, all)| all);
        let file = |function: &str| format!("src/{}.rs", function.split(':').next().unwrap_or(""));
        let frame = |&(function, line): &(&str, u32)| {
            let line = (line > 0).then_some(line);
            SourceFrame::new(function, line.map(|_| file(function)), line)
        };
        found.iter().map(frame).collect()
    }
}

/// `main` calls `parse`, which calls itself and pushes; all is in one file.
pub const PROGRAM: &[(u64, &[(&str, u32)])] = &[
    (0x0f, &[("alloc::raw_vec::finish_grow", 10), ("alloc::vec::Vec<T,A>::push", 20)]),
    (0x1f, &[("demo::inlined", 7), ("demo::parse", 30)]),
    (0x2f, &[("demo::parse", 31)]),
    (0x3f, &[("demo::main", 40)]),
    (0x4f, &[("std::rt::lang_start", 50)]),
    (0x5f, &[("main", 0)]),
];

/// Two stacks of that program: `push` below a recursive `parse`, and a direct allocation in `main`.
pub fn program(analyzer: Analyzer) -> Feed {
    let mut feed = Feed::ours(analyzer);
    feed.thread(2, 1, "main");
    feed.module("/bin/program", 0x1000, 0x100);
    feed.stack(1, &[0x1010, 0x1020, 0x1030, 0x1040, 0x1050, 0x1060]);
    feed.stack(2, &[0x1040, 0x1050, 0x1060]);
    feed.alloc_at(2, 0x100, 1000, 1);
    feed.alloc_at(2, 0x200, 200, 1);
    feed.alloc_at(2, 0x300, 30, 2);
    feed.alloc(2, 0x400, 4);
    feed
}
