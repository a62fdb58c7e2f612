//! The index file: a picture of a trace, [kept](super::kept) beside it. After the header, it is one zstd
//! frame with a checksum: the picture in postcard's format.

use super::kept::{self, Identity, Kind};
use super::picture::Picture;
use crate::error::CliError;
use crate::symbols::SymbolArgs;
use memledger::analysis::{Amendment, IndexRow, QueryIndex, StepMoment, StepStart};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

const KIND: Kind = Kind { magic: b"memledger.index\0", suffix: ".index", version: 3 };

/// How often what is in a file may be larger than the file.
const MAX_RATIO: u64 = 200;

const LEVEL: i32 = 3;

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
    most: Vec<u64>,
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
            columns.most.push(row.most);
        }
        columns
    }

    /// The rows, if all columns have the same length, and steps and buckets are what there is.
    fn rows(self, steps: usize, buckets: usize) -> Option<Vec<IndexRow>> {
        let Self { ended, begun, bucket, blocks, bytes, most } = self;
        let length = ended.len();
        let lengths = [begun.len(), bucket.len(), blocks.len(), bytes.len(), most.len()];
        if lengths != [length; 5] {
            return None;
        }
        let rows = (0..length).map(|at| {
            let (begun, ended, bucket) = (begun[at], ended[at].wrapping_sub(1), bucket[at]);
            let is_step = |step: u32| (step as usize) < steps || step == IndexRow::NEVER;
            let is_valid = is_step(begun) && is_step(ended) && (bucket as usize) < buckets;
            is_valid.then(|| {
                let sums = (blocks[at], bytes[at]);
                let mut row = IndexRow::new((begun, ended), bucket, sums);
                row.most = most[at];
                row
            })
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

/// The picture of the trace as it is now, if it is kept.
pub fn load(trace: &Path, symbols: &SymbolArgs) -> Option<Picture> {
    read(kept::open(&KIND, trace, Some(symbols))?)
}

fn read(file: File) -> Option<Picture> {
    let most = file.metadata().ok()?.len().saturating_mul(MAX_RATIO);
    let mut body = Vec::new();
    zstd::Decoder::new(file).ok()?.take(most).read_to_end(&mut body).ok()?;
    postcard::from_bytes::<Body>(&body).ok()?.picture()
}

/// Keeps the picture.
pub fn save(
    trace: &Path,
    symbols: &SymbolArgs,
    identity: &Identity,
    picture: &Picture,
) -> Result<(), CliError> {
    kept::save(&KIND, trace, Some(symbols), identity, |out| {
        write(out, picture).map_err(|error| CliError::Failed(format!("no index: {error}")))
    })
}

fn write(out: &mut dyn Write, picture: &Picture) -> io::Result<()> {
    let mut encoder = zstd::Encoder::new(out, LEVEL)?;
    encoder.include_checksum(true)?;
    postcard::to_io(&Body::of(picture), &mut encoder).map_err(io::Error::other)?;
    encoder.finish()?;
    Ok(())
}
