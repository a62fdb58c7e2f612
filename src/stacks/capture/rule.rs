//! How a frame leads to its caller.

use super::processor::Ra;

/// How to find the caller's frame from the registers in a function, at one place of its code.
///
/// DWARF's *canonical frame address* (CFA) is the stack pointer before the call. Only the stack pointer and
/// the frame pointer can be needed to find it: `rsp` and `rbp` on x86-64, `sp` and `x29` on ARM. These cases
/// cover the code of all compilers that were looked at (LLVM, GCC) and the assembly of glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// The unwind information says something that no case here covers, or this is no code.
    None,
    /// The code has no unwind information. It may have a frame pointer.
    FramePointer,
    /// The function has no caller.
    Outermost,
    /// A signal handler returns to here: the registers before the signal are in memory, at the
    /// stack pointer.
    Signal,
    /// A function: where its CFA is, its return address, and its caller's `fp`.
    Call { cfa: Cfa, ra: Ra, fp: Fp },
    /// The first function on a coroutine's stack. The word at the distance `link` from its `fp` is
    /// an address on the stack of the code that has resumed the coroutine.
    Coroutine { link: i16, resumer: Resumer },
}

/// Where the registers of the code that has resumed a coroutine are, at distances from the address
/// that the coroutine's first function has of that code's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resumer {
    /// The distance of its stack pointer.
    pub(super) sp: i16,
    /// The distance of the word with its return address.
    pub(super) return_address: i8,
    /// The distance of the word with its `fp`.
    pub(super) fp: i16,
}

/// How a call names the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// By this address.
    Direct(usize),
    /// By a register, or by a word of memory.
    Indirect,
}

/// Where the CFA of a function is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cfa {
    /// At this distance from the stack pointer.
    Sp(i32),
    /// At this distance from `fp`.
    Fp(i32),
    /// In the word at this distance from `fp`: a function that has aligned its stack.
    AtFp(i32),
}

/// Where the caller's `fp` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fp {
    /// The function has not changed it.
    Kept,
    /// In the word at this distance from the CFA.
    FromCfa(i16),
    /// In the word at this distance from `fp`.
    FromOwn(i16),
}

/// A bit beside the address from which the caller's `fp` was read, which is a multiple of 8: the caller's
/// registers depend on this frame's `fp`.
pub(super) const USES_FP: usize = 1;
