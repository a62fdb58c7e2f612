//! Takes the stack of an allocation, on x86-64 Linux.
//!
//! ```text
//! outside the hook   modules ──► eh_frame ──► rule                 tables, made in advance
//! in the hook        lookup ──► remembered (memory) ──► tree       the number of a stack
//! ```
//! | file | what |
//! |---|---|
//! | `modules.rs` | the program and its libraries, and the changes of this list |
//! | `eh_frame.rs` | the unwind information of one of them |
//! | `rule.rs` | how a frame leads to its caller |
//! | `lookup.rs` | which rule holds at an address |
//! | `memory.rs` | which memory a stack may be read from |
//! | `remembered.rs` | a thread's last stack, and the walk up to where the next one equals it |

#![allow(dead_code, reason = "the hook does not take stacks yet")]

mod eh_frame;
mod lookup;
mod memory;
mod modules;
mod remembered;
mod rule;

pub(crate) use lookup::take_incomplete as has_unknown_module;
pub(crate) use modules::{Change, for_each_new_change};

/// Whether stacks can be taken.
pub(crate) const SUPPORTED: bool = true;

/// Makes the tables of the modules that are new; removes those that were unloaded. Must be called
/// before the first stack is taken, and not from the hook. Reading the unwind information takes
/// some 20 ms for each MiB.
///
/// # Errors
/// `/proc` cannot be read.
pub(crate) fn refresh_modules() -> std::io::Result<()> {
    memory::prepare();
    modules::refresh()
}
