//! From where on something is a finding, and why from there.

pub(super) use memledger_document::internal::{is_share, millionths};

/// Memory that is held comes before work from this many bytes on: less is not worth a change.
pub(super) const MIN_HELD: u64 = 1 << 20;
/// ... and from this share of the peak on, in percent.
pub(super) const HELD: u64 = 5;
/// The fewest blocks that are left behind: a program keeps a few of anything for ever.
pub(super) const MIN_LEFT_BLOCKS: u64 = 10;
/// The fewest bytes: fewer than the stack of one thread; and their share of the peak, in millionths: the
/// leak of a small header for each request is found beside a steady cache of 100 MB.
pub(super) const MIN_LEFT: u64 = 64 << 10;
pub(super) const LEFT: u64 = 5_000;
/// Work is a finding from this share of all on, in percent: a fifth of all calls, or of all allocated bytes.
pub(super) const WORK: u64 = 20;
/// The fewest calls of it: fewer cost less than a millisecond in a whole run.
pub(super) const MIN_CALLS: u64 = 10_000;
/// What a call and a copied byte take, about, in picoseconds; and from which share of the run on that is a
/// finding, in percent: what is idle, or waits, has nothing to win.
pub(super) const CALL_PS: u64 = 50_000;
pub(super) const BYTE_PS: u64 = 100;
pub(super) const TIME_SHARE: u64 = 5;
/// The fewest blocks that witness something else: a channel with a bound has fewer.
pub(super) const MIN_BLOCKS: u64 = 64;
/// The fewest freed siblings for each block that is left behind: with these, blocks of this site usually end.
pub(super) const FREED_FOR_EACH_LEFT: u64 = 4;
/// The same without stacks: a scope that fills a table also frees what it needs for that, which is no sibling
/// of what the table keeps.
pub(super) const FREED_FOR_EACH_LEFT_IN_SCOPE: u64 = 20;
/// Each half of the time up to the last of what is left behind has at least this share of it, in percent:
/// what a table keeps comes at once. The last is when this much was there: the program may be idle then.
pub(super) const LEFT_BY_HALF: u64 = 20;
pub(super) const NEARLY_ALL_LEFT: u64 = 90;
/// Blocks that are left behind are older than 95 in 100 freed ones became, by this factor.
pub(super) const AGE_FACTOR: u64 = 2;
/// Their mean age is at least this: a program that ends in less need not free anything.
pub(super) const MIN_AGE_NS: u64 = 100_000_000;
/// Blocks are no longer freed if none was for this many times as long as 95 in 100 lived before.
pub(super) const STOPPED_FOR: u64 = 5;
/// A set is full, and no queue, while it has this share of its peak, in percent.
pub(super) const FULL: u64 = 80;
/// ... and in this share of the second half of the run, in percent.
pub(super) const FULL_FOR: u64 = 80;
/// Of a queue, at most one block in so many is out of order, or was allocated by a thread that frees.
pub(super) const AGAINST: u64 = 10;
/// Large blocks grow stepwise if all their sizes before the last one are this many times that: those of a
/// container that doubles are one of it, and of one that grows by a half two.
pub(super) const LINEAR: u64 = 3;
/// The size to reserve is enough for this share of blocks, in percent: the few largest would spoil it.
pub(super) const RESERVE_COVERS: u64 = 90;
/// What goes through a set is this many times its own peak: it is made again and again.
pub(super) const AGAIN: u64 = 100;
/// Each of two parts of the program that make the peak together has at least this share of it, in percent.
pub(super) const HALF_OF_PEAK: u64 = 25;
/// The fewest bytes that the allocator keeps: fewer are the arenas of a few threads; and their share of the
/// resident memory, in percent.
pub(super) const MIN_KEPT: u64 = 8 << 20;
pub(super) const KEPT: u64 = 33;
