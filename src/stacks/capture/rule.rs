//! How a frame leads to its caller.

use std::sync::atomic::{AtomicU64, Ordering};

/// How to find the caller's frame from the registers in a function, at one place of its code.
///
/// On x86-64, DWARF's *canonical frame address* (CFA) is the stack pointer before the call, and the return
/// address is 8 bytes below it. Only `rbp` of the other registers can be needed to find a caller's CFA. These
/// cases cover the code of all compilers that were looked at (LLVM, GCC) and the assembly of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The unwind information says something that no case here covers, or this is no code.
    None,
    /// The code has no unwind information. It may have a frame pointer.
    FramePointer,
    /// The function has no caller.
    Outermost,
    /// A signal handler returns to here: the registers before the signal are in memory, at the
    /// stack pointer.
    Signal,
    /// A function.
    Call { cfa: Cfa, rbp: Rbp },
    /// The first function on a coroutine's stack. The word at the distance `link` from its `rbp` is
    /// an address on the stack of the code that has resumed the coroutine.
    Coroutine { link: i16, resumer: Resumer },
}

/// Where the registers of the code that has resumed a coroutine are, at distances from the address
/// that the coroutine's first function has of that code's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resumer {
    /// The distance of its stack pointer.
    pub(super) rsp: i16,
    /// The distance of the word with its return address.
    pub(super) return_address: i8,
    /// The distance of the word with its `rbp`.
    pub(super) rbp: i16,
}

/// Where the CFA of a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cfa {
    /// At this distance from the stack pointer.
    Rsp(i32),
    /// At this distance from `rbp`.
    Rbp(i32),
    /// In the word at this distance from `rbp`: a function that has aligned its stack.
    AtRbp(i32),
}

/// Where the caller's `rbp` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rbp {
    /// The function has not changed it.
    Kept,
    /// In the word at this distance from the CFA.
    FromCfa(i16),
    /// In the word at this distance from `rbp`.
    FromOwn(i16),
}

// A rule as one word.
// bits 0..3   its kind, 0 for none
// bits 3..5   where `rbp` is
// bits 16..32 distance of `rbp`
// bits 32..64 distance of the CFA; of a coroutine, the link and the distance of `rsp`
// bits 8..16  of a coroutine, the distance of the return address
const OUTERMOST: u64 = 1;
const SIGNAL: u64 = 2;
const CFA_RSP: u64 = 3;
const CFA_RBP: u64 = 4;
const CFA_AT_RBP: u64 = 5;
const COROUTINE: u64 = 6;
const FRAME_POINTER: u64 = 7;
const RBP_SHIFT: u32 = 3;
const RBP_FROM_CFA: u64 = 1;
const RBP_FROM_OWN: u64 = 2;

/// A [`Rule`] as one word; 0 is [`Rule::None`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Packed(u64);

impl Packed {
    pub(super) fn new(rule: Rule) -> Self {
        let (cfa, rbp) = match rule {
            Rule::None => return Self(0),
            Rule::FramePointer => return Self(FRAME_POINTER),
            Rule::Outermost => return Self(OUTERMOST),
            Rule::Signal => return Self(SIGNAL),
            Rule::Call { cfa, rbp } => (cfa, rbp),
            Rule::Coroutine { link, resumer } => {
                let Resumer { rsp, return_address, rbp } = resumer;
                let distances = u64::from(return_address as u8) << 8
                    | u64::from(rbp as u16) << 16
                    | u64::from(link as u16) << 32
                    | u64::from(rsp as u16) << 48;
                return Self(COROUTINE | distances);
            }
        };
        let (kind, cfa) = match cfa {
            Cfa::Rsp(distance) => (CFA_RSP, distance),
            Cfa::Rbp(distance) => (CFA_RBP, distance),
            Cfa::AtRbp(distance) => (CFA_AT_RBP, distance),
        };
        let (place, rbp) = match rbp {
            Rbp::Kept => (0, 0),
            Rbp::FromCfa(distance) => (RBP_FROM_CFA, distance),
            Rbp::FromOwn(distance) => (RBP_FROM_OWN, distance),
        };
        let distances = u64::from(rbp as u16) << 16 | u64::from(cfa as u32) << 32;
        Self(kind | place << RBP_SHIFT | distances)
    }

    pub(super) fn rule(self) -> Rule {
        let (cfa, rbp) = ((self.0 >> 32) as i32, (self.0 >> 16) as i16);
        let cfa = match self.0 & 7 {
            CFA_RSP => Cfa::Rsp(cfa),
            CFA_RBP => Cfa::Rbp(cfa),
            CFA_AT_RBP => Cfa::AtRbp(cfa),
            OUTERMOST => return Rule::Outermost,
            SIGNAL => return Rule::Signal,
            FRAME_POINTER => return Rule::FramePointer,
            COROUTINE => {
                let (link, rsp) = (cfa as i16, (cfa >> 16) as i16);
                let resumer = Resumer { rsp, return_address: (self.0 >> 8) as i8, rbp };
                return Rule::Coroutine { link, resumer };
            }
            _ => return Rule::None,
        };
        let rbp = match self.0 >> RBP_SHIFT & 3 {
            RBP_FROM_CFA => Rbp::FromCfa(rbp),
            RBP_FROM_OWN => Rbp::FromOwn(rbp),
            _ => Rbp::Kept,
        };
        Rule::Call { cfa, rbp }
    }
}

/// The code of a rule, in 16 bits. The code of a common rule is the rule itself; the code of any
/// other rule is its index in a table of the process.
///
/// ```text
/// bit 0       the CFA is at a distance from `rbp`, not from `rsp`
/// bits 1..4   0: `rbp` is kept; n: it is saved 8 + 8n bytes below the CFA
/// bits 4..16  the distance of the CFA in 8 bytes, from 1 to 0xdff
/// 0xe000..    0xe000 + the index in the table
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(u16);

/// The lowest code of a rule in the table.
const FIRST_UNCOMMON: u16 = 0xe000;

/// The maximum number of rules in the table. A program of 200 MiB has some hundreds.
const CAPACITY: usize = (u16::MAX - FIRST_UNCOMMON) as usize + 1;

/// The rules that are not common. Index 0 is [`Rule::None`], and index 1 is not used.
static UNCOMMON: [AtomicU64; CAPACITY] = [const { AtomicU64::new(0) }; CAPACITY];

impl Code {
    /// The code of [`Rule::None`].
    pub(super) const NONE: Self = Self(FIRST_UNCOMMON);
    /// The code of [`Rule::FramePointer`].
    pub(super) const FRAME_POINTER: Self = Self(FIRST_UNCOMMON + 1);

    /// The code of a common rule; `None` for any other.
    pub(super) fn of_common(rule: Rule) -> Option<Self> {
        let Rule::Call { cfa, rbp } = rule else { return None };
        let (from_rbp, cfa) = match cfa {
            Cfa::Rsp(distance) => (0, distance),
            Cfa::Rbp(distance) => (1, distance),
            Cfa::AtRbp(_) => return None,
        };
        let place = match rbp {
            Rbp::Kept => 0,
            Rbp::FromCfa(distance @ -64..=-16) if distance % 8 == 0 => (-8 - distance) / 8,
            Rbp::FromCfa(_) | Rbp::FromOwn(_) => return None,
        };
        let is_common = cfa > 0 && cfa % 8 == 0 && cfa / 8 < i32::from(FIRST_UNCOMMON >> 4);
        is_common.then_some(Self(((cfa / 8) as u16) << 4 | (place as u16) << 1 | from_rbp))
    }

    /// Stores a rule that is not common in the table, at an index that is not used yet. `None` if
    /// the table has no such index.
    pub(super) fn of_uncommon(rule: Packed, index: usize) -> Option<Self> {
        UNCOMMON.get(index)?.store(rule.0, Ordering::Relaxed);
        Some(Self(FIRST_UNCOMMON + index as u16))
    }

    pub(super) fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u16 {
        self.0
    }

    #[inline(always)]
    pub(super) fn is_common(self) -> bool {
        // An entry of a table that is still empty has code 0, which no rule has.
        self.0.wrapping_sub(1) < FIRST_UNCOMMON - 1
    }

    /// Whether the CFA of a common rule is at a distance from `rbp`.
    #[inline(always)]
    pub(super) fn is_from_rbp(self) -> bool {
        self.0 & 1 != 0
    }

    /// The distance of the CFA of a common rule, in bytes.
    #[inline(always)]
    pub(super) fn cfa(self) -> usize {
        usize::from(self.0 >> 4) * 8
    }

    /// How far below the return address `rbp` is saved, by a common rule, in bytes; 0 if it is kept.
    #[inline(always)]
    pub(super) fn saved_rbp(self) -> usize {
        usize::from(self.0 >> 1 & 7) * 8
    }

    pub(super) fn uncommon(self) -> Rule {
        if self == Self::FRAME_POINTER {
            return Rule::FramePointer;
        }
        let index = usize::from(self.0.wrapping_sub(FIRST_UNCOMMON));
        let packed = UNCOMMON.get(index).map_or(0, |rule| rule.load(Ordering::Relaxed));
        Packed(packed).rule()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_rule_is_the_rule() {
        let distances = [0, 8, -8, 16, 1 << 20, i32::MIN, i32::MAX];
        for distance in distances {
            for cfa in [Cfa::Rsp(distance), Cfa::Rbp(distance), Cfa::AtRbp(distance)] {
                let small = distance as i16;
                for rbp in [Rbp::Kept, Rbp::FromCfa(small), Rbp::FromOwn(small)] {
                    let rule = Rule::Call { cfa, rbp };
                    assert_eq!(Packed::new(rule).rule(), rule);
                }
            }
        }
        for distance in [0, 8, -8, i8::MIN, i8::MAX] {
            let small = i16::from(distance);
            for (link, rsp, rbp) in [(small, i16::MIN, small), (i16::MAX, small, i16::MIN)] {
                let resumer = Resumer { rsp, return_address: distance, rbp };
                let rule = Rule::Coroutine { link, resumer };
                assert_eq!(Packed::new(rule).rule(), rule);
                assert_eq!(Code::of_common(rule), None);
            }
        }
        for rule in [Rule::None, Rule::Outermost, Rule::Signal, Rule::FramePointer] {
            assert_eq!(Packed::new(rule).rule(), rule);
            assert_eq!(Code::of_common(rule), None);
        }
        assert_eq!(Packed::new(Rule::None), Packed(0));
    }

    #[test]
    fn the_code_of_a_common_rule_is_the_rule() {
        let largest = i32::from(FIRST_UNCOMMON >> 4) * 8;
        for distance in (-64..=largest + 64).step_by(4) {
            for (from_rbp, cfa) in [(false, Cfa::Rsp(distance)), (true, Cfa::Rbp(distance))] {
                let is_common = distance > 0 && distance % 8 == 0 && distance < largest;
                for place in -80_i16..=8 {
                    let rule = Rule::Call { cfa, rbp: Rbp::FromCfa(place) };
                    let code = Code::of_common(rule);
                    let is_place = (-64..=-16).contains(&place) && place % 8 == 0;
                    assert_eq!(code.is_some(), is_common && is_place, "{rule:?}");
                    let Some(code) = code else { continue };
                    assert!(code.is_common());
                    assert_eq!((code.is_from_rbp(), code.cfa() as i32), (from_rbp, distance));
                    assert_eq!(code.saved_rbp() as i16 + 8, -place);
                }
                let kept = Code::of_common(Rule::Call { cfa, rbp: Rbp::Kept });
                assert_eq!(kept.map(Code::saved_rbp), is_common.then_some(0));
            }
            let rule = Rule::Call { cfa: Cfa::AtRbp(distance), rbp: Rbp::Kept };
            assert_eq!(Code::of_common(rule), None);
        }
        assert_eq!(Code::NONE.uncommon(), Rule::None);
        assert_eq!(Code::FRAME_POINTER.uncommon(), Rule::FramePointer);
        assert_eq!(Code::of_uncommon(Packed::new(Rule::Signal), CAPACITY), None);
    }
}
