//! What `heaptrack_interpret` writes, which `heaptrack_print` and
//! `heaptrack_gui` read.
//!
//! The format is lines of text with hexadecimal numbers. Lines define strings (`s`), instruction pointers
//! with their functions (`i`), traces as nodes of a tree (`t`), and sizes with a trace (`a`). Each is
//! referred to by its number, which counts from 1, but from 0 for sizes; 0 is none. After them are the
//! allocations (`+`), the frees (`-`), the time in milliseconds (`c`) and the resident pages at that time
//! (`R`).

use super::frames::{self, ShownFrame, shown};
use crate::interner::Interner;
use memledger_analysis::{BlockChange, BlockEvent, BlockObserver};
use memledger_document::{Frame, Report, RssPoint};
use rustc_hash::FxBuildHasher;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::iter::Peekable;
use std::slice::Iter;

/// Version 1.4 of heaptrack, version 3 of its files.
const VERSION: &str = "v 10400 3";

/// The unit of resident memory in the file.
const PAGE: u64 = 4096;

/// What an entry of the spool is, in its lowest two bits.
const ALLOCATED: u32 = 0;
const FREED: u32 = 1;
/// The rest is a time in milliseconds.
const TIME: u32 = 2;
/// A block counts in another bucket: the size there is the next entry.
const MOVED: u32 = 3;

/// The events in the order of the trace, in a temporary file: what they refer to is written before them, but
/// known only after the last. 4 bytes for each event; the memory is that of the different sizes in each
/// bucket.
///
/// ```
/// use memledger_analysis::Analyzer;
/// use memledger_analysis::read::read;
/// use memledger_export::tools::heaptrack::Spool;
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/memledger-small.utrace");
/// let mut analyzer = Analyzer::observing(Spool::new()?).by_bucket();
/// read(std::fs::File::open(path)?, &mut analyzer)?;
/// let report = analyzer.report();
/// let mut file = Vec::new();
/// analyzer.into_observer().write(&report, &mut file)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Spool {
    file: BufWriter<File>,
    sizes: Interner<(u64, u32), FxBuildHasher>,
    at_ms: u32,
    error: Option<io::Error>,
}

impl std::fmt::Debug for Spool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spool").field("error", &self.error).finish_non_exhaustive()
    }
}

impl Spool {
    /// With an empty temporary file.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn new() -> io::Result<Self> {
        let file = BufWriter::new(tempfile::tempfile()?);
        Ok(Self { file, sizes: Interner::default(), at_ms: 0, error: None })
    }

    fn put(&mut self, entry: u32) {
        if self.error.is_none() {
            self.error = self.file.write_all(&entry.to_le_bytes()).err();
        }
    }

    /// An allocation or a free of a block of this size in this bucket.
    fn put_size(&mut self, kind: u32, bytes: u64, bucket: u32) {
        match self.sizes.number((bytes, bucket)) {
            number if number < 1 << 30 => self.put(number << 2 | kind),
            _ => {
                let text = "a file for heaptrack has at most 2^30 different sizes of its traces";
                self.error.get_or_insert_with(|| io::Error::other(text));
            }
        }
    }

    /// Whether an error has occurred, so that the rest of the trace need not be read. [`write`](Self::write)
    /// gives it.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Writes the file. `report` is of the same pass, with
    /// [buckets](memledger_analysis::Analyzer::by_bucket).
    ///
    /// # Errors
    /// Those of the temporary file and of `out`; more than 2^30 different sizes.
    pub fn write(mut self, report: &Report, out: &mut dyn Write) -> io::Result<()> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let mut out = BufWriter::with_capacity(1 << 16, out);
        let mut writer = Definitions::new(report, &mut out);
        writer.head()?;
        let traces: Vec<u32> = (report.by_bucket.iter())
            .map(|bucket| writer.trace(&shown(report, bucket, false)))
            .collect::<io::Result<_>>()?;
        // Blocks of one size with one trace are one, whatever their bucket.
        let mut infos = Interner::<_, FxBuildHasher>::default();
        let mut info_of = Vec::with_capacity(self.sizes.all.len());
        for &(bytes, bucket) in &self.sizes.all {
            let before = infos.all.len();
            let trace = traces[bucket as usize];
            info_of.push(infos.number((bytes, trace)));
            if infos.all.len() > before {
                writeln!(writer.out, "a {bytes:x} {trace:x}")?;
            }
        }
        self.file.flush()?;
        self.file.rewind()?;
        let mut spool = BufReader::with_capacity(1 << 16, self.file.get_mut());
        let mut resident = Resident::of(report);
        let mut entry = [0; 4];
        let mut next = || -> io::Result<Option<u32>> {
            match spool.read_exact(&mut entry) {
                Ok(()) => Ok(Some(u32::from_le_bytes(entry))),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
                Err(error) => Err(error),
            }
        };
        while let Some(entry) = next()? {
            let (kind, number) = (entry & 3, entry >> 2);
            match kind {
                ALLOCATED => writeln!(out, "+ {:x}", info_of[number as usize])?,
                FREED => writeln!(out, "- {:x}", info_of[number as usize])?,
                MOVED => {
                    let to = next()?.unwrap_or(entry) >> 2;
                    let [from, to] = [number, to].map(|number| info_of[number as usize]);
                    if from != to {
                        write!(out, "- {from:x}\n+ {to:x}\n")?;
                    }
                }
                _ => {
                    resident.until(number.into(), &mut out)?;
                    writeln!(out, "c {number:x}")?;
                }
            }
        }
        let end = report.trace.duration_ns / 1_000_000;
        resident.until(u64::MAX, &mut out)?;
        writeln!(out, "c {end:x}")?;
        out.flush()
    }
}

/// The resident memory over time, which is not among the events.
struct Resident<'a> {
    points: Peekable<Iter<'a, RssPoint>>,
    /// The largest of these points, and the largest of all.
    most: (u64, u64),
}

impl<'a> Resident<'a> {
    fn of(report: &'a Report) -> Self {
        let rss = report.rss.as_ref();
        let points = rss.map_or(&[][..], |rss| &rss.timeline);
        let largest = points.iter().map(|point| point.bytes).max().unwrap_or(0);
        let most = (largest, rss.map_or(0, |rss| rss.most_bytes));
        Self { points: points.iter().peekable(), most }
    }

    /// Writes the points before this time.
    fn until(&mut self, at_ms: u64, out: &mut dyn Write) -> io::Result<()> {
        while let Some(point) = self.points.next_if(|point| point.at_ns / 1_000_000 < at_ms) {
            // The kernel's maximum can be between two points.
            let (largest, most) = self.most;
            let bytes = if point.bytes == largest { most } else { point.bytes };
            write!(out, "c {:x}\nR {:x}\n", point.at_ns / 1_000_000, bytes / PAGE)?;
        }
        Ok(())
    }
}

impl BlockObserver for Spool {
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        let at_ms = (event.at_ns / 1_000_000).min((1 << 30) - 1) as u32;
        if at_ms > self.at_ms {
            self.at_ms = at_ms;
            self.put(at_ms << 2 | TIME);
        }
        let &BlockEvent { bytes, bucket, .. } = event;
        match change {
            BlockChange::Allocated | BlockChange::Reallocated { .. } | BlockChange::Returned => {
                self.put_size(ALLOCATED, bytes, bucket);
            }
            BlockChange::Freed { .. } | BlockChange::ReallocBegun | BlockChange::Left => {
                self.put_size(FREED, bytes, bucket);
            }
            BlockChange::Corrected { bytes_before, is_live: true } => {
                self.put_size(FREED, bytes_before, bucket);
                self.put_size(ALLOCATED, bytes, bucket);
            }
            BlockChange::Moved { from } => {
                self.put_size(MOVED, bytes, from);
                self.put_size(MOVED, bytes, bucket);
            }
            // NOTE: the call was written, and heaptrack has no way to take it back.
            BlockChange::Corrected { is_live: false, .. } | BlockChange::ReallocFailed { .. } => {}
        }
    }
}

/// Writes what the events refer to.
struct Definitions<'a> {
    report: &'a Report,
    out: &'a mut dyn Write,
    strings: Interner<String, FxBuildHasher>,
    /// By the text of its line.
    pointers: Interner<String, FxBuildHasher>,
    /// The numbers of pointers, by the address of their frame in the report.
    of_frames: HashMap<*const Frame, u32>,
    /// By the pointer and the trace of its caller.
    traces: Interner<(u32, u32), FxBuildHasher>,
}

impl<'a> Definitions<'a> {
    fn new(report: &'a Report, out: &'a mut dyn Write) -> Self {
        let (strings, pointers) = (Interner::default(), Interner::default());
        let (of_frames, traces) = (HashMap::new(), Interner::default());
        Self { report, out, strings, pointers, of_frames, traces }
    }

    fn head(&mut self) -> io::Result<()> {
        let program = self.report.trace.program.as_deref().unwrap_or("unknown program");
        writeln!(self.out, "{VERSION}\nX {}", one_line(program))?;
        writeln!(self.out, "# from a trace of memledger; - and + in turn are a reallocation")?;
        if let Some(mean) = self.report.stack_sampling_bytes {
            writeln!(self.out, "# stacks are of a sample: one each {mean} bytes on average")?;
        }
        // The size of a page, and how many the machine has, which is not known.
        writeln!(self.out, "I {PAGE:x} 0")
    }

    fn string(&mut self, text: &str) -> io::Result<u32> {
        let text = one_line(text);
        let before = self.strings.all.len();
        let number = self.strings.number(text.clone());
        if self.strings.all.len() > before {
            writeln!(self.out, "s {:x} {text}", text.len())?;
        }
        Ok(number + 1)
    }

    fn trace(&mut self, frames: &[ShownFrame<'_>]) -> io::Result<u32> {
        let mut trace = 0;
        for frame in frames.iter().rev() {
            let pointer = self.pointer(frame)?;
            let before = self.traces.all.len();
            let number = self.traces.number((pointer, trace));
            if self.traces.all.len() > before {
                writeln!(self.out, "t {pointer:x} {trace:x}")?;
            }
            trace = number + 1;
        }
        Ok(trace)
    }

    /// The number of an instruction pointer.
    ///
    /// PERF: a frame is on many stacks, and its texts are long.
    fn pointer(&mut self, shown: &ShownFrame<'_>) -> io::Result<u32> {
        let ShownFrame::Frame(frame) = shown else { return self.new_pointer(shown) };
        let frame = std::ptr::from_ref(*frame);
        if let Some(number) = self.of_frames.get(&frame) {
            return Ok(*number);
        }
        let number = self.new_pointer(shown)?;
        self.of_frames.insert(frame, number);
        Ok(number)
    }

    fn new_pointer(&mut self, frame: &ShownFrame<'_>) -> io::Result<u32> {
        let line = match frame {
            ShownFrame::Text(text) => format!("i 0 0 {:x} 0 0", self.string(text)?),
            ShownFrame::Frame(frame) => {
                let module = frame.module.and_then(|module| self.report.modules.get(module));
                let address = frame.offset.wrapping_add(module.map_or(0, |module| module.base));
                let module = match module {
                    Some(module) => self.string(&module.path)?,
                    None => 0,
                };
                let mut line = format!("i {address:x} {module:x}");
                for found in frames::functions(self.report, frame).iter() {
                    let function = self.string(&found.function)?;
                    let file = match &found.file {
                        Some(file) => self.string(file)?,
                        None => 0,
                    };
                    line += &format!(" {function:x} {file:x} {:x}", found.line.unwrap_or(0));
                }
                line
            }
        };
        let before = self.pointers.all.len();
        let number = self.pointers.number(line.clone());
        if self.pointers.all.len() > before {
            writeln!(self.out, "{line}")?;
        }
        Ok(number + 1)
    }
}

/// The text without characters that end a line.
fn one_line(text: &str) -> String {
    text.replace(['\n', '\r', '\0'], "?")
}
