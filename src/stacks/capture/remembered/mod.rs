//! The stack of an allocation, found by means of the thread's previous one.
//!
//! A walk goes from the innermost frame outwards. It depends on nothing but the registers at its
//! start and the words of the stack that it reads. So a walk that reaches the registers of a frame
//! of the previous walk, at the same place, continues as that one did, if all words that the
//! previous walk read from there on are unchanged. That frame is the *joint*. Most allocations differ
//! from the previous one in a few frames.
//!
//! ```text
//!            previous stack                  this one
//! outermost  main          ┐ words unchanged  main           ┐ taken over,
//!            run           │                  run            │ with its place in the tree
//!            parse         ┘                  parse (joint)  ┘
//!            array                            print          ┐ a chain, or walked
//! innermost  grow                             format         ┘
//! ```
//! 1. Words are compared from the outermost one inwards, down to the stack pointer. The last frame whose
//!    return address is among those that are unchanged is the joint.
//! 2. From the allocator's caller to the joint, the thread has most often gone before: [`Chains`].
//! 3. The number of a stack that has the same chain behind the same place is usually also known: [`Pair`].
//!
//! What is not found so is [walked](walk), and looked up in the tree.

// They have signals, as Linux leaves them on a stack.
#[cfg(test)]
#[cfg(elf)]
mod tests;
mod walk;

use super::chains::{Chain, Chains, Condition, Key, Kind};
use super::memory::{OwnStack, Word};
use super::processor::{self, Registers, SpDistance};
use super::sampler::Sampler;
use super::step::Step;
use super::{lookup, step};
use crate::platform::os;
use crate::stacks::tree::{self, Found, TOO_DEEP, TreePosition};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// The maximum number of frames of a stack: Unreal's.
pub(crate) const MAX_FRAMES: usize = 255;
/// The maximum number of words: of each frame the return address and the saved `fp`, and the return address
/// that is beyond the limit of frames. A stack with more, because CFAs are in memory, is not remembered.
///
/// PERF: a power of two, so that an index needs no comparison to be within the array.
const WORDS: usize = 512;
const _: () = assert!(2 * MAX_FRAMES + 1 < WORDS);
/// The number of pairs of a thread.
const PAIRS: usize = 2048;

/// What is known of the word with the same index and, if that is the return address of a frame, of the frame.
/// All bytes are 0 at first.
///
/// PERF: each field is a cell, as those of [`Step`].
struct Remembered {
    fp: Cell<usize>,
    frame: Cell<Frame>,
    /// If the word is a return address, the distance of the frame's stack pointer.
    sp: Cell<SpDistance>,
}

/// What a remembered word is, and its frame.
///
/// ```text
/// bits 0..8     the number of frames from the outermost one up to this one; for a word that is no return
///               address, those before it
/// bits 8..16    the kind: whether the word is a return address, and the walk from this frame outwards
///               depends on its `fp`
/// bits 32..64   the place in the tree, less the number of frames; 0 if it was not needed yet. That of the
///               last frame is known
/// ```
/// PERF: one word, because most events write several. The frames of one edge have the same bits 32 to 64.
#[derive(Clone, Copy)]
struct Frame(u64);

impl Frame {
    #[inline(always)]
    fn new(kind: Kind, frames: usize, place: TreePosition) -> Self {
        Self::of(kind, frames, place.less(frames))
    }

    /// `origin` is the place less the frames.
    #[inline(always)]
    fn of(kind: Kind, frames: usize, origin: u64) -> Self {
        Self(origin << 32 | (kind as u64) << 8 | frames as u64)
    }

    #[inline(always)]
    fn frames(self) -> usize {
        usize::from(self.0 as u8)
    }

    #[inline(always)]
    fn kind(self) -> Kind {
        Kind::from_bits(self.0 >> 8)
    }

    /// `None` if it was not needed yet.
    #[inline(always)]
    fn place(self) -> Option<TreePosition> {
        TreePosition::of_less((self.0 >> 32) as u32, self.frames())
    }
}

/// A sequence of frames behind a place, and which stack that is. All bytes are 0 at first.
#[derive(Clone, Copy, Default)]
struct Pair {
    key: u64,
    place: TreePosition,
    number: u32,
}

impl Pair {
    /// A sequence, which is not 0, and the place that it is behind.
    #[inline(always)]
    fn key(sequence: u32, from: TreePosition) -> u64 {
        u64::from(sequence) << 32 | u64::from(from.bits())
    }
}

/// What remembered stacks depend on, besides registers and words of memory.
#[derive(Clone, Copy, Default)]
struct Basis {
    /// The number of the thread, because another thread can take over the memory.
    thread: u32,
    /// That of the list of modules.
    generation: u32,
    /// The maximum number of frames of a stack; 0 if nothing may be remembered.
    limit: u32,
    /// [`os::unloads`]
    unloads: u32,
}

impl Basis {
    #[inline(always)]
    fn now(thread: u32, limit: u32) -> Self {
        Self { thread, generation: lookup::generation(), limit, unloads: os::unloads() }
    }

    /// PERF: the derived comparison has four branches, or as many bytes of flags.
    #[inline(always)]
    fn is(self, other: Self) -> bool {
        let differences = [
            self.thread ^ other.thread,
            self.generation ^ other.generation,
            self.limit ^ other.limit,
            self.unloads ^ other.unloads,
        ];
        differences.into_iter().fold(0, |all, one| all | one) == 0
    }
}

/// What a thread remembers. All bytes are 0 at first.
///
/// PERF: in this order, so that what each event reads is in few lines of the cache.
#[repr(C, align(64))]
pub(super) struct Memory {
    pub(super) sampler: Sampler,
    basis: Cell<Basis>,
    own: OwnStack,
    /// The number of remembered words, 0 if no stack is remembered. The last one is the return address of a
    /// frame, if there is one.
    len: Cell<usize>,
    /// The root of the remembered stack.
    root: Cell<u32>,
    /// The number of the remembered stack; 0 if its innermost frames are not remembered.
    number: Cell<u32>,
    /// The number of frames that the last walk has passed although their words were unchanged: of functions
    /// that have returned, where others have left a hole in their frames.
    stale: Cell<usize>,
    /// The words that the walk has read, the outermost ones first. What the walk from a frame outwards
    /// depends on is before its return address. The word after the last one has the address 0.
    words: [Cell<Word>; WORDS + 1],
    remembered: [Remembered; WORDS],
    pairs: [Cell<Pair>; PAIRS],
    chains: Chains,
    /// The frames of the present walk that are not remembered, innermost first.
    walked: [Step; MAX_FRAMES],
    /// The same for the tree, outermost first.
    new: [AtomicU64; MAX_FRAMES],
}

impl Memory {
    /// New memory, or `None` if the system has none.
    #[cold]
    pub(super) fn map() -> Option<NonNull<Self>> {
        os::map(size_of::<Self>()).map(NonNull::cast)
    }

    /// Forgets all that depends on the tree.
    #[cold]
    pub(super) fn forget(&self) {
        self.basis.set(Basis::default());
        self.pairs.iter().for_each(|pair| pair.set(Pair::default()));
    }

    /// Forgets what depends on another basis. Returns whether the list of modules has all that can be on a
    /// stack: not if the loader has unloaded a library since it was read.
    #[cold]
    #[inline(never)]
    fn begin(&self, thread: u32, limit: u32) -> bool {
        let basis = Basis::now(thread, limit);
        if self.basis.replace(basis).thread != basis.thread {
            self.own.reset();
        }
        self.set_len(0);
        self.chains.forget();
        let is_listed = lookup::is_listed(basis.unloads);
        if !is_listed {
            self.basis.set(Basis { limit: 0, ..basis });
        }
        is_listed
    }

    /// The `CallstackId` of the stack from the caller of the function on that has these registers, in
    /// the thread with this number. A stack has at most `limit` frames, 1 to [`MAX_FRAMES`].
    #[inline(always)]
    pub(super) fn stack_id(&self, own: &Registers, thread: u32, limit: u32) -> u32 {
        if self.own.is_left() {
            self.leave_stack();
        }
        let is_same = self.basis.get().is(Basis::now(thread, limit));
        let is_listed = is_same || self.begin(thread, limit);
        let limit = limit as usize;
        if !is_listed {
            return self.walk_in_lasting(own, limit);
        }
        if let Some(start) = self.own_caller(own)
            && let Some(number) = self.known_chain(own, start)
        {
            return number;
        }
        self.walk(own, limit)
    }

    /// Forgets a stack that the thread is not on any more, and that nothing keeps mapped.
    #[cold]
    #[inline(never)]
    fn leave_stack(&self) {
        self.own.reset();
        self.set_len(0);
    }

    /// The registers of the caller, if its return address is on the checked part of the thread's own stack.
    #[inline(always)]
    fn own_caller(&self, own: &Registers) -> Option<Registers> {
        let code = lookup::find(own.return_address() as u64).code;
        let (caller, _) = code
            .is_common()
            .then(|| processor::common(*own, code, |address| self.own.word(address)))??;
        Some(caller)
    }

    /// The stack from `start`, the caller of `own`, on, if a chain leads from there to a frame of the
    /// remembered stack.
    #[inline(always)]
    fn known_chain(&self, own: &Registers, start: Registers) -> Option<u32> {
        let same = step::unchanged(&self.words, start.sp);
        if self.is_last(same, start) {
            return Some(self.number.get());
        }
        let joint = self.frame_before(same)?;
        if let Some(number) = self.known_chain_to(joint, start) {
            return Some(number);
        }
        if self.stale.get() == 0 { None } else { self.known_chain_further_out(joint, own) }
    }

    /// The same if a chain leads to the frame that is as much further out as the last walk has arrived.
    #[cold]
    #[inline(never)]
    fn known_chain_further_out(&self, mut joint: usize, own: &Registers) -> Option<u32> {
        for _ in 0..self.stale.get() {
            joint = self.frame_before(joint)?;
        }
        self.known_chain_to(joint, self.own_caller(own)?)
    }

    /// The same if a chain leads to the frame `joint`.
    #[inline(always)]
    fn known_chain_to(&self, joint: usize, start: Registers) -> Option<u32> {
        let key = self.key(start, joint)?;
        let [newer, older] = self.chains.of_key(key);
        // PERF: selected without a branch, which no processor would predict.
        let chain = if newer.has(key) { newer } else { older };
        if !chain.has(key) {
            return None;
        }
        let (innermost, sp, fp) = (start.return_word().address, start.sp, start.fp);
        if let Some(number) = self.by_chain(chain, joint, innermost, sp, fp) {
            return Some(number);
        }
        // NOTE: a chain that has not led to the joint has left everything from there outwards as it was.
        let has_older = newer.has(key) && older.has(key);
        if has_older { self.by_chain(older, joint, innermost, sp, fp) } else { None }
    }

    /// The stack if this chain leads from these registers to the remembered frame `joint`. `innermost` is the
    /// address of the first return word.
    ///
    /// PERF: out of line, so that all that the loop needs is in registers. Each of the start's registers is
    /// an argument of its own: as a structure, they would be in memory in the caller, too.
    #[inline(never)]
    fn by_chain(
        &self,
        chain: &Chain,
        joint: usize,
        innermost: usize,
        sp: usize,
        fp: usize,
    ) -> Option<u32> {
        let limit = self.basis.get().limit as usize;
        let conditions = self.chains.conditions(chain)?;
        if joint + conditions.len() + 1 >= WORDS {
            return None;
        }
        let frames = self.frame(joint).frames() + chain.frames();
        // NOTE: a remembered stack that was too deep lacks its outermost frames, so it can only be continued
        // to one that is as deep.
        if frames > limit || self.root.get() == TOO_DEEP && frames != limit {
            return None;
        }
        let from = self.place(joint);
        let key = Pair::key(chain.sequence(), from);
        let pair = self.pair(key).get();
        let is_known = pair.key == key;
        let place = if is_known { pair.place } else { TreePosition::UNKNOWN };
        let within = place.if_within_edge(chain.frames());
        if !self.follow(chain, conditions, joint, (innermost, sp, fp), (frames, within)) {
            self.set_len(joint + 1);
            self.number.set(0);
            return None;
        }
        if !is_known {
            return Some(self.look_up_slow(from, chain));
        }
        if !within.is_known() {
            self.set_place(joint + conditions.len(), place);
        }
        self.number.set(pair.number);
        Some(pair.number)
    }

    /// Whether `start` are the registers of the last remembered frame, whose return address is the first word
    /// that is below them: then the stack is the remembered one.
    #[inline(always)]
    fn is_last(&self, word: usize, start: Registers) -> bool {
        word + 1 == self.len.get() && self.is_at(word, start) && self.number.get() != 0
    }

    /// Sets the number of remembered words.
    #[inline(always)]
    fn set_len(&self, len: usize) {
        self.len.set(len);
        self.word(len).set(Word::default());
    }

    /// The last frame whose return address is before the word of this index.
    #[inline(always)]
    fn frame_before(&self, mut word: usize) -> Option<usize> {
        loop {
            word = word.checked_sub(1)?;
            if self.frame(word).kind().is_return() {
                return Some(word);
            }
        }
    }

    /// The return address of the function that returns to `start`, if it is known where that is, and it is
    /// not the joint's, whose stack pointer is at this distance; else 0.
    #[inline(always)]
    fn caller(&self, start: Registers, distance: usize) -> usize {
        let code = lookup::find(start.return_address() as u64).code;
        processor::next_return_address(code, start, distance)
    }

    /// Whether a walk from these registers to the frame `joint` would go as this chain does. Its frames are
    /// now those after that one, so that there are `frames`. The last of them is at `place`, if that is known
    /// and all are within an edge.
    #[inline(always)]
    fn follow(
        &self,
        chain: &Chain,
        conditions: &[Cell<Condition>],
        joint: usize,
        (innermost, sp, mut fp): (usize, usize, usize),
        (mut frames, place): (usize, TreePosition),
    ) -> bool {
        // PERF: by the kind, and without a branch, which no processor would predict.
        let bases = [0, 0, sp, self.remembered(joint).fp.get()];
        let (kind, distance) = chain.start();
        let required = bases[kind as usize].wrapping_add_signed(distance);
        let mut changed = if kind.is_return() { 0 } else { fp ^ required };
        let mut word = joint + conditions.len();
        self.set_len(word + 1);
        let origin = place.less(frames);
        for condition in conditions {
            let condition = condition.get();
            let address = innermost.wrapping_add(condition.distance());
            let value = Word { address, value: 0 }.now();
            let kind = condition.kind();
            changed |= kind.read(value) ^ bases[kind as usize].wrapping_add(condition.value());
            self.word(word).set(Word { address, value });
            let remembered = self.remembered(word);
            remembered.fp.set(fp);
            remembered.frame.set(Frame::of(kind, frames, origin));
            remembered.sp.set(condition.sp());
            word = word.wrapping_sub(1);
            let is_return = kind.is_return();
            fp = if is_return { fp } else { value };
            frames -= usize::from(is_return);
        }
        changed == 0
    }

    #[cold]
    #[inline(never)]
    fn look_up_slow(&self, from: TreePosition, chain: &Chain) -> u32 {
        let frames = tree::sequence_frames(chain.sequence(), chain.frames());
        self.find_or_add(from, frames, chain.sequence())
    }

    /// The number of the remembered stack, whose last frames are these, which are behind the place `from`. If
    /// they have a `sequence`, notes the pair.
    fn find_or_add(&self, from: TreePosition, frames: &[AtomicU64], sequence: u32) -> u32 {
        let Found { number, place, frames: found } = tree::find_or_add(from, frames, sequence);
        // NOTE: what has no place in the tree, because there is no memory for it, is not remembered.
        for _ in found..frames.len() {
            let last = self.len.get().checked_sub(1).and_then(|last| self.frame_before(last));
            self.set_len(last.map_or(0, |last| last + 1));
        }
        if let Some(last) = self.len.get().checked_sub(1) {
            self.set_place(last, place);
        }
        let is_whole = found == frames.len() && number != tree::OTHER;
        self.number.set(if is_whole { number } else { 0 });
        if is_whole && sequence != 0 {
            let key = Pair::key(sequence, from);
            self.pair(key).set(Pair { key, place, number });
        }
        number
    }

    #[inline(always)]
    fn pair(&self, key: u64) -> &Cell<Pair> {
        let hash = (key as usize).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.pairs[(hash >> (usize::BITS - PAIRS.ilog2())) % PAIRS]
    }

    /// The place of a remembered frame.
    #[inline(always)]
    fn place(&self, word: usize) -> TreePosition {
        self.frame(word).place().unwrap_or_else(|| self.find_place(word))
    }

    /// The same by that of a frame further in.
    #[cold]
    #[inline(never)]
    fn find_place(&self, word: usize) -> TreePosition {
        let frames = self.frame(word).frames();
        let inner = self.remembered.iter().take(self.len.get()).skip(word).map(|of| of.frame.get());
        let mut places = inner
            .filter(|of| of.kind().is_return())
            .filter_map(|of| Some(tree::outwards(of.place()?, of.frames() - frames)));
        let place = places.next().unwrap_or(TreePosition::root(tree::OTHER));
        self.set_place(word, place);
        place
    }

    #[inline(always)]
    fn set_place(&self, word: usize, place: TreePosition) {
        let frame = self.frame(word);
        self.remembered(word).frame.set(Frame::new(frame.kind(), frame.frames(), place));
    }

    #[inline(always)]
    fn key(&self, start: Registers, joint: usize) -> Option<Key> {
        let of_joint = self.registers(joint);
        let caller = self.caller(start, of_joint.sp.wrapping_sub(start.sp));
        let distance = processor::distance_to(of_joint, start);
        Key::new(start.return_address(), caller, distance, self.uses_fp(joint))
    }

    // NOTE: the hook must not panic. Numbers are always within the arrays; the compiler does not know
    // that, and a mask costs less than a check.

    #[inline(always)]
    fn remembered(&self, word: usize) -> &Remembered {
        &self.remembered[word % WORDS]
    }

    #[inline(always)]
    fn frame(&self, word: usize) -> Frame {
        self.remembered(word).frame.get()
    }

    #[inline(always)]
    fn word(&self, word: usize) -> &Cell<Word> {
        &self.words[word % WORDS]
    }

    #[inline(always)]
    fn registers(&self, frame: usize) -> Registers {
        let Remembered { fp, sp, .. } = self.remembered(frame);
        Registers::returning_to(self.word(frame).get(), sp.get(), fp.get())
    }

    /// Notes where the return word of the remembered frame with these registers is now: on ARM, each function
    /// that the frame calls saves it at a place of its own, and chains are found by that place.
    #[inline(always)]
    fn move_return_word(&self, frame: usize, at: Registers) {
        if processor::RETURN_WORDS_MOVE {
            self.word(frame).set(at.return_word());
            self.remembered(frame).sp.set(at.sp_distance());
        }
    }

    fn frames_up_to(&self, frame: usize) -> usize {
        self.frame(frame).frames()
    }

    #[inline(always)]
    fn uses_fp(&self, frame: usize) -> bool {
        self.frame(frame).kind() == Kind::ReturnByFp
    }

    #[inline(always)]
    fn is_at(&self, frame: usize, at: Registers) -> bool {
        let registers = self.registers(frame);
        (registers.return_address(), registers.sp) == (at.return_address(), at.sp)
            && (!self.uses_fp(frame) || registers.fp == at.fp)
    }
}
