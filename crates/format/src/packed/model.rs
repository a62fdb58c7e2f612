//! What is expected of the next event, by the events before it in the chunk.
//!
//! A program does the same things again and again. So each event has a *token*: what it is, and at
//! which *site*. The site of an allocation is its call stack (without one, its size and alignment);
//! that of a free is the site of its block; that of a scope its tag. The last tokens of a thread
//! predict the next one, and the site predicts the rest:
//!
//! - **Size and alignment**: those of the last block of the site, or what followed the last tokens.
//! - **Address of an allocation**: a block of that size which the thread has freed last; or directly
//!   after one of its last blocks at new addresses.
//! - **Block of a free**: the newest of the site, the oldest, or the one after that freed last.
//! - **Serial**: the next one of the thread.

use super::blocks::{Blocks, LiveList};
use super::event::Role;
use super::probs::{HITS, Probs};
use super::range::Coder;
use crate::compact::Shape;

/// Bits of a token that are the number of the shape.
pub(super) const KIND_BITS: u32 = 4;
/// The number of shapes after which other events are coded as bytes.
pub(super) const MAX_KINDS: usize = 14;
/// The number in place of a shape's for bytes without one.
pub(super) const BYTES: u32 = 15;
/// The token of an event at a site that the chunk has not had.
pub(super) const NEW: u32 = u32::MAX;

/// How many of the last tokens predict the next one, in the first table and in the second.
const LONG: usize = 4;
const TABLE_BITS: u32 = 16;
const SLOTS: usize = 1 << TABLE_BITS;
const LAYOUT_BITS: u32 = 14;
/// The streams of a chunk that have a state of their own; further ones share these.
const MAX_STREAMS: usize = 64;
/// Sizes up to this many units of 16 bytes have free lists of their own; others share some.
const OWN_CLASSES: u32 = 1024;
const SHARED_CLASSES: u32 = 256;
/// The ends of blocks at new addresses that are remembered.
pub(super) const ENDS: usize = 8;

/// A shape, and the last values of its events.
pub(super) struct Kind {
    pub shape: Shape,
    pub role: Role,
    pub value: u64,
    pub stack: u32,
}

/// What is common to some events.
#[derive(Clone, Copy, Default)]
pub(super) struct Site {
    /// The call stack or the value.
    pub value: u64,
    /// Whether it is the layout that makes the site.
    pub by_layout: bool,
    /// The last layouts, the newest first.
    pub layouts: [u64; 2],
    pub blocks: LiveList,
    /// How the last free took its block.
    pub how: u8,
    /// Where the last two addresses came from.
    pub places: u8,
    pub heap: u8,
}

/// Two tokens that have followed the same tokens, each above its confidence, which is 0 if there is
/// none.
#[derive(Clone, Copy, Default)]
struct Slot([u32; 2]);

/// Bits of the confidence.
const CONFIDENCE_BITS: u32 = 3;
const MAX_CONFIDENCE: u32 = (1 << CONFIDENCE_BITS) - 1;

impl Slot {
    #[inline(always)]
    fn update(&mut self, token: u32) {
        let [first, second] = self.0;
        let wanted = token << CONFIDENCE_BITS;
        let [a, b] = [first, second].map(|entry| entry & MAX_CONFIDENCE);
        self.0 = if first & !MAX_CONFIDENCE == wanted {
            [wanted | (a + 1).min(MAX_CONFIDENCE), second]
        } else if second & !MAX_CONFIDENCE == wanted {
            let b = (b + 1).min(MAX_CONFIDENCE);
            if b >= a { [wanted | b, first] } else { [first, wanted | b] }
        } else if a <= 1 {
            [wanted | 1, first]
        } else {
            [first - 1, wanted | 1]
        };
    }
}

/// The state of a thread's stream.
pub(super) struct Stream {
    id: u16,
    /// The last tokens, the newest first.
    tokens: [u32; LONG],
    /// Where the predictions of the next token are, and what they are. PERF: they are loaded when
    /// the last token is known, so that they are there when the next event begins.
    places: [usize; 2],
    slots: [Slot; 2],
    pub serial: u32,
    /// Whether the last serial was not the next one.
    pub has_skipped: usize,
    /// The ends of the last blocks at new addresses.
    pub ends: [u64; ENDS],
    /// The address that was freed last, and its block.
    pub freed: u64,
    pub freed_block: u32,
    /// Whether no block was allocated since.
    pub has_just_freed: bool,
    /// Where the last address came from.
    pub place: usize,
    /// The blocks freed last, by class.
    free: Vec<u32>,
}

impl Stream {
    fn new(id: u16) -> Self {
        Self {
            id,
            tokens: [0; LONG],
            places: [0; 2],
            slots: [Slot::default(); 2],
            serial: 0,
            has_skipped: 0,
            ends: [0; ENDS],
            freed: 0,
            freed_block: 0,
            has_just_freed: false,
            place: 0,
            free: vec![0; (OWN_CLASSES + SHARED_CLASSES) as usize],
        }
    }

    /// The list of free blocks of this class.
    #[inline(always)]
    pub(super) fn free(&mut self, class: u32) -> &mut u32 {
        let list = if class < OWN_CLASSES { class } else { OWN_CLASSES + class % SHARED_CLASSES };
        &mut self.free[list as usize]
    }
}

/// The bytes that a block of this layout takes, in units of 16: as in the C library, with 8 bytes
/// before it. Others round up more; then blocks of more sizes share a class less often.
#[inline(always)]
pub(super) fn class(layout: u64) -> u32 {
    let size = layout >> 8 << 3 | layout & 7;
    ((size + 8).div_ceil(16) as u32).max(2)
}

/// The predictions, and the probabilities that they are right.
pub(super) struct Model {
    pub kinds: Vec<Kind>,
    pub sites: Vec<Site>,
    pub blocks: Blocks,
    pub streams: Vec<Stream>,
    long: Vec<Slot>,
    short: Vec<Slot>,
    layouts: Vec<u64>,
    after: Vec<u64>,
    pub probs: Box<Probs>,
    /// The site that was named last, and the call stack that was new last.
    pub named: u32,
    pub newest_stack: u32,
    pub highest_stack: u32,
    /// The last address that was freed and is of no block of the chunk, and its distance from the
    /// one before.
    pub outside: u64,
    pub outside_step: u64,
    /// Whether a serial of the packet is not the next one of its stream.
    pub skips_serials: bool,
    /// Whether the code is damaged.
    pub is_damaged: bool,
}

impl Model {
    pub(super) fn new() -> Self {
        let mut model = Self {
            kinds: Vec::new(),
            sites: Vec::new(),
            blocks: Blocks::default(),
            streams: Vec::new(),
            long: vec![Slot::default(); SLOTS],
            short: vec![Slot::default(); SLOTS],
            layouts: vec![0; 1 << LAYOUT_BITS],
            after: vec![0; 1024],
            probs: Probs::new(),
            named: 0,
            newest_stack: 0,
            highest_stack: 0,
            outside: 0,
            outside_step: 0,
            skips_serials: false,
            is_damaged: false,
        };
        model.clear();
        model
    }

    /// Begins a chunk.
    pub(super) fn clear(&mut self) {
        self.kinds.clear();
        self.sites.clear();
        self.sites.push(Site::default());
        self.blocks.clear();
        self.streams.clear();
        self.long.fill(Slot::default());
        self.short.fill(Slot::default());
        self.layouts.fill(0);
        self.after.fill(0);
        self.probs = Probs::new();
        (self.named, self.newest_stack, self.highest_stack) = (0, 0, 0);
        (self.outside, self.outside_step, self.is_damaged) = (0, 0, false);
    }

    /// The index of the state of a stream.
    pub(super) fn stream(&mut self, id: u16) -> usize {
        if let Some(index) = self.streams.iter().position(|stream| stream.id == id) {
            return index;
        }
        if self.streams.len() == MAX_STREAMS {
            return usize::from(id) % MAX_STREAMS;
        }
        self.streams.push(Stream::new(id));
        self.streams.len() - 1
    }

    /// Codes which of the likely tokens comes next. `None` if it is another one.
    #[inline(always)]
    pub(super) fn predicted(
        &mut self,
        coder: &mut impl Coder,
        stream: usize,
        token: u32,
    ) -> Option<u32> {
        let slots = self.streams[stream].slots;
        let mut tried = [NEW; 4];
        let mut count = 0;
        for (index, entry) in slots.map(|slot| slot.0).into_iter().flatten().enumerate() {
            let (candidate, confidence) = (entry >> CONFIDENCE_BITS, entry & MAX_CONFIDENCE);
            if confidence == 0 || tried.contains(&candidate) {
                continue;
            }
            let context = (index * 8 + confidence as usize) * 4 + count;
            let at = context * 4 + (candidate as usize & 3);
            if coder.bit(&mut self.probs.hits[at % HITS], candidate == token) {
                return Some(candidate);
            }
            tried[count] = candidate;
            count += 1;
        }
        None
    }

    /// Learns the token that came, and loads the predictions of the next one.
    #[inline(always)]
    pub(super) fn learn(&mut self, stream: usize, token: u32) {
        let state = &mut self.streams[stream];
        self.long[state.places[0] % SLOTS].update(token);
        self.short[state.places[1] % SLOTS].update(token);
        state.tokens.copy_within(0..LONG - 1, 1);
        state.tokens[0] = token;
        let [a, b, c, d] = state.tokens.map(u64::from);
        let short = (a << 32 | b).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let long = short.rotate_left(29) ^ (c << 32 | d).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let long = long.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state.places = [long, short].map(|hash| (hash >> (u64::BITS - TABLE_BITS)) as usize);
        state.slots = [self.long[state.places[0] % SLOTS], self.short[state.places[1] % SLOTS]];
    }

    /// The kind of the last event of a stream.
    #[inline(always)]
    pub(super) fn last_kind(&self, stream: usize) -> usize {
        self.streams[stream].tokens[0] as usize & ((1 << KIND_BITS) - 1)
    }

    /// The layout that followed the same tokens at this site.
    #[inline(always)]
    pub(super) fn expected_layout(&mut self, stream: usize, site: u32) -> &mut u64 {
        let [_, a, b, _] = self.streams[stream].tokens;
        let word = u64::from(a) << 32 | u64::from(b ^ site.rotate_left(16));
        let hash = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &mut self.layouts[(hash >> (u64::BITS - LAYOUT_BITS)) as usize]
    }

    /// The layout that followed this one at any site.
    pub(super) fn after_layout(&mut self, layout: u64) -> &mut u64 {
        let hash = layout.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &mut self.after[(hash >> (u64::BITS - 10)) as usize]
    }
}
