//! Call stacks: which code makes an allocation.
//!
//! | file | what |
//! |---|---|
//! | `events.rs` | modules and stacks in the stream |
//! | `state.rs` | whether stacks are taken, and of which allocations |
//! | `tree.rs` | the number of a stack: a tree of frames that all threads share |

#![allow(dead_code, reason = "the hook does not take stacks yet")]

pub(crate) mod events;
pub(crate) mod state;
pub(crate) mod tree;

pub(crate) use events::CHANNEL;

pub(crate) mod modules {
    //! The binary files that are loaded.

    /// What has changed.
    pub(crate) enum Change<'a> {
        /// A module was loaded.
        Loaded { base: u64, size: u64, path: &'a str, build_id: &'a [u8] },
        /// The module at this address was unloaded.
        Unloaded { base: u64 },
    }

    /// How far a reader has read the changes.
    #[derive(Default)]
    pub(crate) struct Cursor;

    /// Visits the changes since the last call.
    pub(crate) fn for_each_new(_cursor: &mut Cursor, _visit: impl FnMut(Change<'_>)) {}
}

/// Whether stacks can be taken on this platform.
pub(crate) const SUPPORTED: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));

/// Gets ready to take stacks. Called on threads of the tracker only, before stacks are taken, and
/// again each time that they are turned on.
pub(crate) fn prepare() {}
