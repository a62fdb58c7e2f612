//! Which rule holds at an address, for the hook.
//!
//! ```text
//! return address ──► direct-mapped table: 2^16 words, by the lower 16 bits of the compact address
//!                      │ not there
//!                      ▼
//!                    instances of modules ──► rows of the module, by binary search
//! ```
//! The hook reads tables that were made outside of it, and never the module's own memory. Tables
//! are never freed, so it can read them at any time.
#![expect(unsafe_code, reason = "tables are shared by pointers")]

use super::processor::{self, Code, Packed};
use super::rule::Rule;
use crate::platform::chunk_table::{ChunkTable, Zeroed};
use crate::stacks::address::{ADDRESS_BITS, compact};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

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

    /// Whether the function that begins here makes a frame pointer at once.
    fn makes_frame_pointer(&self, offset: u32) -> bool {
        let second = self.starts.partition_point(|start| *start <= offset);
        let distances = self.starts.iter().skip(second).map(|start| start - offset);
        let codes = self.codes.iter().skip(second).copied();
        processor::makes_frame_pointer(distances.zip(codes))
    }
}

/// A module at the addresses where it is, or was, loaded. Its number is its index + 1.
struct Instance {
    start: AtomicU64,
    /// 0 while the module is not loaded.
    end: AtomicU64,
    rows: AtomicPtr<Rows>,
    /// It is never unloaded.
    is_lasting: AtomicBool,
}

// SAFETY: zeroed, an instance is not loaded, and has no rows.
unsafe impl Zeroed for Instance {}

static INSTANCES: ChunkTable<Instance, 128, 512> = ChunkTable::new();

/// The maximum number of instances: numbers have 16 bits, and the upper half are those of [`NOWHERE`].
const MAX_INSTANCES: u32 = u16::MAX as u32 / 2;

/// Another number before and after each change of the list of modules. A stack that was taken before
/// may be another one now.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// What [`os::unloads`](crate::platform::os::unloads) was when the list of modules was read.
static UNLOADS: AtomicU32 = AtomicU32::new(0);
/// The same of [`os::loads`](crate::platform::os::loads).
static LOADS: AtomicU32 = AtomicU32::new(0);

/// The number for code in no module: of a JIT compiler, or of a library that is not in the list yet.
static NOWHERE: AtomicU16 = AtomicU16::new(u16::MAX);
static NOWHERE_IS_USED: AtomicBool = AtomicBool::new(false);

/// Whether a module is Python's.
static HAS_PYTHON: AtomicBool = AtomicBool::new(false);

/// The direct-mapped table. A word has the upper 32 bits of a compact address, the number of its module
/// instance or [`NOWHERE`], and the code of its rule.
static KNOWN: [AtomicU64; 1 << 16] = [const { AtomicU64::new(0) }; 1 << 16];

/// What is known of an address.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) code: Code,
    /// The number of the module instance, or a number that no module has.
    pub(super) module: u16,
}

/// The rule for a *return address*: that of the byte before it, which is part of the call.
#[inline(always)]
pub(super) fn find(return_address: u64) -> Found {
    let place = compact(return_address);
    let known = KNOWN[(place & 0xffff) as usize].load(Ordering::Relaxed);
    if known >> 32 != place >> 16 {
        return find_cold(return_address);
    }
    Found { code: Code::from_bits(known as u16), module: (known >> 16) as u16 }
}

#[cold]
#[inline(never)]
fn find_cold(return_address: u64) -> Found {
    let generation = GENERATION.load(Ordering::Acquire);
    let Found { code, module } = find_in(return_address, |_| true).unwrap_or_else(|| {
        NOWHERE_IS_USED.store(true, Ordering::Relaxed);
        // PERF: a system call, which other code that is made at run time would pay for.
        let code = match HAS_PYTHON.load(Ordering::Relaxed) {
            true => processor::code_nowhere(return_address as usize),
            false => Code::FRAME_POINTER,
        };
        Found { code, module: NOWHERE.load(Ordering::Relaxed) }
    });
    // A word has no room for the upper bits of an address that is none of code.
    let place = compact(return_address);
    if place >> ADDRESS_BITS == 0 {
        let known = &KNOWN[(place & 0xffff) as usize];
        let word = place >> 16 << 32 | u64::from(module) << 16 | u64::from(code.bits());
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

/// The same after the loader has unloaded a library, before the list is read again: `None` in what can be
/// unloaded.
#[cold]
pub(super) fn find_lasting(return_address: u64) -> Option<Found> {
    find_in(return_address, |instance| instance.is_lasting.load(Ordering::Relaxed))
}

/// The instance that has this address, if it is one of those wanted, and the code of the rule there.
fn find_in(return_address: u64, is_wanted: impl Fn(&Instance) -> bool) -> Option<Found> {
    let address = return_address.wrapping_sub(1);
    instance_of(address, is_wanted).map(|(module, rows, offset)| {
        let code = rows.map_or(Code::NONE, |rows| rows.code_at(offset));
        Found { code, module }
    })
}

/// Whether the function that begins at an address makes a frame pointer, as its table says.
#[cold]
pub(super) fn makes_frame_pointer(address: u64) -> bool {
    let instance = instance_of(address, |_| true);
    instance.is_some_and(|(_, rows, offset)| rows.is_some_and(|it| it.makes_frame_pointer(offset)))
}

/// The number of the instance that has this address, if it is one of those wanted, its rows, and the offset
/// from its base.
#[inline(always)]
fn instance_of(
    address: u64,
    is_wanted: impl Fn(&Instance) -> bool,
) -> Option<(u16, Option<&'static Rows>, u32)> {
    for number in 0..INSTANCES.len() {
        let instance = INSTANCES.get(number)?;
        let end = instance.end.load(Ordering::Acquire);
        let start = instance.start.load(Ordering::Relaxed);
        if (start..end).contains(&address) && is_wanted(instance) {
            let rows = NonNull::new(instance.rows.load(Ordering::Acquire));
            // SAFETY: rows are never freed.
            let rows = rows.map(|rows| unsafe { rows.as_ref() });
            return Some((number as u16 + 1, rows, (address - start) as u32));
        }
    }
    None
}

/// The present generation of the list of modules.
#[inline(always)]
pub(super) fn generation() -> u32 {
    GENERATION.load(Ordering::Acquire)
}

/// Whether the list of modules is that of a moment at which the loader had unloaded as much.
#[cold]
pub(super) fn is_listed(unloads: u32) -> bool {
    UNLOADS.load(Ordering::Acquire) == unloads
}

/// Whether code without unwind information is known to be that: not if it is in no module, and the loader has
/// loaded a library since the list was read.
#[cold]
pub(super) fn is_without_table(Found { code, module }: Found, loads: u32) -> bool {
    let is_nowhere = u32::from(module) > MAX_INSTANCES;
    code == Code::FRAME_POINTER && (!is_nowhere || LOADS.load(Ordering::Acquire) == loads)
}

/// Notes how much the loader had loaded and unloaded before the list was read. Must be called after all else.
pub(super) fn set_listed(loads: u32, unloads: u32) {
    LOADS.store(loads, Ordering::Release);
    UNLOADS.store(unloads, Ordering::Release);
}

/// Adds an instance that is loaded at `start`; returns its number. `None` if there are 32,767.
pub(super) fn add(start: u64, size: u64, rows: &'static Rows, is_lasting: bool) -> Option<u16> {
    if INSTANCES.len() >= MAX_INSTANCES {
        return None;
    }
    let number = INSTANCES.add()?;
    let instance = INSTANCES.get(number)?;
    instance.is_lasting.store(is_lasting, Ordering::Relaxed);
    instance.rows.store(std::ptr::from_ref(rows).cast_mut(), Ordering::Release);
    instance.start.store(start, Ordering::Relaxed);
    instance.end.store(start.saturating_add(size.min(u32::MAX.into())), Ordering::Release);
    Some(number as u16 + 1)
}

/// Notes that a module is Python's.
pub(super) fn set_has_python() {
    HAS_PYTHON.store(true, Ordering::Relaxed);
}

/// Notes that the instance is loaded again, or no longer.
pub(super) fn set_loaded(number: u16, size: Option<u64>) {
    let Some(instance) = INSTANCES.get(u32::from(number) - 1) else { return };
    let start = instance.start.load(Ordering::Relaxed);
    let end = size.map_or(0, |size| start.saturating_add(size.min(u32::MAX.into())));
    instance.end.store(end, Ordering::Release);
}

/// Forgets all addresses. Must be called after instances were loaded or unloaded.
///
/// NOTE: an address that was in no module can be in one of the new ones, and in no module again, but then in
/// another library. So it gets another number, as long as there are any.
pub(super) fn forget_known() {
    let next = NOWHERE.load(Ordering::Relaxed) - 1;
    if NOWHERE_IS_USED.swap(false, Ordering::Relaxed) && u32::from(next) > MAX_INSTANCES {
        NOWHERE.store(next, Ordering::Relaxed);
    }
    GENERATION.fetch_add(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    KNOWN.iter().for_each(|known| known.store(0, Ordering::Relaxed));
    // NOTE: a thread may have remembered what `KNOWN` had until now.
    GENERATION.fetch_add(1, Ordering::Release);
}

/// Sorts the rows by address. Where one function ends and another or data begins, the beginning counts.
pub(super) fn in_order(mut rows: Vec<(u64, Packed)>) -> Vec<(u64, Packed)> {
    let (between, none) = (Packed::new(Rule::FramePointer), Packed::new(Rule::None));
    rows.sort_by_key(|(address, rule)| (*address, *rule != between, *rule != none));
    rows.dedup_by(|later, earlier| {
        let same_address = later.0 == earlier.0;
        if same_address {
            earlier.1 = later.1;
        }
        same_address || later.1 == earlier.1
    });
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn module_at(return_address: u64) -> u16 {
        find(return_address).module
    }

    fn is_known(return_address: u64) -> bool {
        let place = compact(return_address);
        let known = KNOWN[(place & 0xffff) as usize].load(Ordering::Relaxed);
        known >> 32 == place >> 16
    }

    fn load(start: u64) -> u16 {
        let rows = Box::leak(Box::new(Rows::new(&[], &[])));
        let number = add(start, 0x1000, rows, false).unwrap();
        forget_known();
        number
    }

    /// Code of a JIT compiler is looked for among the modules once, not at each event.
    #[test]
    fn an_address_in_no_module_is_known_until_the_modules_change() {
        const CODE: u64 = 0x1111_2222_3344;
        // Other tests read the modules at the same time.
        let is_nowhere = |module: u16| u32::from(module) > MAX_INSTANCES;
        assert!((0..1000).any(|_| is_nowhere(module_at(CODE)) && is_known(CODE)));
        let before = module_at(CODE);
        let number = load(CODE & !0xfff);
        assert_eq!(module_at(CODE), number);
        set_loaded(number, None);
        forget_known();
        // It can be in another library now.
        assert!(is_nowhere(module_at(CODE)) && module_at(CODE) != before);
        // An address with the same lower bits that is none of code.
        assert!(is_nowhere(module_at(CODE | 0xffff << 48)));
        set_loaded(number, Some(0x1000));
        forget_known();
        assert!(is_nowhere(module_at(CODE | 0xffff << 48)));
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
                assert_ne!(module_at(code), number);
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
