//! Call stacks: which code makes an allocation.
//!
//! | file | what |
//! |---|---|
//! | `capture/` | takes a stack; on x86-64 and on ARM (AArch64), but not on ARM for Windows |
//! | `no_capture.rs` | the same functions where none are taken |
//! | `address.rs` | which bits an address of code has |
//! | `tree.rs` | the number of a stack: a tree of frames that all threads share |
//! | `state.rs` | whether stacks are taken, and of which allocations |
//! | `events.rs` | modules and stacks in the stream |

#![cfg_attr(not(takes_stacks), allow(dead_code, reason = "no stacks are taken"))]

mod address;
#[cfg_attr(not(takes_stacks), path = "no_capture.rs")]
pub(crate) mod capture;
pub(crate) mod events;
pub(crate) mod state;
pub(crate) mod tree;

pub(crate) use events::CHANNEL;

/// Forgets all stacks and their numbers, for a recording that begins. Requires that recording is
/// paused and no thread is inside a hook.
pub(crate) fn forget() {
    capture::forget();
    tree::forget();
}

/// The number of bytes that the tree of stacks takes, and what threads remember of theirs.
pub(crate) fn bytes() -> u64 {
    tree::bytes() + capture::bytes()
}
