//! Which rule holds at an address, for the hook.
//!
//! ```text
//! return address ──► direct-mapped table: 2^16 words, by the lower 16 bits of the address
//!                      │ not there
//!                      ▼
//!                    instances of modules ──► rows of the module, by binary search
//! ```
//! The hook reads tables that were made outside of it, and never the module's own memory. Tables
//! are never freed, so it can read them at any time.
#![expect(unsafe_code, reason = "tables are shared by pointers")]

use super::rule::Code;
use crate::platform::chunk_table::{ChunkTable, Zeroed};
use crate::stacks::tree::ADDRESS_BITS;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// The rules of a module: that of `codes[i]` holds from `starts[i]` on, in bytes from its base.
pub(super) struct Rows {
    starts: &'static [u32],
    codes: &'static [Code],
}

impl Rows {
    /// Both have the same length, and the starts increase.
    pub(super) fn new(starts: &'static [u32], codes: &'static [Code]) -> Self {
        Self { starts, codes }
    }

    fn code_at(&self, offset: u32) -> Code {
        let after = self.starts.partition_point(|start| *start <= offset);
        after.checked_sub(1).and_then(|row| self.codes.get(row)).map_or(Code::NONE, |code| *code)
    }
}

/// A module at the addresses where it is, or was, loaded. Its number is its index + 1.
struct Instance {
    start: AtomicU64,
    /// 0 while the module is not loaded.
    end: AtomicU64,
    rows: AtomicPtr<Rows>,
}

// SAFETY: zeroed, an instance is not loaded, and has no rows.
unsafe impl Zeroed for Instance {}

static INSTANCES: ChunkTable<Instance, 170, 385> = ChunkTable::new();

/// The maximum number of instances: numbers have 16 bits, and 0 is none.
const MAX_INSTANCES: u32 = u16::MAX as u32;

/// Another number before and after each change of the list of modules. A stack that was taken before
/// may be another one now.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The direct-mapped table. A word has the upper 32 bits of an address, the number of its module
/// instance, and the code of its rule. The number is 0 for code in no module (of a JIT compiler).
static KNOWN: [AtomicU64; 1 << 16] = [const { AtomicU64::new(0) }; 1 << 16];

/// What is known of an address.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) code: Code,
    /// The number of the module instance, 0 if no module has the address.
    pub(super) module: u16,
}

/// The rule for a *return address*: that of the byte before it, which is part of the call.
#[inline(always)]
pub(super) fn find(return_address: u64) -> Found {
    let known = KNOWN[(return_address & 0xffff) as usize].load(Ordering::Relaxed);
    if known >> 32 != return_address >> 16 {
        return find_cold(return_address);
    }
    Found { code: Code::from_bits(known as u16), module: (known >> 16) as u16 }
}

#[cold]
#[inline(never)]
fn find_cold(return_address: u64) -> Found {
    let generation = GENERATION.load(Ordering::Acquire);
    let found = find_in_modules(return_address.wrapping_sub(1));
    let (module, code) = found.unwrap_or((0, Code::NONE));
    // A word has no room for the upper bits of an address that is none of code.
    if return_address >> ADDRESS_BITS == 0 {
        let known = &KNOWN[(return_address & 0xffff) as usize];
        let word = return_address >> 16 << 32 | u64::from(module) << 16 | u64::from(code.bits());
        known.store(word, Ordering::Relaxed);
        // NOTE: the modules may have changed since they were looked through. Then this sees the new
        // generation, or `forget_known` comes after the store above and overwrites it.
        fence(Ordering::SeqCst);
        if GENERATION.load(Ordering::Relaxed) != generation {
            known.store(0, Ordering::Relaxed);
        }
    }
    Found { code, module }
}

/// The number of the instance that has this address, and the code of the rule there.
fn find_in_modules(address: u64) -> Option<(u16, Code)> {
    for number in 0..INSTANCES.len() {
        let instance = INSTANCES.get(number)?;
        let end = instance.end.load(Ordering::Acquire);
        let start = instance.start.load(Ordering::Relaxed);
        if (start..end).contains(&address) {
            let rows = NonNull::new(instance.rows.load(Ordering::Acquire));
            // SAFETY: rows are never freed.
            let rows = rows.map(|rows| unsafe { rows.as_ref() });
            let code = rows.map_or(Code::NONE, |rows| rows.code_at((address - start) as u32));
            return Some((number as u16 + 1, code));
        }
    }
    None
}

/// The present generation of the list of modules.
#[inline(always)]
pub(super) fn generation() -> u32 {
    GENERATION.load(Ordering::Acquire)
}

/// Adds an instance that is loaded at `start`; returns its number. `None` if there are 65,535.
pub(super) fn add(start: u64, size: u64, rows: &'static Rows) -> Option<u16> {
    if INSTANCES.len() >= MAX_INSTANCES {
        return None;
    }
    let number = INSTANCES.add()?;
    let instance = INSTANCES.get(number)?;
    instance.rows.store(std::ptr::from_ref(rows).cast_mut(), Ordering::Release);
    instance.start.store(start, Ordering::Relaxed);
    instance.end.store(start.saturating_add(size.min(u32::MAX.into())), Ordering::Release);
    Some(number as u16 + 1)
}

/// Notes that the instance is loaded again, or no longer.
pub(super) fn set_loaded(number: u16, size: Option<u64>) {
    let Some(instance) = INSTANCES.get(u32::from(number) - 1) else { return };
    let start = instance.start.load(Ordering::Relaxed);
    let end = size.map_or(0, |size| start.saturating_add(size.min(u32::MAX.into())));
    instance.end.store(end, Ordering::Release);
}

/// Forgets all addresses. Must be called after instances were loaded or unloaded.
pub(super) fn forget_known() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    KNOWN.iter().for_each(|known| known.store(0, Ordering::Relaxed));
    // NOTE: a thread may have remembered what `KNOWN` had until now.
    GENERATION.fetch_add(1, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn module_at(return_address: u64) -> u16 {
        find(return_address).module
    }

    fn is_known(return_address: u64) -> bool {
        let known = KNOWN[(return_address & 0xffff) as usize].load(Ordering::Relaxed);
        known >> 32 == return_address >> 16
    }

    fn load(start: u64) -> u16 {
        let number = add(start, 0x1000, Box::leak(Box::new(Rows::new(&[], &[])))).unwrap();
        forget_known();
        number
    }

    /// Code of a JIT compiler is looked for among the modules once, not at each event.
    #[test]
    fn an_address_in_no_module_is_known_until_the_modules_change() {
        const CODE: u64 = 0x1111_2222_3344;
        // Other tests read the modules at the same time.
        assert!((0..1000).any(|_| module_at(CODE) == 0 && is_known(CODE)));
        let number = load(CODE & !0xfff);
        assert_eq!(module_at(CODE), number);
        set_loaded(number, None);
        forget_known();
        assert_eq!(module_at(CODE), 0);
        // An address with the same lower bits that is none of code.
        assert_eq!(module_at(CODE | 0xffff << 48), 0);
        set_loaded(number, Some(0x1000));
        forget_known();
        assert_eq!(module_at(CODE | 0xffff << 48), 0);
        assert_eq!(module_at(CODE), number);
    }

    #[test]
    fn a_thread_that_looks_while_a_module_is_loaded_keeps_no_old_answer() {
        const CODE: u64 = 0x1122_0000_0008;
        let (next, done) = (AtomicU64::new(CODE), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    module_at(next.load(Ordering::Relaxed));
                }
            });
            for round in 0..300 {
                let code = CODE + (round << 16);
                next.store(code, Ordering::Relaxed);
                module_at(code);
                let number = load(code & !0xfff);
                assert_eq!(module_at(code), number);
                set_loaded(number, None);
                forget_known();
                assert_eq!(module_at(code), 0);
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
