//! One step of a walk: from a frame to its caller's.
#![expect(unsafe_code, reason = "reads words without a bounds check")]

use super::lookup::{self, Found};
use super::memory::{StackReader, Word};
use super::processor::{self, Code, Ra, RegisterCells, Registers, common};
use super::rule::{Cfa, Fp, Resumer, Rule, USES_FP};
use crate::stacks::tree::{COMPLETE, NO_TABLE, PackedFrame, UNREADABLE};
use std::cell::Cell;

/// The number of words, from the first one on, that are at or above `sp` and unchanged. All up to there were
/// read as words of the running thread's own stack, and the last word of all has the address 0.
#[inline(always)]
pub(super) fn unchanged<const N: usize>(words: &[Cell<Word>; N], sp: usize) -> usize {
    let mut at = words.as_ptr();
    loop {
        // SAFETY: the loop ends at the last word, because no stack pointer of a caller is 0.
        let word = unsafe { &*at }.get();
        if word.address < sp || word.now() != word.value {
            // PERF: by the pointer, so that the loop counts nothing.
            // SAFETY: both pointers are within the array.
            return unsafe { at.offset_from_unsigned(words.as_ptr()) };
        }
        // SAFETY: this was not the last word.
        at = unsafe { at.add(1) };
    }
}

/// A bit of a step's `read`, beside the address and [`USES_FP`]: the CFA is a word of memory.
const READS_CFA: usize = 2;

/// Beside the registers of a caller: the walk continues. No root has this number.
pub(super) const CONTINUES: u32 = 0;
/// In place of the root: the walk has come to code without unwind information. No root has this number.
pub(super) const WITHOUT_TABLE: u32 = u32::MAX;

/// One frame of a walk. All bytes are 0 at first.
///
/// PERF: the fields are cells, each of which is stored and loaded by itself. A load of two fields
/// at once would wait until the stores of both have left the store buffer.
pub(super) struct Step {
    registers: RegisterCells,
    /// The address from which the caller's `fp` was read, 0 if the caller's is this frame's; and
    /// the bits above.
    read: Cell<usize>,
    /// The number of the module instance, 0 for none.
    module: Cell<u16>,
    /// The word that is the CFA.
    cfa: Cell<Word>,
}

impl Step {
    /// Steps outwards. Returns the caller's registers and [`CONTINUES`], or the root if the walk ends.
    ///
    /// PERF: no `Result`, whose registers the compiler would copy in memory at each step.
    #[inline(always)]
    pub(super) fn take(&self, at: Registers, reader: &mut StackReader) -> (Registers, u32) {
        self.take_by(lookup::find(at.return_address() as u64), at, reader)
    }

    /// The same by what is known of the frame's code.
    #[inline(always)]
    pub(super) fn take_by(
        &self,
        Found { code, module }: Found,
        at: Registers,
        reader: &mut StackReader,
    ) -> (Registers, u32) {
        self.registers.set(at);
        self.module.set(module);
        if code.is_common() {
            // NOTE: `read` stays that of another walk, where this one ends: such a walk is not remembered.
            let common = common(at, code, |address| reader.word(address));
            let Some((caller, read)) = common else { return (at, unreadable(at, code)) };
            self.read.set(read);
            return (caller, CONTINUES);
        }
        match self.uncommon(at, code, reader) {
            Ok(caller) => (caller, CONTINUES),
            Err(root) => (at, root),
        }
    }

    #[cold]
    #[inline(never)]
    fn uncommon(
        &self,
        at: Registers,
        code: Code,
        reader: &mut StackReader,
    ) -> Result<Registers, u32> {
        self.read.set(0);
        let (cfa, ra, fp) = match code.uncommon() {
            Rule::Call { ra, .. } if !ra.is_in_memory(at) => return Err(NO_TABLE),
            Rule::Call { cfa, ra, fp } => (cfa, ra, fp),
            Rule::Outermost => return Err(COMPLETE),
            Rule::Signal => return processor::step_over_signal(at, reader).ok_or(UNREADABLE),
            Rule::Coroutine { link, resumer } => {
                return step_to_resumer(at, link, resumer, reader).ok_or(UNREADABLE);
            }
            Rule::None | Rule::FramePointer if processor::is_return_to_kernel(at, reader) => {
                return processor::step_over_signal(at, reader).ok_or(UNREADABLE);
            }
            Rule::None => return Err(NO_TABLE),
            Rule::FramePointer => return Err(WITHOUT_TABLE),
        };
        let (caller, read, cfa) = uncommon(at, cfa, ra, fp, reader).ok_or(unreadable(at, code))?;
        self.read.set(read);
        self.cfa.set(cfa);
        Ok(caller)
    }

    pub(super) fn frame(&self) -> PackedFrame {
        PackedFrame::new(self.registers().return_address() as u64, self.module.get())
    }

    pub(super) fn registers(&self) -> Registers {
        self.registers.get()
    }

    /// Notes that this frame's `fp` decides how the walk continues.
    pub(super) fn set_uses_fp(&self) {
        self.read.set(USES_FP);
    }

    /// Whether the caller's registers depend on this frame's `fp`, beside being the caller's.
    pub(super) fn uses_fp(&self) -> bool {
        self.read.get() & USES_FP != 0
    }

    /// The address from which the caller's `fp` was read; `None` if the caller's is this frame's.
    pub(super) fn fp_address(&self) -> Option<usize> {
        let address = self.read.get() & !(USES_FP | READS_CFA);
        (address != 0).then_some(address)
    }

    /// The word of memory that is the CFA, if the rule says so.
    pub(super) fn cfa_word(&self) -> Option<Word> {
        (self.read.get() & READS_CFA != 0).then(|| self.cfa.get())
    }
}

/// The caller's registers by a rule that is not common, the `read` of the step, and the word that is the CFA,
/// if the rule says so.
fn uncommon(
    at: Registers,
    cfa: Cfa,
    ra: Ra,
    fp: Fp,
    reader: &mut StackReader,
) -> Option<(Registers, usize, Word)> {
    let mut word = Word::default();
    let (cfa, mut read) = match cfa {
        Cfa::Sp(distance) => (at.sp.wrapping_add_signed(distance as isize), 0),
        Cfa::Fp(distance) => (at.fp.wrapping_add_signed(distance as isize), USES_FP),
        Cfa::AtFp(distance) => {
            let address = at.fp.wrapping_add_signed(distance as isize);
            word = Word { address, value: reader.word(address)? };
            (word.value, USES_FP | READS_CFA)
        }
    };
    let address = ra.address(at, cfa)?;
    let return_word = Word { address, value: reader.word(address)? };
    let fp_address = match fp {
        Fp::Kept => 0,
        Fp::FromCfa(distance) => cfa.wrapping_add_signed(distance.into()),
        Fp::FromOwn(distance) => {
            read |= USES_FP;
            at.fp.wrapping_add_signed(distance.into())
        }
    };
    let fp = if fp_address == 0 { at.fp } else { reader.word(fp_address)? };
    Some((Registers::new(return_word, cfa, fp), read | fp_address, word))
}

/// The registers of the caller of the function that takes a stack; `None` if they cannot be found.
#[inline(always)]
pub(super) fn caller_of(own: Registers, reader: &mut StackReader) -> Option<Registers> {
    let code = lookup::find(own.return_address() as u64).code;
    if code.is_common() {
        return common(own, code, |address| reader.word(address)).map(|(caller, _)| caller);
    }
    let Rule::Call { cfa, ra, fp } = code.uncommon() else { return None };
    uncommon(own, cfa, ra, fp, reader).map(|(caller, ..)| caller)
}

/// Why a walk ends where the stack cannot be read. If only the stack pointer is missing, the frame pointer
/// may say more.
#[inline(always)]
fn unreadable(at: Registers, code: Code) -> u32 {
    if code.lacks_sp(at) { WITHOUT_TABLE } else { UNREADABLE }
}

/// The registers of the code that has resumed a coroutine. Its stack can be at any address.
fn step_to_resumer(
    at: Registers,
    link: i16,
    resumer: Resumer,
    reader: &mut StackReader,
) -> Option<Registers> {
    // NOTE: not remembered, for the same reason as above.
    reader.set_not_own();
    let resumed = reader.word(at.fp.wrapping_add_signed(link.into()))?;
    let mut word = |distance: isize| {
        let address = resumed.wrapping_add_signed(distance);
        Some(Word { address, value: reader.word(address)? })
    };
    let return_word = word(resumer.return_address.into())?;
    let fp = word(resumer.fp.into())?.value;
    Some(Registers::new(return_word, resumed.wrapping_add_signed(resumer.sp.into()), fp))
}
