//! The rule of a function of macOS by its compact encoding, for ARM.
//!
//! Source: `mach-o/compact_unwind_encoding.h`, which Apple publishes with its libunwind.

use super::Ra;
use crate::stacks::capture::rule::{Cfa, Fp, Rule};

/// `None` if DWARF has the rule.
///
/// NOTE: the rule is that of the function's body. A stack is taken at calls, and none is within a prologue or
/// an epilogue.
pub(in super::super) fn compact_rule(
    encoding: u32,
    _code: impl Fn(u32) -> Option<u32>,
) -> Option<Rule> {
    Some(match encoding >> 24 & 0xf {
        0 => Rule::FramePointer,
        // A function that calls no other one.
        2 => {
            let size = (encoding >> 12 & 0xfff) as i32 * 16;
            Rule::Call { cfa: Cfa::Sp(size), ra: Ra::Kept, fp: Fp::Kept }
        }
        3 => return None,
        4 => Rule::Call { cfa: Cfa::Fp(16), ra: Ra::FromCfa(-8), fp: Fp::FromCfa(-16) },
        _ => Rule::None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_with_and_without_a_frame_pointer() {
        let rule = |encoding| compact_rule(encoding, |_| None);
        let framed = Rule::Call { cfa: Cfa::Fp(16), ra: Ra::FromCfa(-8), fp: Fp::FromCfa(-16) };
        assert_eq!(rule(0x0400_0000), Some(framed));
        // With registers saved, and data of the language.
        assert_eq!(rule(0x5400_0103), Some(framed));
        let leaf = Rule::Call { cfa: Cfa::Sp(48), ra: Ra::Kept, fp: Fp::Kept };
        assert_eq!(rule(0x0200_3000), Some(leaf));
        assert_eq!(rule(0), Some(Rule::FramePointer));
        assert_eq!(rule(0x0100_0000), Some(Rule::None));
        assert_eq!(rule(0x0300_1234), None);
    }
}
