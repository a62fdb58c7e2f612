//! Platforms on which no stacks are taken.

use super::tree::NO_STACK;
use crate::trace::write::ThreadSlot;

/// Whether stacks can be taken.
pub(crate) const SUPPORTED: bool = false;

/// The registers in a function.
#[derive(Clone, Copy)]
pub(crate) struct Registers;

impl Registers {
    #[inline(always)]
    pub(crate) fn here() -> Self {
        Self
    }
}

#[inline(always)]
pub(crate) fn take(_slot: &ThreadSlot, _size: usize, _at: &Registers) -> u32 {
    NO_STACK
}

pub(crate) fn bytes() -> u64 {
    0
}

/// A change of the list of modules.
#[derive(Debug)]
pub(crate) enum Change {
    /// A module was loaded.
    Loaded { base: u64, size: u64, path: String, build_id: Vec<u8>, stamp: [u64; 2] },
    /// The module at this address was unloaded.
    Unloaded { base: u64 },
}

pub(crate) fn refresh_modules() -> std::io::Result<()> {
    Ok(())
}

pub(crate) fn changes_after(_visited: usize) -> Vec<(u32, Change)> {
    Vec::new()
}

pub(crate) fn loader_state() -> Option<u64> {
    None
}

pub(super) fn forget() {}
