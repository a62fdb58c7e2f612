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
pub(crate) enum Change<'a> {
    /// A module was loaded.
    Loaded { base: u64, size: u64, path: &'a str, build_id: &'a [u8] },
    /// The module at this address was unloaded.
    Unloaded { base: u64 },
}

pub(crate) fn refresh_modules() -> std::io::Result<()> {
    Ok(())
}

pub(crate) fn has_unknown_module() -> bool {
    false
}

pub(crate) fn for_each_new_change(_visited: &mut usize, _visit: impl FnMut(Change<'_>)) {}
