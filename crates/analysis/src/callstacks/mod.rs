//! Call stacks: what the ids of events refer to.
//!
//! A stack is a node of a tree: its frames from the outermost inwards, below a root that says how it ends. So
//! all specs with the same frames are one stack, and stacks share the frames that they have in common: 8
//! bytes a node and 12 to 24 in its index. Reports share the tree. A frame is a *location*: a file and an
//! offset in it. A library that is loaded again elsewhere has the same locations.
//!
//! | file | what |
//! |---|---|
//! | `modules.rs` | which files were loaded where, and the location of an address |
//! | `spec.rs` | the frames of a spec, in each of its four forms |
//! | `stacks.rs` | the stack of each id |

mod modules;
mod spec;
mod stacks;

pub(super) use modules::{BaseField, Location, NO_FILE};
pub(super) use spec::SpecForm;
pub(super) use stacks::{Callstacks, NO_STACK};
