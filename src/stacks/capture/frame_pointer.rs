//! From a frame in code without unwind information to its caller's, by its frame pointer.
//!
//! Code without unwind information may have any value in `rbp`. So the words at `rbp` are a frame only if all
//! of this holds:
//! 1. `rbp` is a multiple of 8 and not below the stack pointer, and both words are on the thread's own stack.
//! 2. The upper word is an address of code: of a module's code, or in no module and not on this stack.
//! 3. The instruction before it is a call.
//! 4. If that is a direct call, it is none of a function that makes a frame pointer by its own table: the
//!    words could be the frame of that, which called code that leaves `rbp` alone. Any other function may
//!    have jumped here.
//!
//! NOTE: that is still a guess. After an indirect call, the words can be those of a function further out, and
//! frames between are missing. So each such frame, and each that is further out, has a mark.

#[cfg(test)]
mod tests;

use super::lookup;
use super::memory::StackReader;
use super::rule::Code;
use super::step::Registers;
use crate::platform::os;
use crate::stacks::tree::ADDRESS_BITS;
use std::sync::atomic::{AtomicU64, Ordering};

/// The registers of the caller of a function without unwind information. An error has those that would be
/// there but are not proved; `None` if `rbp` says already that there are none.
#[cold]
#[inline(never)]
pub(super) fn caller(
    at: Registers,
    reader: &mut StackReader,
) -> Result<Registers, Option<Registers>> {
    let found = lookup::find(at.return_address as u64);
    if !lookup::is_without_table(found, os::loads()) {
        // It is not known yet whether there is a table, so this end is not to be remembered.
        reader.set_not_own();
        return Err(None);
    }
    let frame = (at.rbp >= at.rsp).then(|| {
        let rbp = reader.own_word(at.rbp)?;
        let return_address = reader.own_word(at.rbp.wrapping_add(8))?;
        Some(Registers { return_address, rsp: at.rbp.wrapping_add(16), rbp })
    });
    let frame = frame.flatten().ok_or(None)?;
    let is_proved = !reader.is_on_own(frame.return_address) && follows_call(frame.return_address);
    if is_proved { Ok(frame) } else { Err(Some(frame)) }
}

/// Addresses: each with whether it follows a call, and the lower bits of the generation of the list of
/// modules.
///
/// NOTE: code in no module can become other code in the same generation. Then a word of the stack that is no
/// longer a return address can be taken for one, and a stack can end at one that is.
static KNOWN: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// Whether an address is one of code, after a call.
fn follows_call(return_address: usize) -> bool {
    let address = return_address as u64;
    if address == 0 || address >> ADDRESS_BITS != 0 || lookup::find(address).code == Code::NONE {
        return false;
    }
    const IS_CALL: u64 = 1 << ADDRESS_BITS;
    let wanted = u64::from(lookup::generation()) << (ADDRESS_BITS + 1) | address;
    let mixed = (address as usize).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let known = &KNOWN[(mixed >> (usize::BITS - KNOWN.len().ilog2())) % KNOWN.len()];
    let kept = known.load(Ordering::Relaxed);
    if kept & !IS_CALL == wanted {
        return kept & IS_CALL != 0;
    }
    let is_call = match call_before(return_address) {
        Some(Call::Indirect) => true,
        Some(Call::Direct(to)) => may_lead_on(to),
        None => false,
    };
    known.store(wanted | if is_call { IS_CALL } else { 0 }, Ordering::Relaxed);
    is_call
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// To this address.
    Direct(usize),
    Indirect,
}

/// The call that ends before an address.
fn call_before(address: usize) -> Option<Call> {
    const PAGE: usize = 4096;
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

/// Whether a direct call of this address can lead to code without unwind information.
fn may_lead_on(address: usize) -> bool {
    let address = address as u64;
    lookup::find(address.wrapping_add(1)).code != Code::NONE
        && !lookup::makes_frame_pointer(address)
}
