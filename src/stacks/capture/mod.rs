//! Takes the stack of an allocation, on x86-64 and ARM.
//!
//! ```text
//! outside the hook   modules ──► unwind_information ──► rule       tables, made in advance
//! in the hook        lookup ──► step, frame_pointer (memory) ──► remembered (chains) ──► tree   a number
//! ```
//! | file | what |
//! |---|---|
//! | `modules.rs` | the program and its libraries, and the changes of this list |
//! | `eh_frame`, `pdata.rs`, `compact_unwind.rs` | the unwind information of one of them, in the form of its system: `unwind_information` is one of them |
//! | `rule.rs` | how a frame leads to its caller |
//! | `x86_64`, `aarch64` | what differs between processors: `processor` is one of them |
//! | `lookup.rs` | which rule holds at an address |
//! | `memory.rs` | which memory a stack may be read from |
//! | `step.rs` | from a frame to its caller's |
//! | `frame_pointer.rs` | the same in code without unwind information |
//! | `chains.rs` | how recent walks of a thread went, by distances on the stack |
//! | `sampler.rs` | which allocations have a stack, if not all have |
//! | `fuzzing.rs` | tables and walks over any memory, for the fuzzers |
//! | `remembered` | a thread's previous stack, and the next one by means of it; `remembered/walk.rs` what is walked |

#![expect(unsafe_code, reason = "the memory of a thread is raw pages")]

mod chains;
#[cfg(any(compact_unwind, all(test, not(pdata))))]
mod compact_unwind;
#[cfg(not(pdata))]
mod eh_frame;
mod frame_pointer;
#[cfg(all(feature = "fuzzing", elf))]
pub(crate) mod fuzzing;
mod lookup;
mod memory;
mod modules;
#[cfg(any(pdata, all(test, target_arch = "x86_64")))]
mod pdata;
#[cfg_attr(target_arch = "aarch64", path = "aarch64/mod.rs")]
#[cfg_attr(target_arch = "x86_64", path = "x86_64/mod.rs")]
mod processor;
mod remembered;
mod rule;
mod sampler;
mod step;

#[cfg(compact_unwind)]
use compact_unwind as unwind_information;
#[cfg(elf)]
use eh_frame::elf as unwind_information;
#[cfg(pdata)]
use pdata as unwind_information;

pub(crate) use modules::{Change, changes_after, loader_state};
pub(crate) use processor::Registers;

pub(crate) use crate::platform::os::LIST_OF_MODULES;

use super::{state, tree};
use crate::trace::write::{ThreadSlot, registry};
use remembered::Memory;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether stacks can be taken.
pub(crate) const SUPPORTED: bool = true;

/// Makes the tables of the modules that are new; removes those that were unloaded. Must be called
/// before the first stack is taken, and not from the hook.
///
/// # Errors
/// The system does not say which modules there are.
pub(crate) fn refresh_modules() -> std::io::Result<()> {
    memory::prepare();
    modules::refresh()
}

/// Forgets what threads remember of the tree, and the modules that were unloaded. Requires that
/// recording is paused and no thread is inside a hook.
pub(super) fn forget() {
    for slot in registry::slots() {
        if let Some(memory) = NonNull::new(slot.stack_memory.get()) {
            // SAFETY: as in `memory_of`; the thread is outside the hook, and takes no stack until
            // recording is resumed.
            unsafe { memory.cast::<Memory>().as_ref() }.forget();
        }
    }
    modules::forget_unloaded();
}

/// The number of bytes that [`memory_of`] has mapped.
static MAPPED: AtomicU64 = AtomicU64::new(0);

/// The number of bytes of what threads remember. The tables of modules are on the heap, whose bytes
/// the allocator counts.
pub(crate) fn bytes() -> u64 {
    MAPPED.load(Ordering::Relaxed)
}

/// *Hook.* The `CallstackId` of an allocation of `size` bytes; 0 if it is not in the sample. `at` are
/// the registers of a function that has not returned yet: its caller's frame is the first. Called
/// inside the hook of the thread whose slot this is.
#[inline(always)]
pub(crate) fn take(slot: &ThreadSlot, size: usize, at: &Registers) -> u32 {
    let Some(memory) = memory_of(slot) else { return tree::OTHER };
    let mean_bytes = state::mean_bytes();
    if mean_bytes != 0 && !memory.sampler.is_in_sample(size, mean_bytes) {
        return tree::NO_STACK;
    }
    take_now(memory, slot, at)
}

#[inline(never)]
fn take_now(memory: &Memory, slot: &ThreadSlot, at: &Registers) -> u32 {
    memory.stack_id(at, slot.thread_id.load(Ordering::Relaxed), state::frame_limit())
}

/// What the thread that has this slot remembers; `None` if the system has no memory for it.
#[inline(always)]
fn memory_of(slot: &ThreadSlot) -> Option<&Memory> {
    let memory = match NonNull::new(slot.stack_memory.get()) {
        Some(memory) => memory.cast::<Memory>(),
        None => map_for(slot)?,
    };
    // SAFETY: the memory stays with the slot, is never unmapped, and only the thread that has the
    // slot uses it. Zeroed pages are valid.
    Some(unsafe { memory.as_ref() })
}

#[cold]
#[inline(never)]
fn map_for(slot: &ThreadSlot) -> Option<NonNull<Memory>> {
    let memory = Memory::map()?;
    MAPPED.fetch_add(size_of::<Memory>() as u64, Ordering::Relaxed);
    slot.stack_memory.set(memory.as_ptr().cast());
    Some(memory)
}
