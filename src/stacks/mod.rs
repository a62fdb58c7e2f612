//! Call stacks: which code makes an allocation.
//!
//! ```text
//! outside the hook   modules ──► eh_frame ──► rule         tables of all modules, made in advance
//! in the hook        lookup ──► unwind ──► remembered ──► tree ──► number of the stack
//! ```
//! | file | what |
//! |---|---|
//! | `modules.rs` | the program and its libraries, and what changes in this list |
//! | `eh_frame.rs` | the unwind information of one of them |
//! | `rule.rs` | how a frame leads to its caller |
//! | `lookup.rs` | which rule holds at an address |
//! | `memory.rs` | which memory a stack may be read from |
//! | `remembered.rs` | a thread's last stack, and the walk up to where the next one equals it |
//! | `tree.rs` | the number of a stack: a tree of frames that all threads share |

#![allow(dead_code, reason = "the hook does not take stacks yet")]

mod eh_frame;
mod lookup;
mod memory;
pub(crate) mod modules;
mod remembered;
mod rule;
pub(crate) mod tree;

/// Makes the tables of all modules that are loaded now, and learns where stacks are. Must be called
/// before the first stack is taken, and not from the hook.
///
/// # Errors
/// `/proc` cannot be read.
pub(crate) fn prepare() -> std::io::Result<()> {
    memory::prepare();
    modules::refresh()
}
