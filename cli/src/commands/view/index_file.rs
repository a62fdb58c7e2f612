//! The index file: a picture of a trace, [kept](super::kept) beside it. After the header, it is one zstd
//! frame with a checksum: the picture in postcard's format.

use super::kept::{self, Identity, Kind};
use super::picture::Picture;
use crate::error::CliError;
use crate::symbols::SymbolArgs;
use memledger_analysis::{IndexRow, QueryIndex, StepMoment, StepStart};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

const KIND: Kind = Kind { magic: b"memledger.index\0", suffix: ".index", version: 4 };

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
    #[serde(with = "serde_bytes_of")]
    page: Vec<u8>,
}

#[derive(Default, Serialize, Deserialize)]
struct Rows {
    ended: Vec<u32>,
    begun: Vec<u32>,
    /// As steps after that, 0 in most rows.
    since: Vec<u32>,
    allocation_until: Vec<u32>,
    free_until: Vec<u32>,
    bucket: Vec<u32>,
    blocks: Vec<u64>,
    bytes: Vec<u64>,
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
    fn of(rows: &[IndexRow]) -> Self {
        let mut columns = Self::default();
        for row in rows {
            // NEVER is the largest number; its successor is short.
            columns.ended.push(row.ended.wrapping_add(1));
            columns.allocation_until.push(row.allocation_until.wrapping_add(1));
            columns.free_until.push(row.free_until.wrapping_add(1));
            columns.begun.push(row.begun);
            columns.since.push(row.since.wrapping_sub(row.begun));
            columns.bucket.push(row.bucket);
            columns.blocks.push(row.blocks);
            columns.bytes.push(row.bytes);
            columns.most.push(row.most);
        }
        columns
    }

    /// The rows, if all columns have the same length, and steps and buckets are what there is.
    fn rows(self, steps: usize, buckets: usize) -> Option<Vec<IndexRow>> {
        let length = self.ended.len();
        let steps_of = [&self.begun, &self.since, &self.allocation_until, &self.free_until];
        let sums_of = [&self.blocks, &self.bytes, &self.most];
        let lengths = steps_of.map(Vec::len).into_iter().chain(sums_of.map(Vec::len));
        if lengths.chain([self.bucket.len()]).any(|of| of != length) {
            return None;
        }
        let is_step = |step: u32| (step as usize) < steps || step == IndexRow::NEVER;
        let rows = (0..length).map(|at| {
            let mut row = IndexRow::default();
            (row.ended, row.begun) = (self.ended[at].wrapping_sub(1), self.begun[at]);
            row.since = row.begun.wrapping_add(self.since[at]);
            row.allocation_until = self.allocation_until[at].wrapping_sub(1);
            row.free_until = self.free_until[at].wrapping_sub(1);
            (row.bucket, row.most) = (self.bucket[at], self.most[at]);
            (row.blocks, row.bytes) = (self.blocks[at], self.bytes[at]);
            let all = [row.ended, row.begun, row.since, row.allocation_until, row.free_until];
            let is_valid = all.into_iter().all(is_step) && (row.bucket as usize) < buckets;
            is_valid.then_some(row)
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
            rows: Rows::of(&index.rows),
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
        if steps == 0 {
            return None;
        }
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
