//! The samples of a profile, and the strings, functions, locations and mappings that they refer to.

use crate::buckets::{figures_of, notes, scope_frames};
use memledger_document::internal::{Calls, sort};
use memledger_document::{BucketRow, CodeRange, Figures, Frames, Module, Report};
use memledger_format::protobuf::Message;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The numbers of the fields that are used, by message.
mod field {
    pub mod profile {
        pub const SAMPLE_TYPE: u32 = 1;
        pub const SAMPLE: u32 = 2;
        pub const MAPPING: u32 = 3;
        pub const LOCATION: u32 = 4;
        pub const FUNCTION: u32 = 5;
        pub const STRING_TABLE: u32 = 6;
        pub const TIME_NANOS: u32 = 9;
        pub const DURATION_NANOS: u32 = 10;
        pub const PERIOD_TYPE: u32 = 11;
        pub const PERIOD: u32 = 12;
        pub const COMMENT: u32 = 13;
        pub const DEFAULT_SAMPLE_TYPE: u32 = 14;
    }
    pub mod value_type {
        pub const TYPE: u32 = 1;
        pub const UNIT: u32 = 2;
    }
    pub mod sample {
        pub const LOCATION_ID: u32 = 1;
        pub const VALUE: u32 = 2;
        pub const LABEL: u32 = 3;
    }
    pub mod label {
        pub const KEY: u32 = 1;
        pub const STR: u32 = 2;
    }
    pub mod mapping {
        pub const ID: u32 = 1;
        pub const MEMORY_START: u32 = 2;
        pub const MEMORY_LIMIT: u32 = 3;
        pub const FILE_OFFSET: u32 = 4;
        pub const FILENAME: u32 = 5;
        pub const BUILD_ID: u32 = 6;
        pub const HAS_FUNCTIONS: u32 = 7;
        pub const HAS_FILENAMES: u32 = 8;
        pub const HAS_LINE_NUMBERS: u32 = 9;
        pub const HAS_INLINE_FRAMES: u32 = 10;
    }
    pub mod location {
        pub const ID: u32 = 1;
        pub const MAPPING_ID: u32 = 2;
        pub const ADDRESS: u32 = 3;
        pub const LINE: u32 = 4;
    }
    pub mod line {
        pub const FUNCTION_ID: u32 = 1;
        pub const LINE: u32 = 2;
    }
    pub mod function {
        pub const ID: u32 = 1;
        pub const NAME: u32 = 2;
        pub const FILENAME: u32 = 4;
    }
}

/// A type of values: its name, its unit, and the figure.
type SampleType = (&'static str, &'static str, fn(&Figures) -> u64);

/// The types of a heap profile of Go, with the same names, so that its readers know them; then what
/// was live at the peak. A reallocation is an object as well: its new size is part of the space.
const SAMPLE_TYPES: [SampleType; 6] = [
    ("alloc_objects", "count", |row| row.allocations.wrapping_add(row.reallocations)),
    ("alloc_space", "bytes", |row| row.allocated_bytes),
    ("inuse_objects", "count", |row| row.live_blocks),
    ("inuse_space", "bytes", |row| row.live_bytes),
    ("peak_objects", "count", |row| row.live_blocks_at_peak),
    ("peak_space", "bytes", |row| row.live_bytes_at_peak),
];

/// The type that a reader shows first, as in Go.
const DEFAULT_SAMPLE_TYPE: &str = "inuse_space";

/// The values of a sample, in the order of the types.
type Values = [u64; SAMPLE_TYPES.len()];

/// The profile of a report, not compressed.
pub(super) fn encode(report: &Report, frames: Frames, taken_at: Option<SystemTime>) -> Vec<u8> {
    let mut encoder = Encoder::new(report, frames);
    encoder.header(taken_at);
    encoder.mappings();
    encoder.samples();
    encoder.finish()
}

/// The key of a sample: the locations from the innermost one outwards, and the values of the labels.
type SampleKey = (Rc<[u64]>, [u64; LABELS.len()]);

/// The keys of labels. A profile of one heap has no label for it.
const LABELS: [&str; 5] = ["scope", "group", "name", "thread", "heap"];

struct Encoder<'a> {
    report: &'a Report,
    calls: Calls<'a>,
    /// The profile, without its strings.
    profile: Vec<u8>,
    strings: Strings,
    /// By name and file: the id.
    functions: HashMap<(u64, u64), u64>,
    /// By the calls at an address that are shown: the id.
    locations: HashMap<Box<[u32]>, u64>,
    /// By function: the id of a location that has no address.
    labels: HashMap<u64, u64>,
    /// The number of locations of both kinds.
    location_count: u64,
    /// The part of a module that each mapping is of: the first has id 1.
    mappings: Vec<(usize, CodeRange)>,
}

impl<'a> Encoder<'a> {
    fn new(report: &'a Report, frames: Frames) -> Self {
        Self {
            report,
            calls: Calls::of(report, frames),
            profile: Vec::new(),
            strings: Strings::new(),
            functions: HashMap::new(),
            locations: HashMap::new(),
            labels: HashMap::new(),
            location_count: 0,
            mappings: Vec::new(),
        }
    }

    /// What all samples have in common.
    fn header(&mut self, taken_at: Option<SystemTime>) {
        use field::profile;
        for (name, unit, _) in SAMPLE_TYPES {
            self.value_type(profile::SAMPLE_TYPE, name, unit);
        }
        let default = self.strings.id(DEFAULT_SAMPLE_TYPE);
        self.profile().nonzero(profile::DEFAULT_SAMPLE_TYPE, default);
        let since = taken_at.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let nanoseconds = since.map_or(0, |since| clamp(since.as_nanos()));
        self.profile().nonzero(profile::TIME_NANOS, nanoseconds);
        let duration = clamp(self.report.trace.duration_ns);
        self.profile().nonzero(profile::DURATION_NANOS, duration);
        self.value_type(profile::PERIOD_TYPE, "space", "bytes");
        let period = self.report.stack_sampling_bytes.unwrap_or(1);
        self.profile().nonzero(profile::PERIOD, clamp(period));
        let program = self.report.trace.program.as_deref().unwrap_or("a program");
        let origin = format!("memledger {}: {program}", env!("CARGO_PKG_VERSION"));
        let comments = [origin].into_iter().chain(notes(self.report, taken_at.is_some()));
        let comments: Vec<_> = comments.map(|text| self.strings.id(&text)).collect();
        self.profile().packed(profile::COMMENT, comments);
    }

    fn profile(&mut self) -> Message<'_> {
        Message::new(&mut self.profile)
    }

    fn value_type(&mut self, field: u32, name: &str, unit: &str) {
        let (name, unit) = (self.strings.id(name), self.strings.id(unit));
        self.profile().nested(field, |message| {
            message.nonzero(field::value_type::TYPE, name);
            message.nonzero(field::value_type::UNIT, unit);
        });
    }

    /// Writes all mappings: the parts of each module with code, as the system maps them, or the module
    /// as a whole if its file is not known. Readers take the first one for the program.
    fn mappings(&mut self) {
        let modules = &self.report.modules;
        let mut order: Vec<_> = (0..modules.len()).collect();
        let program = self.report.trace.program.as_deref();
        sort::by_key(&mut order, |&module| Some(file_name(&modules[module].path)) != program);
        for module in order {
            let known = self.report.code.iter().filter(|(of, _)| *of == module);
            let mut parts: Vec<_> = known.map(|(_, range)| in_pages(*range)).collect();
            if parts.is_empty() {
                parts.push(CodeRange::new(0, modules[module].size, 0));
            }
            let known = self.known(module);
            for range in parts {
                self.mappings.push((module, range));
                self.mapping(self.mappings.len() as u64, &modules[module], range, known);
            }
        }
    }

    /// The id of the mapping of an address in a module; 0 if it is in no part with code.
    fn mapping_of(&self, module: usize, offset: u64) -> u64 {
        let is_there = |(of, range): &(usize, CodeRange)| {
            *of == module && offset.wrapping_sub(range.offset) < range.size
        };
        self.mappings.iter().position(is_there).map_or(0, |at| at as u64 + 1)
    }

    /// Whether functions, files and lines of a module's frames are known. NOTE: as in Go, a reader
    /// need not look for functions only if all of them are known. Not every function has a line.
    fn known(&self, module: usize) -> [bool; 3] {
        let [mut functions, mut files, mut lines] = [true, false, false];
        for frame in self.report.frames.iter().filter(|frame| frame.module == Some(module)) {
            functions &= !frame.functions.is_empty();
            files |= frame.functions.iter().any(|function| function.file.is_some());
            lines |= frame.functions.iter().any(|function| function.line.is_some());
        }
        [functions, files, lines]
    }

    fn mapping(
        &mut self,
        id: u64,
        module: &Module,
        range: CodeRange,
        [has_functions, has_files, has_lines]: [bool; 3],
    ) {
        use field::mapping;
        let start = module.base.saturating_add(range.offset);
        let path = self.strings.id(&module.path);
        let digits = module.build_id.iter().map(|byte| format!("{byte:02x}"));
        let build_id = self.strings.id(&digits.collect::<String>());
        self.profile().nested(field::profile::MAPPING, |message| {
            message.nonzero(mapping::ID, id);
            message.nonzero(mapping::MEMORY_START, start);
            message.nonzero(mapping::MEMORY_LIMIT, start.saturating_add(range.size));
            message.nonzero(mapping::FILE_OFFSET, range.file_offset);
            message.nonzero(mapping::FILENAME, path);
            message.nonzero(mapping::BUILD_ID, build_id);
            message.nonzero(mapping::HAS_FUNCTIONS, has_functions.into());
            message.nonzero(mapping::HAS_FILENAMES, has_files.into());
            message.nonzero(mapping::HAS_LINE_NUMBERS, has_lines.into());
            // What has lines says which functions are inlined there.
            message.nonzero(mapping::HAS_INLINE_FRAMES, has_lines.into());
        });
    }

    /// Writes all samples. Buckets that differ in nothing that is written are one sample.
    fn samples(&mut self) {
        let labels = Labels::of(self.report, &mut self.strings);
        let mut numbers = HashMap::<SampleKey, usize>::new();
        let mut samples = Vec::<(SampleKey, Values)>::new();
        // PERF: by stack: its locations. Many buckets can have the same stack.
        let mut stacks = vec![None; self.report.by_stack.len()];
        for bucket in &self.report.by_bucket {
            let Some(figures) = figures_of(self.report, bucket) else { continue };
            let values = SAMPLE_TYPES.map(|(_, _, of)| of(&figures));
            if values == Values::default() {
                continue;
            }
            let stack = bucket.stack.filter(|&stack| stack < stacks.len());
            let locations = match stack {
                Some(stack) => Rc::clone(stacks[stack].get_or_insert_with(|| self.stack(stack))),
                None => self.scopes(bucket),
            };
            let key = (locations, labels.values(bucket));
            let next = samples.len();
            let number = *numbers.entry(key.clone()).or_insert(next);
            match samples.get_mut(number) {
                Some((_, sums)) => {
                    sums.iter_mut()
                        .zip(values)
                        .for_each(|(sum, value)| *sum = sum.wrapping_add(value));
                }
                None => samples.push((key, values)),
            }
        }
        for ((locations, values_of_labels), values) in samples {
            self.profile().nested(field::profile::SAMPLE, |sample| {
                sample.packed(field::sample::LOCATION_ID, locations.iter().copied());
                sample.packed(field::sample::VALUE, values.map(clamp));
                let values = values_of_labels.into_iter().take(labels.count);
                for (key, value) in labels.keys.into_iter().zip(values) {
                    sample.nested(field::sample::LABEL, |label| {
                        label.nonzero(field::label::KEY, key);
                        label.nonzero(field::label::STR, value);
                    });
                }
            });
        }
    }

    /// The locations of a stack, innermost first.
    fn stack(&mut self, stack: usize) -> Rc<[u64]> {
        let shown: Vec<_> = self.calls.shown(stack).collect();
        // Calls at one address have rising numbers, from the innermost one outwards.
        let calls = &self.calls;
        let at_one_address = |inner: &u32, outer: &u32| {
            inner < outer && calls.frame_of(*inner) == calls.frame_of(*outer)
        };
        let groups: Vec<_> = shown.chunk_by(at_one_address).collect();
        groups.into_iter().map(|calls| self.location(calls)).collect()
    }

    /// The scopes of a bucket in a trace without stacks, and its name, in place of a stack.
    fn scopes(&mut self, bucket: &BucketRow) -> Rc<[u64]> {
        let names = scope_frames(self.report, bucket).rev();
        names.map(|name| self.label(&name)).collect()
    }

    /// The location of calls at one address, innermost first.
    fn location(&mut self, calls: &[u32]) -> u64 {
        use field::location;
        if let Some(&id) = self.locations.get(calls) {
            return id;
        }
        if let &[text] = calls
            && self.calls.is_text(text)
        {
            let text = self.calls.function(text).to_owned();
            return self.label(&text);
        }
        let mut bytes = Vec::new();
        let mut message = Message::new(&mut bytes);
        let frame = calls.first().and_then(|&call| self.calls.frame_of(call));
        let frame = frame.and_then(|frame| self.report.frames.get(frame));
        if let Some(frame) = frame {
            let module =
                frame.module.and_then(|number| Some((number, self.report.modules.get(number)?)));
            if let Some((number, _)) = module {
                message.nonzero(location::MAPPING_ID, self.mapping_of(number, frame.offset));
            }
            let base = module.map_or(0, |(_, module)| module.base);
            message.nonzero(location::ADDRESS, base.wrapping_add(frame.offset));
        }
        // NOTE: an address in a file without functions has no lines, so that a reader may look for them.
        if frame.is_some_and(|frame| !frame.functions.is_empty() || frame.module.is_none()) {
            for &call in calls {
                let call = self.calls.get(call);
                let name = self.strings.id(call.name_of_function());
                let file = call.source().map_or(0, |(file, _)| self.strings.id(file));
                let number = call.source().map_or(0, |(_, line)| line);
                let function = self.function(name, file);
                line(&mut message, function, number);
            }
        }
        let id = self.add_location(&bytes);
        self.locations.insert(calls.into(), id);
        id
    }

    /// The location of a name that is no function and has no address.
    fn label(&mut self, name: &str) -> u64 {
        let name = self.strings.id(name);
        if let Some(&id) = self.labels.get(&name) {
            return id;
        }
        let function = self.function(name, 0);
        let mut bytes = Vec::new();
        line(&mut Message::new(&mut bytes), function, 0);
        let id = self.add_location(&bytes);
        self.labels.insert(name, id);
        id
    }

    fn add_location(&mut self, fields: &[u8]) -> u64 {
        self.location_count += 1;
        let id = self.location_count;
        self.profile().nested(field::profile::LOCATION, |message| {
            message.fields(fields);
            message.nonzero(field::location::ID, id);
        });
        id
    }

    /// A function, which is written if it is new. NOTE: without `system_name`: if that were the same as
    /// the name, pprof would take the parameters of types out of both.
    fn function(&mut self, name: u64, file: u64) -> u64 {
        use field::function;
        let next = self.functions.len() as u64 + 1;
        *self.functions.entry((name, file)).or_insert_with(|| {
            Message::new(&mut self.profile).nested(field::profile::FUNCTION, |message| {
                message.nonzero(function::ID, next);
                message.nonzero(function::NAME, name);
                message.nonzero(function::FILENAME, file);
            });
            next
        })
    }

    fn finish(mut self) -> Vec<u8> {
        let mut profile = Message::new(&mut self.profile);
        for text in &self.strings.all {
            profile.text(field::profile::STRING_TABLE, text);
        }
        self.profile
    }
}

fn line(location: &mut Message<'_>, function: u64, number: u32) {
    location.nested(field::location::LINE, |line| {
        line.nonzero(field::line::FUNCTION_ID, function);
        line.nonzero(field::line::LINE, number.into());
    });
}

/// Whole pages: the system maps no others.
fn in_pages(range: CodeRange) -> CodeRange {
    const PAGE: u64 = 4096;
    let before = range.offset % PAGE;
    let size = range.size.saturating_add(before).checked_next_multiple_of(PAGE);
    let file_offset = range.file_offset.saturating_sub(before);
    CodeRange::new(range.offset - before, size.unwrap_or(u64::MAX), file_offset)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A number of the format, which has signs.
fn clamp(value: impl TryInto<i64>) -> u64 {
    value.try_into().unwrap_or(i64::MAX).unsigned_abs()
}

/// The values of the labels: ids of strings.
struct Labels {
    keys: [u64; LABELS.len()],
    /// How many of them samples have.
    count: usize,
    scopes: Vec<u64>,
    groups_and_names: Vec<[u64; 2]>,
    threads: Vec<u64>,
    heaps: Vec<u64>,
}

impl Labels {
    fn of(report: &Report, strings: &mut Strings) -> Self {
        let has_heaps = report.by_heap.len() > 1;
        let count = if has_heaps { LABELS.len() } else { LABELS.len() - 1 };
        let mut keys = [0; LABELS.len()];
        keys.iter_mut().zip(LABELS).take(count).for_each(|(id, key)| *id = strings.id(key));
        Self {
            keys,
            count,
            scopes: report.by_scope.iter().map(|row| strings.id(&row.path.join(" > "))).collect(),
            groups_and_names: (report.by_name.iter())
                .map(|row| [strings.id(&row.group.join(" > ")), strings.id(&row.name)])
                .collect(),
            threads: (report.by_thread.iter())
                .map(|row| match row.name.as_str() {
                    "" => strings.id(&format!("thread {}", row.id)),
                    name => strings.id(name),
                })
                .collect(),
            heaps: (report.by_heap.iter().filter(|_| has_heaps))
                .map(|row| strings.id(&row.name))
                .collect(),
        }
    }

    fn values(&self, bucket: &BucketRow) -> [u64; LABELS.len()] {
        let [group, name] = self.groups_and_names.get(bucket.name).copied().unwrap_or_default();
        let of = |ids: &[u64], row: usize| ids.get(row).copied().unwrap_or(0);
        let (scope, thread) = (of(&self.scopes, bucket.scope), of(&self.threads, bucket.thread));
        [scope, group, name, thread, of(&self.heaps, bucket.heap)]
    }
}

/// The table of strings. The first is empty, so that 0 is no string.
struct Strings {
    ids: HashMap<String, u64>,
    all: Vec<String>,
}

impl Strings {
    fn new() -> Self {
        Self { ids: HashMap::from([(String::new(), 0)]), all: vec![String::new()] }
    }

    fn id(&mut self, text: &str) -> u64 {
        if let Some(&id) = self.ids.get(text) {
            return id;
        }
        let id = self.all.len() as u64;
        self.all.push(text.to_owned());
        self.ids.insert(text.to_owned(), id);
        id
    }
}
