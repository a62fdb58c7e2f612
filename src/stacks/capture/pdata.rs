//! From the unwind information of a file of Windows (`.pdata`, `.xdata`) to a table of rules.
//!
//! Source: Microsoft, "x64 exception handling". A function has one rule for all of its code: a stack is taken
//! only at calls, and none is within a prologue or an epilogue.

use super::processor::{Packed, Ra};
use super::rule::{Cfa, Fp, Rule};

/// The bytes of a function's entry in `.pdata`: where it begins and ends, and its unwind information.
const ENTRY: usize = 12;

/// The most entries of which one continues another.
const MAX_CHAIN: usize = 32;

/// The register `rbp`, by the number that it has here.
const RBP: u8 = 5;

/// The rules of a file that is loaded.
#[cfg(pdata)]
pub(super) fn of_file(
    memory: &crate::platform::os::Memory,
    file: &crate::platform::os::LoadedFile,
) -> Vec<(u64, Packed)> {
    let Ok(image) = memory.read_image(file) else { return Vec::new() };
    rows(&image, file.functions.clone(), file.outermost)
}

/// The rules of all functions in the entries at `functions` of an image, in the order of addresses.
/// `outermost` is an address in the function that has no caller.
fn rows(
    image: &[u8],
    functions: std::ops::Range<usize>,
    outermost: Option<u32>,
) -> Vec<(u64, Packed)> {
    let image = Image(image);
    let entries = image.0.get(functions).unwrap_or_default().chunks_exact(ENTRY);
    let mut rows = Vec::new();
    for entry in entries {
        let Some(function) = Function::new(entry) else { continue };
        if function.begin == 0 || function.end <= function.begin {
            continue;
        }
        let rule = match outermost {
            Some(at) if (function.begin..function.end).contains(&at) => Rule::Outermost,
            _ => image.rule(&function).unwrap_or(Rule::None),
        };
        rows.push((u64::from(function.begin), Packed::new(rule)));
        rows.push((u64::from(function.end), Packed::new(Rule::None)));
    }
    // Where one function ends and another begins, the beginning counts.
    let none = Packed::new(Rule::None);
    rows.sort_by_key(|(address, rule)| (*address, *rule != none));
    rows.dedup_by(|later, earlier| {
        let same_address = later.0 == earlier.0;
        if same_address {
            earlier.1 = later.1;
        }
        same_address || later.1 == earlier.1
    });
    rows
}

/// An entry of `.pdata`: offsets in the image.
struct Function {
    begin: u32,
    end: u32,
    unwind: u32,
}

impl Function {
    fn new(entry: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(*entry.get(at..at + 4)?.as_array()?));
        Some(Self { begin: word(0)?, end: word(4)?, unwind: word(8)? })
    }
}

/// What the prologue of a function has done, as far as it is undone. Distances are in bytes from the stack
/// pointer in the function's body upwards, if that has taken no more memory.
#[derive(Default)]
struct Undone {
    /// Where the stack pointer has come to.
    sp: i64,
    /// Where the stack pointer was when `rbp` was made the frame pointer, and how far above that `rbp` was.
    frame: Option<(i64, i64)>,
    /// Where the caller's `rbp` is: pushed there, or at this distance from the base of the frame.
    pushed: Option<i64>,
    in_frame: Option<i64>,
}

/// The bytes of a file as it is loaded.
struct Image<'a>(&'a [u8]);

impl Image<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn half(&self, at: usize) -> Option<i64> {
        Some(u16::from_le_bytes(*self.0.get(at..at + 2)?.as_array()?).into())
    }

    fn word(&self, at: usize) -> Option<i64> {
        Some(u32::from_le_bytes(*self.0.get(at..at + 4)?.as_array()?).into())
    }

    /// `None` if the information is damaged, or says what no rule covers: a frame pointer that is not `rbp`,
    /// or the frame of an interrupt.
    fn rule(&self, function: &Function) -> Option<Rule> {
        /// The information continues that of another entry, which follows it.
        const IS_CHAINED: u8 = 4;
        let mut undone = Undone::default();
        let mut at = function.unwind as usize;
        for _ in 0..MAX_CHAIN {
            let (head, count) = (self.byte(at)?, usize::from(self.byte(at + 2)?));
            let (version, flags) = (head & 7, head >> 3);
            if !(1..=2).contains(&version) {
                return None;
            }
            self.undo(at + 4, count, self.byte(at + 3)?, &mut undone)?;
            if flags & IS_CHAINED == 0 {
                return undone.rule();
            }
            // The number of codes is rounded up to an even one.
            let next = at + 4 + 2 * count.next_multiple_of(2);
            at = Function::new(self.0.get(next..next + ENTRY)?)?.unwind as usize;
        }
        None
    }

    /// Undoes the operations of these codes, of which the last of the prologue is the first. `frame`: the
    /// number of the frame pointer's register, and its distance from the stack pointer in units of 16.
    fn undo(&self, codes: usize, count: usize, frame: u8, undone: &mut Undone) -> Option<()> {
        let mut at = 0;
        while at < count {
            let place = codes + 2 * at;
            let operation = self.byte(place + 1)?;
            let (operation, info) = (operation & 0xf, operation >> 4);
            at += 1 + match operation {
                // A register is pushed.
                0 => {
                    if info == RBP {
                        undone.pushed = Some(undone.sp);
                    }
                    undone.sp += 8;
                    0
                }
                // Much memory is taken: in units of 8, or in bytes.
                1 if info == 0 => {
                    undone.sp += self.half(place + 2)? * 8;
                    1
                }
                1 => {
                    undone.sp += self.word(place + 2)?;
                    2
                }
                // At most 128 bytes are.
                2 => {
                    undone.sp += i64::from(info) * 8 + 8;
                    0
                }
                // The frame pointer is made.
                3 => {
                    if frame & 0xf != RBP {
                        return None;
                    }
                    undone.frame = Some((undone.sp, i64::from(frame >> 4) * 16));
                    0
                }
                // A register is saved in the frame: its distance in units of 8, or in bytes.
                4 => {
                    let above = self.half(place + 2)? * 8;
                    undone.in_frame = (info == RBP).then_some(above).or(undone.in_frame);
                    1
                }
                5 => {
                    let above = self.word(place + 2)?;
                    undone.in_frame = (info == RBP).then_some(above).or(undone.in_frame);
                    2
                }
                // Where epilogues are, in version 2.
                6 => 1,
                7 => 2,
                // A register of 128 bits is saved.
                8 => 1,
                9 => 2,
                // The frame of an interrupt.
                _ => return None,
            };
        }
        Some(())
    }
}

impl Undone {
    fn rule(self) -> Option<Rule> {
        // The stack pointer before the call.
        let cfa = self.sp + 8;
        let (base, distance) = match self.frame {
            None => (0, Cfa::Sp(cfa.try_into().ok()?)),
            Some((base, above)) => (base, Cfa::Fp((cfa - base - above).try_into().ok()?)),
        };
        let fp = match self.pushed.or(self.in_frame.map(|above| base + above)) {
            None => Fp::Kept,
            Some(saved) => Fp::FromCfa((saved - cfa).try_into().ok()?),
        };
        Some(Rule::Call { cfa: distance, ra: Ra, fp })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with one function, from 0x10 to 0x20, whose unwind information begins at 0x40.
    fn rule_of(information: &[u8]) -> Rule {
        let mut image = vec![0; 0x40];
        image.extend(information);
        let entry = image.len()..image.len() + ENTRY;
        [0x10_u32, 0x20, 0x40].iter().for_each(|word| image.extend(word.to_le_bytes()));
        let rows = rows(&image, entry, None);
        let at = |address: u64| {
            let after = rows.partition_point(|(start, _)| *start <= address);
            after.checked_sub(1).map_or(Rule::None, |row| rows[row].1.rule())
        };
        assert_eq!((at(0xf), at(0x20)), (Rule::None, Rule::None));
        assert_eq!(at(0x10), at(0x1f));
        at(0x10)
    }

    fn call(cfa: Cfa, fp: Fp) -> Rule {
        Rule::Call { cfa, ra: Ra, fp }
    }

    #[test]
    fn pushes_and_memory_of_a_frame_are_the_distance_of_the_caller() {
        // push rbx; push rbp; sub rsp, 0x28
        assert_eq!(
            rule_of(&[1, 6, 3, 0, 6, 0x42, 2, 0x50, 1, 0x30, 0, 0]),
            call(Cfa::Sp(0x28 + 16 + 8), Fp::FromCfa(-24))
        );
        // sub rsp, 0x1000, in units of 8; sub rsp, 0x123458, in bytes
        assert_eq!(rule_of(&[1, 7, 2, 0, 7, 1, 0, 2]), call(Cfa::Sp(0x1008), Fp::Kept));
        assert_eq!(
            rule_of(&[1, 7, 3, 0, 7, 0x11, 0x58, 0x34, 0x12, 0, 0, 0]),
            call(Cfa::Sp(0x123460), Fp::Kept)
        );
        // A leaf that does nothing, with a handler of exceptions.
        assert_eq!(rule_of(&[1 | 1 << 3, 0, 0, 0, 9, 9, 9, 9]), call(Cfa::Sp(8), Fp::Kept));
    }

    #[test]
    fn a_frame_pointer_is_at_its_distance() {
        // push rbp; push rsi; sub rsp, 0x70; lea rbp, [rsp + 0x30]
        let codes = [1, 9, 4, 0x35, 9, 3, 4, 0xd2, 2, 0x60, 1, 0x50];
        let rule = call(Cfa::Fp(0x70 + 16 + 8 - 0x30), Fp::FromCfa(-16));
        assert_eq!(rule_of(&codes), rule);
        // The same, with 16 bytes more behind it, which it does not count.
        let codes = [1, 13, 5, 0x35, 13, 0x12, 9, 3, 4, 0xd2, 2, 0x60, 1, 0x50, 0, 0];
        assert_eq!(rule_of(&codes), rule);
        // By another register.
        assert_eq!(rule_of(&[1, 9, 1, 0x33, 9, 3, 0, 0]), Rule::None);
    }

    #[test]
    fn a_register_may_be_saved_by_a_move_and_others_too() {
        // sub rsp, 0x48; mov [rsp + 0x40], rbp; movaps [rsp + 0x20], xmm6
        let codes = [1, 12, 5, 0, 12, 0x68, 2, 0, 8, 0x54, 8, 0, 4, 0x82, 0, 0];
        assert_eq!(rule_of(&codes), call(Cfa::Sp(0x50), Fp::FromCfa(-16)));
    }

    #[test]
    fn information_that_continues_another_has_both() {
        // mov [rsp + 0x10], rbx, continuing the one below
        let mut codes = vec![1 | 4 << 3, 4, 2, 0, 4, 0x34, 2, 0];
        [0_u32, 0, 0x40 + 20].iter().for_each(|word| codes.extend(word.to_le_bytes()));
        // sub rsp, 0x18
        codes.extend([1, 4, 1, 0, 4, 0x22, 0, 0]);
        assert_eq!(rule_of(&codes), call(Cfa::Sp(0x20), Fp::Kept));
        // It may not continue itself for ever.
        codes[16] = 0x40;
        assert_eq!(rule_of(&codes), Rule::None);
    }

    #[test]
    fn what_is_damaged_or_not_known_has_no_rule() {
        assert_eq!(rule_of(&[]), Rule::None);
        assert_eq!(rule_of(&[3, 0, 0, 0]), Rule::None);
        // The frame of an interrupt; codes beyond the end.
        assert_eq!(rule_of(&[1, 0, 1, 0, 0, 10, 0, 0]), Rule::None);
        assert_eq!(rule_of(&[1, 0, 255, 0, 0, 0x30]), Rule::None);
    }

    #[test]
    fn the_first_function_of_a_thread_has_no_caller() {
        let mut image = vec![1, 0, 0, 0];
        [0x10_u32, 0x20, 0].iter().for_each(|word| image.extend(word.to_le_bytes()));
        let rule = |at| rows(&image, 4..16, Some(at))[0].1.rule();
        assert_eq!((rule(0x1f), rule(0x20)), (Rule::Outermost, call(Cfa::Sp(8), Fp::Kept)));
    }
}
