//! What differs between processors, for x86-64: registers, what a function does with them, and the codes of
//! rules.
//!
//! Sources: the x86-64 psABI, sections 3.2, 3.4 and 3.7; Intel's manual, volume 2; `struct rt_sigframe` in
//! Linux's `arch/x86`.
#![expect(unsafe_code, reason = "reads registers")]

use super::memory::{StackReader, Word};
use super::rule::{Call, Cfa, Fp, Resumer, Rule, USES_FP};
use crate::platform::os;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(any(compact_unwind, all(test, not(pdata))))]
mod compact;
#[cfg(not(pdata))]
mod dwarf;

#[cfg(any(compact_unwind, all(test, not(pdata))))]
pub(super) use compact::compact_rule;

#[cfg(not(pdata))]
pub(super) use dwarf::{
    FP, LINKAGE_ENTRY, RETURN_ADDRESS, SP, VENDOR, is_saved_by_kernel, linkage_table,
    replace_unknown_augmentations, return_address,
};

/// How far a return address is below the stack pointer of the frame that it leads to, in bytes.
const DISTANCE: usize = 8;

/// Where the return address is: for all functions, just below the CFA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ra;

impl Ra {
    /// The address of the return word. `None` if the frame would be below the one that it has called.
    #[inline(always)]
    pub(super) fn address(self, at: Registers, cfa: usize) -> Option<usize> {
        (cfa > at.sp).then_some(cfa.wrapping_sub(DISTANCE))
    }

    /// Whether the return address is in memory, and not in a register.
    pub(super) fn is_in_memory(self, _: Registers) -> bool {
        true
    }
}

/// The distance of the stack pointer of a frame from its return word, which is always the same.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SpDistance(());

/// The registers in a function, at a call or at an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Registers {
    /// The return address of the call, or the address after the instruction's first byte.
    return_address: usize,
    pub(super) sp: usize,
    pub(super) fp: usize,
}

impl Registers {
    /// The registers of the function that this is inlined into.
    #[inline(always)]
    pub(crate) fn here() -> Self {
        let (ip, sp, fp): (usize, usize, usize);
        // SAFETY: reads registers.
        unsafe {
            std::arch::asm!(
                "lea {ip}, [rip]",
                "mov {sp}, rsp",
                "mov {bp}, rbp",
                ip = out(reg) ip,
                sp = out(reg) sp,
                bp = out(reg) fp,
                options(nomem, nostack, preserves_flags),
            );
        }
        Self { return_address: ip, sp, fp }
    }

    /// The registers in a function, after the instruction before this address.
    #[cfg(redirects)]
    pub(crate) fn at(address: usize, sp: usize, fp: usize) -> Self {
        Self { return_address: address, sp, fp }
    }

    /// The registers after the return by this word.
    #[inline(always)]
    pub(super) fn new(return_word: Word, sp: usize, fp: usize) -> Self {
        Self { return_address: return_word.value, sp, fp }
    }

    /// The same where the stack pointer is at this distance.
    #[inline(always)]
    pub(super) fn returning_to(Word { address, value }: Word, _: SpDistance, fp: usize) -> Self {
        Self { return_address: value, sp: address.wrapping_add(DISTANCE), fp }
    }

    /// The registers after the return to the caller of the function whose frame record is this: its saved
    /// `rbp`, and then its return address.
    pub(super) fn of_record(record: usize, return_address: usize, fp: usize) -> Self {
        Self { return_address, sp: record.wrapping_add(16), fp }
    }

    #[inline(always)]
    pub(super) fn return_address(self) -> usize {
        self.return_address
    }

    /// The word in which the call has put the return address.
    #[inline(always)]
    pub(super) fn return_word(self) -> Word {
        Word { address: self.sp.wrapping_sub(DISTANCE), value: self.return_address }
    }

    #[inline(always)]
    pub(super) fn sp_distance(self) -> SpDistance {
        SpDistance(())
    }

    /// The least that the stack pointer can be.
    pub(super) fn least_sp(self) -> usize {
        self.sp
    }

    #[inline(always)]
    pub(super) fn is_sp_known(self) -> bool {
        true
    }
}

/// The registers of a frame of a walk.
///
/// PERF: cells, as those of a step.
pub(super) struct RegisterCells {
    return_address: Cell<usize>,
    sp: Cell<usize>,
    fp: Cell<usize>,
}

impl RegisterCells {
    #[inline(always)]
    pub(super) fn set(&self, Registers { return_address, sp, fp }: Registers) {
        self.return_address.set(return_address);
        self.sp.set(sp);
        self.fp.set(fp);
    }

    #[inline(always)]
    pub(super) fn get(&self) -> Registers {
        let (return_address, sp, fp) = (self.return_address.get(), self.sp.get(), self.fp.get());
        Registers { return_address, sp, fp }
    }
}

/// Whether the return word of a frame can be at another address in the next call from there.
pub(super) const RETURN_WORDS_MOVE: bool = false;

/// The address of code that a word of the stack has.
#[inline(always)]
pub(super) fn return_address_in(word: usize) -> usize {
    word
}

/// The distance between two frames that a chain is found by. `None` if that has no room.
#[inline(always)]
pub(super) fn distance_to(joint: Registers, start: Registers) -> Option<u32> {
    u32::try_from(joint.sp.wrapping_sub(start.sp)).ok()
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
    let base = if code.is_from_fp() { at.fp } else { at.sp };
    let cfa = base.wrapping_add(code.cfa());
    if cfa <= at.sp {
        // No frame is below the one it has called.
        return None;
    }
    let address = cfa.wrapping_sub(DISTANCE);
    // If `fp` is not saved, this is the return address again.
    let fp_address = address.wrapping_sub(code.saved_fp());
    let return_address = word(address)?;
    let saved = word(fp_address)?;
    let (fp, read) = if code.saved_fp() != 0 { (saved, fp_address) } else { (at.fp, 0) };
    let read = read | if code.is_from_fp() { USES_FP } else { 0 };
    Some((Registers { return_address, sp: cfa, fp }, read))
}

/// The return address of the function that returns to `start`, if it is known where that is, and it is
/// not the joint's, whose stack pointer is at this distance; else 0.
#[inline(always)]
pub(super) fn next_return_address(code: Code, start: Registers, distance: usize) -> usize {
    if !code.is_common() || code.is_from_fp() || code.cfa() >= distance {
        return 0;
    }
    let caller = Registers { sp: start.sp.wrapping_add(code.cfa()), ..start };
    caller.return_word().now()
}

/// Whether the kernel has put code here that a signal handler returns to, without unwind information.
pub(super) fn is_return_to_kernel(_: Registers, _: &mut StackReader) -> bool {
    false
}

/// A signal handler returns to `at`: the registers of the interrupted code are in the kernel's
/// `ucontext`, at the stack pointer.
pub(super) fn step_over_signal(at: Registers, reader: &mut StackReader) -> Option<Registers> {
    const FP: usize = 120;
    const SP: usize = 160;
    const RIP: usize = 168;
    // NOTE: such a stack is not remembered: the interrupted code has no return address below its
    // stack pointer.
    reader.set_not_own();
    let rip = reader.word(at.sp.wrapping_add(RIP))?;
    let fp = reader.word(at.sp.wrapping_add(FP))?;
    let sp = reader.word(at.sp.wrapping_add(SP))?;
    // Not a return address: the rule of the instruction itself holds.
    Some(Registers { return_address: rip.wrapping_add(1), sp, fp })
}

/// Whether a function makes a frame pointer at once, by its rules after the first one, each with its distance
/// from the function's begin: its third rule says so.
pub(super) fn makes_frame_pointer(mut rules: impl Iterator<Item = (u32, Code)>) -> bool {
    const LONGEST_BEGINNING: u32 = 16;
    let made = Rule::Call { cfa: Cfa::Fp(16), ra: Ra, fp: Fp::FromCfa(-16) };
    rules.nth(1).is_some_and(|(distance, code)| {
        distance <= LONGEST_BEGINNING && Some(code) == Code::of_common(made)
    })
}

/// The code for an address in no module of a process with Python, which calls each of its functions through a
/// trampoline (`python3 -X perf`) without unwind information.
///
/// Source: `Python/asm_trampoline.S` of CPython 3.12 and 3.13.
pub(super) fn code_nowhere(return_address: usize) -> Code {
    // sub rsp, 8; call rcx; add rsp, 8; ret
    const TRAMPOLINE: [u8; 11] = [0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3];
    const CALL_END: usize = 6;
    let mut bytes = [0; TRAMPOLINE.len()];
    let is_read = os::copy_bytes(&mut bytes, return_address.wrapping_sub(CALL_END));
    let rule = Rule::Call { cfa: Cfa::Sp(16), ra: Ra, fp: Fp::Kept };
    let code = Code::of_common(rule).filter(|_| is_read && bytes == TRAMPOLINE);
    code.unwrap_or(Code::FRAME_POINTER)
}

/// The call that ends before an address.
pub(super) fn call_before(address: usize) -> Option<Call> {
    const PAGE: usize = os::SMALLEST_PAGE;
    let mut bytes = [0; LONGEST];
    // Code can begin with the last page of the bytes.
    let in_page = address % PAGE;
    let all = os::copy_bytes(&mut bytes, address.wrapping_sub(LONGEST));
    if !all {
        let lower = LONGEST.checked_sub(in_page).filter(|_| in_page > 0)?;
        bytes = [0; LONGEST];
        if !os::copy_bytes(bytes.get_mut(lower..)?, address - in_page) {
            return None;
        }
    }
    call_at_end(bytes, address)
}

/// The most bytes of a call, without the prefixes before its opcode.
const LONGEST: usize = 7;

/// The call that is the last of these instructions, which end before `address`: Intel's manual, volume 2,
/// `CALL` and tables 2-2 and 2-3.
fn call_at_end(bytes: [u8; LONGEST], address: usize) -> Option<Call> {
    let [a, b, c, d, e, f, g] = bytes;
    if c == 0xe8 {
        let distance = i32::from_le_bytes([d, e, f, g]);
        return Some(Call::Direct(address.wrapping_add_signed(distance as isize)));
    }
    // `ff /2`, then its operand: the fields `mod` and `rm`; a SIB byte if `rm` is 4, whose lower bits are its
    // `base`.
    let is_call = |opcode: u8, operand: u8, addressing: u8| {
        opcode == 0xff && operand & 0b0011_1000 == 0b0001_0000 && operand >> 6 == addressing
    };
    let (has_sib, base) = (|operand: u8| operand & 7 == 4, |sib: u8| sib & 7);
    let is_indirect = is_call(f, g, 3)
        || is_call(f, g, 0) && !has_sib(g) && base(g) != 5
        || is_call(e, f, 0) && has_sib(f) && base(g) != 5
        || is_call(e, f, 1) && !has_sib(f)
        || is_call(d, e, 1) && has_sib(e)
        || is_call(b, c, 0) && base(c) == 5
        || is_call(b, c, 2) && !has_sib(c)
        || is_call(a, b, 0) && has_sib(b) && base(c) == 5
        || is_call(a, b, 2) && has_sib(b);
    is_indirect.then_some(Call::Indirect)
}

// A rule as one word.
// bits 0..3   its kind, 0 for none
// bits 3..5   where `fp` is
// bits 16..32 distance of `fp`
// bits 32..64 distance of the CFA; of a coroutine, the link and the distance of `sp`
// bits 8..16  of a coroutine, the distance of the return address
const OUTERMOST: u64 = 1;
const SIGNAL: u64 = 2;
const CFA_SP: u64 = 3;
const CFA_FP: u64 = 4;
const CFA_AT_FP: u64 = 5;
const COROUTINE: u64 = 6;
const FRAME_POINTER: u64 = 7;
const FP_SHIFT: u32 = 3;
const FP_FROM_CFA: u64 = 1;
const FP_FROM_OWN: u64 = 2;

/// A [`Rule`] as one word; 0 is [`Rule::None`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Packed(u64);

impl Packed {
    pub(super) fn new(rule: Rule) -> Self {
        let (cfa, fp) = match rule {
            Rule::None => return Self(0),
            Rule::FramePointer => return Self(FRAME_POINTER),
            Rule::Outermost => return Self(OUTERMOST),
            Rule::Signal => return Self(SIGNAL),
            Rule::Call { cfa, fp, .. } => (cfa, fp),
            Rule::Coroutine { link, resumer } => {
                let Resumer { sp, return_address, fp } = resumer;
                let distances = u64::from(return_address as u8) << 8
                    | u64::from(fp as u16) << 16
                    | u64::from(link as u16) << 32
                    | u64::from(sp as u16) << 48;
                return Self(COROUTINE | distances);
            }
        };
        let (kind, cfa) = match cfa {
            Cfa::Sp(distance) => (CFA_SP, distance),
            Cfa::Fp(distance) => (CFA_FP, distance),
            Cfa::AtFp(distance) => (CFA_AT_FP, distance),
        };
        let (place, fp) = match fp {
            Fp::Kept => (0, 0),
            Fp::FromCfa(distance) => (FP_FROM_CFA, distance),
            Fp::FromOwn(distance) => (FP_FROM_OWN, distance),
        };
        let distances = u64::from(fp as u16) << 16 | u64::from(cfa as u32) << 32;
        Self(kind | place << FP_SHIFT | distances)
    }

    pub(super) fn rule(self) -> Rule {
        let (cfa, fp) = ((self.0 >> 32) as i32, (self.0 >> 16) as i16);
        let cfa = match self.0 & 7 {
            CFA_SP => Cfa::Sp(cfa),
            CFA_FP => Cfa::Fp(cfa),
            CFA_AT_FP => Cfa::AtFp(cfa),
            OUTERMOST => return Rule::Outermost,
            SIGNAL => return Rule::Signal,
            FRAME_POINTER => return Rule::FramePointer,
            COROUTINE => {
                let (link, sp) = (cfa as i16, (cfa >> 16) as i16);
                let resumer = Resumer { sp, return_address: (self.0 >> 8) as i8, fp };
                return Rule::Coroutine { link, resumer };
            }
            _ => return Rule::None,
        };
        let fp = match self.0 >> FP_SHIFT & 3 {
            FP_FROM_CFA => Fp::FromCfa(fp),
            FP_FROM_OWN => Fp::FromOwn(fp),
            _ => Fp::Kept,
        };
        Rule::Call { cfa, ra: Ra, fp }
    }
}

/// The code of a rule, in 16 bits. The code of a common rule is the rule itself; the code of any
/// other rule is its index in a table of the process.
///
/// ```text
/// bit 0       the CFA is at a distance from `fp`, not from `sp`
/// bits 1..4   0: `fp` is kept; n: it is saved 8 + 8n bytes below the CFA
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
        let Rule::Call { cfa, fp, .. } = rule else { return None };
        let (from_fp, cfa) = match cfa {
            Cfa::Sp(distance) => (0, distance),
            Cfa::Fp(distance) => (1, distance),
            Cfa::AtFp(_) => return None,
        };
        let place = match fp {
            Fp::Kept => 0,
            Fp::FromCfa(distance @ -64..=-16) if distance % 8 == 0 => (-8 - distance) / 8,
            Fp::FromCfa(_) | Fp::FromOwn(_) => return None,
        };
        let is_common = cfa > 0 && cfa % 8 == 0 && cfa / 8 < i32::from(FIRST_UNCOMMON >> 4);
        is_common.then_some(Self(((cfa / 8) as u16) << 4 | (place as u16) << 1 | from_fp))
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

    /// Whether the CFA of a common rule is at a distance from `fp`.
    #[inline(always)]
    pub(super) fn is_from_fp(self) -> bool {
        self.0 & 1 != 0
    }

    /// The distance of the CFA of a common rule, in bytes.
    #[inline(always)]
    pub(super) fn cfa(self) -> usize {
        usize::from(self.0 >> 4) * 8
    }

    /// How far below the return address `fp` is saved, by a common rule, in bytes; 0 if it is kept.
    #[inline(always)]
    pub(super) fn saved_fp(self) -> usize {
        usize::from(self.0 >> 1 & 7) * 8
    }

    /// Whether the rule needs a stack pointer that is not known.
    #[inline(always)]
    pub(super) fn lacks_sp(self, _: Registers) -> bool {
        false
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
    fn pythons_trampolines_have_a_rule() {
        let mut code = [0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3];
        let call_end = |code: &[u8; 11]| code.as_ptr().addr() + 6;
        let rule = Rule::Call { cfa: Cfa::Sp(16), ra: Ra, fp: Fp::Kept };
        assert_eq!(Some(code_nowhere(call_end(&code))), Code::of_common(rule));
        assert_eq!(code_nowhere(call_end(&code) + 1), Code::FRAME_POINTER);
        for unreadable in [0, 6, usize::MAX] {
            assert_eq!(code_nowhere(unreadable), Code::FRAME_POINTER);
        }
        code[10] = 0xc2;
        assert_eq!(code_nowhere(call_end(&code)), Code::FRAME_POINTER);
    }

    #[test]
    fn a_packed_rule_is_the_rule() {
        let distances = [0, 8, -8, 16, 1 << 20, i32::MIN, i32::MAX];
        for distance in distances {
            for cfa in [Cfa::Sp(distance), Cfa::Fp(distance), Cfa::AtFp(distance)] {
                let small = distance as i16;
                for fp in [Fp::Kept, Fp::FromCfa(small), Fp::FromOwn(small)] {
                    let rule = Rule::Call { cfa, ra: Ra, fp };
                    assert_eq!(Packed::new(rule).rule(), rule);
                }
            }
        }
        for distance in [0, 8, -8, i8::MIN, i8::MAX] {
            let small = i16::from(distance);
            for (link, sp, fp) in [(small, i16::MIN, small), (i16::MAX, small, i16::MIN)] {
                let resumer = Resumer { sp, return_address: distance, fp };
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
            for (from_fp, cfa) in [(false, Cfa::Sp(distance)), (true, Cfa::Fp(distance))] {
                let is_common = distance > 0 && distance % 8 == 0 && distance < largest;
                for place in -80_i16..=8 {
                    let rule = Rule::Call { cfa, ra: Ra, fp: Fp::FromCfa(place) };
                    let code = Code::of_common(rule);
                    let is_place = (-64..=-16).contains(&place) && place % 8 == 0;
                    assert_eq!(code.is_some(), is_common && is_place, "{rule:?}");
                    let Some(code) = code else { continue };
                    assert!(code.is_common());
                    assert_eq!((code.is_from_fp(), code.cfa() as i32), (from_fp, distance));
                    assert_eq!(code.saved_fp() as i16 + 8, -place);
                }
                let kept = Code::of_common(Rule::Call { cfa, ra: Ra, fp: Fp::Kept });
                assert_eq!(kept.map(Code::saved_fp), is_common.then_some(0));
            }
            let rule = Rule::Call { cfa: Cfa::AtFp(distance), ra: Ra, fp: Fp::Kept };
            assert_eq!(Code::of_common(rule), None);
        }
        assert_eq!(Code::NONE.uncommon(), Rule::None);
        assert_eq!(Code::FRAME_POINTER.uncommon(), Rule::FramePointer);
        assert_eq!(Code::of_uncommon(Packed::new(Rule::Signal), CAPACITY), None);
    }
}
