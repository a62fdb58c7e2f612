//! One step of a walk: from a frame to its caller's.
#![expect(unsafe_code, reason = "reads registers and the stack")]

use super::lookup::{self, Found};
use super::memory::StackReader;
use super::rule::{Cfa, Code, Rbp, Resumer, Rule};
use crate::stacks::tree::{COMPLETE, NO_TABLE, PackedFrame, UNREADABLE};
use std::cell::Cell;

/// The registers in a function, at a call or at an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registers {
    /// The return address of the call, or the address after the instruction's first byte.
    pub(crate) return_address: usize,
    pub(crate) rsp: usize,
    pub(crate) rbp: usize,
}

impl Registers {
    /// The registers of the function that this is inlined into.
    #[inline(always)]
    pub(crate) fn here() -> Self {
        let (ip, rsp, rbp): (usize, usize, usize);
        // SAFETY: reads registers.
        unsafe {
            std::arch::asm!(
                "lea {ip}, [rip]",
                "mov {sp}, rsp",
                "mov {bp}, rbp",
                ip = out(reg) ip,
                sp = out(reg) rsp,
                bp = out(reg) rbp,
                options(nomem, nostack, preserves_flags),
            );
        }
        Self { return_address: ip, rsp, rbp }
    }

    /// The registers of a frame with this return word.
    #[inline(always)]
    pub(super) fn returning_to(Word { address, value }: Word, rbp: usize) -> Self {
        Self { return_address: value, rsp: address.wrapping_add(RETURN_ADDRESS), rbp }
    }

    /// The word in which the call has put the return address.
    #[inline(always)]
    pub(super) fn return_word(self) -> Word {
        Word { address: self.rsp.wrapping_sub(RETURN_ADDRESS), value: self.return_address }
    }
}

/// A word of the stack that a walk has read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Word {
    pub(super) address: usize,
    pub(super) value: usize,
}

impl Word {
    /// What it is now. Must be a word that was read as one of the running thread's own stack, or one that is
    /// between two such.
    #[inline(always)]
    pub(super) fn now(self) -> usize {
        // SAFETY: the word is aligned, and in the part of the stack that was checked, which stays mapped.
        unsafe { std::ptr::with_exposed_provenance::<usize>(self.address).read_volatile() }
    }
}

/// The number of words, from the first one on, that are at or above `rsp` and unchanged. All up to there were
/// read as words of the running thread's own stack, and the last word of all has the address 0.
#[inline(always)]
pub(super) fn unchanged<const N: usize>(words: &[Cell<Word>; N], rsp: usize) -> usize {
    let mut at = words.as_ptr();
    loop {
        // SAFETY: the loop ends at the last word, because no stack pointer of a caller is 0.
        let word = unsafe { &*at }.get();
        if word.address < rsp || word.now() != word.value {
            // PERF: by the pointer, so that the loop counts nothing.
            // SAFETY: both pointers are within the array.
            return unsafe { at.offset_from_unsigned(words.as_ptr()) };
        }
        // SAFETY: this was not the last word.
        at = unsafe { at.add(1) };
    }
}

/// How far a return address is below the stack pointer of the frame that it leads to, in bytes.
const RETURN_ADDRESS: usize = 8;

/// The bits of a step's `read`, beside the address, which is a multiple of 8.
///
/// The caller's registers depend on this frame's `rbp`.
const USES_RBP: usize = 1;
/// The CFA is a word of memory.
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
    return_address: Cell<usize>,
    rsp: Cell<usize>,
    rbp: Cell<usize>,
    /// The address from which the caller's `rbp` was read, 0 if the caller's is this frame's; and
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
        self.take_by(lookup::find(at.return_address as u64), at, reader)
    }

    /// The same by what is known of the frame's code.
    #[inline(always)]
    pub(super) fn take_by(
        &self,
        Found { code, module }: Found,
        at: Registers,
        reader: &mut StackReader,
    ) -> (Registers, u32) {
        self.return_address.set(at.return_address);
        self.rsp.set(at.rsp);
        self.rbp.set(at.rbp);
        self.module.set(module);
        if code.is_common() {
            // NOTE: `read` stays that of another walk, where this one ends: such a walk is not remembered.
            let common = common(at, code, |address| reader.word(address));
            let Some((caller, read)) = common else { return (at, UNREADABLE) };
            self.read.set(read);
            return (caller, CONTINUES);
        }
        let Registers { return_address, rsp, rbp } = match self.uncommon(at, code, reader) {
            Ok(caller) => caller,
            Err(root) => return (at, root),
        };
        (Registers { return_address, rsp, rbp }, CONTINUES)
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
        let (cfa, rbp) = match code.uncommon() {
            Rule::Call { cfa, rbp } => (cfa, rbp),
            Rule::Outermost => return Err(COMPLETE),
            Rule::Signal => return step_over_signal(at, reader).ok_or(UNREADABLE),
            Rule::Coroutine { link, resumer } => {
                return step_to_resumer(at, link, resumer, reader).ok_or(UNREADABLE);
            }
            Rule::None => return Err(NO_TABLE),
            Rule::FramePointer => return Err(WITHOUT_TABLE),
        };
        let (caller, read, cfa) = uncommon(at, cfa, rbp, reader).ok_or(UNREADABLE)?;
        self.read.set(read);
        self.cfa.set(cfa);
        Ok(caller)
    }

    pub(super) fn frame(&self) -> PackedFrame {
        PackedFrame::new(self.return_address.get() as u64, self.module.get())
    }

    pub(super) fn registers(&self) -> Registers {
        Registers {
            return_address: self.return_address.get(),
            rsp: self.rsp.get(),
            rbp: self.rbp.get(),
        }
    }

    /// Notes that this frame's `rbp` decides how the walk continues.
    pub(super) fn set_uses_rbp(&self) {
        self.read.set(USES_RBP);
    }

    /// Whether the caller's registers depend on this frame's `rbp`, beside being the caller's.
    pub(super) fn uses_rbp(&self) -> bool {
        self.read.get() & USES_RBP != 0
    }

    /// The address from which the caller's `rbp` was read; `None` if the caller's is this frame's.
    pub(super) fn rbp_address(&self) -> Option<usize> {
        let address = self.read.get() & !(USES_RBP | READS_CFA);
        (address != 0).then_some(address)
    }

    /// The word of memory that is the CFA, if the rule says so.
    pub(super) fn cfa_word(&self) -> Option<Word> {
        (self.read.get() & READS_CFA != 0).then(|| self.cfa.get())
    }
}

/// The caller's registers by a common rule, and the `read` of the step; `word` reads one of the stack.
///
/// PERF: no branch depends on the rule, because consecutive frames have different ones.
#[inline(always)]
pub(super) fn common(
    at: Registers,
    code: Code,
    mut word: impl FnMut(usize) -> Option<usize>,
) -> Option<(Registers, usize)> {
    let base = if code.is_from_rbp() { at.rbp } else { at.rsp };
    let cfa = base.wrapping_add(code.cfa());
    if cfa <= at.rsp {
        // No frame is below the one it has called.
        return None;
    }
    let address = cfa.wrapping_sub(RETURN_ADDRESS);
    // If `rbp` is not saved, this is the return address again.
    let rbp_address = address.wrapping_sub(code.saved_rbp());
    let return_address = word(address)?;
    let saved = word(rbp_address)?;
    let (rbp, read) = if code.saved_rbp() != 0 { (saved, rbp_address) } else { (at.rbp, 0) };
    let read = read | if code.is_from_rbp() { USES_RBP } else { 0 };
    Some((Registers { return_address, rsp: cfa, rbp }, read))
}

/// The same by any other rule, and the word that is the CFA, if the rule says so.
fn uncommon(
    at: Registers,
    cfa: Cfa,
    rbp: Rbp,
    reader: &mut StackReader,
) -> Option<(Registers, usize, Word)> {
    let mut word = Word::default();
    let (cfa, mut read) = match cfa {
        Cfa::Rsp(distance) => (at.rsp.wrapping_add_signed(distance as isize), 0),
        Cfa::Rbp(distance) => (at.rbp.wrapping_add_signed(distance as isize), USES_RBP),
        Cfa::AtRbp(distance) => {
            let address = at.rbp.wrapping_add_signed(distance as isize);
            word = Word { address, value: reader.word(address)? };
            (word.value, USES_RBP | READS_CFA)
        }
    };
    if cfa <= at.rsp {
        return None;
    }
    let return_address = reader.word(cfa.wrapping_sub(RETURN_ADDRESS))?;
    let rbp_address = match rbp {
        Rbp::Kept => 0,
        Rbp::FromCfa(distance) => cfa.wrapping_add_signed(distance.into()),
        Rbp::FromOwn(distance) => {
            read |= USES_RBP;
            at.rbp.wrapping_add_signed(distance.into())
        }
    };
    let rbp = if rbp_address == 0 { at.rbp } else { reader.word(rbp_address)? };
    Some((Registers { return_address, rsp: cfa, rbp }, read | rbp_address, word))
}

/// The registers of the caller of the function that takes a stack; `None` if they cannot be found.
#[inline(always)]
pub(super) fn caller_of(own: Registers, reader: &mut StackReader) -> Option<Registers> {
    let code = lookup::find(own.return_address as u64).code;
    if code.is_common() {
        return common(own, code, |address| reader.word(address)).map(|(caller, _)| caller);
    }
    let Rule::Call { cfa, rbp } = code.uncommon() else { return None };
    uncommon(own, cfa, rbp, reader).map(|(caller, ..)| caller)
}

/// A signal handler returns to `at`: the registers of the interrupted code are in the kernel's
/// `ucontext`, at the stack pointer (`struct rt_sigframe` in Linux's `arch/x86`).
fn step_over_signal(at: Registers, reader: &mut StackReader) -> Option<Registers> {
    const RBP: usize = 120;
    const RSP: usize = 160;
    const RIP: usize = 168;
    // NOTE: such a stack is not remembered: the interrupted code has no return address below its
    // stack pointer.
    reader.set_not_own();
    let rip = reader.word(at.rsp.wrapping_add(RIP))?;
    let rbp = reader.word(at.rsp.wrapping_add(RBP))?;
    let rsp = reader.word(at.rsp.wrapping_add(RSP))?;
    // Not a return address: the rule of the instruction itself holds.
    Some(Registers { return_address: rip.wrapping_add(1), rsp, rbp })
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
    let resumed = reader.word(at.rbp.wrapping_add_signed(link.into()))?;
    let mut word = |distance: isize| reader.word(resumed.wrapping_add_signed(distance));
    let return_address = word(resumer.return_address.into())?;
    let rbp = word(resumer.rbp.into())?;
    Some(Registers { return_address, rsp: resumed.wrapping_add_signed(resumer.rsp.into()), rbp })
}
