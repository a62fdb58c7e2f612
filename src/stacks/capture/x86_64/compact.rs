//! The rule of a function of macOS by its compact encoding, for x86-64.
//!
//! Source: `mach-o/compact_unwind_encoding.h`, which Apple publishes with its libunwind.

use super::Ra;
use crate::stacks::capture::rule::{Cfa, Fp, Rule};

/// The number of the register `rbp` in an encoding: the last of six.
const RBP: usize = 6;

/// `None` if DWARF has the rule. `code` is the word of the function's code at a distance from its begin.
///
/// NOTE: the rule is that of the function's body. A stack is taken at calls, and none is within a prologue or
/// an epilogue.
pub(in super::super) fn compact_rule(
    encoding: u32,
    code: impl Fn(u32) -> Option<u32>,
) -> Option<Rule> {
    let size = encoding >> 16 & 0xff;
    Some(match encoding >> 24 & 0xf {
        0 => Rule::FramePointer,
        1 => Rule::Call { cfa: Cfa::Fp(16), ra: Ra, fp: Fp::FromCfa(-16) },
        2 => without_frame_pointer(encoding, Some(8 * size)),
        // The size is in an instruction of the function, less what the function pushes.
        3 => without_frame_pointer(
            encoding,
            code(size).and_then(|size| size.checked_add(8 * (encoding >> 13 & 7))),
        ),
        4 => return None,
        _ => Rule::None,
    })
}

/// The rule of a function whose frame has this size, the return address included.
fn without_frame_pointer(encoding: u32, size: Option<u32>) -> Rule {
    let (Some(size), Some(saved)) =
        (size.and_then(|size| i32::try_from(size).ok()), saved(encoding))
    else {
        return Rule::None;
    };
    let (count, rbp) = saved;
    let fp = rbp.map_or(Fp::Kept, |place| Fp::FromCfa(-8 * (1 + count - place)));
    Rule::Call { cfa: Cfa::Sp(size), ra: Ra, fp }
}

/// How many registers the function has saved below its return address, and which of them, from the lowest
/// address on, is `rbp`. `None` if the encoding is damaged.
///
/// The order of the registers is one number: of a permutation, each digit counts among the registers that are
/// left.
fn saved(encoding: u32) -> Option<(i16, Option<i16>)> {
    let (count, mut number) = ((encoding >> 10 & 7) as usize, encoding & 0x3ff);
    if count > RBP {
        return None;
    }
    let mut left = (1..=RBP).collect::<Vec<_>>();
    let mut rbp = None;
    for place in 0..count {
        // The number of orders of the registers behind this one.
        let orders = (place + 1..count).map(|behind| (RBP - behind) as u32).product::<u32>();
        let digit = (number / orders) as usize;
        number %= orders;
        if digit >= left.len() {
            return None;
        }
        if left.remove(digit) == RBP {
            rbp = Some(place as i16);
        }
    }
    Some((count as i16, rbp))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(encoding: u32) -> Rule {
        compact_rule(encoding, |_| None).unwrap()
    }

    fn by_sp(size: i32, fp: Fp) -> Rule {
        Rule::Call { cfa: Cfa::Sp(size), ra: Ra, fp }
    }

    #[test]
    fn frames_with_and_without_a_frame_pointer() {
        let framed = Rule::Call { cfa: Cfa::Fp(16), ra: Ra, fp: Fp::FromCfa(-16) };
        assert_eq!(rule(0x0100_0000), framed);
        // With registers saved, and data of the language.
        assert_eq!(rule(0x7103_0151), framed);
        assert_eq!(rule(0x0201_0000), by_sp(8, Fp::Kept));
        assert_eq!(rule(0), Rule::FramePointer);
        assert_eq!(rule(0x0500_0000), Rule::None);
        assert_eq!(compact_rule(0x0400_1234, |_| None), None);
    }

    /// As LLVM 14 encodes it: `rbx`, `r12`, `r14` and `r15` are pushed.
    #[test]
    fn saved_registers_that_are_not_rbp() {
        assert_eq!(rule(0x0205_1004), by_sp(40, Fp::Kept));
    }

    #[test]
    fn rbp_is_found_in_each_order() {
        // Each order of `count` registers is one number, in the order of the digits.
        for count in 0..=RBP {
            let orders = (0..count).map(|taken| RBP - taken).product::<usize>();
            let mut places = vec![0; count + 1];
            for number in 0..orders {
                let encoding = 0x020a_0000 | (count as u32) << 10 | number as u32;
                let (found, rbp) = saved(encoding).unwrap();
                assert_eq!(found as usize, count);
                places[rbp.map_or(count, |place| place as usize)] += 1;
                let fp = rbp.map_or(Fp::Kept, |place| Fp::FromCfa(8 * (place - found - 1)));
                assert_eq!(rule(encoding), by_sp(80, fp));
            }
            // `rbp` is as often at one place as at another.
            let each = orders / RBP;
            assert!(places.iter().take(count).all(|found| *found == each), "{count}: {places:?}");
            assert!(
                count == 0 || saved(0x020a_0000 | (count as u32) << 10 | orders as u32).is_none()
            );
        }
        // The first that is pushed is just below the return address.
        assert_eq!(rule(0x0202_0400 | 5), by_sp(16, Fp::FromCfa(-16)));
        assert_eq!(rule(0x0202_1c00), Rule::None);
    }

    #[test]
    fn the_size_of_a_large_frame_is_in_its_code() {
        let code = |at| (at == 7).then_some(0x1000);
        assert_eq!(compact_rule(0x0307_2000, code), Some(by_sp(0x1008, Fp::Kept)));
        assert_eq!(compact_rule(0x0308_2000, code), Some(Rule::None));
        assert_eq!(compact_rule(0x0307_2000, |_| Some(u32::MAX)), Some(Rule::None));
    }
}
