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
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

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

/// Whether an address was looked up that no module has.
static IS_INCOMPLETE: AtomicBool = AtomicBool::new(false);

/// How often the list of modules has changed. A stack that was taken before may be another one now.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The direct-mapped table. A word has the upper 32 bits of an address, the number of its module
/// instance, and the code of its rule.
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
    let address = return_address.wrapping_sub(1);
    for number in 0..INSTANCES.len() {
        let Some(instance) = INSTANCES.get(number) else { break };
        let end = instance.end.load(Ordering::Acquire);
        let start = instance.start.load(Ordering::Relaxed);
        if !(start..end).contains(&address) {
            continue;
        }
        let rows = NonNull::new(instance.rows.load(Ordering::Acquire));
        // SAFETY: rows are never freed.
        let code = rows
            .map_or(Code::NONE, |rows| unsafe { rows.as_ref() }.code_at((address - start) as u32));
        let module = number as u16 + 1;
        let known = return_address >> 16 << 32 | u64::from(module) << 16 | u64::from(code.bits());
        KNOWN[(return_address & 0xffff) as usize].store(known, Ordering::Relaxed);
        return Found { code, module };
    }
    IS_INCOMPLETE.store(true, Ordering::Relaxed);
    Found { code: Code::NONE, module: 0 }
}

/// Whether an address was looked up that no module has, since [`reset_unknown`].
pub(crate) fn has_unknown_module() -> bool {
    IS_INCOMPLETE.load(Ordering::Relaxed)
}

/// The present generation of the list of modules.
#[inline(always)]
pub(super) fn generation() -> u32 {
    GENERATION.load(Ordering::Acquire)
}

/// After a change of the list.
pub(super) fn change_generation() {
    GENERATION.fetch_add(1, Ordering::Release);
}

/// Before the list of modules is read.
pub(super) fn reset_unknown() {
    IS_INCOMPLETE.store(false, Ordering::Relaxed);
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

/// Forgets all addresses: after a module was unloaded. No thread is in its code, so no thread adds
/// its addresses again.
pub(super) fn forget_known() {
    KNOWN.iter().for_each(|known| known.store(0, Ordering::Relaxed));
}
