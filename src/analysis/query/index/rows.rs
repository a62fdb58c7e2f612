//! The rows of an index, and which of them a rule finds.

use crate::analysis::query::rules::{Kind, Part};
use crate::analysis::query::spans::Sum;

/// Blocks of one bucket that became live in one step and ended in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct IndexRow {
    /// The step in which they ended; [`IndexRow::NEVER`] if they are live at the end.
    pub ended: u32,
    /// The step in which they became live.
    pub begun: u32,
    /// The bucket that they were in when they ended.
    pub bucket: u32,
    /// How many blocks.
    pub blocks: i64,
    /// Their bytes.
    pub bytes: i64,
    /// The bytes of the largest of them, at least.
    pub most: u64,
}

impl IndexRow {
    /// The number of no step.
    pub const NEVER: u32 = u32::MAX;

    /// A row of blocks, of unknown sizes.
    pub fn new((begun, ended): (u32, u32), bucket: u32, (blocks, bytes): (i64, i64)) -> Self {
        Self { ended, begun, bucket, blocks, bytes, most: 0 }
    }
}

/// Blocks, their bytes, and the bytes of the largest.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blocks {
    pub(super) blocks: u64,
    pub(super) bytes: u64,
    pub(super) most: u64,
}

impl Blocks {
    #[inline]
    pub(super) fn add(&mut self, bytes: u64) {
        self.blocks += 1;
        self.bytes = self.bytes.wrapping_add(bytes);
        self.most = self.most.max(bytes);
    }
}

pub(super) fn row(steps: (u32, u32), bucket: u32, sum: Blocks) -> IndexRow {
    let row = IndexRow::new(steps, bucket, (sum.blocks as i64, sum.bytes as i64));
    IndexRow { most: sum.most, ..row }
}

/// PERF: a step and a bucket as one number, which is hashed at once.
#[inline]
pub(super) fn key_of(begun: u32, bucket: u32) -> u64 {
    u64::from(begun) << 32 | u64::from(bucket)
}

pub(super) fn row_of(key: u64, ended: u32, sum: Blocks) -> IndexRow {
    row(((key >> 32) as u32, ended), key as u32, sum)
}

/// The order of rows that have ended in the same step.
pub(super) fn key_in_step(row: &IndexRow) -> u64 {
    key_of(row.begun, row.bucket)
}

/// A row that counts for some rules or positions only: a block that moved to another bucket, a
/// reallocation that turned out to have failed, a size that was corrected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Amendment {
    /// What is added, or taken away if it is negative.
    pub row: IndexRow,
    /// Only for queries whose last position is no later than where this step begins;
    /// [`IndexRow::NEVER`]: for all.
    pub until: u32,
    /// Whether it is about allocations; otherwise it is about blocks that are live or have ended.
    pub is_allocation: bool,
}

impl Amendment {
    /// A row that counts until a step, for allocations or for all else.
    pub fn new(row: IndexRow, until: u32, is_allocation: bool) -> Self {
        Self { row, until, is_allocation }
    }
}

/// What a part of a rule wants, as steps.
pub(super) struct Wanted {
    kind: Kind,
    begun: std::ops::Range<u32>,
    /// Where the last era begins.
    since: u32,
    /// The last position.
    last: u32,
}

impl Wanted {
    /// `at` are the steps that begin at the positions.
    pub(super) fn new(part: &Part, at: &[u32]) -> Self {
        let step = |number: usize| at.get(number).copied().unwrap_or(0);
        let begun = match part.begun_in {
            None => 0..IndexRow::NEVER,
            Some(0) => 0..step(0),
            Some(era) => step(era as usize - 1)..step(era as usize),
        };
        let last = at.len().saturating_sub(1);
        let since = if last > 0 { step(last - 1) } else { 0 };
        Self { kind: part.kind, begun, since, last: step(last) }
    }

    #[inline]
    pub(super) fn has(&self, row: &IndexRow) -> bool {
        self.begun.contains(&row.begun)
            && match self.kind {
                Kind::Live => row.begun < self.last && row.ended >= self.last,
                Kind::Freed => self.since <= row.ended && row.ended < self.last,
                Kind::Allocated => self.since <= row.begun && row.begun < self.last,
                // An index knows no runs.
                Kind::Left => false,
            }
    }

    fn counts(&self, amendment: &Amendment) -> bool {
        self.last <= amendment.until
            && amendment.is_allocation == (self.kind == Kind::Allocated)
            && self.has(&amendment.row)
    }
}

/// The sums of the wanted rows, by bucket, without those that are zero.
pub(super) fn add_rows(
    rows: &[IndexRow],
    amendments: &[Amendment],
    wanted: &Wanted,
) -> Vec<(usize, Sum)> {
    let mut sums = Vec::<Sum>::new();
    let mut add = |row: &IndexRow| {
        let bucket = row.bucket as usize;
        if bucket >= sums.len() {
            sums.resize(bucket + 1, Sum::default());
        }
        let sum = &mut sums[bucket];
        sum.blocks = sum.blocks.wrapping_add_signed(row.blocks);
        sum.bytes = sum.bytes.wrapping_add_signed(row.bytes);
    };
    rows.iter().filter(|row| wanted.has(row)).for_each(&mut add);
    amendments.iter().filter(|more| wanted.counts(more)).for_each(|more| add(&more.row));
    let sums = sums.into_iter().enumerate();
    sums.filter(|(_, sum)| *sum != Sum::default()).collect()
}
