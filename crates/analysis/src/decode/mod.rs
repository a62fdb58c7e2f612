//! From the bytes of events to what they mean.
//!
//! | file | what |
//! |---|---|
//! | `decoding.rs` | the types of a trace, and what their events mean |
//! | `fast_path.rs` | allocations and frees as most writers lay them out, straight from the bytes |
//! | `operation.rs` | allocations and frees that are not applied yet |
//! | `roles.rs` | what the events of a type mean, and where their fields are |
//! | `by_name.rs` | which of these an event type is, by its name |

mod by_name;
mod decoding;
mod fast_path;
mod operation;
mod roles;

pub(super) use decoding::Decoding;
pub(super) use operation::{Operation, OperationKind, OperationQueue, StreamHeap};
pub(super) use roles::{
    ABSENT, BlockRole, LlmRole, MORE_RSS_SUMS, NameRole, PartsFields, RSS_SUMS, Role, RssRole,
    ScopeRole, StackRole, TimeRole, TraceRole,
};
