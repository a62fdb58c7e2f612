//! The figures: counts, live figures, peaks, and each row's state at the total's peak.
//!
//! The rows of a report overlap: one block counts in a scope and in all scopes around it, in a
//! group, a name, a thread and a size class. Most columns add up, so they are kept once, per
//! *bucket* (one context on one thread) and per size class, and summed into rows when a report is
//! made. Only a row's own maximum does not add up. So each row has a *peak tracker*: 16 bytes that
//! hold the row's live bytes and their maximum. An event changes one bucket, one size class, and
//! the peak trackers of the rows that its block is in.
//!
//! The state of each bucket at the total's peak is known without visiting all buckets at that
//! moment: each new maximum of the total starts a *peak generation*. Before a bucket changes for
//! the first time in a generation, it saves its figures as its state at that peak.
//!
//! A measurement's peak has generations of its own: for each measurement around it, a bucket saves
//! the bytes that it held at that measurement's last peak. Buckets outside measurements save none.
//!
//! In a trace with call stacks, a bucket is one context on one thread with one stack. So a block needs
//! no other field to know its stack, and every row can be divided by stack.
//!
//! Consecutive events of one context on one thread are combined, and applied to the peak trackers of
//! both and to the total at once: a maximum depends only on their sums and on the highest
//! intermediate sums. Each event changes its size class, and in a trace with stacks its bucket and its
//! stack.
//!
//! A bucket is one cache line, because a trace with stacks has many. Its counts have 32 bits; the upper
//! bits of the few that need more are in a map, and so are buckets of a stack after its first. The peak
//! of a stack is in its bucket, and in a peak tracker from its second bucket on.
//!
//! | file | what |
//! |---|---|
//! | `accounts.rs` | what changes when a block is allocated, freed, resized or moved |
//! | `bucket.rs` | the columns that add up, of one bucket or size class, and buckets in memory |
//! | `combined.rs` | the events of one context and thread that are not applied yet |
//! | `measured.rs` | the peaks of measurements |
//! | `moves.rs` | what moved from one bucket to another |
//! | `peaks.rs` | the peaks of rows and of the total |
//! | `size_class.rs` | which sizes a class has, and its figures |
//! | `stacks.rs` | buckets with a stack, and what a sample of stacks says |
//! | `tally.rs` | what each event adds to the columns that are counted |

#[expect(clippy::module_inception, reason = "the room has the name of its main object")]
mod accounts;
mod bucket;
mod combined;
mod measured;
mod moves;
mod peaks;
mod size_class;
mod stacks;
mod tally;

pub(super) use accounts::{AccountKey, Accounts};
pub(super) use bucket::{Bucket, Counts, Owner};
pub(super) use moves::Moved;
pub(super) use peaks::EventTime;
pub(super) use size_class::{LAST_CLASS, class_bounds, class_of};
pub use tally::Tally;
