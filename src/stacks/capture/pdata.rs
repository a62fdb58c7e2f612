//! From the unwind information of a file of Windows (`.pdata`, `.xdata`) to a table of rules.
//!
//! Source: Microsoft, "x64 exception handling". A function has one rule for all of its code: a stack is taken
//! only at calls, and none is within a prologue or an epilogue.

use super::lookup::in_order;
use super::processor::{Packed, Ra};
use super::rule::{Cfa, Fp, Resumer, Rule};
use std::ops::Range;

/// The bytes of a function's entry in `.pdata`: where it begins and ends, and its unwind information.
const ENTRY: usize = 12;

/// The most entries of which one continues another.
const MAX_CHAIN: usize = 32;

/// The registers `rsp` and `rbp`, by the numbers that they have here.
const RSP: u8 = 4;
const RBP: u8 = 5;

/// The rules of a file that is loaded.
#[cfg(pdata)]
pub(super) fn of_file(
    memory: &crate::platform::os::Memory,
    file: &crate::platform::os::LoadedFile,
) -> Vec<(u64, Packed)> {
    let Ok(image) = memory.read_image(file) else { return Vec::new() };
    rows(&image, file.functions.clone(), &file.code, file.outermost)
}

/// The rules of all functions in the entries at `functions` of an image, in the order of addresses. What else
/// is in its `code` has [`Rule::FramePointer`]. `outermost` is an address in the function that has no caller.
fn rows(
    image: &[u8],
    functions: Range<usize>,
    code: &[Range<usize>],
    outermost: Option<u32>,
) -> Vec<(u64, Packed)> {
    let image = Image(image);
    let entries = image.0.get(functions).unwrap_or_default().chunks_exact(ENTRY);
    let (between, none) = (Packed::new(Rule::FramePointer), Packed::new(Rule::None));
    let ends = |code: &Range<usize>| [(code.start as u64, between), (code.end as u64, none)];
    let mut rows = code.iter().flat_map(ends).collect::<Vec<_>>();
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
        rows.push((u64::from(function.end), between));
    }
    in_order(rows)
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

/// What a distance on the stack is from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    /// The stack pointer in the function's body.
    Sp,
    /// The `rbp` in the function's body.
    Fp,
    /// What the word at this distance from that `rbp` says.
    Word(i64),
}

/// An address on the stack: a distance in bytes.
type Place = (From, i64);

/// What the prologue of a function has done, as far as it is undone.
struct Undone {
    /// Where the stack pointer has come to.
    sp: Place,
    /// Where the caller's `rbp` is saved.
    fp: Option<Place>,
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
        let mut undone = Undone { sp: (From::Sp, 0), fp: None };
        let mut at = function.unwind as usize;
        for _ in 0..MAX_CHAIN {
            if at & 1 != 0 {
                // In place of information, an entry that has it.
                at = self.function(at - 1)?.unwind as usize;
                continue;
            }
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
            at = self.function(next)?.unwind as usize;
        }
        None
    }

    fn function(&self, at: usize) -> Option<Function> {
        Function::new(self.0.get(at..at + ENTRY)?)
    }

    /// Undoes the operations of these codes, of which the last of the prologue is the first. `frame`: the
    /// number of the frame pointer's register, and its distance from the stack pointer in units of 16.
    fn undo(&self, codes: usize, count: usize, frame: u8, undone: &mut Undone) -> Option<()> {
        // What registers are saved at a distance from; not known if another register has it.
        let base = match frame & 0xf {
            0 => Some(undone.sp),
            RBP if undone.fp.is_none() => Some((From::Fp, -16 * i64::from(frame >> 4))),
            _ => None,
        };
        let mut at = 0;
        while at < count {
            let place = codes + 2 * at;
            let operation = self.byte(place + 1)?;
            let (operation, info) = (operation & 0xf, operation >> 4);
            at += 1 + match operation {
                // A register is pushed.
                0 => {
                    undone.save(info, undone.sp)?;
                    undone.sp.1 += 8;
                    0
                }
                // Much memory is taken: in units of 8, or in bytes.
                1 if info == 0 => {
                    undone.sp.1 += self.half(place + 2)? * 8;
                    1
                }
                1 => {
                    undone.sp.1 += self.word(place + 2)?;
                    2
                }
                // At most 128 bytes are.
                2 => {
                    undone.sp.1 += i64::from(info) * 8 + 8;
                    0
                }
                // The frame pointer is made.
                3 => {
                    undone.sp = base.filter(|(from, _)| *from == From::Fp)?;
                    0
                }
                // A register is saved in the frame: its distance in units of 8, or in bytes.
                4 => {
                    undone.save_above(info, base, self.half(place + 2)? * 8)?;
                    1
                }
                5 => {
                    undone.save_above(info, base, self.word(place + 2)?)?;
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
    /// This register is saved at a place.
    fn save(&mut self, register: u8, place: Place) -> Option<()> {
        match (register, place) {
            (RBP, _) => self.fp = Some(place),
            // A coroutine library's way from one stack to another.
            (RSP, (From::Fp, distance)) => self.sp = (From::Word(distance), 0),
            (RSP, _) => return None,
            _ => {}
        }
        Some(())
    }

    /// The same at a distance above the base of the frame.
    fn save_above(&mut self, register: u8, base: Option<Place>, above: i64) -> Option<()> {
        if register != RBP && register != RSP {
            return Some(());
        }
        let (from, distance) = base?;
        self.save(register, (from, distance + above))
    }

    fn rule(self) -> Option<Rule> {
        let (from, return_address) = self.sp;
        // The stack pointer before the call.
        let cfa = return_address + 8;
        let cfa_place = match from {
            From::Sp => Cfa::Sp(cfa.try_into().ok()?),
            From::Fp => Cfa::Fp(cfa.try_into().ok()?),
            From::Word(link) => {
                let fp = self.fp.filter(|(of, _)| *of == from)?.1.try_into().ok()?;
                let return_address = return_address.try_into().ok()?;
                let resumer = Resumer { sp: cfa.try_into().ok()?, return_address, fp };
                return Some(Rule::Coroutine { link: link.try_into().ok()?, resumer });
            }
        };
        let fp = match self.fp {
            None => Fp::Kept,
            Some((of, saved)) if of == from => Fp::FromCfa((saved - cfa).try_into().ok()?),
            Some((From::Fp, saved)) => Fp::FromOwn(saved.try_into().ok()?),
            Some(_) => return None,
        };
        Some(Rule::Call { cfa: cfa_place, ra: Ra, fp })
    }
}

#[cfg(test)]
mod tests;
