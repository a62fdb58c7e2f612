//! From a frame in code without unwind information to its caller's, by its frame pointer.
//!
//! Code without unwind information may have any value in `fp`. So the words at `fp` are a frame only if all
//! of this holds:
//! 1. `fp` is a multiple of 8 and not below the stack pointer, and both words are on the thread's own stack.
//! 2. The upper word is an address of code: of a module's code, or in no module and not on this stack.
//! 3. The instruction before it is a call.
//! 4. If that is a direct call, it is none of a function that makes a frame pointer by its own table: the
//!    words could be the frame of that, which called code that leaves `fp` alone. Any other function may
//!    have jumped here.
//!
//! NOTE: that is still a guess. After an indirect call, the words can be those of a function further out, and
//! frames between are missing. So each such frame, and each that is further out, has a mark.

// It maps pages with the rights of code, as Linux does.
#[cfg(test)]
#[cfg(elf)]
mod tests;

use super::lookup;
use super::memory::StackReader;
use super::processor::{self, Code, Registers};
use super::rule::Call;
use crate::platform::os;
use crate::stacks::address::{ADDRESS_BITS, compact};
use std::sync::atomic::{AtomicU64, Ordering};

/// The registers of the caller of a function without unwind information. An error has those that would be
/// there but are not proved; `None` if `fp` says already that there are none.
#[cold]
#[inline(never)]
pub(super) fn caller(
    at: Registers,
    reader: &mut StackReader,
) -> Result<Registers, Option<Registers>> {
    let found = lookup::find(at.return_address() as u64);
    let has_table = !lookup::is_without_table(found, os::loads());
    if has_table && at.is_sp_known() {
        // It is not known yet whether there is a table, so this end is not to be remembered.
        reader.set_not_own();
        return Err(None);
    }
    let frame = (at.fp >= at.least_sp()).then(|| {
        let fp = reader.own_word(at.fp)?;
        let return_address = reader.own_word(at.fp.wrapping_add(8))?;
        Some(Registers::of_record(at.fp, return_address, fp))
    });
    let frame = frame.flatten().ok_or(None)?;
    let return_address = frame.return_address();
    let is_proved = !reader.is_on_own(return_address) && follows_call(return_address, has_table);
    if is_proved { Ok(frame) } else { Err(Some(frame)) }
}

/// Compact addresses: each with whether it follows a call, whether that can lead to code without unwind
/// information, and the lower bits of the generation of the list of modules.
///
/// NOTE: code in no module can become other code in the same generation. Then a word of the stack that is no
/// longer a return address can be taken for one, and a stack can end at one that is.
static KNOWN: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];

/// Whether an address is one of code, after a call; unless it is `any` call, one that can lead to code
/// without unwind information.
fn follows_call(return_address: usize, any: bool) -> bool {
    let address = compact(return_address as u64);
    let found = lookup::find(return_address as u64);
    if address == 0 || address >> ADDRESS_BITS != 0 || found.code == Code::NONE {
        return false;
    }
    const IS_CALL: u64 = 1 << ADDRESS_BITS;
    const LEADS_ON: u64 = IS_CALL << 1;
    let wanted = u64::from(lookup::generation()) << (ADDRESS_BITS + 2) | address;
    let mixed = (address as usize).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let known = &KNOWN[(mixed >> (usize::BITS - KNOWN.len().ilog2())) % KNOWN.len()];
    let mut found = known.load(Ordering::Relaxed);
    if found & !(IS_CALL | LEADS_ON) != wanted {
        found = wanted
            | match processor::call_before(return_address) {
                Some(Call::Indirect) => IS_CALL | LEADS_ON,
                Some(Call::Direct(to)) if may_lead_on(to) => IS_CALL | LEADS_ON,
                Some(Call::Direct(_)) => IS_CALL,
                None => 0,
            };
        known.store(found, Ordering::Relaxed);
    }
    found & if any { IS_CALL } else { LEADS_ON } != 0
}

/// Whether a direct call of this address can lead to code without unwind information.
fn may_lead_on(address: usize) -> bool {
    let address = address as u64;
    lookup::find(address.wrapping_add(1)).code != Code::NONE
        && !lookup::makes_frame_pointer(address)
}
