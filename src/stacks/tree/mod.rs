//! The tree of call stacks: one table for the process. Edges are added without locks, and removed all at
//! once, before the next recording.
//!
//! An *edge* leads from a place of the tree to further frames, at most 15, and its number is that of the
//! stack that ends with them: the `CallstackId` of events. So stacks share the outer frames that they have in
//! common. A [`TreePosition`] is an edge, and how many of its frames are behind one. A stack that ends within
//! an edge is an edge without frames.
//!
//! ```text
//! root ── main ── run ── parse ── array          edge 8: 4 frames from the root
//!                           │
//!                           ├── object ── key    edge 9: 2 frames from the place (8, 3)
//!                           └── (none)           edge 10: the stack that ends with `parse`
//! ```
//! Each place has at most one edge for each next frame, and one without frames, so each stack has one number,
//! unless it was [cut](Table::find_or_add_cut) before there was memory for it after all. The frames of edges
//! are in *sequences*, which are kept once: most new stacks are a known sequence at another place.
//!
//! ```text
//! one mapping   edges 16 B x 2^22   buckets u32 x 2^22
//!               words of sequences u64 x 2^22   buckets of sequences u32 x 2^16
//!               bucket of place + hash(frame) -> edge --next--> edge --next--> 0
//! ```
//! A thread writes an edge before it links it into its [bucket](crate::platform::bucket). Pages that are not
//! used take no memory.
#![expect(unsafe_code, reason = "the table is raw memory")]

#[cfg(test)]
pub(super) mod tests;
mod walk;

pub(crate) use walk::{Walk, end, visit_left};

use super::address::{ADDRESS_BITS, compact, expand};
use super::state::{self, MAX_FRAMES};
use crate::platform::{bucket, os};
use crate::trace::write::watch;
use memledger_format::callstacks;
use std::iter;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// The `CallstackId` of an event whose stack was not taken.
pub(crate) const NO_STACK: u32 = 0;
/// Every stack that has no number of its own, because there is no memory for it.
pub(crate) const OTHER: u32 = 1;

/// The roots: how the frames above a stack's outermost frame end. Each is the number of the stack without
/// frames.
///
/// The stack is whole.
pub(crate) const COMPLETE: u32 = 2;
/// There are more frames than the limit.
pub(crate) const TOO_DEEP: u32 = 3;
/// The outermost frame is in code without unwind information.
pub(crate) const NO_TABLE: u32 = 4;
/// The next frame is in memory that cannot be read.
pub(crate) const UNREADABLE: u32 = 5;
/// The next frame is in a library, and since the list of modules was read the loader has unloaded one.
pub(crate) const LIBRARY_CHANGED: u32 = 6;
const FIRST: u32 = 7;

/// The maximum number of edges.
const EDGES: usize = 1 << 22;
/// The maximum number of words that sequences have.
const WORDS: usize = 1 << 22;
const SEQUENCE_BUCKETS: usize = 1 << 16;
/// The edges from the places of an edge are in 256 buckets.
const SPREAD_BITS: u32 = 8;

/// The mark of a frame that was found by a frame pointer, or further out than such a frame.
const GUESS: u64 = 1 << ADDRESS_BITS;
const MODULE_SHIFT: u32 = ADDRESS_BITS + 1;

/// One frame of a stack: a return address, the mark of a guess, and the number of the module that it is in, 0
/// for none.
///
/// NOTE: the module is part of the key, because a library can be loaded where another one was. The mark is,
/// so that stacks that were proved share no frame with one that was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedFrame(u64);

impl PackedFrame {
    pub(crate) fn new(address: u64, module: u16) -> Self {
        Self(compact(address) & (GUESS - 1) | u64::from(module) << MODULE_SHIFT)
    }

    /// The same frame, but marked.
    pub(crate) fn guessed(self) -> Self {
        Self(self.0 | GUESS)
    }

    /// The compact address, the mark, and the number of the module.
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// The address, with the mark as the stream has it.
    fn marked_address(self) -> u64 {
        let mark = if self.0 & GUESS != 0 { callstacks::GUESS } else { 0 };
        expand(self.0 & (GUESS - 1)) | mark
    }
}

/// The place behind a frame: the number of an edge, and how many of its frames lead here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreePosition(u32);

/// The number of bits that have the number of frames of an edge.
const COUNT_BITS: u32 = 4;
const MAX_EDGE_FRAMES: usize = (1 << COUNT_BITS) - 1;
const _: () = assert!(EDGES <= u32::MAX as usize >> COUNT_BITS);
const _: () = assert!(WORDS <= u32::MAX as usize >> COUNT_BITS);

impl TreePosition {
    /// The place before the first frame.
    pub(crate) fn root(root: u32) -> Self {
        Self(root << COUNT_BITS)
    }

    /// None: no place is 0.
    pub(crate) const UNKNOWN: Self = Self(0);

    #[inline(always)]
    pub(crate) fn is_known(self) -> bool {
        self.0 != 0
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    /// This place if this many frames up to here are of one edge, else none.
    #[inline(always)]
    pub(crate) fn if_within_edge(self, frames: usize) -> Self {
        if frames <= self.along() { self } else { Self::UNKNOWN }
    }

    /// The place less the number of frames that lead here from the root, which is the same for all places
    /// within an edge; 0 for none.
    ///
    /// NOTE: it is above 0 for all others. An edge has at most 15 frames, and a higher number than those
    /// further out.
    #[inline(always)]
    pub(crate) fn less(self, frames: usize) -> u64 {
        if self.is_known() { u64::from(self.0.wrapping_sub(frames as u32)) } else { 0 }
    }

    /// The place of which that is [`less`](Self::less).
    #[inline(always)]
    pub(crate) fn of_less(less: u32, frames: usize) -> Option<Self> {
        (less != 0).then_some(Self(less.wrapping_add(frames as u32)))
    }

    #[inline(always)]
    fn edge(self) -> u32 {
        self.0 >> COUNT_BITS
    }

    #[inline(always)]
    fn along(self) -> usize {
        self.0 as usize & MAX_EDGE_FRAMES
    }

    /// The place before the first frame of the same edge.
    #[inline(always)]
    fn before_all(self) -> Self {
        Self(self.0 & !(MAX_EDGE_FRAMES as u32))
    }

    /// The place after further frames of the same edge.
    #[inline(always)]
    fn after(self, frames: usize) -> Self {
        Self(self.0 + frames as u32)
    }
}

/// One edge. All bytes are 0 until it is written.
struct Edge {
    /// The place where it begins.
    parent: AtomicU32,
    /// The index of its first frame among the words of sequences, and the number of its frames: as a place is
    /// built.
    frames: AtomicU32,
    /// The next edge of the same bucket.
    next: AtomicU32,
    /// From the first frame, so that it is seldom looked at for nothing.
    tag: AtomicU32,
}

/// The `frames` of an edge without frames: of a stack that ends there, and of a *cut* stack, which has
/// further frames that there was no memory for.
const NO_FRAMES: u32 = 1 << COUNT_BITS;
const CUT: u32 = 2 << COUNT_BITS;

/// The tags of these two edges; those of others are odd.
const TAG_OF_NONE: u32 = 0;
const TAG_OF_CUT: u32 = 2;

/// Before the frames of a sequence, in one word.
struct Head {
    /// The next sequence of the same bucket.
    next: AtomicU32,
    len: AtomicU32,
}

/// The four arrays of the mapping.
#[derive(Clone, Copy)]
struct Table {
    edges: NonNull<Edge>,
    buckets: NonNull<AtomicU32>,
    words: NonNull<AtomicU64>,
    sequences: NonNull<AtomicU32>,
}

static TABLE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// The number of edges that were requested. The limit on their memory is reached before there are [`EDGES`].
static EDGE_COUNT: AtomicU32 = AtomicU32::new(FIRST);
/// The number of words of sequences that were requested, which can exceed [`WORDS`] by what threads ask for
/// at once. No sequence has the first.
static WORD_COUNT: AtomicU32 = AtomicU32::new(1);
static REFUSED: AtomicU64 = AtomicU64::new(0);

const BYTES_OF_EDGE: usize = size_of::<Edge>() + size_of::<AtomicU32>();
const _: () = assert!(state::MAX_MEMORY as usize / 8 * 9 / BYTES_OF_EDGE < EDGES);

impl Table {
    const EDGE_BYTES: usize = EDGES * size_of::<Edge>();
    const BUCKET_BYTES: usize = EDGES * size_of::<AtomicU32>();
    const WORD_BYTES: usize = WORDS * size_of::<AtomicU64>();
    const BYTES: usize = Self::EDGE_BYTES
        + Self::BUCKET_BYTES
        + Self::WORD_BYTES
        + SEQUENCE_BUCKETS * size_of::<AtomicU32>();

    #[inline(always)]
    fn get() -> Option<Self> {
        let start = TABLE.load(Ordering::Acquire);
        if start.is_null() { Self::map() } else { Self::at(start) }
    }

    #[cold]
    fn map() -> Option<Self> {
        let pages = os::map(Self::BYTES)?;
        let stored = TABLE.compare_exchange(
            ptr::null_mut(),
            pages.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match stored {
            Ok(_) => Self::at(pages.as_ptr()),
            Err(existing) => {
                os::unmap(pages, Self::BYTES);
                Self::at(existing)
            }
        }
    }

    #[inline(always)]
    fn at(start: *mut u8) -> Option<Self> {
        let words = Self::EDGE_BYTES + Self::BUCKET_BYTES;
        Some(Self {
            edges: NonNull::new(start)?.cast(),
            buckets: NonNull::new(start.wrapping_add(Self::EDGE_BYTES))?.cast(),
            words: NonNull::new(start.wrapping_add(words))?.cast(),
            sequences: NonNull::new(start.wrapping_add(words + Self::WORD_BYTES))?.cast(),
        })
    }

    #[inline(always)]
    fn edge(&self, number: u32) -> Option<&'static Edge> {
        // SAFETY: the index is checked; zeroed pages are valid edges and are never unmapped.
        ((number as usize) < EDGES).then(|| unsafe { self.edges.add(number as usize).as_ref() })
    }

    /// `count` words of sequences.
    #[inline(always)]
    fn words(&self, index: usize, count: usize) -> &'static [AtomicU64] {
        if index + count > WORDS {
            return &[];
        }
        // SAFETY: the range is checked; zeroed pages are valid words and are never unmapped.
        unsafe { slice::from_raw_parts(self.words.add(index).as_ptr(), count) }
    }

    /// What is before the first frame of a sequence.
    #[inline(always)]
    fn head(&self, sequence: u32) -> Option<&'static Head> {
        let index = (sequence as usize).checked_sub(1).filter(|index| *index < WORDS)?;
        // SAFETY: the index is checked; a zeroed word is a valid head, and this word is only used as one.
        Some(unsafe { self.words.add(index).cast().as_ref() })
    }

    /// The frames of an edge from this place on.
    #[inline(always)]
    fn rest(&self, place: TreePosition) -> &'static [AtomicU64] {
        let frames = self.edge(place.edge()).map_or(0, |edge| edge.frames.load(Ordering::Relaxed));
        let (index, count) = (frames >> COUNT_BITS, frames as usize & MAX_EDGE_FRAMES);
        let along = place.along();
        self.words(index as usize + along, count.saturating_sub(along))
    }

    /// The bucket of the edges from a place whose first frame has this hash.
    #[inline(always)]
    fn bucket(&self, place: TreePosition, hash: u64) -> &'static AtomicU32 {
        // PERF: edges are near those where they begin, so few pages are in use, and those that are needed
        // together are near each other.
        let spread = (hash ^ place.along() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.bucket_at(place.edge() as usize + (spread >> (u64::BITS - SPREAD_BITS)) as usize)
    }

    #[inline(always)]
    fn bucket_at(&self, number: usize) -> &'static AtomicU32 {
        // SAFETY: the index is below `EDGES`; zeroed pages are valid and are never unmapped.
        unsafe { self.buckets.add(number % EDGES).as_ref() }
    }

    fn sequence_bucket(&self, hash: usize) -> &'static AtomicU32 {
        // SAFETY: the index is below the number of these buckets; zeroed pages are valid and are never
        // unmapped.
        unsafe { self.sequences.add(hash % SEQUENCE_BUCKETS).as_ref() }
    }

    /// The edge from `place` that begins with these frames, outermost first; it has as many of them as it can
    /// if it is new. Without frames: the stack that ends there. `None` if there is no memory for a new one.
    fn find_or_add(&self, place: TreePosition, frames: &[AtomicU64], known: u32) -> Option<u32> {
        let (first, tag) = match frames.first() {
            Some(frame) => (load(frame), (load(frame) ^ load(frame) >> 32) as u32 | 1),
            None => (0, TAG_OF_NONE),
        };
        self.find_or_add_edge(place, first, tag, || {
            if bytes() >= state::memory_limit() {
                return None;
            }
            let frames = frames.get(..frames.len().min(MAX_EDGE_FRAMES))?;
            let sequence = match (frames, known) {
                ([], _) => return Some(NO_FRAMES),
                (_, 0) => intern(frames)?,
                (_, known) => known,
            };
            Some(sequence << COUNT_BITS | frames.len() as u32)
        })
    }

    /// The cut stack at `place`, or at the nearest place further out that has one.
    ///
    /// NOTE: a cut stack may take an eighth more memory than others, and a root always has one.
    #[cold]
    fn find_or_add_cut(&self, place: TreePosition) -> Option<u32> {
        let limit = state::memory_limit();
        ends_of(place).find_map(|at| {
            self.find_or_add_edge(at, 0, TAG_OF_CUT, || {
                (bytes() < limit + limit / 8 || at.edge() < FIRST).then_some(CUT)
            })
        })
    }

    /// The edge from `place` that has this tag, and this first frame, 0 if it has none. If it is new,
    /// `frames` are its own.
    #[inline(always)]
    fn find_or_add_edge(
        &self,
        place: TreePosition,
        first: u64,
        tag: u32,
        frames: impl FnOnce() -> Option<u32>,
    ) -> Option<u32> {
        let is_wanted = |number| {
            let Some(edge) = self.edge(number) else { return false };
            edge.parent.load(Ordering::Relaxed) == place.bits()
                && edge.tag.load(Ordering::Relaxed) == tag
                && self.rest(TreePosition(number << COUNT_BITS)).first().map_or(0, load) == first
        };
        let next = |number| Some(&self.edge(number)?.next);
        bucket::find_or_add(self.bucket(place, first), next, is_wanted, || {
            let frames = frames()?;
            let number = EDGE_COUNT.fetch_add(1, Ordering::Relaxed);
            let edge = self.edge(number)?;
            edge.parent.store(place.bits(), Ordering::Relaxed);
            edge.tag.store(tag, Ordering::Relaxed);
            // NOTE: the worker, which goes by numbers, takes an edge for written when it sees this.
            edge.frames.store(frames, Ordering::Release);
            if let Some(logs) = watch::watched_logs() {
                // NOTE: before any event can have the number.
                logs.stacks.add(number, words_of(number));
            }
            Some(number)
        })
    }
}

#[inline(always)]
fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

/// Where a stack is.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// The `CallstackId`.
    pub(crate) number: u32,
    /// Its place, or that of its outermost frames if there is no memory for all.
    pub(crate) place: TreePosition,
    /// The number of frames behind the place where the search began.
    pub(crate) frames: usize,
}

/// *Hook.* The stack that has further frames behind a place, outermost first; it is added if it is new.
/// `known` is their sequence, or 0.
pub(crate) fn find_or_add(from: TreePosition, frames: &[AtomicU64], known: u32) -> Found {
    let (mut place, mut at) = (from, 0);
    let Some(table) = Table::get() else { return without_number(place, at) };
    loop {
        let (along, wanted) = (table.rest(place), frames.get(at..).unwrap_or_default());
        let same = along.iter().zip(wanted).take_while(|(a, b)| load(a) == load(b)).count();
        (place, at) = (place.after(same), at + same);
        let wanted = wanted.get(same..).unwrap_or_default();
        if wanted.is_empty() && same == along.len() {
            return Found { number: place.edge(), place, frames: at };
        }
        let known = if known == 0 { 0 } else { known + at as u32 };
        match table.find_or_add(place, wanted, known) {
            None => return without_memory(table, place, at),
            Some(number) if wanted.is_empty() => return Found { number, place, frames: at },
            Some(number) => place = TreePosition(number << COUNT_BITS),
        }
    }
}

/// Where the frames behind `place` have no memory.
#[cold]
#[inline(never)]
fn without_memory(table: Table, place: TreePosition, frames: usize) -> Found {
    match table.find_or_add_cut(place) {
        Some(number) => Found { number, place, frames },
        None => without_number(place, frames),
    }
}

#[cold]
fn without_number(place: TreePosition, frames: usize) -> Found {
    REFUSED.fetch_add(1, Ordering::Relaxed);
    Found { number: OTHER, place, frames }
}

/// *Hook.* The sequence of these frames, which is kept from here on; `None` if there is no memory for it.
pub(crate) fn intern(frames: &[AtomicU64]) -> Option<u32> {
    let table = Table::get()?;
    let hash = frames.iter().fold(frames.len() as u64, |hash, frame| {
        (hash ^ load(frame)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    });
    let is_wanted = |sequence| {
        let len = table.head(sequence).map_or(0, |head| head.len.load(Ordering::Relaxed));
        len as usize == frames.len()
            && sequence_frames(sequence, frames.len())
                .iter()
                .zip(frames)
                .all(|(a, b)| load(a) == load(b))
    };
    let next = |sequence| Some(&table.head(sequence)?.next);
    bucket::find_or_add(table.sequence_bucket((hash >> 40) as usize), next, is_wanted, || {
        // NOTE: the count is near `WORDS` at most, so it never wraps.
        let used = WORD_COUNT.load(Ordering::Relaxed) as usize + frames.len() + 1;
        if used > WORDS || bytes() >= state::memory_limit() {
            return None;
        }
        let head = WORD_COUNT.fetch_add(frames.len() as u32 + 1, Ordering::Relaxed);
        let words = table.words(head as usize + 1, frames.len());
        table.head(head + 1)?.len.store(words.len() as u32, Ordering::Relaxed);
        for (to, frame) in words.iter().zip(frames) {
            to.store(load(frame), Ordering::Relaxed);
        }
        (!words.is_empty()).then_some(head + 1)
    })
}

/// *Hook.* The first frames of a sequence.
#[inline(always)]
pub(crate) fn sequence_frames(sequence: u32, frames: usize) -> &'static [AtomicU64] {
    Table::get().map_or(&[], |table| table.words(sequence as usize, frames))
}

/// *Hook.* The place that is this many frames further out.
#[inline]
pub(crate) fn outwards(mut place: TreePosition, mut frames: usize) -> TreePosition {
    while frames >= place.along() {
        frames -= place.along();
        match parent(place.edge()) {
            Some(parent) if parent.0 < place.0 => place = parent,
            _ => break,
        }
        if frames == 0 {
            return place;
        }
    }
    TreePosition(place.0 - frames.min(place.along()) as u32)
}

/// The place where an edge begins that is no root.
fn parent(edge: u32) -> Option<TreePosition> {
    let edge = Table::get()?.edge(edge).filter(|_| edge >= FIRST)?;
    Some(TreePosition(edge.parent.load(Ordering::Relaxed)))
}

/// The places at the ends of the edges that lead to a place, from this one outwards; the last one is a root.
fn ends_of(place: TreePosition) -> impl Iterator<Item = TreePosition> {
    // NOTE: in a tree that is being forgotten, the parent of an edge is 0.
    iter::successors(Some(place), |at| parent(at.edge()).filter(|parent| parent.0 < at.0))
}

/// The frames of an edge up to a place, outermost first.
fn frames_within(end: TreePosition) -> &'static [AtomicU64] {
    let frames = Table::get().map_or(&[][..], |table| table.rest(end.before_all()));
    frames.get(..end.along()).unwrap_or_default()
}

/// *Hook.* The frames up to a place, innermost first.
pub(crate) fn frames_of(place: TreePosition) -> impl Iterator<Item = PackedFrame> {
    let frames = ends_of(place).flat_map(|end| frames_within(end).iter().rev());
    frames.map(|frame| PackedFrame(load(frame)))
}

/// The root of a place.
fn root_of(place: TreePosition) -> u32 {
    ends_of(place).last().map_or(OTHER, TreePosition::edge)
}

/// [`Edge::frames`] of a stack, 0 if it is not written.
fn frames_word(stack: u32) -> u32 {
    let edge = Table::get().and_then(|table| table.edge(stack));
    edge.map_or(0, |edge| edge.frames.load(Ordering::Acquire))
}

/// The place where the frames of a stack end.
fn place_of(stack: u32) -> TreePosition {
    TreePosition(stack << COUNT_BITS | frames_word(stack) & MAX_EDGE_FRAMES as u32)
}

/// Whether an edge of this number is written.
fn is_written(stack: u32) -> bool {
    stack < FIRST || frames_word(stack) != 0
}

/// In the word of a root, which no frame has; and there, whether a stack below it is cut.
const ROOT: u64 = 1 << 63;
const IS_CUT: u64 = 1 << 62;
const _: () = assert!((MAX_FRAMES as usize) < watch::STACK_WORDS);

/// *Hook.* A stack for a watcher: the addresses of its frames with their marks, innermost first, and its
/// root.
fn words_of(stack: u32) -> impl Iterator<Item = u64> {
    let place = place_of(stack);
    let cut = if frames_word(stack) == CUT { IS_CUT } else { 0 };
    frames_of(place)
        .map(PackedFrame::marked_address)
        .chain([ROOT | cut | u64::from(root_of(place))])
}

/// How many events had [`OTHER`] since the last call, because there was no memory for their stacks.
pub(crate) fn take_refused() -> u64 {
    REFUSED.swap(0, Ordering::Relaxed)
}

/// Removes all edges. Requires that recording is paused and no thread is inside a hook.
///
/// NOTE: a destination of an ended recording that is still being written may then lack stacks.
pub(super) fn forget() {
    let edges = end();
    let words = (WORD_COUNT.load(Ordering::Relaxed) as usize).min(WORDS);
    let Some(table) = Table::get().filter(|_| edges > FIRST || words > 1) else { return };
    for edge in (FIRST..edges).filter_map(|number| table.edge(number)) {
        for field in [&edge.parent, &edge.frames, &edge.next, &edge.tag] {
            field.store(0, Ordering::Relaxed);
        }
    }
    let used = EDGES.min(edges as usize + (1 << SPREAD_BITS));
    let buckets = (0..used).map(|number| table.bucket_at(number));
    let of_sequences = (0..SEQUENCE_BUCKETS).map(|number| table.sequence_bucket(number));
    buckets.chain(of_sequences).for_each(|bucket| bucket.store(0, Ordering::Relaxed));
    table.words(0, words).iter().for_each(|word| word.store(0, Ordering::Relaxed));
    EDGE_COUNT.store(FIRST, Ordering::Release);
    WORD_COUNT.store(1, Ordering::Relaxed);
}

/// The number of bytes in use by the table.
pub(crate) fn bytes() -> u64 {
    let edges = (EDGE_COUNT.load(Ordering::Relaxed) as usize).min(EDGES) - FIRST as usize;
    let words = (WORD_COUNT.load(Ordering::Relaxed) as usize).min(WORDS) - 1;
    (edges * BYTES_OF_EDGE + words * size_of::<u64>()) as u64
}
