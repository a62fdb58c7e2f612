//! What differs between processors, for ARM (AArch64): registers, what a function does with them, and the
//! codes of rules.
//!
//! A call puts its return address into `x30`, and the called function saves that where it likes in its own
//! frame, as a rule beside `x29`, the frame pointer. So the stack pointer of a frame and the address of its
//! return word are two values: each frame has both. Frames further out still have return words at higher
//! addresses, since each word is in the frame of the called function.
//!
//! A return address can be signed: its upper bits are then a hash of it and of the stack pointer.
//!
//! Sources: the AAPCS64 (procedure call standard), section 6.4; the AADWARF64; the Arm Architecture Reference
//! Manual, `BL`, `BLR` and `XPACLRI`; `struct rt_sigframe` in Linux's `arch/arm64`.
#![expect(unsafe_code, reason = "reads registers, and code that a handler returns to")]

use super::memory::{StackReader, Word};
use super::rule::{Call, Cfa, Fp, Resumer, Rule, USES_FP};
use crate::platform::os;
use gimli::{AArch64, Operation, Reader, Register, RegisterRule, Vendor};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(any(compact_unwind, test))]
mod compact;

#[cfg(any(compact_unwind, test))]
pub(super) use compact::compact_rule;

pub(super) const VENDOR: Vendor = Vendor::AArch64;
pub(super) const SP: Register = AArch64::SP;
pub(super) const FP: Register = AArch64::X29;
pub(super) const RETURN_ADDRESS: Register = AArch64::X30;

/// The size of an instruction in bytes.
const INSTRUCTION: usize = 4;

/// Where the return address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ra {
    /// In the word at this distance from the CFA.
    FromCfa(i32),
    /// Still in `x30`: the function has not called another one.
    Kept,
}

impl Ra {
    /// The address of the return word. `None` if the frame would be below the one that it has called.
    #[inline(always)]
    pub(super) fn address(self, at: Registers, cfa: usize) -> Option<usize> {
        match self {
            Self::FromCfa(distance) => {
                (cfa > at.sp).then_some(cfa.wrapping_add_signed(distance as isize))
            }
            // A function that has saved nothing may have a frame of no bytes.
            Self::Kept => at.link_word().filter(|_| cfa >= at.sp),
        }
    }

    /// Whether the return address is in memory: `x30` is only where a signal has interrupted the function.
    pub(super) fn is_in_memory(self, at: Registers) -> bool {
        self != Self::Kept || at.link_word().is_some()
    }
}

/// The distance of the stack pointer of a frame from its return word, in 8 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpDistance(u16);

/// The registers in a function, at a call or at an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registers {
    /// The word from which the return address was read, with its signature. Where a signal has interrupted
    /// the function, the word is the saved `pc`, and has the address after the instruction; its address has
    /// the bit [`INTERRUPTED`].
    return_word: Word,
    /// If a frame pointer was guessed, the least that it can be, with the bit [`LEAST`].
    pub(super) sp: usize,
    pub(super) fp: usize,
}

const INTERRUPTED: usize = 1;
const LEAST: usize = 1;

impl Registers {
    /// The registers of the function that this is inlined into.
    #[inline(always)]
    pub(crate) fn here() -> Self {
        let (pc, sp, fp): (usize, usize, usize);
        // SAFETY: reads registers.
        unsafe {
            std::arch::asm!(
                "adr {pc}, . + 4",
                "mov {sp}, sp",
                "mov {fp}, x29",
                pc = out(reg) pc,
                sp = out(reg) sp,
                fp = out(reg) fp,
                options(nomem, nostack, preserves_flags),
            );
        }
        Self { return_word: Word { address: 0, value: pc }, sp, fp }
    }

    /// The registers after the return by this word.
    #[inline(always)]
    pub(super) fn new(return_word: Word, sp: usize, fp: usize) -> Self {
        Self { return_word, sp, fp }
    }

    /// The same where the stack pointer is at this distance.
    #[inline(always)]
    pub(super) fn returning_to(return_word: Word, sp: SpDistance, fp: usize) -> Self {
        Self { return_word, sp: return_word.address.wrapping_add(usize::from(sp.0) * 8), fp }
    }

    /// The registers after the return to the caller of the function whose frame record is this: its saved
    /// `x29`, and then its return address. The record does not say where the function's frame ends.
    pub(super) fn of_record(record: usize, return_address: usize, fp: usize) -> Self {
        let return_word = Word { address: record.wrapping_add(8), value: return_address };
        Self { return_word, sp: record.wrapping_add(16) | LEAST, fp }
    }

    #[inline(always)]
    pub(super) fn return_address(self) -> usize {
        return_address_in(self.return_word.value)
    }

    /// The word in which the called function has saved the return address.
    #[inline(always)]
    pub(super) fn return_word(self) -> Word {
        self.return_word
    }

    /// NOTE: no rule is kept whose return address is so far below the CFA that this has no room for it.
    #[inline(always)]
    pub(super) fn sp_distance(self) -> SpDistance {
        SpDistance((self.sp.wrapping_sub(self.return_word.address) / 8) as u16)
    }

    /// Where a signal has interrupted the function, the address of the word that has its `x30`.
    fn link_word(self) -> Option<usize> {
        let pc = self.return_word.address.wrapping_sub(INTERRUPTED);
        (self.return_word.address & INTERRUPTED != 0).then(|| pc.wrapping_sub(PC - X30))
    }

    /// The least that the stack pointer can be.
    pub(super) fn least_sp(self) -> usize {
        self.sp & !LEAST
    }

    #[inline(always)]
    pub(super) fn is_sp_known(self) -> bool {
        self.sp & LEAST == 0
    }
}

/// The registers of a frame of a walk.
///
/// PERF: cells, as those of a step.
pub(super) struct RegisterCells {
    return_word: [Cell<usize>; 2],
    sp: Cell<usize>,
    fp: Cell<usize>,
}

impl RegisterCells {
    #[inline(always)]
    pub(super) fn set(&self, Registers { return_word, sp, fp }: Registers) {
        self.return_word[0].set(return_word.address);
        self.return_word[1].set(return_word.value);
        self.sp.set(sp);
        self.fp.set(fp);
    }

    #[inline(always)]
    pub(super) fn get(&self) -> Registers {
        let [address, value] = [0, 1].map(|index: usize| self.return_word[index].get());
        Registers { return_word: Word { address, value }, sp: self.sp.get(), fp: self.fp.get() }
    }
}

/// Whether the return word of a frame can be at another address in the next call from there.
pub(super) const RETURN_WORDS_MOVE: bool = true;

/// The address of code that a word of the stack has, without its signature.
#[inline(always)]
pub(super) fn return_address_in(word: usize) -> usize {
    let address;
    // SAFETY: `XPACLRI` changes the upper bits of `x30`. It is a hint, which processors without signatures
    // ignore.
    unsafe {
        std::arch::asm!("hint #7", inout("x30") word => address,
            options(pure, nomem, nostack, preserves_flags));
    }
    address
}

/// The distance between two frames that a chain is found by. `None` if that has no room.
///
/// It has all that decides where the words of a chain are: the distance of the return words (15 bits, in 8
/// bytes), and that of the stack pointer from the return word, of the joint (10 bits) and of the start (6
/// bits).
#[inline(always)]
pub(super) fn distance_to(joint: Registers, start: Registers) -> Option<u32> {
    let words = joint.return_word.address.wrapping_sub(start.return_word.address) / 8;
    let (of_joint, of_start) = (joint.sp_distance().0, start.sp_distance().0);
    let has_room = words < 1 << 15 && of_joint < 1 << 10 && of_start < 1 << 6;
    has_room.then_some((words as u32) << 17 | u32::from(of_joint) << 7 | u32::from(of_start) << 1)
}

/// The caller's registers by a common rule, and the address from which its `fp` was read, 0 if that is this
/// frame's; `word` reads one of the stack.
///
/// PERF: no branch depends on the rule, because consecutive frames have different ones.
#[inline(always)]
pub(super) fn common(
    at: Registers,
    code: Code,
    mut word: impl FnMut(usize) -> Option<usize>,
) -> Option<(Registers, usize)> {
    let rule = code.packed();
    let base = if rule.is_from_fp() { at.fp } else { at.sp };
    let cfa = base.wrapping_add_signed(rule.cfa());
    if cfa <= at.sp {
        // No frame is below the one it has called.
        return None;
    }
    let address = cfa.wrapping_sub(rule.return_word());
    // If `fp` is not saved, this is the return address again.
    let fp_address = address.wrapping_add_signed(rule.saved_fp());
    let value = word(address)?;
    let saved = word(fp_address)?;
    let (fp, read) = if rule.saved_fp() != 0 { (saved, fp_address) } else { (at.fp, 0) };
    let read = read | if rule.is_from_fp() { USES_FP } else { 0 };
    Some((Registers { return_word: Word { address, value }, sp: cfa, fp }, read))
}

/// The return address of the function that returns to `start`, if it is known where that is, and it is
/// further in than the joint, whose stack pointer is at this distance; else 0.
#[inline(always)]
pub(super) fn next_return_address(code: Code, start: Registers, distance: usize) -> usize {
    if !code.is_common() {
        return 0;
    }
    let rule = code.packed();
    let base = if rule.is_from_fp() { start.fp } else { start.sp };
    let address = base.wrapping_add_signed(rule.cfa()).wrapping_sub(rule.return_word());
    // Rotated, an address that is no multiple of 8 is too far away.
    if address.wrapping_sub(start.sp).rotate_right(3) >= distance >> 3 {
        return 0;
    }
    return_address_in(Word { address, value: 0 }.now())
}

// The distances from the stack pointer in code that a signal handler returns to: `struct rt_sigframe` has 128
// bytes of `siginfo`, and then a `ucontext`.
const FLAGS: usize = 128;
const LINK: usize = 136;
const X29: usize = 544;
const X30: usize = 552;
const SAVED_SP: usize = 560;
const PC: usize = 568;

/// Whether the kernel has put code here that a signal handler returns to. That has no unwind information, or
/// none at the instruction before it, where its rule is looked for.
#[cold]
pub(super) fn is_return_to_kernel(at: Registers, reader: &mut StackReader) -> bool {
    // `mov x8, #139` (`rt_sigreturn`), `svc #0`
    const RETURN: u64 = 0xd400_0001_d280_1168;
    let address = at.return_address();
    // PERF: these two are always 0 there, and seldom elsewhere.
    let mut is_zero = |distance| reader.word(at.sp.wrapping_add(distance)) == Some(0);
    if !is_zero(FLAGS) || !is_zero(LINK) || !address.is_multiple_of(INSTRUCTION) {
        return false;
    }
    let [low, high] = [0, INSTRUCTION].map(|distance| {
        let at = address.wrapping_add(distance);
        // SAFETY: the word can be read, and stays there: this thread is about to return to it.
        os::is_readable(at & !7)
            .then(|| unsafe { std::ptr::with_exposed_provenance::<u32>(at).read_volatile() })
    });
    low.zip(high).is_some_and(|(low, high)| u64::from(high) << 32 | u64::from(low) == RETURN)
}

/// A signal handler returns to `at`: the registers of the interrupted code are in the kernel's
/// `ucontext`, at the stack pointer.
pub(super) fn step_over_signal(at: Registers, reader: &mut StackReader) -> Option<Registers> {
    // NOTE: such a stack is not remembered: the interrupted code has no return address below its
    // stack pointer.
    reader.set_not_own();
    let address = at.sp.wrapping_add(PC);
    let pc = reader.word(address)?;
    let fp = reader.word(at.sp.wrapping_add(X29))?;
    let sp = reader.word(at.sp.wrapping_add(SAVED_SP))?;
    // Not a return address: the rule of the instruction itself holds.
    let value = pc.wrapping_add(INSTRUCTION);
    Some(Registers { return_word: Word { address: address | INTERRUPTED, value }, sp, fp })
}

/// Whether unwind information that begins with this operation, for the return address, is that of the code to
/// which signal handlers return: see [`is_return_to_kernel`].
pub(super) fn is_saved_by_kernel<R: Reader>(_: &Operation<R>) -> bool {
    false
}

/// Replaces the letters of a CIE's augmentation that gimli does not know by one that it knows and that means
/// nothing here: `B`, the return address is signed with the second key; and `G`, the frame has tagged memory.
/// Neither has data.
pub(super) fn replace_unknown_augmentations(section: &mut [u8]) {
    let mut rest = section;
    // A length, the number 0, a version, and the augmentation, which ends with a zero.
    while let Some((length, entry)) = rest.split_first_chunk_mut() {
        // The last length is 0. An entry of 4 GiB or more is not looked at, nor what is after it.
        let length = u32::from_le_bytes(*length) as usize;
        let Some((entry, after)) = entry.split_at_mut_checked(length) else { return };
        if let [0, 0, 0, 0, _, augmentation @ ..] = entry {
            let letters = augmentation.iter_mut().take_while(|letter| **letter != 0);
            letters
                .filter(|letter| matches!(letter, b'B' | b'G'))
                .for_each(|letter| *letter = b'S');
        }
        rest = after;
    }
}

/// Where the return address is, by the unwind information.
pub(super) fn return_address(rule: Option<RegisterRule<usize>>) -> Result<Ra, Rule> {
    match rule {
        Some(RegisterRule::Offset(distance)) => {
            i32::try_from(distance).map(Ra::FromCfa).map_err(|_| Rule::None)
        }
        None | Some(RegisterRule::SameValue) => Ok(Ra::Kept),
        Some(RegisterRule::Undefined) => Err(Rule::Outermost),
        Some(_) => Err(Rule::None),
    }
}

/// The bytes of an entry of a procedure linkage table.
pub(super) const LINKAGE_ENTRY: u64 = 16;

/// Linkers write no unwind information for a procedure linkage table.
pub(super) fn linkage_table(_: &[u8]) -> Option<[(u64, Rule); 2]> {
    None
}

/// Whether a function makes a frame record at once, by its rules after the first one, each with its distance
/// from the function's begin: one of them saves `x29`.
pub(super) fn makes_frame_pointer(rules: impl Iterator<Item = (u32, Code)>) -> bool {
    const LONGEST_BEGINNING: u32 = 64;
    // So another function begins, or this one has ended.
    let begin = Rule::Call { cfa: Cfa::Sp(0), ra: Ra::Kept, fp: Fp::Kept };
    let is_same = |code: Code| code != Code::FRAME_POINTER && code.packed().rule() != begin;
    let mut beginning =
        rules.take_while(|(distance, code)| *distance <= LONGEST_BEGINNING && is_same(*code));
    beginning.any(|(_, code)| code.is_common() && code.packed().saved_fp() != 0)
}

/// The code for an address in no module of a process with Python, whose trampolines have a frame record.
pub(super) fn code_nowhere(_: usize) -> Code {
    Code::FRAME_POINTER
}

/// The call that ends before an address.
pub(super) fn call_before(address: usize) -> Option<Call> {
    let mut bytes = [0; INSTRUCTION];
    let at = address.wrapping_sub(INSTRUCTION);
    if !address.is_multiple_of(INSTRUCTION) || !os::copy_bytes(&mut bytes, at) {
        return None;
    }
    let instruction = u32::from_le_bytes(bytes);
    if instruction >> 26 == 0b10_0101 {
        // `BL`: the lower 26 bits are the distance in instructions.
        let distance = (instruction << 6).cast_signed() >> 4;
        return Some(Call::Direct(at.wrapping_add_signed(distance as isize)));
    }
    // `BLR`; `BLRAA`, `BLRAB`, `BLRAAZ` and `BLRABZ`, which check a signature before.
    let is_indirect = instruction & 0xffff_fc1f == 0xd63f_0000
        || instruction & 0xffff_f81f == 0xd63f_081f
        || instruction & 0xffff_f800 == 0xd73f_0800;
    is_indirect.then_some(Call::Indirect)
}

// A rule as one word. Distances are in 8 bytes, but for that of the CFA.
// bit 0       the CFA is at a distance from `fp`, not from `sp`
// bits 1..5   its kind, 0 for none
// bits 5..16  the distance of the saved `fp` from the return word, 0 if `fp` is kept
// bits 16..32 how far the return word is below the CFA
// bits 32..64 the distance of the CFA
// Of a coroutine, the distances of the return address (8..16), of `fp` (16..32), the link (32..48), and the
// distance of `sp` (48..64).
const FROM_FP: u64 = 1;
const KIND_SHIFT: u32 = 1;
const SAVED: u64 = 1;
const IN_REGISTER: u64 = 2;
const OUTERMOST: u64 = 3;
const SIGNAL: u64 = 4;
const COROUTINE: u64 = 5;
const FRAME_POINTER: u64 = 6;
const FP_SHIFT: u32 = 5;
const FP_BITS: u32 = 11;
const FP_MASK: u16 = (1 << FP_BITS) - 1;
const RA_SHIFT: u32 = 16;
const CFA_SHIFT: u32 = 32;

/// A [`Rule`] as one word; 0 is [`Rule::None`], and each rule that has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Packed(u64);

impl Packed {
    pub(super) fn new(rule: Rule) -> Self {
        match rule {
            Rule::None => Self(0),
            Rule::FramePointer => Self(FRAME_POINTER << KIND_SHIFT),
            Rule::Outermost => Self(OUTERMOST << KIND_SHIFT),
            Rule::Signal => Self(SIGNAL << KIND_SHIFT),
            Rule::Call { cfa, ra, fp } => Self::of_call(cfa, ra, fp).unwrap_or(Self(0)),
            Rule::Coroutine { link, resumer } => {
                let Resumer { sp, return_address, fp } = resumer;
                let distances = u64::from(return_address as u8) << 8
                    | u64::from(fp as u16) << 16
                    | u64::from(link as u16) << 32
                    | u64::from(sp as u16) << 48;
                Self(COROUTINE << KIND_SHIFT | distances)
            }
        }
    }

    fn of_call(cfa: Cfa, ra: Ra, fp: Fp) -> Option<Self> {
        let (from_fp, cfa) = match cfa {
            Cfa::Sp(distance) => (0, distance),
            Cfa::Fp(distance) => (FROM_FP, distance),
            Cfa::AtFp(_) => return None,
        };
        let (kind, ra) = match ra {
            Ra::FromCfa(distance @ ..0) if distance % 8 == 0 => (SAVED, -(distance / 8)),
            Ra::FromCfa(_) => return None,
            Ra::Kept => (IN_REGISTER, 0),
        };
        let fp = match fp {
            Fp::Kept => 0,
            Fp::FromCfa(distance) if distance % 8 == 0 => {
                Some(i32::from(distance / 8) + ra).filter(|from_ra| *from_ra != 0)?
            }
            Fp::FromCfa(_) | Fp::FromOwn(_) => return None,
        };
        let (fp_bits, cfa_bits) = (u64::from(fp as u16 & FP_MASK), u64::from(cfa as u32));
        let distances =
            fp_bits << FP_SHIFT | u64::from(ra as u16) << RA_SHIFT | cfa_bits << CFA_SHIFT;
        let packed = Self(from_fp | kind << KIND_SHIFT | distances);
        let is_exact =
            packed.return_word() == ra as usize * 8 && packed.saved_fp() == fp as isize * 8;
        is_exact.then_some(packed)
    }

    pub(super) fn rule(self) -> Rule {
        let ra = match self.0 >> KIND_SHIFT & 15 {
            SAVED => Ra::FromCfa(-(self.return_word() as i32)),
            IN_REGISTER => Ra::Kept,
            OUTERMOST => return Rule::Outermost,
            SIGNAL => return Rule::Signal,
            FRAME_POINTER => return Rule::FramePointer,
            COROUTINE => {
                let [link, sp] = [32, 48].map(|shift: u32| (self.0 >> shift) as i16);
                let (return_address, fp) = ((self.0 >> 8) as i8, (self.0 >> 16) as i16);
                return Rule::Coroutine { link, resumer: Resumer { sp, return_address, fp } };
            }
            _ => return Rule::None,
        };
        let cfa = self.cfa() as i32;
        let cfa = if self.is_from_fp() { Cfa::Fp(cfa) } else { Cfa::Sp(cfa) };
        let fp = match self.saved_fp() {
            0 => Fp::Kept,
            from_ra => Fp::FromCfa((from_ra - self.return_word() as isize) as i16),
        };
        Rule::Call { cfa, ra, fp }
    }

    /// Whether the function has saved its return address.
    fn is_common(self) -> bool {
        self.0 >> KIND_SHIFT & 15 == SAVED
    }

    #[inline(always)]
    fn is_from_fp(self) -> bool {
        self.0 & FROM_FP != 0
    }

    /// The distance of the CFA, in bytes.
    #[inline(always)]
    fn cfa(self) -> isize {
        (self.0.cast_signed() >> CFA_SHIFT) as isize
    }

    /// How far the return word is below the CFA, in bytes.
    #[inline(always)]
    fn return_word(self) -> usize {
        (self.0 >> RA_SHIFT) as u16 as usize * 8
    }

    /// The distance from the return word to the saved `fp`, in bytes; 0 if `fp` is kept.
    #[inline(always)]
    fn saved_fp(self) -> isize {
        const ABOVE: u32 = u64::BITS - RA_SHIFT;
        ((self.0 << ABOVE).cast_signed() >> (u64::BITS - FP_BITS)) as isize * 8
    }
}

/// The code of a rule, in 16 bits: its index in a table of the process, and whether the rule is not common.
/// The common rules are those of functions that have saved their return address.
///
/// NOTE: a rule has three distances, for which 16 bits have no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(u16);

const UNCOMMON: u16 = 1 << 15;

/// The maximum number of rules in the table.
const CAPACITY: usize = UNCOMMON as usize;

/// The rules. Index 0 is [`Rule::None`], and index 1 is not used.
static RULES: [AtomicU64; CAPACITY] = [const { AtomicU64::new(0) }; CAPACITY];

impl Code {
    /// The code of [`Rule::None`].
    pub(super) const NONE: Self = Self(UNCOMMON);
    /// The code of [`Rule::FramePointer`].
    pub(super) const FRAME_POINTER: Self = Self(UNCOMMON + 1);

    /// All rules are in the table.
    pub(super) fn of_common(_: Rule) -> Option<Self> {
        None
    }

    /// Stores a rule in the table, at an index that is not used yet. `None` if the table has no such index.
    pub(super) fn of_uncommon(rule: Packed, index: usize) -> Option<Self> {
        RULES.get(index)?.store(rule.0, Ordering::Relaxed);
        Some(Self(index as u16 | if rule.is_common() { 0 } else { UNCOMMON }))
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
        self.0.cast_signed() > 0
    }

    #[inline(always)]
    fn packed(self) -> Packed {
        Packed(RULES[usize::from(self.0) % CAPACITY].load(Ordering::Relaxed))
    }

    /// Whether the rule needs a stack pointer that is not known.
    #[inline(always)]
    pub(super) fn lacks_sp(self, at: Registers) -> bool {
        !at.is_sp_known() && !self.packed().is_from_fp()
    }

    pub(super) fn uncommon(self) -> Rule {
        if self == Self::FRAME_POINTER { Rule::FramePointer } else { self.packed().rule() }
    }
}

#[cfg(test)]
mod tests;
