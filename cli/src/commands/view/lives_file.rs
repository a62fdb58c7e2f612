//! The file of lives: every block of a trace, [kept](super::kept) beside it.
//!
//! ```text
//! chunk, chunk, ...      zstd with a checksum: up to 8,192 blocks, nearly in the order of the events that
//!                        ended them; after these, chunks of the blocks that are live at the end
//! directory              zstd with a checksum: where each chunk is, and which blocks it can have
//! u64 length             of the directory, in bytes
//! ```
//! Chunks and directory are in postcard's format. Which chunks a question is about follows from the index:
//! its rows say in which steps the blocks have ended that a rule finds, and how large they are.

use super::kept::{self, Identity, Kind};
use super::picture::thread;
use crate::commands::input::{open, unreadable};
use crate::error::CliError;
use memledger_analysis::read::Reader;
use memledger_analysis::{
    Actor, Analyzer, BlockChange, BlockEvent, BlockLife, BlockLives, Position,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::{Range, RangeInclusive};
use std::path::Path;

const KIND: Kind = Kind { magic: b"memledger.blocks", suffix: ".blocks", version: 2 };

/// How many blocks a chunk has, and how many bytes these take at most before they are compressed.
const CHUNK: usize = 8192;
const MAX_CHUNK: usize = CHUNK * 128;

/// PERF: higher levels take more time than reading the trace, and save a tenth.
const LEVEL: i32 = 1;

/// How often the file may be longer than its trace, and how long it may be in any case.
const ROOM: u64 = 4;
const MIN_ROOM: u64 = 1 << 20;

/// How often the directory may be larger than its compressed form.
const MAX_RATIO: u64 = 200;

/// Bits of `Columns::how`: how a block has ended, or became another life, and how it began.
const FREED: u8 = 1;
const LEFT: u8 = 2;
const REALLOC_BEGUN: u8 = 3;
const MOVED: u8 = 4;
const CORRECTED: u8 = 5;
const REALLOC_FAILED: u8 = 6;
const HOW_ENDED: u8 = 7;
const REALLOCATED: u8 = 1 << 3;
const RETURNED: u8 = 2 << 3;
const HOW_BEGUN: u8 = 3 << 3;
/// It is in `Columns::odd`.
const ODD: u8 = 1 << 5;

/// In place of an actor.
const NO_ACTOR: u32 = u32::MAX;

/// A chunk, by columns; numbers that grow are differences from the block before.
#[derive(Default, Serialize, Deserialize)]
struct Columns {
    /// The event that ended it, and when; of a live block, nothing is added.
    ended: Vec<u64>,
    ended_at: Vec<u64>,
    /// How many events, and how much time, before that it became live and was allocated.
    begun: Vec<i64>,
    age: Vec<i64>,
    address: Vec<i64>,
    bytes: Vec<u64>,
    bucket: Vec<u32>,
    how: Vec<u8>,
    /// For each block that was freed, the number of the actor that freed it.
    freed_by: Vec<u32>,
    /// For each block that did not begin with an allocation: the time since its first allocation, the number
    /// of events since the first half of its reallocation, and the number of the actor that reallocated it.
    others: Vec<(u64, u64, u32)>,
    /// For each block that a reallocation has ended, the number of events until its second half; 0 if it has
    /// none.
    next: Vec<u64>,
    /// For each block that something was learnt of later: the number of events from its beginning until it
    /// was like this, and until when it counts as an allocation and as a free.
    odd: Vec<(u64, u64, u64)>,
}

/// Where a chunk is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Chunk {
    offset: u64,
    bytes: u32,
    /// The first and the last event that ended one of its blocks; `None` if they are live at the end.
    ended: Option<(u64, u64)>,
    /// The bytes of the largest block.
    pub most: u64,
}

/// Who has freed or reallocated a block.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct By {
    pub thread: String,
    /// `None` for a free in a trace that has no scopes of frees.
    pub path: Option<Vec<String>>,
}

#[derive(Default, Serialize, Deserialize)]
struct Directory {
    last_event: u64,
    chunks: Vec<Chunk>,
    actors: Vec<By>,
}

/// A block of the file.
#[derive(Clone, Copy, Debug)]
pub struct StoredBlock {
    /// NOTE: its actors are not those of the trace, but `freed_by` and `made_by`.
    pub life: BlockLife,
    /// The first half of the reallocation that it began with.
    pub realloc: Option<u64>,
    freed_by: u32,
    made_by: u32,
}

impl StoredBlock {
    /// The event that ended the life before this one, of the same block.
    pub fn before(&self) -> Option<u64> {
        let is_changed = self.life.since > self.life.begun;
        if is_changed { Some(self.life.since) } else { self.realloc }
    }
}

/// Writes chunks.
struct Writer<'a> {
    out: &'a mut dyn Write,
    columns: Columns,
    /// The block before.
    last: Last,
    /// How many bytes were written, and how many may be.
    written: u64,
    room: u64,
    directory: Directory,
    actors: HashMap<Actor, u32>,
    names: Vec<Actor>,
    failed: Option<io::Error>,
}

#[derive(Clone, Copy, Default)]
struct Last {
    ended: u64,
    ended_at: u64,
    address: u64,
    is_live: bool,
    /// Of all blocks of the chunk.
    range: Option<(u64, u64)>,
    most: u64,
}

impl Writer<'_> {
    fn actor(&mut self, actor: Actor) -> u32 {
        *self.actors.entry(actor).or_insert_with(|| {
            self.names.push(actor);
            self.names.len() as u32 - 1
        })
    }

    fn add(&mut self, life: &BlockLife) {
        if self.failed.is_some() {
            return;
        }
        let is_live = life.ended.is_none();
        if self.columns.how.len() == CHUNK || is_live != self.last.is_live {
            self.end_chunk();
            self.last.is_live = is_live;
        }
        let last = self.last;
        let (ended, ended_at) = match life.ended {
            Some((event, at_ns, _)) => (event, at_ns),
            None => (last.ended, last.ended_at),
        };
        let mut how = self.how_ended(life);
        let since = life.begun_at_ns.wrapping_sub(life.allocated_at_ns);
        match life.begun_by {
            BlockChange::Reallocated { begun, by, .. } => {
                let other = (since, life.begun.wrapping_sub(begun), self.actor(by));
                self.columns.others.push(other);
                how |= REALLOCATED;
            }
            BlockChange::Returned => {
                self.columns.others.push((since, 0, NO_ACTOR));
                how |= RETURNED;
            }
            _ => {}
        }
        let plain = BlockLife::new(&BlockEvent::default(), life.begun_by).allocation_until;
        let is_plain = (life.since, life.allocation_until) == (life.begun, plain);
        let columns = &mut self.columns;
        if !is_plain || life.free_until != BlockLife::ALWAYS {
            how |= ODD;
            let until = (life.allocation_until, life.free_until);
            columns.odd.push((life.since.wrapping_sub(life.begun), until.0, until.1));
        }
        columns.ended.push(ended.wrapping_sub(last.ended));
        columns.ended_at.push(ended_at.wrapping_sub(last.ended_at));
        columns.begun.push(ended.wrapping_sub(life.begun) as i64);
        columns.age.push(ended_at.wrapping_sub(life.allocated_at_ns) as i64);
        columns.address.push(life.address.wrapping_sub(last.address) as i64);
        columns.bytes.push(life.bytes);
        columns.bucket.push(life.bucket);
        columns.how.push(how);
        let (address, most) = (life.address, last.most.max(life.bytes));
        let range = last.range.map_or((ended, ended), |(a, b)| (a.min(ended), b.max(ended)));
        let range = Some(range).filter(|_| !is_live);
        self.last = Last { ended, ended_at, address, is_live, range, most };
    }

    /// Adds how a block has ended to its columns.
    fn how_ended(&mut self, life: &BlockLife) -> u8 {
        let Some((ended, _, change)) = life.ended else { return 0 };
        match change {
            BlockChange::Left => LEFT,
            BlockChange::Moved { .. } => MOVED,
            BlockChange::Corrected { .. } => CORRECTED,
            BlockChange::ReallocFailed { .. } => REALLOC_FAILED,
            BlockChange::ReallocBegun => {
                self.columns.next.push(life.next.map_or(0, |next| next.wrapping_sub(ended)));
                REALLOC_BEGUN
            }
            change => {
                let by = match change {
                    BlockChange::Freed { by, .. } => self.actor(by),
                    _ => NO_ACTOR,
                };
                self.columns.freed_by.push(by);
                FREED
            }
        }
    }

    /// A chunk can be read without the one before.
    fn end_chunk(&mut self) {
        if self.columns.how.is_empty() || self.failed.is_some() {
            return;
        }
        let Last { range: ended, most, .. } = std::mem::take(&mut self.last);
        let columns = std::mem::take(&mut self.columns);
        let offset = self.written;
        match self.write(&columns) {
            Ok(bytes) => {
                self.directory.chunks.push(Chunk { offset, bytes, ended, most });
            }
            Err(error) => self.failed = Some(error),
        }
    }

    /// Writes something compressed; returns its length.
    fn write(&mut self, what: &impl Serialize) -> io::Result<u32> {
        let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
        encoder.include_checksum(true)?;
        encoder.write_all(&postcard::to_stdvec(what).map_err(io::Error::other)?)?;
        let bytes = encoder.finish()?;
        self.written += bytes.len() as u64;
        if self.written > self.room {
            let room = self.room;
            let sentence = format!("the blocks take more than {room} bytes");
            return Err(io::Error::other(sentence));
        }
        self.out.write_all(&bytes)?;
        u32::try_from(bytes.len()).map_err(io::Error::other)
    }
}

/// Reads the trace and keeps its blocks; `is_stopped` ends that.
pub fn build(
    trace: &Path,
    identity: &Identity,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), CliError> {
    kept::save(&KIND, trace, None, identity, |out| {
        let room = identity.bytes.saturating_mul(ROOM).max(MIN_ROOM);
        write(trace, Position::End, room, out, is_stopped)
    })
}

/// Writes the blocks of a trace up to `until`.
fn write(
    trace: &Path,
    until: Position,
    room: u64,
    out: &mut dyn Write,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), CliError> {
    let failed = |error: io::Error| CliError::Failed(format!("no index of blocks: {error}"));
    let writer = RefCell::new(Writer {
        out,
        columns: Columns::default(),
        last: Last::default(),
        written: 0,
        room,
        directory: Directory::default(),
        actors: HashMap::new(),
        names: Vec::new(),
        failed: None,
    });
    let lives = BlockLives::new(|life: &BlockLife| writer.borrow_mut().add(life));
    let mut analyzer = Analyzer::observing(lives).largest_live(0).until(until);
    let mut reader = Reader::open(open(trace)?).map_err(|error| unreadable(trace, error))?;
    while reader.packet(&mut analyzer) {
        if is_stopped() {
            return Err(CliError::Failed("memledger view ends".to_owned()));
        }
        if writer.borrow().failed.is_some() {
            break;
        }
    }
    reader.finish(&mut analyzer);
    analyzer.end_lives();
    let names = std::mem::take(&mut writer.borrow_mut().names);
    let by = |actor: &Actor| {
        let (id, name) = analyzer.thread_of(*actor);
        By { thread: thread(name, id), path: analyzer.scope_path(*actor) }
    };
    let actors = names.iter().map(by).collect();
    let last_event = analyzer.observer().last_event();
    let mut writer = writer.borrow_mut();
    writer.end_chunk();
    if let Some(error) = writer.failed.take() {
        return Err(failed(error));
    }
    let chunks = std::mem::take(&mut writer.directory.chunks);
    let directory = Directory { last_event, chunks, actors };
    let bytes = writer.write(&directory).map_err(failed)?;
    writer.out.write_all(&u64::from(bytes).to_le_bytes()).map_err(failed)
}

/// The blocks of a trace.
pub struct LivesFile {
    file: Mutex<File>,
    /// Where the first chunk is.
    first: u64,
    directory: Directory,
}

impl std::fmt::Debug for LivesFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LivesFile of {} chunks", self.directory.chunks.len())
    }
}

impl LivesFile {
    /// The blocks of the trace as it is now, if they are kept.
    pub fn load(trace: &Path) -> Option<Self> {
        Self::read(kept::open(&KIND, trace, None)?)
    }

    /// The blocks of the trace up to an event, in a file without a name.
    pub fn up_to(
        trace: &Path,
        event: u64,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Self, CliError> {
        let failed = |error: io::Error| CliError::Failed(format!("no temporary file: {error}"));
        let mut file = tempfile::tempfile().map_err(failed)?;
        let mut out = BufWriter::new(&mut file);
        write(trace, Position::Event(event), u64::MAX, &mut out, is_stopped)?;
        out.flush().map_err(failed)?;
        drop(out);
        file.rewind().map_err(failed)?;
        Self::read(file).ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))
    }

    fn read(mut file: File) -> Option<Self> {
        let first = file.stream_position().ok()?;
        let end = file.seek(SeekFrom::End(-8)).ok()?;
        let mut length = [0; 8];
        file.read_exact(&mut length).ok()?;
        let length = u64::from_le_bytes(length);
        let start = end.checked_sub(length).filter(|&start| start >= first)?;
        file.seek(SeekFrom::Start(start)).ok()?;
        let mut bytes = Vec::new();
        let decoder = zstd::Decoder::new((&mut file).take(length)).ok()?;
        decoder.take(length.saturating_mul(MAX_RATIO)).read_to_end(&mut bytes).ok()?;
        let directory: Directory = postcard::from_bytes(&bytes).ok()?;
        Some(Self { file: Mutex::new(file), first, directory })
    }

    /// The last event that has changed a block.
    pub fn last_event(&self) -> u64 {
        self.directory.last_event
    }

    pub fn freed_by(&self, kept: &StoredBlock) -> Option<&By> {
        self.directory.actors.get(kept.freed_by as usize)
    }

    pub fn made_by(&self, kept: &StoredBlock) -> Option<&By> {
        self.directory.actors.get(kept.made_by as usize)
    }

    /// The numbers of the chunks that can have blocks that these events have ended.
    pub fn ended_in(&self, events: RangeInclusive<u64>) -> impl Iterator<Item = usize> {
        let chunks = self.ended().iter().enumerate();
        let has =
            move |(first, last): (u64, u64)| first <= *events.end() && *events.start() <= last;
        chunks.filter(move |(_, chunk)| chunk.ended.is_some_and(&has)).map(|(number, _)| number)
    }

    fn ended(&self) -> &[Chunk] {
        let chunks = &self.directory.chunks;
        &chunks[..chunks.partition_point(|chunk| chunk.ended.is_some())]
    }

    /// The numbers of the chunks with blocks that are live at the end.
    pub fn live(&self) -> Range<usize> {
        self.ended().len()..self.directory.chunks.len()
    }

    pub fn chunk(&self, number: usize) -> Chunk {
        self.directory.chunks[number]
    }

    /// The blocks of a chunk.
    pub fn blocks(&self, number: usize) -> Result<Vec<StoredBlock>, CliError> {
        let failed = |why: &str| CliError::Failed(format!("the index of blocks is damaged: {why}"));
        let chunk = self.chunk(number);
        let mut compressed = vec![0; chunk.bytes as usize];
        {
            let mut file = self.file.lock();
            file.seek(SeekFrom::Start(self.first.saturating_add(chunk.offset)))
                .and_then(|_| file.read_exact(&mut compressed))
                .map_err(|error| failed(&error.to_string()))?;
        }
        let bytes = zstd::bulk::decompress(&compressed, MAX_CHUNK);
        let bytes = bytes.map_err(|error| failed(&error.to_string()))?;
        let columns: Columns =
            postcard::from_bytes(&bytes).map_err(|error| failed(&error.to_string()))?;
        columns.blocks(chunk.ended.is_none()).ok_or_else(|| failed("a column is too short"))
    }
}

impl Columns {
    /// The number of blocks; `None` if columns have other lengths.
    fn length(&self) -> Option<usize> {
        let length = self.how.len();
        let lengths = [self.ended.len(), self.ended_at.len(), self.begun.len(), self.age.len()];
        let more = [self.address.len(), self.bytes.len(), self.bucket.len()];
        (length <= CHUNK && lengths == [length; 4] && more == [length; 3]).then_some(length)
    }

    /// `None` if the columns do not fit together.
    fn blocks(self, is_live: bool) -> Option<Vec<StoredBlock>> {
        let length = self.length()?;
        let (mut freed_by, mut others) = (self.freed_by.into_iter(), self.others.into_iter());
        let (mut nexts, mut odd) = (self.next.into_iter(), self.odd.into_iter());
        let (mut ended, mut ended_at, mut address) = (0_u64, 0_u64, 0_u64);
        let mut blocks = Vec::with_capacity(length);
        for at in 0..length {
            ended = ended.wrapping_add(self.ended[at]);
            ended_at = ended_at.wrapping_add(self.ended_at[at]);
            address = address.wrapping_add(self.address[at] as u64);
            let allocated_at_ns = ended_at.wrapping_sub(self.age[at] as u64);
            let mut event = BlockEvent::default();
            event.number = ended.wrapping_sub(self.begun[at] as u64);
            (event.allocated_at_ns, event.at_ns) = (allocated_at_ns, allocated_at_ns);
            (event.address, event.bytes) = (address, self.bytes[at]);
            event.bucket = self.bucket[at];
            let how = self.how[at];
            let (mut realloc, mut made_by, mut begun_by) = (None, NO_ACTOR, BlockChange::Allocated);
            if how & HOW_BEGUN != 0 {
                let (since, events, by) = others.next()?;
                event.at_ns = allocated_at_ns.wrapping_add(since);
                made_by = by;
                realloc = Some(event.number.wrapping_sub(events));
                if how & HOW_BEGUN == RETURNED {
                    (realloc, begun_by) = (None, BlockChange::Returned);
                }
            }
            let mut life = BlockLife::new(&event, begun_by);
            let mut by = NO_ACTOR;
            let (bucket, bytes) = (event.bucket, event.bytes);
            let change = match how & HOW_ENDED {
                FREED => {
                    by = freed_by.next()?;
                    BlockChange::Freed { by: Actor::default(), short_lived: false }
                }
                LEFT => BlockChange::Left,
                MOVED => BlockChange::Moved { from: bucket },
                CORRECTED => BlockChange::Corrected { bytes_before: bytes, is_live: true },
                REALLOC_FAILED => BlockChange::ReallocFailed { is_live: true },
                _ => BlockChange::ReallocBegun,
            };
            life.next = match how & HOW_ENDED {
                REALLOC_BEGUN => Some(nexts.next()?).filter(|&events| events > 0),
                MOVED | CORRECTED | REALLOC_FAILED => Some(0),
                _ => None,
            };
            life.next = life.next.map(|events| ended.wrapping_add(events));
            if how & ODD != 0 {
                let since;
                (since, life.allocation_until, life.free_until) = odd.next()?;
                life.since = life.begun.wrapping_add(since);
            }
            life.ended = (!is_live).then_some((ended, ended_at, change));
            blocks.push(StoredBlock { life, realloc, freed_by: by, made_by });
        }
        Some(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_of_every_kind_are_read_as_they_were_written() {
        let event = |number: u64| {
            let mut event = BlockEvent::default();
            (event.number, event.at_ns, event.allocated_at_ns) = (number, number * 3, number * 2);
            (event.address, event.bytes, event.bucket) = (number * 16, number + 1, 7);
            event
        };
        let by = Actor::default();
        let reallocated =
            BlockChange::Reallocated { begun: 90, from: 16, bytes_before: 1, bucket_before: 7, by };
        let ends = [
            BlockChange::Freed { by, short_lived: false },
            BlockChange::Left,
            BlockChange::ReallocBegun,
            BlockChange::Moved { from: 7 },
            BlockChange::Corrected { bytes_before: 102, is_live: true },
            BlockChange::ReallocFailed { is_live: true },
        ];
        let mut lives = Vec::new();
        for begun_by in [BlockChange::Allocated, BlockChange::Returned, reallocated] {
            for (number, end) in (0_u64..).zip(ends) {
                let mut life = BlockLife::new(&event(101), begun_by);
                if begun_by == BlockChange::Allocated {
                    life.begun_at_ns = life.allocated_at_ns;
                }
                life.ended = Some((200 - number, 500, end));
                life.next = match end {
                    BlockChange::Freed { .. } | BlockChange::Left => None,
                    BlockChange::ReallocBegun => Some(220),
                    _ => Some(200 - number),
                };
                lives.push(life);
                let mut changed = life;
                (changed.since, changed.allocation_until, changed.free_until) = (150, 0, 180);
                lives.push(changed);
            }
        }
        let mut open = lives[4];
        open.next = None;
        lives.push(open);
        let mut out = Vec::new();
        let mut writer = Writer {
            out: &mut out,
            columns: Columns::default(),
            last: Last::default(),
            written: 0,
            room: u64::MAX,
            directory: Directory::default(),
            actors: HashMap::new(),
            names: Vec::new(),
            failed: None,
        };
        lives.iter().for_each(|life| writer.add(life));
        assert_eq!(writer.last.range, Some((195, 200)));
        let read = std::mem::take(&mut writer.columns).blocks(false).expect("the columns fit");
        assert_eq!(read.len(), lives.len());
        for (kept, life) in read.iter().zip(&lives) {
            let ended = |life: &BlockLife| {
                let (event, at_ns, how) = life.ended.expect("it has ended");
                (event, at_ns, std::mem::discriminant(&how))
            };
            assert_eq!(ended(&kept.life), ended(life));
            assert_eq!(kept.realloc, (life.begun_by == reallocated).then_some(90));
            // The file has these two in another form, compared above.
            let mut read = kept.life;
            (read.begun_by, read.ended) = (life.begun_by, life.ended);
            assert_eq!(read, *life);
        }
    }
}
