//! `memledger export --to firefox`: a processed profile of the Firefox Profiler,
//! <https://profiler.firefox.com>.
//!
//! Allocations and frees are samples with weights: plus and minus the bytes. The profiler cannot open as many
//! as a trace has. So blocks of one bucket that are allocated at one time and freed at one time are one
//! sample and its opposite, under a made-up address: a trace has a time each 10 ms or so. Sums stay what they
//! are. If there are still too many, times are rounded.
//!
//! NOTE: written here, because the crate `fxprof-processed-profile` 0.8 has neither lines nor inlined
//! functions in its frames. The version is the one that it writes. And in the command, because `serde_json`
//! implements `PartialEq` for types of std: a program with the tracker would see that
//! (`pretty.rs` of `memledger-export`).

use super::args::ExportArgs;
use super::pass::{outcome, pass, symbolized};
use crate::commands::output::{unwritable, write_to};
use crate::error::{CliError, Outcome};
use crate::terminal::note;
use memledger_analysis::{BlockChange, BlockEvent, BlockObserver, Frame, Report, ThreadRow};
use memledger_export::parts::Interner;
use memledger_export::tools::frames::{self, ShownFrame, shown};
use rustc_hash::{FxBuildHasher, FxHashMap};
use serde_json::json;
use std::io::{self, BufWriter, Write};

/// `preprocessedProfileVersion`. The profiler reads all earlier versions than its own.
const VERSION: u32 = 55;

/// The most samples of allocations: a file of 40 to 80 MB.
const MAX_GROUPS: usize = 1 << 19;

/// When a block that is still live is freed.
const NEVER: u64 = u64::MAX;

/// Categories of frames.
const CODE: u32 = 1;
const SCOPE: u32 = 2;

/// Reads the trace and writes it to the file of `-o`, or to `out`.
pub(super) fn run(args: &ExportArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    write_to(&args.output, out, |out| {
        let (analyzer, summary) = pass(&args.trace, Allocations::default(), |_| false)?;
        let (report, allocations) = symbolized(analyzer, &args.symbols);
        if let Some(ms) = allocations.rounded_to_ms() {
            note(&format!(
                "the trace has more allocations than the profiler opens: times in the profile are \
                 rounded down to {ms} ms, and sums are exact"
            ));
        }
        allocations.write(&report, out).map_err(|error| unwritable(&args.output, error))?;
        Ok(outcome(&args.trace, &report, &summary))
    })
}

/// A block since its allocation or its last reallocation.
#[derive(Clone, Copy)]
struct Span {
    since_ns: u64,
    bytes: u64,
    bucket: u32,
}

/// Blocks of one bucket, allocated at one time and freed at one time: their bytes.
type Grouped = FxHashMap<(u32, u64, u64), u64>;

/// Collects blocks in groups. The memory is that of the live blocks and of 524,288 groups.
struct Allocations {
    live: FxHashMap<(u64, u8), Span>,
    grouped: Grouped,
    most: usize,
    rounded_to: u64,
    /// Changes of the live bytes: when, by how much, by how many events.
    counter: Vec<(u64, i64, u32)>,
}

impl Default for Allocations {
    fn default() -> Self {
        Self::at_most(MAX_GROUPS)
    }
}

impl Allocations {
    fn at_most(most: usize) -> Self {
        let (live, grouped) = (FxHashMap::default(), FxHashMap::default());
        Self { live, grouped, most, rounded_to: 1, counter: Vec::new() }
    }

    /// What times are rounded down to, in milliseconds, if the trace has more allocations than the profiler
    /// opens. Sums are exact.
    fn rounded_to_ms(&self) -> Option<u64> {
        (self.rounded_to > 1).then_some(self.rounded_to / 1_000_000)
    }

    /// Writes the profile. `report` is of the same pass, with
    /// [buckets](memledger_analysis::Analyzer::by_bucket).
    fn write(self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, out);
        write(report, self, &mut out).and_then(|()| out.flush())
    }

    fn count(&mut self, at_ns: u64, change: i64) {
        match self.counter.last_mut() {
            Some((last, sum, events)) if *last == at_ns => {
                *sum = sum.wrapping_add(change);
                *events += 1;
            }
            _ => self.counter.push((at_ns, change, 1)),
        }
    }

    fn begin(&mut self, event: &BlockEvent) {
        let span = Span { since_ns: event.at_ns, bytes: event.bytes, bucket: event.bucket };
        self.live.insert((event.address, event.heap), span);
        self.count(event.at_ns, event.bytes as i64);
    }

    fn end(&mut self, event: &BlockEvent) {
        let Some(span) = self.live.remove(&(event.address, event.heap)) else { return };
        self.count(event.at_ns, -(span.bytes as i64));
        self.add(span, event.at_ns);
    }

    fn add(&mut self, span: Span, until_ns: u64) {
        add(&mut self.grouped, (span.bucket, span.since_ns, until_ns), span.bytes, self.rounded_to);
        // Rounded to the time of a whole trace, there are no fewer.
        while self.grouped.len() > self.most && self.rounded_to < 1 << 50 {
            self.rounded_to = (self.rounded_to * 2).max(10_000_000);
            let mut rounded = Grouped::default();
            for (group, bytes) in std::mem::take(&mut self.grouped) {
                add(&mut rounded, group, bytes, self.rounded_to);
            }
            self.grouped = rounded;
        }
    }
}

fn add(grouped: &mut Grouped, group: (u32, u64, u64), bytes: u64, round_to: u64) {
    let (bucket, since, until) = group;
    let round = |time: u64| if time == NEVER { NEVER } else { time - time % round_to };
    let sum = grouped.entry((bucket, round(since), round(until))).or_default();
    *sum = sum.wrapping_add(bytes);
}

impl BlockObserver for Allocations {
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        let place = (event.address, event.heap);
        match change {
            BlockChange::Allocated | BlockChange::Reallocated { .. } | BlockChange::Returned => {
                self.begin(event);
            }
            BlockChange::Freed { .. } | BlockChange::ReallocBegun | BlockChange::Left => {
                self.end(event);
            }
            BlockChange::Corrected { bytes_before, is_live } => {
                let more = event.bytes.wrapping_sub(bytes_before);
                if let Some(span) = self.live.get_mut(&place).filter(|_| is_live) {
                    span.bytes = event.bytes;
                    self.count(event.at_ns, more as i64);
                } else {
                    let (since_ns, bucket) = (event.at_ns, event.bucket);
                    self.add(Span { since_ns, bytes: more, bucket }, event.at_ns);
                }
            }
            // It counts under its last tag from the start: a sample has no other.
            BlockChange::Moved { .. } => {
                if let Some(span) = self.live.get_mut(&place) {
                    span.bucket = event.bucket;
                }
            }
            BlockChange::ReallocFailed { .. } => {}
        }
    }
}

/// Writes an object of JSON.
macro_rules! object {
    ($out:expr, $($field:tt)+) => {{
        write!($out, "{{")?;
        fields!($out, $($field)+);
        write!($out, "}}")?;
    }};
}

/// Writes fields of an object.
macro_rules! fields {
    ($out:expr, $key:literal: $value:expr $(, $($more:tt)*)?) => {{
        write!($out, "\"{}\":", $key)?;
        serde_json::to_writer(&mut *$out, &$value)?;
        $(more_fields!($out, $($more)*);)?
    }};
}

/// Writes fields after others.
macro_rules! more_fields {
    ($out:expr,) => {};
    ($out:expr, $($more:tt)+) => {{
        write!($out, ",")?;
        fields!($out, $($more)+);
    }};
}

/// A sample: of which group, and whether it is the free.
struct Sample {
    at_ns: u64,
    is_free: bool,
    address: usize,
    bytes: i64,
    bucket: u32,
}

fn write(report: &Report, mut groups: Allocations, out: &mut impl Write) -> io::Result<()> {
    for (_, span) in std::mem::take(&mut groups.live) {
        groups.add(span, NEVER);
    }
    let mut grouped: Vec<_> = std::mem::take(&mut groups.grouped).into_iter().collect();
    grouped.sort_unstable();
    let mut by_thread: Vec<Vec<Sample>> = report.by_thread.iter().map(|_| Vec::new()).collect();
    for (number, ((bucket, since, until), bytes)) in grouped.into_iter().enumerate() {
        let samples = &mut by_thread[report.by_bucket[bucket as usize].thread];
        let (address, bytes) = (number + 1, bytes as i64);
        samples.push(Sample { at_ns: since, is_free: false, address, bytes, bucket });
        if until != NEVER {
            samples.push(Sample { at_ns: until, is_free: true, address, bytes: -bytes, bucket });
        }
    }
    let mut threads: Vec<_> = report.by_thread.iter().zip(by_thread).collect();
    threads.sort_by_key(|(thread, _)| thread.id);
    write!(out, "{{\"meta\":")?;
    meta(report, out)?;
    write!(out, ",\"libs\":")?;
    serde_json::to_writer(&mut *out, &libs(report))?;
    write!(out, ",\"threads\":[")?;
    for (number, (thread, samples)) in threads.iter_mut().enumerate() {
        write!(out, "{}", if number > 0 { "," } else { "" })?;
        samples.sort_by_key(|sample| (sample.at_ns, sample.is_free));
        write_thread(report, thread, number == 0, samples, out)?;
    }
    let mut before = 0;
    let deltas = groups.counter.iter().map(|&(at, ..)| ms(at - std::mem::replace(&mut before, at)));
    let counter = json!([{
        "category": "Memory", "name": "malloc", "description": "Bytes that are live",
        "mainThreadIndex": 0, "pid": pid(report),
        "samples": {
            "length": groups.counter.len(),
            "timeDeltas": deltas.collect::<Vec<_>>(),
            "count": groups.counter.iter().map(|sample| sample.1).collect::<Vec<_>>(),
            "number": groups.counter.iter().map(|sample| sample.2).collect::<Vec<_>>(),
        },
    }]);
    let counters = if threads.is_empty() { json!([]) } else { counter };
    write!(out, "],\"pages\":[],\"profilerOverhead\":[],\"counters\":{counters}}}")
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn pid(report: &Report) -> String {
    report.trace.pid.unwrap_or(0).to_string()
}

fn program(report: &Report) -> &str {
    report.trace.program.as_deref().unwrap_or("unknown program")
}

fn meta(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let category = |name: &str, color: &str| json!({ "name": name, "color": color, "subcategories": ["Other"] });
    object!(out,
        "categories": [category("Other", "grey"), category("Code", "blue"), category("Scope", "green")],
        "debug": false,
        "extensions": json!({ "length": 0, "baseURL": [], "id": [], "name": [] }),
        "interval": 10,
        "preprocessedProfileVersion": VERSION,
        "version": 24,
        "processType": 0,
        "product": program(report),
        "importedFrom": "memledger",
        // When the program started is not in the trace.
        "startTime": 0,
        "symbolicated": true,
        "sampleUnits": json!({ "time": "ms", "eventDelay": "ms", "threadCPUDelta": "µs" }),
        "pausedRanges": json!([]),
        "usesOnlyOneStackType": true,
        "sourceCodeIsNotOnSearchfox": true,
        "extra": json!([{ "label": "Trace", "entries": [
            { "label": "Stacks", "format": "string", "value": match report.stack_sampling_bytes {
                Some(mean) => format!("of a sample: one each {mean} bytes on average; bytes are of all blocks"),
                None => "of all blocks that have one".to_owned(),
            }},
        ]}]),
        "markerSchema": json!([{
            "name": "Bookmark",
            "display": ["marker-chart", "marker-table", "timeline-overview"],
            "chartLabel": "{marker.data.text}", "tableLabel": "{marker.data.text}",
            "fields": [{ "key": "text", "label": "Name", "format": "string", "searchable": true }],
        }]),
    );
    Ok(())
}

/// The files that frames are in.
fn libs(report: &Report) -> serde_json::Value {
    let lib = |module: &memledger_analysis::Module| {
        let name = module.path.rsplit('/').next().unwrap_or(&module.path);
        let id = &module.build_id;
        let code: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        json!({
            "name": name, "path": module.path, "debugName": name, "debugPath": module.path,
            "breakpadId": breakpad_id(id), "codeId": if id.is_empty() { None } else { Some(code) },
            "arch": null,
        })
    };
    report.modules.iter().map(lib).collect()
}

/// The first 16 bytes of a build id as a GUID, whose first three numbers are in little endian; then an age.
fn breakpad_id(build_id: &[u8]) -> String {
    const ORDER: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let byte = |&at: &usize| format!("{:02X}", build_id.get(at).copied().unwrap_or(0));
    ORDER.iter().map(byte).collect::<String>() + "0"
}

/// The tables that samples of one thread refer to.
#[derive(Default)]
struct Tables {
    strings: Interner<String, FxBuildHasher>,
    /// The index of the library.
    resources: Interner<usize, FxBuildHasher>,
    /// Its name, its resource, its file.
    funcs: Interner<(u32, Option<u32>, Option<u32>), FxBuildHasher>,
    frames: Interner<FrameRow, FxBuildHasher>,
    /// The caller's stack, and a frame.
    stacks: Interner<(Option<u32>, u32), FxBuildHasher>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FrameRow {
    address: Option<u64>,
    inline_depth: u32,
    category: u32,
    func: u32,
    line: Option<u32>,
}

impl Tables {
    /// The number of a stack, whose frames are innermost first.
    fn stack(&mut self, report: &Report, shown: &[ShownFrame<'_>]) -> Option<u32> {
        let mut stack = None;
        for frame in shown.iter().rev() {
            match frame {
                ShownFrame::Text(text) => {
                    let name = self.strings.number(text.clone());
                    let func = self.funcs.number((name, None, None));
                    let (address, line) = (None, None);
                    let row = FrameRow { address, inline_depth: 0, category: SCOPE, func, line };
                    stack = self.push(stack, row);
                }
                ShownFrame::Frame(frame) => stack = self.code(report, frame, stack),
            }
        }
        stack
    }

    fn push(&mut self, stack: Option<u32>, row: FrameRow) -> Option<u32> {
        let frame = self.frames.number(row);
        Some(self.stacks.number((stack, frame)))
    }

    fn code(&mut self, report: &Report, frame: &Frame, mut stack: Option<u32>) -> Option<u32> {
        let resource = frame.module.map(|module| self.resources.number(module));
        let address = frame.module.map(|_| frame.offset);
        for (depth, found) in frames::functions(report, frame).iter().rev().enumerate() {
            let name = self.strings.number(found.function.clone());
            let file = found.file.as_ref().map(|file| self.strings.number(file.clone()));
            let func = self.funcs.number((name, resource, file));
            let (inline_depth, line) = (depth as u32, found.line);
            stack =
                self.push(stack, FrameRow { address, inline_depth, category: CODE, func, line });
        }
        stack
    }

    /// Writes all but the strings, of which one is added for each library.
    fn write(&mut self, report: &Report, out: &mut impl Write) -> io::Result<()> {
        let Tables { strings, resources, funcs, frames, stacks } = self;
        write!(out, ",\"frameTable\":")?;
        object!(out,
            "length": frames.all.len(),
            "address": column(frames, |row| row.address.map_or(-1, |address| address as i64)),
            "inlineDepth": column(frames, |row| row.inline_depth),
            "category": column(frames, |row| row.category),
            "subcategory": vec![0; frames.all.len()],
            "func": column(frames, |row| row.func),
            "nativeSymbol": nulls(frames.all.len()),
            "innerWindowID": vec![0; frames.all.len()],
            "line": column(frames, |row| row.line),
            "column": nulls(frames.all.len()),
        );
        write!(out, ",\"funcTable\":")?;
        object!(out,
            "length": funcs.all.len(),
            "name": column(funcs, |row| row.0),
            "isJS": vec![false; funcs.all.len()],
            "relevantForJS": vec![false; funcs.all.len()],
            "resource": column(funcs, |row| row.1.map_or(-1, i64::from)),
            "fileName": column(funcs, |row| row.2),
            "lineNumber": nulls(funcs.all.len()),
            "columnNumber": nulls(funcs.all.len()),
        );
        let lib_name = |&lib: &usize| {
            let path = &report.modules[lib].path;
            strings.number(path.rsplit('/').next().unwrap_or(path).to_owned())
        };
        let lib_names: Vec<_> = resources.all.iter().map(lib_name).collect();
        write!(out, ",\"resourceTable\":")?;
        object!(out,
            "length": resources.all.len(),
            "lib": resources.all,
            "name": lib_names,
            "host": nulls(resources.all.len()),
            "type": vec![1; resources.all.len()],
        );
        write!(out, ",\"stackTable\":")?;
        object!(out,
            "length": stacks.all.len(),
            "prefix": column(stacks, |row| row.0),
            "frame": column(stacks, |row| row.1),
        );
        Ok(())
    }
}

/// A column of which nothing is known.
fn nulls(length: usize) -> Vec<()> {
    vec![(); length]
}

fn column<T, U>(rows: &Interner<T, FxBuildHasher>, of: impl FnMut(&T) -> U) -> Vec<U> {
    rows.all.iter().map(of).collect()
}

fn write_thread(
    report: &Report,
    thread: &ThreadRow,
    is_main: bool,
    samples: &[Sample],
    out: &mut impl Write,
) -> io::Result<()> {
    let mut tables = Tables::default();
    let mut stacks = FxHashMap::default();
    for sample in samples {
        stacks.entry(sample.bucket).or_insert_with(|| {
            let bucket = &report.by_bucket[sample.bucket as usize];
            tables.stack(report, &shown(report, bucket, true))
        });
    }
    let bookmarks: &[_] = if is_main { &report.bookmarks } else { &[] };
    let marker_name = tables.strings.number("Bookmark".to_owned());
    let name =
        if thread.name.is_empty() { format!("thread {}", thread.id) } else { thread.name.clone() };

    write!(out, "{{\"nativeAllocations\":")?;
    object!(out,
        "time": samples.iter().map(|sample| ms(sample.at_ns)).collect::<Vec<_>>(),
        "weight": samples.iter().map(|sample| sample.bytes).collect::<Vec<_>>(),
        "weightType": "bytes",
        "stack": samples.iter().map(|sample| stacks[&sample.bucket]).collect::<Vec<_>>(),
        "memoryAddress": samples.iter().map(|sample| sample.address).collect::<Vec<_>>(),
        "threadId": vec![0; samples.len()],
        "length": samples.len(),
    );
    tables.write(report, out)?;
    more_fields!(out,
        "stringArray": tables.strings.all,
        "markers": json!({
            "length": bookmarks.len(),
            "category": vec![0; bookmarks.len()],
            "data": bookmarks.iter().map(|bookmark| json!({ "type": "Bookmark", "text": bookmark.name }))
                .collect::<Vec<_>>(),
            "endTime": nulls(bookmarks.len()),
            "name": vec![marker_name; bookmarks.len()],
            "phase": vec![0; bookmarks.len()],
            "startTime": bookmarks.iter().map(|bookmark| ms(bookmark.at_ns)).collect::<Vec<_>>(),
        }),
        "nativeSymbols": json!({ "length": 0, "address": [], "functionSize": [], "libIndex": [], "name": [] }),
        "samples": json!({ "length": 0, "time": [], "stack": [], "weight": null, "weightType": "samples" }),
        "name": name,
        "isMainThread": is_main,
        "pausedRanges": json!([]),
        "pid": pid(report),
        "tid": thread.system_id.unwrap_or(thread.id),
        "processName": program(report),
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": ms(report.trace.duration_ns),
        "registerTime": 0,
        "unregisterTime": json!(null),
        "showMarkersInTimeline": is_main,
    );
    write!(out, "}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_groups_are_rounded_and_their_sums_stay() {
        let mut groups = Allocations::at_most(8);
        let mut event = BlockEvent::default();
        let (mut allocated, mut live) = (0, 0);
        for number in 0..1_000_u64 {
            (event.address, event.bytes) = (16 * number, number + 1);
            event.at_ns = number * 10_000_000;
            event.bucket = number as u32 % 2;
            groups.observe(&event, BlockChange::Allocated);
            allocated += event.bytes;
            live += event.bytes;
            if number % 3 == 0 {
                groups.observe(&event, BlockChange::ReallocBegun);
                live -= event.bytes;
            }
        }
        assert!(groups.grouped.len() <= 8 && groups.rounded_to > 10_000_000);
        for (_, span) in std::mem::take(&mut groups.live) {
            groups.add(span, NEVER);
        }
        assert!(groups.grouped.len() <= 8, "{}", groups.grouped.len());
        assert!(groups.grouped.keys().all(|group| group.1 % groups.rounded_to == 0));
        assert_eq!(groups.grouped.values().sum::<u64>(), allocated);
        let never = groups.grouped.iter().filter(|((.., until), _)| *until == NEVER);
        assert_eq!(never.map(|(_, bytes)| bytes).sum::<u64>(), live);
        assert_eq!(groups.counter.iter().map(|sample| sample.1).sum::<i64>(), live as i64);
    }
}
