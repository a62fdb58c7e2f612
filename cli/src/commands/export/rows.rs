//! From changes of blocks to rows of tables.

use super::frames::{self, path};
use super::tables::{BLOCKS, BOOKMARKS, CONTEXTS, EVENTS, FRAMES, Rows, STACKS, Value};
use memledger::analysis::{Actor, Analyzer, BlockChange, BlockEvent, BlockObserver, Report};
use rustc_hash::FxHashMap;
use std::io;

/// Where rows go.
pub trait TableWriter {
    /// How many rows are written at once.
    const ROWS: usize;

    /// Writes these rows.
    fn write(&mut self, rows: &Rows) -> io::Result<()>;
}

/// What happens to a block, in the words of the table of events.
const KINDS: &[&str] = &[
    "alloc",
    "free",
    "realloc_free",
    "realloc_alloc",
    "realloc_failed",
    "corrected",
    "moved_out",
    "moved_in",
    "left",
    "returned",
];
const ALLOC: u8 = 0;
const FREE: u8 = 1;
const REALLOC_FREE: u8 = 2;
const REALLOC_ALLOC: u8 = 3;
const REALLOC_FAILED: u8 = 4;
const CORRECTED: u8 = 5;
const MOVED_OUT: u8 = 6;
const MOVED_IN: u8 = 7;
const LEFT: u8 = 8;
const RETURNED: u8 = 9;

/// A live block, or one between the halves of a reallocation.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// The number of the event that allocated it.
    number: u64,
    allocated_at_ns: u64,
    bytes: u64,
    reallocations: u32,
    bucket: u32,
}

/// The states of blocks, in the words of their table.
const STATES: &[&str] = &["freed", "left", "live"];
const FREED: u8 = 0;
const GONE: u8 = 1;
const LIVE: u8 = 2;

/// Writes rows of blocks and events while a trace is read, the others at its end. The memory is that of the
/// live blocks (about 70 bytes each), of [`TableWriter::ROWS`] rows of two tables, and of the report.
pub struct ToTables<W> {
    writer: W,
    blocks: Rows,
    events: Rows,
    live: FxHashMap<(u64, u8), Block>,
    /// Blocks between the two halves of a reallocation, by the number of the first.
    in_realloc: FxHashMap<u64, (u64, u64, Block)>,
    /// The rows of those that freed blocks. Their numbers are negative, because the number of buckets is
    /// known only at the end.
    actors: FxHashMap<Actor, i64>,
    error: Option<io::Error>,
}

impl<W: TableWriter> ToTables<W> {
    pub fn new(writer: W) -> Self {
        Self {
            writer,
            blocks: Rows::with_words(&BLOCKS, STATES),
            events: Rows::with_words(&EVENTS, KINDS),
            live: FxHashMap::default(),
            in_realloc: FxHashMap::default(),
            actors: FxHashMap::default(),
            error: None,
        }
    }

    /// Whether a row could not be written.
    pub fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    fn actor(&mut self, actor: Actor) -> i64 {
        let next = -1 - self.actors.len() as i64;
        *self.actors.entry(actor).or_insert(next)
    }

    /// A row of the table of events.
    #[inline]
    fn event(&mut self, event: &BlockEvent, kind: u8, of: &Block, live: i64, allocated: i64) {
        self.events.push([
            event.number.into(),
            event.at_ns.into(),
            Value::Word(kind),
            of.number.into(),
            of.bucket.into(),
            Value::Number(live),
            Value::Number(allocated),
        ]);
        if self.events.len() >= W::ROWS {
            write(&mut self.writer, &mut self.events, &mut self.error);
        }
    }

    /// A row of the table of blocks.
    #[inline]
    fn block(&mut self, address: u64, block: &Block, state: u8, end: Option<End>) {
        self.blocks.push([
            block.number.into(),
            address.into(),
            block.bytes.into(),
            block.bucket.into(),
            Value::Word(state),
            block.allocated_at_ns.into(),
            end.map(|end| end.at_ns).into(),
            end.map(|end| end.number).into(),
            end.and_then(|end| end.by).map_or(Value::None, Value::Number),
            block.reallocations.into(),
            u32::from(end.is_some_and(|end| end.short_lived)).into(),
        ]);
        if self.blocks.len() >= W::ROWS {
            write(&mut self.writer, &mut self.blocks, &mut self.error);
        }
    }

    /// Writes what is left, and the other tables.
    pub fn finish(mut self, report: &Report, actors: Vec<ActorRow>) -> io::Result<W> {
        for (begun, (at_ns, address, block)) in std::mem::take(&mut self.in_realloc) {
            let end = End { number: begun, at_ns, by: None, short_lived: false };
            self.block(address, &block, FREED, Some(end));
        }
        let mut live: Vec<_> = std::mem::take(&mut self.live).into_iter().collect();
        live.sort_unstable_by_key(|(_, block)| block.number);
        for ((address, _), block) in live {
            self.block(address, &block, LIVE, None);
        }
        write(&mut self.writer, &mut self.blocks, &mut self.error);
        write(&mut self.writer, &mut self.events, &mut self.error);
        if let Some(error) = self.error {
            return Err(error);
        }
        self.writer.write(&contexts(report, &actors))?;
        write_stacks(report, &mut self.writer)?;
        self.writer.write(&bookmarks(report))?;
        Ok(self.writer)
    }
}

/// How a block ended.
#[derive(Clone, Copy, Debug)]
struct End {
    number: u64,
    at_ns: u64,
    by: Option<i64>,
    short_lived: bool,
}

fn write<W: TableWriter>(writer: &mut W, rows: &mut Rows, error: &mut Option<io::Error>) {
    if error.is_none() {
        *error = writer.write(rows).err();
    }
    rows.clear();
}

impl<W: TableWriter> BlockObserver for ToTables<W> {
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        let (place, bytes) = ((event.address, event.heap), event.bytes as i64);
        let unseen = Block {
            number: event.number,
            allocated_at_ns: event.allocated_at_ns,
            bytes: event.bytes,
            reallocations: 0,
            bucket: event.bucket,
        };
        match change {
            BlockChange::Allocated => {
                self.live.insert(place, unseen);
                self.event(event, ALLOC, &unseen, bytes, bytes);
            }
            BlockChange::Returned => {
                self.live.insert(place, unseen);
                self.event(event, RETURNED, &unseen, bytes, 0);
            }
            BlockChange::Freed { by, short_lived } => {
                let block = self.live.remove(&place).unwrap_or(unseen);
                self.event(event, FREE, &block, -bytes, 0);
                let by = Some(self.actor(by));
                let end = End { number: event.number, at_ns: event.at_ns, by, short_lived };
                self.block(event.address, &block, FREED, Some(end));
            }
            BlockChange::Left => {
                let block = self.live.remove(&place).unwrap_or(unseen);
                self.event(event, LEFT, &block, -bytes, 0);
                let (number, at_ns) = (event.number, event.at_ns);
                let end = End { number, at_ns, by: None, short_lived: false };
                self.block(event.address, &block, GONE, Some(end));
            }
            BlockChange::ReallocBegun => {
                let block = self.live.remove(&place).unwrap_or(unseen);
                self.in_realloc.insert(event.number, (event.at_ns, event.address, block));
                self.event(event, REALLOC_FREE, &block, -bytes, 0);
            }
            BlockChange::Reallocated { begun, .. } => {
                let mut block = self.in_realloc.remove(&begun).map_or(unseen, |(.., block)| block);
                (block.bytes, block.bucket) = (event.bytes, event.bucket);
                block.reallocations += 1;
                self.live.insert(place, block);
                self.event(event, REALLOC_ALLOC, &block, bytes, bytes);
            }
            BlockChange::ReallocFailed => {
                let mut block = unseen;
                if let Some(live) = self.live.get_mut(&place) {
                    live.reallocations = live.reallocations.saturating_sub(1);
                    block = *live;
                }
                self.event(event, REALLOC_FAILED, &block, 0, -bytes);
            }
            BlockChange::Corrected { bytes_before, is_live } => {
                let more = bytes.wrapping_sub(bytes_before as i64);
                let mut block = unseen;
                if let Some(live) = self.live.get_mut(&place).filter(|_| is_live) {
                    live.bytes = event.bytes;
                    block = *live;
                }
                self.event(event, CORRECTED, &block, if is_live { more } else { 0 }, more);
            }
            BlockChange::Moved { from } => {
                let mut block = unseen;
                if let Some(live) = self.live.get_mut(&place) {
                    live.bucket = event.bucket;
                    block = *live;
                }
                self.event(event, MOVED_OUT, &Block { bucket: from, ..block }, -bytes, 0);
                self.event(event, MOVED_IN, &block, bytes, 0);
            }
            _ => debug_assert!(false, "an unknown change: {change:?}"),
        }
    }
}

/// Who freed blocks.
pub struct ActorRow {
    number: i64,
    thread_id: u32,
    thread: String,
    scope: String,
}

/// The rows of all that freed blocks.
pub fn actors<W: TableWriter>(analyzer: &Analyzer<ToTables<W>>) -> Vec<ActorRow> {
    let row = |(&actor, &number): (&Actor, &i64)| {
        let (thread_id, thread) = analyzer.thread_of(actor);
        let scope = path(&analyzer.scope_path(actor));
        ActorRow { number, thread_id, thread: thread.to_owned(), scope }
    };
    let mut rows: Vec<_> = analyzer.observer().actors.iter().map(row).collect();
    rows.sort_unstable_by_key(|row| -row.number);
    rows
}

fn contexts(report: &Report, actors: &[ActorRow]) -> Rows {
    let mut rows = Rows::new(&CONTEXTS);
    for row in actors {
        let ActorRow { number, thread_id, thread, scope } = row;
        let (thread, scope) = (thread.as_str().into(), scope.as_str().into());
        let number = Value::Number(*number);
        rows.push([
            number,
            (*thread_id).into(),
            thread,
            scope,
            Value::None,
            Value::None,
            Value::None,
        ]);
    }
    for (number, bucket) in report.by_bucket.iter().enumerate() {
        let (name, thread) = (&report.by_name[bucket.name], &report.by_thread[bucket.thread]);
        rows.push([
            Value::Number(number as i64),
            thread.id.into(),
            thread.name.as_str().into(),
            path(&report.by_scope[bucket.scope].path).as_str().into(),
            path(&name.group).as_str().into(),
            name.name.as_str().into(),
            bucket.stack.map(|stack| stack as u64).into(),
        ]);
    }
    rows
}

/// Writes the rows of all stacks, and then those of their frames.
fn write_stacks<W: TableWriter>(report: &Report, writer: &mut W) -> io::Result<()> {
    let mut rows = Rows::new(&STACKS);
    // Texts in place of frames. Their numbers are negative, because the report has them in no list.
    let mut texts = Vec::new();
    for (number, stack) in report.by_stack.iter().enumerate() {
        let text = stack.label(report).or(stack.missing()).map(|text| {
            let place = texts.iter().position(|known| *known == text).unwrap_or_else(|| {
                texts.push(text);
                texts.len() - 1
            });
            -1 - place as i64
        });
        let all = stack.frames.iter().map(|&frame| frame.into()).chain(text);
        for (depth, frame) in all.enumerate() {
            rows.push([(number as u64).into(), (depth as u64).into(), Value::Number(frame)]);
        }
        if rows.len() >= W::ROWS {
            writer.write(&rows)?;
            rows.clear();
        }
    }
    writer.write(&rows)?;

    let mut rows = Rows::new(&FRAMES);
    for (place, text) in texts.into_iter().enumerate() {
        let (number, none, zero) =
            (Value::Number(-1 - place as i64), Value::None, Value::Number(0));
        rows.push([number, zero, text.into(), none, none, none, none, zero]);
    }
    for (number, frame) in report.frames.iter().enumerate() {
        let functions = frames::functions(report, frame);
        for (part, found) in functions.iter().enumerate() {
            let is_inlined = part + 1 < functions.len();
            rows.push([
                (number as u64).into(),
                (part as u64).into(),
                found.function.as_str().into(),
                found.file.as_deref().into(),
                found.line.into(),
                frames::module(report, frame).into(),
                frame.offset.into(),
                u32::from(is_inlined).into(),
            ]);
        }
    }
    writer.write(&rows)
}

fn bookmarks(report: &Report) -> Rows {
    let mut rows = Rows::new(&BOOKMARKS);
    for bookmark in &report.bookmarks {
        rows.push([bookmark.at_ns.into(), bookmark.name.as_str().into()]);
    }
    rows
}
