use super::*;
use crate::stacks::capture::refresh_modules;
use crate::stacks::capture::remembered::Memory;
use crate::stacks::tree::tests::frames;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

#[test]
fn a_packed_rule_is_the_rule() {
    for distance in [0, 8, -8, 16, 1 << 20, i32::MIN, i32::MAX] {
        for cfa in [Cfa::Sp(distance), Cfa::Fp(distance)] {
            for ra in [-8, -16, -240, -0x7_fff8].map(Ra::FromCfa).into_iter().chain([Ra::Kept]) {
                for fp in [Fp::Kept, Fp::FromCfa(-32), Fp::FromCfa(-24), Fp::FromCfa(-8000)] {
                    let rule = Rule::Call { cfa, ra, fp };
                    let from_ra = match (ra, fp) {
                        (Ra::FromCfa(ra), Fp::FromCfa(fp)) => i32::from(fp) - ra,
                        _ => 8,
                    };
                    let has_room = from_ra != 0 && (-0x2000..0x2000).contains(&from_ra);
                    let expected = if has_room { rule } else { Rule::None };
                    assert_eq!(Packed::new(rule).rule(), expected, "{rule:?}");
                }
            }
        }
    }
    for (cfa, ra, fp) in [
        (Cfa::AtFp(8), Ra::FromCfa(-8), Fp::Kept),
        (Cfa::Sp(16), Ra::FromCfa(-12), Fp::Kept),
        (Cfa::Sp(16), Ra::FromCfa(8), Fp::Kept),
        (Cfa::Sp(16), Ra::FromCfa(-0x8_0000), Fp::Kept),
        (Cfa::Sp(16), Ra::FromCfa(-8), Fp::FromCfa(-12)),
        (Cfa::Sp(16), Ra::FromCfa(-8), Fp::FromOwn(0)),
    ] {
        assert_eq!(Packed::new(Rule::Call { cfa, ra, fp }), Packed(0));
    }
    for distance in [0, 8, -8, i8::MIN, i8::MAX] {
        let small = i16::from(distance);
        for (link, sp, fp) in [(small, i16::MIN, small), (i16::MAX, small, i16::MIN)] {
            let resumer = Resumer { sp, return_address: distance, fp };
            let rule = Rule::Coroutine { link, resumer };
            assert_eq!(Packed::new(rule).rule(), rule);
        }
    }
    for rule in [Rule::None, Rule::Outermost, Rule::Signal, Rule::FramePointer] {
        assert_eq!(Packed::new(rule).rule(), rule);
        assert!(!Packed::new(rule).is_common());
    }
}

#[test]
fn a_return_address_has_no_signature() {
    let signed: usize;
    // SAFETY: signs a number in a register, on processors that can.
    unsafe {
        std::arch::asm!("hint #25", "mov {}, x30", out(reg) signed, inout("x30") 0x1234_5678_9abc_usize => _);
    }
    assert_eq!(return_address_in(signed), 0x1234_5678_9abc);
}

// `calls(call, outer, inner, second)` calls `outer` at one of two places, which calls `inner`, which calls
// `call`. `high` and `low` have frames of one size, and save their return addresses at the top and at the
// bottom.
std::arch::global_asm!(
    ".macro memledger_test_calls_on name, offset, next",
    "\\name:",
    ".cfi_startproc",
    "sub sp, sp, #64",
    ".cfi_def_cfa_offset 64",
    "str x30, [sp, #\\offset]",
    ".cfi_offset x30, \\offset - 64",
    "blr \\next",
    "ldr x30, [sp, #\\offset]",
    "add sp, sp, #64",
    ".cfi_def_cfa_offset 0",
    ".cfi_restore x30",
    "ret",
    ".cfi_endproc",
    ".endm",
    ".balign 4",
    "memledger_test_calls_on memledger_test_high, 56, x2",
    "memledger_test_calls_on memledger_test_low, 8, x2",
    "memledger_test_calls_on memledger_test_inner, 8, x0",
    "memledger_test_two_places:",
    ".cfi_startproc",
    "str x30, [sp, #-16]!",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset x30, -16",
    "cbnz x3, 1f",
    "blr x1",
    "memledger_test_first_place:",
    "b 2f",
    "1: blr x1",
    "memledger_test_second_place:",
    "2: ldr x30, [sp], #16",
    ".cfi_def_cfa_offset 0",
    ".cfi_restore x30",
    "ret",
    ".cfi_endproc",
);

type Call = extern "C" fn();

unsafe extern "C" {
    fn memledger_test_two_places(call: Call, outer: *const u8, inner: *const u8, second: bool);
    static memledger_test_high: u8;
    static memledger_test_low: u8;
    static memledger_test_inner: u8;
    static memledger_test_first_place: u8;
    static memledger_test_second_place: u8;
}

/// What a thread remembers, and the numbers of the stacks that were taken.
static MEMORY: AtomicPtr<Memory> = AtomicPtr::new(std::ptr::null_mut());
static NUMBERS: [AtomicU32; 60] = [const { AtomicU32::new(0) }; 60];
static NEXT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn take() {
    // SAFETY: the memory is never unmapped, and only one thread calls this.
    let number = unsafe { &*MEMORY.load(Ordering::Relaxed) }.stack_id(&Registers::here(), 1, 255);
    NUMBERS[NEXT.fetch_add(1, Ordering::Relaxed)].store(number, Ordering::Relaxed);
}

/// The same frame calls a function that saves the return address elsewhere. The word where the one before has
/// saved it stays in memory, and is no word of the stack any more.
#[test]
fn a_return_word_that_has_moved_is_not_taken_for_one_of_the_stack() {
    refresh_modules().unwrap();
    MEMORY.store(Memory::map().unwrap().as_ptr(), Ordering::Relaxed);
    let (high, low) = (&raw const memledger_test_high, &raw const memledger_test_low);
    let inner = &raw const memledger_test_inner;
    let places = [&raw const memledger_test_first_place, &raw const memledger_test_second_place];
    let calls = [(high, 0), (low, 0), (low, 1), (low, 0), (high, 1), (low, 1)];
    // NOTE: one call for all, so not unrolled. Nothing else is called meanwhile, which would overwrite the
    // word.
    for round in 0..std::hint::black_box(NUMBERS.len()) {
        let (outer, second) = calls[round % calls.len()];
        // SAFETY: the functions call each other as they are given.
        unsafe { memledger_test_two_places(take, outer, inner, second == 1) };
    }
    for (number, (_, second)) in NUMBERS.iter().zip(calls.iter().cycle()) {
        let (found, _) = frames(number.load(Ordering::Relaxed));
        assert_eq!(found[2], places[*second].addr() as u64, "{found:x?}");
    }
}
