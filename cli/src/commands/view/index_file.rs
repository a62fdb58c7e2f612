//! The index file: a picture of a trace, kept beside it.
//!
//! ```text
//! "memledger.index" 0            the magic bytes
//! u32 length, header             postcard: the version, the trace, how symbols were found
//! zstd, with a checksum          postcard: the picture
//! ```
//! A file that is stale, damaged or of another version is not used, and is written again. Nothing in it is
//! trusted: its memory is limited by its length, and its numbers are checked before they are indices.

use super::picture::Picture;
use crate::commands::output::write_private;
use crate::error::CliError;
use crate::symbols::SymbolArgs;
use flate2::Crc;
use memledger::analysis::{Amendment, IndexRow, QueryIndex, StepMoment, StepStart};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const MAGIC: &[u8; 16] = b"memledger.index\0";

/// The version of this format and of what is in it: raised when either changes.
const VERSION: u32 = 1;

/// How much of the start and of the end of a trace its identity has, in bytes.
const ENDS: u64 = 64 << 10;

/// The longest header, and how often a file may be larger than its compressed form.
const MAX_HEADER: u32 = 64 << 10;
const MAX_RATIO: u64 = 200;

const LEVEL: i32 = 3;

/// Which trace it is, and that it is as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub bytes: u64,
    modified_ns: u64,
    /// Checksums of its first and its last bytes.
    start: u32,
    end: u32,
}

impl Identity {
    /// The identity of a file; `None` if it cannot be read.
    pub fn of(trace: &Path) -> Option<Self> {
        let mut file = File::open(trace).ok()?;
        let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
        let modified = metadata.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let bytes = metadata.len();
        let start = checksum(&mut file)?;
        file.seek(SeekFrom::Start(bytes.saturating_sub(ENDS))).ok()?;
        let end = checksum(&mut file)?;
        Some(Self { bytes, modified_ns: modified.as_nanos() as u64, start, end })
    }
}

fn checksum(file: &mut File) -> Option<u32> {
    let mut bytes = Vec::new();
    file.take(ENDS).read_to_end(&mut bytes).ok()?;
    let mut crc = Crc::new();
    crc.update(&bytes);
    Some(crc.sum())
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    version: u32,
    memledger: String,
    trace: Identity,
    /// Where symbols are looked for.
    symbols: (Vec<PathBuf>, bool),
}

impl Header {
    fn new(trace: Identity, symbols: &SymbolArgs) -> Self {
        let folders = symbols.folders.iter();
        let folders = folders.map(|folder| fs::canonicalize(folder).unwrap_or(folder.clone()));
        Self {
            version: VERSION,
            memledger: env!("CARGO_PKG_VERSION").to_owned(),
            trace,
            symbols: (folders.collect(), symbols.no_debuginfod),
        }
    }
}

/// A picture, by columns.
#[derive(Serialize, Deserialize)]
struct Body {
    program: Option<String>,
    notes: Vec<String>,
    threads: Vec<u32>,
    thread_names: Vec<String>,
    peak_event: u64,
    duration_ns: u64,
    bookmarks: Vec<(String, u64)>,
    /// Of each step: the event before and the time, the event after and the time.
    steps: Vec<[u64; 4]>,
    rows: Rows,
    amendments: Rows,
    /// Of each amendment.
    until: Vec<u32>,
    is_allocation: Vec<bool>,
    #[serde(with = "serde_bytes_of")]
    page: Vec<u8>,
}

#[derive(Default, Serialize, Deserialize)]
struct Rows {
    ended: Vec<u32>,
    begun: Vec<u32>,
    bucket: Vec<u32>,
    blocks: Vec<i64>,
    bytes: Vec<i64>,
}

/// Bytes at once: one by one takes a second for a large page.
mod serde_bytes_of {
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<u8>, D::Error> {
        <&[u8]>::deserialize(from).map(<[u8]>::to_vec)
    }
}

impl Rows {
    fn of<'a>(rows: impl Iterator<Item = &'a IndexRow>) -> Self {
        let mut columns = Self::default();
        for row in rows {
            // NEVER is the largest number; its successor is short.
            columns.ended.push(row.ended.wrapping_add(1));
            columns.begun.push(row.begun);
            columns.bucket.push(row.bucket);
            columns.blocks.push(row.blocks);
            columns.bytes.push(row.bytes);
        }
        columns
    }

    /// The rows, if all columns have the same length, and steps and buckets are what there is.
    fn rows(self, steps: usize, buckets: usize) -> Option<Vec<IndexRow>> {
        let Self { ended, begun, bucket, blocks, bytes } = self;
        let length = ended.len();
        let lengths = [begun.len(), bucket.len(), blocks.len(), bytes.len()];
        if lengths != [length; 4] {
            return None;
        }
        let rows = (0..length).map(|at| {
            let (begun, ended, bucket) = (begun[at], ended[at].wrapping_sub(1), bucket[at]);
            let is_step = |step: u32| (step as usize) < steps || step == IndexRow::NEVER;
            let is_valid = is_step(begun) && is_step(ended) && (bucket as usize) < buckets;
            is_valid.then(|| IndexRow::new((begun, ended), bucket, (blocks[at], bytes[at])))
        });
        rows.collect()
    }
}

impl Body {
    fn of(picture: &Picture) -> Self {
        let index = &picture.index;
        let step = |step: &StepStart| {
            [step.before.event, step.before.at_ns, step.after.event, step.after.at_ns]
        };
        Self {
            program: picture.program.clone(),
            notes: picture.notes.clone(),
            threads: picture.threads.clone(),
            thread_names: picture.thread_names.clone(),
            peak_event: picture.peak_event,
            duration_ns: picture.duration_ns,
            bookmarks: index.bookmarks.clone(),
            steps: index.steps.iter().map(step).collect(),
            rows: Rows::of(index.rows.iter()),
            amendments: Rows::of(index.amendments.iter().map(|amendment| &amendment.row)),
            until: index.amendments.iter().map(|amendment| amendment.until).collect(),
            is_allocation: index.amendments.iter().map(|of| of.is_allocation).collect(),
            page: picture.page.clone(),
        }
    }

    fn picture(self) -> Option<Picture> {
        let buckets = self.threads.len();
        let mut index = QueryIndex::default();
        index.bookmarks = self.bookmarks;
        index.steps = self
            .steps
            .iter()
            .map(|&[event, at, next, next_at]| {
                StepStart::new(StepMoment::new(event, at), StepMoment::new(next, next_at))
            })
            .collect();
        let steps = index.steps.len();
        index.rows = self.rows.rows(steps, buckets)?;
        let rows = self.amendments.rows(steps, buckets)?;
        if [self.until.len(), self.is_allocation.len()] != [rows.len(); 2] || steps == 0 {
            return None;
        }
        let more = rows.into_iter().zip(self.until).zip(self.is_allocation);
        index.amendments = more.map(|((row, until), is)| Amendment::new(row, until, is)).collect();
        Some(Picture {
            page: self.page,
            program: self.program,
            index,
            threads: self.threads,
            thread_names: self.thread_names,
            peak_event: self.peak_event,
            duration_ns: self.duration_ns,
            is_growing: false,
            notes: self.notes,
        })
    }
}

/// Where the index of a trace is: beside it, and where it is kept if that cannot be written.
fn places(trace: &Path) -> Vec<PathBuf> {
    let mut beside = OsString::from(trace);
    beside.push(".index");
    let mut places = vec![PathBuf::from(beside)];
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(std::env::home_dir()?.join(".cache")));
    if let Some(cache) = cache.filter(|path| path.is_absolute()) {
        let whole = fs::canonicalize(trace).unwrap_or_else(|_| trace.to_owned());
        let mut hasher = DefaultHasher::new();
        whole.hash(&mut hasher);
        places.push(cache.join("memledger").join(format!("{:016x}.index", hasher.finish())));
    }
    places
}

/// The picture of the trace as it is now, if it is kept.
pub fn load(trace: &Path, symbols: &SymbolArgs) -> Option<Picture> {
    let header = Header::new(Identity::of(trace)?, symbols);
    places(trace).iter().find_map(|path| read(path, &header))
}

fn read(path: &Path, wanted: &Header) -> Option<Picture> {
    let mut file = File::open(path).ok()?;
    let length = file.metadata().ok().filter(fs::Metadata::is_file)?.len();
    let (mut magic, mut size) = ([0; MAGIC.len()], [0; 4]);
    file.read_exact(&mut magic).ok()?;
    file.read_exact(&mut size).ok()?;
    let size = Some(u32::from_le_bytes(size)).filter(|&size| size <= MAX_HEADER)?;
    let mut header = vec![0; size as usize];
    file.read_exact(&mut header).ok()?;
    let header: Header = postcard::from_bytes(&header).ok()?;
    if magic != *MAGIC || header != *wanted {
        return None;
    }
    let mut body = Vec::new();
    let most = length.saturating_mul(MAX_RATIO);
    zstd::Decoder::new(file).ok()?.take(most).read_to_end(&mut body).ok()?;
    postcard::from_bytes::<Body>(&body).ok()?.picture()
}

/// Keeps the picture beside the trace, or else where files are kept that can be made again.
pub fn save(
    trace: &Path,
    symbols: &SymbolArgs,
    identity: &Identity,
    picture: &Picture,
) -> Result<(), CliError> {
    let failed = |error: &dyn std::fmt::Display| CliError::Failed(format!("no index: {error}"));
    let header = Header::new(identity.clone(), symbols);
    let header = postcard::to_stdvec(&header).map_err(|error| failed(&error))?;
    let mut result = Ok(());
    for place in places(trace) {
        if let Some(folder) = place.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let _ = fs::create_dir_all(folder);
        }
        result = write_private(&place, |out| {
            write(out, &header, picture).map_err(|error| failed(&error))
        });
        if result.is_ok() {
            break;
        }
    }
    result
}

fn write(out: &mut dyn Write, header: &[u8], picture: &Picture) -> io::Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&(header.len() as u32).to_le_bytes())?;
    out.write_all(header)?;
    let mut encoder = zstd::Encoder::new(out, LEVEL)?;
    encoder.include_checksum(true)?;
    let body = Body::of(picture);
    postcard::to_io(&body, &mut encoder).map_err(io::Error::other)?;
    encoder.finish()?;
    Ok(())
}
