//! How a thread's recent walks went from the allocator's caller to a frame of the remembered stack, as
//! *chains*: the words that the walk has read, by their distance from the stack pointer.
//!
//! A walk depends on nothing but return addresses, which decide the rules, and on `fp`. If the words at the
//! same distances say the same, a walk from any other stack pointer goes the same way: so a chain is found
//! again wherever on the stack the same calls are made.
//!
//! ```text
//! remembered stack   main ── run ── parse ── array ── object ── array
//! chains                                └────── string ── grow
//!                                              the same chain └────── string ── grow
//! ```
//! Conditions are in a ring: they are overwritten by later ones, and a chain whose conditions may be
//! overwritten does not count.

use super::processor::{SpDistance, return_address_in};
use crate::stacks::address::ALIGNMENT_BITS;
use std::cell::Cell;

/// The number of keys.
const KEYS: usize = 1024;
const RING: usize = 8192;
/// The maximum number of conditions of a chain.
pub(super) const MAX_LEN: usize = 96;

/// What a word is, and what it must be in a chain. For other remembered words, only whether they are return
/// addresses counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// This return address, of a frame whose `fp` decides nothing further out.
    Return = 0,
    /// This return address, of a frame whose `fp` does.
    ReturnByFp = 1,
    /// A saved `fp` at this distance from the stack pointer: a frame in the chain has its CFA from it.
    RelativeFp = 2,
    /// A saved `fp` that is the joint's.
    FpOfJoint = 3,
}

impl Kind {
    /// By the two lowest bits.
    #[inline(always)]
    pub(super) fn from_bits(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::Return,
            1 => Self::ReturnByFp,
            2 => Self::RelativeFp,
            _ => Self::FpOfJoint,
        }
    }

    #[inline(always)]
    pub(super) fn is_return(self) -> bool {
        self as u8 & 2 == 0
    }

    /// What a word of this kind says: of a return address without its signature, which depends on the stack
    /// pointer.
    #[inline(always)]
    pub(super) fn read(self, word: usize) -> usize {
        let address = return_address_in(word);
        if self.is_return() { address } else { word }
    }
}

/// One word of a chain: its value, [`Kind`], and distance.
///
/// ```text
/// bits 16..64   the return address, or the distance of the saved `fp` from the stack pointer, without the
///               bits that are 0 in each address of code
/// bits 14..16   the kind
/// bits 0..14    the distance of the word from the return address of the innermost frame, in 8 bytes
/// ```
#[derive(Clone, Copy, Default)]
pub(super) struct Condition {
    bits: u64,
    /// If the word is a return address, the distance of the stack pointer of its frame.
    sp: SpDistance,
}

const DISTANCE_BITS: u32 = 14;
const KIND_BITS: u32 = 2;
const VALUE_SHIFT: u32 = DISTANCE_BITS + KIND_BITS;

impl Condition {
    /// `None` if the value or the distance has no room.
    pub(super) fn new(kind: Kind, distance: usize, value: usize, sp: SpDistance) -> Option<Self> {
        let compact = (value.cast_signed() >> ALIGNMENT_BITS) as u64;
        let bits = compact << VALUE_SHIFT | (kind as u64) << DISTANCE_BITS | (distance as u64) >> 3;
        let condition = Self { bits, sp };
        let is_exact = condition.value() == value && condition.distance() == distance;
        is_exact.then_some(condition)
    }

    /// NOTE: bits above those of an address are copies of its highest one, as in canonical addresses.
    #[inline(always)]
    pub(super) fn value(self) -> usize {
        ((self.bits as i64 >> VALUE_SHIFT) as usize) << ALIGNMENT_BITS
    }

    #[inline(always)]
    pub(super) fn distance(self) -> usize {
        (self.bits as usize & ((1 << DISTANCE_BITS) - 1)) * 8
    }

    #[inline(always)]
    pub(super) fn sp(self) -> SpDistance {
        self.sp
    }

    #[inline(always)]
    pub(super) fn kind(self) -> Kind {
        Kind::from_bits(self.bits >> DISTANCE_BITS)
    }
}

/// What a chain is found by: the distance from the stack pointer to that of the joint, whether the joint
/// depends on `fp`, and a hash of return addresses, which are conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u64);

impl Key {
    /// The chain of a walk that begins with this return address. `caller` is the next one, or 0 if that is
    /// the joint's.
    ///
    /// `None` if the distance has no room: it is exact, because it says that all words of a chain are on the
    /// stack.
    ///
    /// PERF: without `caller`, a third of all takes would find another chain first.
    #[inline(always)]
    pub(super) fn new(
        return_address: usize,
        caller: usize,
        distance: Option<u32>,
        joint_uses_fp: bool,
    ) -> Option<Self> {
        let exact = u64::from(distance? | u32::from(joint_uses_fp));
        let mixed = return_address as u64 ^ (caller as u64).rotate_left(32) ^ exact << 40;
        let hash = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Some(Self(hash & !u64::from(u32::MAX) | exact))
    }
}

/// A chain. All bytes are 0 at first: no chain has the distance 0.
pub(super) struct Chain {
    key: Cell<Key>,
    /// The position of the first condition. Positions count all conditions ever; that of index `i` of the
    /// ring is `i` modulo [`RING`].
    begin: Cell<u64>,
    content: Cell<Content>,
}

/// What a chain is, beside its conditions.
#[derive(Clone, Copy)]
struct Content {
    /// The frames, in the tree.
    sequence: u32,
    /// The distance of the `fp` at the start from the stack pointer, if it must be at one.
    fp: i32,
    /// The number of frames, and of conditions.
    frames: u8,
    len: u8,
    /// What `fp` must be at the start; a return address: anything.
    start: Kind,
}

const _: () = assert!(size_of::<Chain>() == 32);

impl Chain {
    #[inline(always)]
    pub(super) fn has(&self, key: Key) -> bool {
        self.key.get() == key
    }

    #[inline(always)]
    pub(super) fn sequence(&self) -> u32 {
        self.content.get().sequence
    }

    #[inline(always)]
    pub(super) fn frames(&self) -> usize {
        self.content.get().frames.into()
    }

    /// What `fp` must be at the start, and its distance from what the kind says.
    #[inline(always)]
    pub(super) fn start(&self) -> (Kind, isize) {
        let Content { start, fp, .. } = self.content.get();
        (start, fp as isize)
    }

    fn set(&self, key: Key, begin: u64, content: Content) {
        self.key.set(key);
        self.begin.set(begin);
        self.content.set(content);
    }
}

/// The chains of a thread. All bytes are 0 at first.
#[repr(C, align(64))]
pub(super) struct Chains {
    /// By key: the newer one, and the older one.
    chains: [[Chain; 2]; KEYS],
    ring: [Cell<Condition>; RING],
    /// The position of the next condition.
    next: Cell<u64>,
}

impl Chains {
    pub(super) fn forget(&self) {
        self.next.set(self.next.get() + 2 * RING as u64);
    }

    /// The chains that can have this key.
    #[inline(always)]
    pub(super) fn of_key(&self, key: Key) -> &[Chain; 2] {
        &self.chains[(key.0 >> (u64::BITS - KEYS.ilog2())) as usize % KEYS]
    }

    /// The conditions of a chain, from the innermost frame outwards, if they were not overwritten.
    #[inline(always)]
    pub(super) fn conditions(&self, chain: &Chain) -> Option<&[Cell<Condition>]> {
        if self.next.get() - chain.begin.get() > RING as u64 {
            return None;
        }
        let begin = chain.begin.get() as usize % RING;
        self.ring.get(begin..begin + usize::from(chain.content.get().len))
    }

    /// Adds a chain in place of the older one of its key, with the first `frames` frames of a sequence.
    /// `conditions` are from the outermost frame inwards, at most [`MAX_LEN`]; `fp` must be as `start` says,
    /// at this distance from the stack pointer if it says so.
    pub(super) fn add(
        &self,
        key: Key,
        (sequence, frames): (u32, usize),
        conditions: &[Condition],
        (start, fp): (Kind, i32),
    ) {
        let len = conditions.len();
        let mut begin = self.next.get();
        if begin as usize % RING + len > RING {
            // The conditions of a chain are next to each other.
            begin = begin.next_multiple_of(RING as u64);
        }
        let from = begin as usize % RING;
        for (to, condition) in self.ring.iter().skip(from).zip(conditions.iter().rev()) {
            to.set(*condition);
        }
        self.next.set(begin + len as u64);
        let [newer, older] = self.of_key(key);
        older.set(newer.key.get(), newer.begin.get(), newer.content.get());
        let (frames, len) = (frames as u8, len as u8);
        newer.set(key, begin, Content { sequence, fp, frames, len, start });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_has_what_it_was_made_of() {
        let largest = 0x7fff_ffff_ffff << ALIGNMENT_BITS;
        let kinds = [Kind::Return, Kind::ReturnByFp, Kind::RelativeFp, Kind::FpOfJoint];
        for kind in kinds {
            for distance in [0, 8, 0x1_fff8] {
                for value in [0, largest, 0_usize.wrapping_sub(1 << 47)] {
                    let condition =
                        Condition::new(kind, distance, value, SpDistance::default()).unwrap();
                    assert_eq!((condition.distance(), condition.value()), (distance, value));
                    assert_eq!(condition.kind(), kind);
                }
            }
            let too_large = largest + (1 << ALIGNMENT_BITS);
            for (distance, value) in [(0x2_0000, 0), (4, 0), (0, too_large), (0, 1 << 63)] {
                assert!(Condition::new(kind, distance, value, SpDistance::default()).is_none());
            }
        }
    }

    #[test]
    fn chains_whose_conditions_were_overwritten_are_gone() {
        let content = Content { sequence: 0, fp: 0, frames: 0, len: 0, start: Kind::Return };
        let none =
            || Chain { key: Cell::new(Key(0)), begin: Cell::new(0), content: Cell::new(content) };
        let chains = Chains {
            chains: std::array::from_fn(|_| [none(), none()]),
            ring: std::array::from_fn(|_| Cell::default()),
            next: Cell::new(0),
        };
        let key = |number: usize| Key::new(number, 0, Some(8), false).unwrap();
        let condition = |value: usize| {
            Condition::new(Kind::Return, 0, 4 * value, SpDistance::default()).unwrap()
        };
        let find = |number| {
            let both = chains.of_key(key(number)).iter().filter(|chain| chain.has(key(number)));
            let found = both.map(|chain| (chain.sequence(), chains.conditions(chain)));
            let found = found.filter_map(|(sequence, conditions)| Some((sequence, conditions?)));
            found.collect::<Vec<_>>()
        };
        for number in 1..5000 {
            let list: Vec<_> = (0..5).map(|at| condition(10 * number + at)).collect();
            chains.add(key(number), (number as u32, 1), &list, (Kind::Return, 0));
            assert_eq!(find(number).len(), 1);
            for back in (0..number).step_by(7) {
                let of = number - back;
                for (sequence, conditions) in find(of) {
                    assert!(back <= RING / 5 && sequence == of as u32);
                    let values = conditions.iter().map(|condition| condition.get().value());
                    assert!(values.eq((0..5).rev().map(|at| 40 * of + 4 * at)));
                }
            }
        }
        assert!((1..5000).any(|number| find(number).len() == 1));
        chains.forget();
        assert!((1..5000).all(|number| find(number).is_empty()));
    }
}
