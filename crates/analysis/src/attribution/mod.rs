//! What an allocation is attributed to: a context on a thread.
//!
//! | file | what |
//! |---|---|
//! | `contexts.rs` | scopes, groups, names and the contexts made of them |
//! | `entries.rs` | how often scopes were entered |
//! | `measurements.rs` | scopes that are measured |
//! | `root_heaps.rs` | root heaps |
//! | `streams.rs` | streams, with their open scopes and reallocations |
//! | `threads.rs` | threads |
//! | `tree.rs` | a tree of names |

mod contexts;
mod entries;
mod measurements;
mod root_heaps;
mod streams;
mod threads;
mod tree;

pub(super) use contexts::{Context, Contexts, IdKind, Name, OUTERMOST, TagSpec};
pub(super) use root_heaps::RootHeaps;
pub(super) use streams::{LastBlock, MadeBy, NO_BUCKET, PendingRealloc, Stream, Streams};
pub(super) use threads::{DetachedBlock, HeapAddress, Thread, Threads};
pub(super) use tree::{ROOT, Tree};
