//! From changes of blocks to rows of tables.

use super::tables::{
    BLOCKS, BOOKMARKS, CONTEXTS, EVENTS, FRAMES, LIVE_BLOCKS, NONE, Rows, STACKS, optional_cell,
};
use memledger_analysis::{
    Actor, Analyzer, BlockChange, BlockEvent, BlockObserver, Frames, NameRow, Report,
};
use memledger_export::tools::frames::{self, Call, Calls, path};
use rustc_hash::FxHashMap;
use std::collections::HashSet;
use std::io;

/// Where rows go.
pub trait TableWriter {
    /// How many rows are written at once.
    const ROWS: usize;

    /// Writes these rows, and leaves none.
    fn write(&mut self, rows: &mut Rows) -> io::Result<()>;
}

// Indices of the words of the table of events.
const ALLOC: i64 = 0;
const FREE: i64 = 1;
const REALLOC_FREE: i64 = 2;
const REALLOC_ALLOC: i64 = 3;
const REALLOC_FAILED: i64 = 4;
const CORRECTED: i64 = 5;
const MOVED_OUT: i64 = 6;
const MOVED_IN: i64 = 7;
const LEFT: i64 = 8;
const RETURNED: i64 = 9;

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

// Indices of the words of the table of blocks.
const FREED: i64 = 0;
const GONE: i64 = 1;
const LIVE: i64 = 2;

/// Writes rows of blocks and events while a trace is read, the others at its end. The memory is that of the
/// live blocks (about 70 bytes each), of [`TableWriter::ROWS`] rows of two tables, and of the report.
pub struct ToTables<W> {
    writer: W,
    blocks: Rows,
    events: Rows,
    /// The numbers of the blocks that are wanted; of all, if there are none.
    only: Option<HashSet<u64>>,
    /// Whether rows of live blocks are wanted.
    has_live: bool,
    live: FxHashMap<(u64, u8), Block>,
    /// Blocks between the two halves of a reallocation, by the number of the first.
    in_realloc: FxHashMap<u64, (u64, u64, Block)>,
    /// The rows of those that freed blocks. Their numbers are negative, because the number of buckets is
    /// known only at the end.
    actors: FxHashMap<Actor, i64>,
    error: Option<io::Error>,
}

impl<W: TableWriter> ToTables<W> {
    /// Of these blocks, or of all. The table of live blocks is written if it is wanted.
    pub fn new(writer: W, only: Option<HashSet<u64>>, has_live: bool) -> Self {
        Self {
            writer,
            only,
            has_live,
            blocks: Rows::new(&BLOCKS),
            events: Rows::new(&EVENTS),
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

    #[inline]
    fn wants(&self, block: &Block) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&block.number))
    }

    /// A row of the table of events.
    #[inline]
    fn event(&mut self, event: &BlockEvent, kind: i64, of: &Block, live: i64, allocated: i64) {
        if !self.wants(of) {
            return;
        }
        self.events.push([
            event.number as i64,
            event.at_ns as i64,
            kind,
            of.number as i64,
            of.bucket.into(),
            live,
            allocated,
        ]);
        if self.events.len() >= W::ROWS {
            write(&mut self.writer, &mut self.events, &mut self.error);
        }
    }

    /// A row of the table of blocks.
    #[inline]
    fn block(&mut self, address: u64, block: &Block, state: i64, end: Option<End>) {
        if !self.wants(block) {
            return;
        }
        self.blocks.push([
            block.number as i64,
            address as i64,
            block.bytes as i64,
            block.bucket.into(),
            state,
            block.allocated_at_ns as i64,
            optional_cell(end.map(|end| end.at_ns)),
            optional_cell(end.map(|end| end.number)),
            end.and_then(|end| end.by).unwrap_or(NONE),
            block.reallocations.into(),
            end.is_some_and(|end| end.short_lived).into(),
        ]);
        if self.blocks.len() >= W::ROWS {
            write(&mut self.writer, &mut self.blocks, &mut self.error);
        }
    }

    /// Writes what is left, and the tables of contexts and stacks, which need no symbols.
    ///
    /// PERF: so that they can be encoded while symbols are looked up.
    pub fn write_stacks(
        mut self,
        report: &Report,
        actors: Vec<ActorRow>,
    ) -> io::Result<PendingTables<W>> {
        for (begun, (at_ns, address, block)) in std::mem::take(&mut self.in_realloc) {
            let end = End { number: begun, at_ns, by: None, short_lived: false };
            self.block(address, &block, FREED, Some(end));
        }
        let mut live: Vec<_> = std::mem::take(&mut self.live).into_iter().collect();
        live.sort_unstable_by_key(|(_, block)| block.number);
        live.retain(|(_, block)| self.wants(block));
        for &((address, _), block) in &live {
            self.block(address, &block, LIVE, None);
        }
        write(&mut self.writer, &mut self.blocks, &mut self.error);
        write(&mut self.writer, &mut self.events, &mut self.error);
        if let Some(error) = self.error {
            return Err(error);
        }
        self.writer.write(&mut contexts(report, &actors))?;
        let texts = write_stacks(report, &mut self.writer)?;
        live.truncate(if self.has_live { live.len() } else { 0 });
        Ok(PendingTables { writer: self.writer, texts, live })
    }
}

/// The tables that are still to be written.
pub struct PendingTables<W> {
    writer: W,
    /// Texts in place of frames.
    texts: Vec<String>,
    /// The live blocks that have rows of their own.
    live: Vec<((u64, u8), Block)>,
}

impl<W: TableWriter> PendingTables<W> {
    /// Writes them, of the same report with its symbols.
    pub fn finish(mut self, report: &Report) -> io::Result<W> {
        self.writer.write(&mut frame_rows(report, &self.texts))?;
        self.writer.write(&mut bookmarks(report))?;
        if !self.live.is_empty() {
            write_live(report, &self.live, &mut self.writer)?;
        }
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
            BlockChange::ReallocFailed { .. } => {
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
        }
    }
}

/// Who freed blocks.
pub struct ActorRow {
    number: i64,
    thread_id: u32,
    thread: String,
    scope: Option<String>,
}

/// The rows of all that freed blocks.
pub fn actors<W: TableWriter>(analyzer: &Analyzer<ToTables<W>>) -> Vec<ActorRow> {
    let row = |(&actor, &number): (&Actor, &i64)| {
        let (thread_id, thread) = analyzer.thread_of(actor);
        let scope = analyzer.scope_path(actor).as_deref().map(path);
        ActorRow { number, thread_id, thread: thread.to_owned(), scope }
    };
    let mut rows: Vec<_> = analyzer.observer().actors.iter().map(row).collect();
    rows.sort_unstable_by_key(|row| -row.number);
    rows
}

fn contexts(report: &Report, actors: &[ActorRow]) -> Rows {
    let mut rows = Rows::new(&CONTEXTS);
    for row in actors {
        let (thread, scope) =
            (rows.add_text(&row.thread), rows.add_optional_text(row.scope.as_deref()));
        rows.push([row.number, row.thread_id.into(), thread, scope, NONE, NONE, NONE, NONE]);
    }
    // PERF: there can be as many buckets as stacks: each text is made once.
    let mut texts = |text: &str| rows.add_text(text);
    let threads: Vec<_> = report.by_thread.iter().map(|row| texts(&row.name)).collect();
    let scopes: Vec<_> = report.by_scope.iter().map(|row| texts(&path(&row.path))).collect();
    let name = |row: &NameRow| (texts(&path(&row.group)), texts(&row.name));
    let names: Vec<_> = report.by_name.iter().map(name).collect();
    let heaps: Vec<_> = report.by_heap.iter().map(|row| texts(&row.name)).collect();
    for (number, bucket) in report.by_bucket.iter().enumerate() {
        let (id, (group, name)) = (report.by_thread[bucket.thread].id, names[bucket.name]);
        let (thread, scope) = (threads[bucket.thread], scopes[bucket.scope]);
        let stack = optional_cell(bucket.stack.map(|stack| stack as u64));
        let heap = heaps[bucket.heap];
        rows.push([number as i64, id.into(), thread, scope, group, name, stack, heap]);
    }
    rows
}

/// Writes the rows of all stacks. Returns the texts that they have in place of frames, whose numbers are
/// negative because the report has them in no list.
fn write_stacks<W: TableWriter>(report: &Report, writer: &mut W) -> io::Result<Vec<String>> {
    let mut rows = Rows::new(&STACKS);
    let mut texts = Vec::<String>::new();
    for (number, stack) in report.by_stack.iter().enumerate() {
        let text = stack.label(report).or(stack.missing()).map(|text| {
            let place = texts.iter().position(|known| *known == text).unwrap_or_else(|| {
                texts.push(text.to_owned());
                texts.len() - 1
            });
            -1 - place as i64
        });
        let all = stack.frames.iter().map(|&frame| frame.into()).chain(text);
        for (depth, frame) in all.enumerate() {
            rows.push([number as i64, depth as i64, frame]);
        }
        if rows.len() >= W::ROWS {
            writer.write(&mut rows)?;
        }
    }
    writer.write(&mut rows)?;
    Ok(texts)
}

/// The rows of all frames, and of these texts in place of frames.
fn frame_rows(report: &Report, texts: &[String]) -> Rows {
    let mut rows = Rows::new(&FRAMES);
    for (place, text) in texts.iter().enumerate() {
        let text = rows.add_text(text);
        rows.push([-1 - place as i64, 0, text, NONE, NONE, NONE, NONE, 0]);
    }
    for (number, frame) in report.frames.iter().enumerate() {
        let functions = frames::functions(report, frame);
        for (part, found) in functions.iter().enumerate() {
            let is_inlined = part + 1 < functions.len();
            let function = rows.add_text(&found.function);
            let file = rows.add_optional_text(found.file.as_deref());
            let module = rows.add_optional_text(frames::module(report, frame));
            rows.push([
                number as i64,
                part as i64,
                function,
                file,
                optional_cell(found.line.map(u64::from)),
                module,
                frame.offset as i64,
                is_inlined.into(),
            ]);
        }
    }
    rows
}

/// Writes the rows of live blocks. Functions and lines are those of the table by line: of own code, if any is
/// on the stack.
fn write_live<W: TableWriter>(
    report: &Report,
    live: &[((u64, u8), Block)],
    writer: &mut W,
) -> io::Result<()> {
    let calls = Calls::of(report, Frames::Folded);
    // PERF: blocks share buckets, so each text is made once.
    let mut known = FxHashMap::default();
    let mut rows = Rows::new(&LIVE_BLOCKS);
    for ((address, _), block) in live {
        let text = known.entry(block.bucket).or_insert_with(|| {
            let bucket = &report.by_bucket[block.bucket as usize];
            let (thread, name) = (&report.by_thread[bucket.thread], &report.by_name[bucket.name]);
            let number = bucket.stack.and_then(|stack| calls.shown_from_own(stack).next());
            let call =
                number.filter(|&number| !calls.is_text(number)).map(|number| calls.get(number));
            (thread, path(&report.by_scope[bucket.scope].path), path(&name.group), name, call)
        });
        let (thread, scope, group, name, call) = &*text;
        let source = call.and_then(Call::source);
        let cells = [
            block.number as i64,
            *address as i64,
            block.bytes as i64,
            block.allocated_at_ns as i64,
            block.reallocations.into(),
            thread.id.into(),
            rows.add_text(&thread.name),
            rows.add_text(scope),
            rows.add_text(group),
            rows.add_text(&name.name),
            rows.add_optional_text(call.map(Call::name_of_function)),
            rows.add_optional_text(source.map(|(file, _)| file)),
            optional_cell(source.map(|(_, line)| line.into())),
        ];
        rows.push(cells);
        if rows.len() >= W::ROWS {
            writer.write(&mut rows)?;
        }
    }
    writer.write(&mut rows)
}

fn bookmarks(report: &Report) -> Rows {
    let mut rows = Rows::new(&BOOKMARKS);
    for bookmark in &report.bookmarks {
        let name = rows.add_text(&bookmark.name);
        rows.push([bookmark.at_ns as i64, name]);
    }
    rows
}
