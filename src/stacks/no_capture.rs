//! Platforms on which no stacks are taken.

use super::tree::NO_STACK;
use crate::nothing::{Nothing, does_nothing};
use crate::trace::write::ThreadSlot;

/// Whether stacks can be taken.
pub(crate) const SUPPORTED: bool = false;

/// There is none.
pub(crate) const LIST_OF_MODULES: &str = "";

pub(crate) type Registers = Nothing;

impl Registers {
    does_nothing! { pub(crate) fn here() -> Self; }
}

/// A change of the list of modules.
#[derive(Debug)]
pub(crate) enum Change {
    /// A module was loaded.
    Loaded { base: u64, size: u64, path: String, build_id: Vec<u8>, stamp: [u64; 2] },
    /// The module at this address was unloaded.
    Unloaded { base: u64 },
}

does_nothing! {
    pub(crate) fn take(&ThreadSlot, usize, &Registers) -> u32 = NO_STACK;
    pub(crate) fn bytes() -> u64;
    pub(crate) fn refresh_modules() -> std::io::Result<()> = Ok(());
    pub(crate) fn changes_after(usize) -> Vec<(u32, Change)>;
    pub(crate) fn loader_state() -> Option<u64>;
    pub(super) fn forget();
}
