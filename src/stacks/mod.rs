//! Call stacks: which code makes an allocation.
//!
//! | file | what |
//! |---|---|
//! | `tree.rs` | the number of a stack: a tree of frames that all threads share |

pub(crate) mod tree;
