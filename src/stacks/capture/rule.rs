//! How a frame leads to its caller.

use std::sync::atomic::{AtomicU64, Ordering};

/// How to find the caller's frame from the registers in a function, at one place of its code.
///
/// On x86-64, DWARF's *canonical frame address* (CFA) is the stack pointer before the call, and the
/// return address is 8 bytes below it. Of the other registers, only `rbp` can be needed to find a
/// caller's CFA. These cases cover the code of all compilers that were looked at (LLVM, GCC) and
/// the assembly of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The code has no unwind information, or says something that no case here covers.
    None,
    /// The function has no caller.
    Outermost,
    /// A signal handler returns to here: the registers before the signal are in memory, at the
    /// stack pointer.
    Signal,
    /// A function.
    Call { cfa: Cfa, rbp: Rbp },
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

// A rule as one word. PERF: nearly all rules are simple: their caller's frame is found without a
// branch that depends on the rule, because consecutive frames have different ones.
// bit 0       simple: the CFA is at a distance from a register, `rbp` is kept, or at one from the CFA
// bit 1       of a simple rule: the register is `rbp`, not `rsp`
// bit 2       of a simple rule: `rbp` is saved
// bits 3..6   of another rule: its kind
// bits 6..8   of another rule: where `rbp` is
// bits 16..32 distance of `rbp`
// bits 32..64 distance of the CFA
const SIMPLE: u64 = 1;
const FROM_RBP: u64 = 1 << 1;
const SAVES_RBP: u64 = 1 << 2;
const KIND_SHIFT: u32 = 3;
const OUTERMOST: u64 = 1;
const SIGNAL: u64 = 2;
const CFA_RSP: u64 = 3;
const CFA_RBP: u64 = 4;
const CFA_AT_RBP: u64 = 5;
const RBP_SHIFT: u32 = 6;
const RBP_FROM_CFA: u64 = 1;
const RBP_FROM_OWN: u64 = 2;

/// A [`Rule`] as one word; 0 is [`Rule::None`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Packed(u64);

impl Packed {
    pub(super) fn new(rule: Rule) -> Self {
        let distances =
            |cfa: i32, rbp: i16| u64::from(rbp as u16) << 16 | u64::from(cfa as u32) << 32;
        Self(match rule {
            Rule::None => 0,
            Rule::Outermost => OUTERMOST << KIND_SHIFT,
            Rule::Signal => SIGNAL << KIND_SHIFT,
            Rule::Call { cfa: Cfa::Rsp(cfa), rbp: Rbp::Kept } => SIMPLE | distances(cfa, 0),
            Rule::Call { cfa: Cfa::Rbp(cfa), rbp: Rbp::Kept } => {
                SIMPLE | FROM_RBP | distances(cfa, 0)
            }
            Rule::Call { cfa: Cfa::Rsp(cfa), rbp: Rbp::FromCfa(rbp) } => {
                SIMPLE | SAVES_RBP | distances(cfa, rbp)
            }
            Rule::Call { cfa: Cfa::Rbp(cfa), rbp: Rbp::FromCfa(rbp) } => {
                SIMPLE | FROM_RBP | SAVES_RBP | distances(cfa, rbp)
            }
            Rule::Call { cfa, rbp } => {
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
                kind << KIND_SHIFT | place << RBP_SHIFT | distances(cfa, rbp)
            }
        })
    }

    #[inline(always)]
    pub(super) fn is_simple(self) -> bool {
        self.0 & SIMPLE != 0
    }

    /// Whether the CFA of a simple rule is at a distance from `rbp`, not from `rsp`.
    #[inline(always)]
    pub(super) fn is_from_rbp(self) -> bool {
        self.0 & FROM_RBP != 0
    }

    /// Whether the function of a simple rule has saved `rbp`.
    #[inline(always)]
    pub(super) fn saves_rbp(self) -> bool {
        self.0 & SAVES_RBP != 0
    }

    /// The distance of the CFA, in bytes.
    #[inline(always)]
    pub(super) fn cfa(self) -> isize {
        (self.0 >> 32) as i32 as isize
    }

    /// The distance of the saved `rbp`, in bytes.
    #[inline(always)]
    pub(super) fn rbp(self) -> isize {
        ((self.0 >> 16) as i16).into()
    }

    #[cold]
    pub(super) fn rule(self) -> Rule {
        let (cfa, rbp) = (self.cfa() as i32, self.rbp() as i16);
        if self.is_simple() {
            return Rule::Call {
                cfa: if self.is_from_rbp() { Cfa::Rbp(cfa) } else { Cfa::Rsp(cfa) },
                rbp: if self.saves_rbp() { Rbp::FromCfa(rbp) } else { Rbp::Kept },
            };
        }
        let cfa = match self.0 >> KIND_SHIFT & 7 {
            CFA_RSP => Cfa::Rsp(cfa),
            CFA_RBP => Cfa::Rbp(cfa),
            CFA_AT_RBP => Cfa::AtRbp(cfa),
            OUTERMOST => return Rule::Outermost,
            SIGNAL => return Rule::Signal,
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

/// The maximum number of different rules. A program of 200 MiB has some thousands.
const CAPACITY: usize = 1 << 16;

/// All rules of the process, by number. Number 0 is [`Rule::None`].
static RULES: [AtomicU64; CAPACITY] = [const { AtomicU64::new(0) }; CAPACITY];

/// The rule with this number.
#[inline(always)]
pub(super) fn get(number: u16) -> Packed {
    Packed(RULES[usize::from(number)].load(Ordering::Relaxed))
}

/// Stores a rule that has no number yet, as number `number`.
pub(super) fn set(number: u16, rule: Packed) {
    RULES[usize::from(number)].store(rule.0, Ordering::Relaxed);
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
        for rule in [Rule::None, Rule::Outermost, Rule::Signal] {
            assert_eq!(Packed::new(rule).rule(), rule);
        }
        assert_eq!(Packed::new(Rule::None), Packed(0));
    }
}
