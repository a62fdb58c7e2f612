//! From where on something is a finding, and why from there.

pub(super) use memledger_document::internal::{
    MIN_CALLS, MIN_WEIGHT, SHORT_LIVED, is_share, millionths,
};

/// The fewest bytes of a finding about bytes: fewer than the stack of one thread.
pub(super) const MIN_BYTES: u64 = 64 << 10;

/// The size to reserve is enough for this share of blocks, in percent: the few largest would make it
/// too large for all others.
pub(super) const RESERVE_COVERS: u64 = 90;

/// A shrink gives back at least this share of the blocks, in percent: below, a container has grown in the
/// usual steps and was trimmed.
pub(super) const GIVEN_BACK: u64 = 25;

/// The fewest blocks that are left behind: a program keeps a few of anything for ever.
pub(super) const MIN_LEFT: u64 = 10;

/// The fewest freed siblings for each block that is left behind: with these, blocks of this line
/// usually end.
pub(super) const FREED_FOR_EACH_LEFT: u64 = 4;

/// The same without stacks. A scope that fills a table also frees what it needs for that, which is no
/// sibling of what the table keeps.
pub(super) const FREED_FOR_EACH_LEFT_IN_SCOPE: u64 = 20;

/// Blocks that are left behind have on average at least this multiple of the age that 95 in 100 freed
/// siblings reached.
pub(super) const AGE_FACTOR: u64 = 4;

/// The mean age of blocks that are left behind is at least this: a program that ends in less need not free
/// anything.
pub(super) const MIN_AGE_NS: u64 = 250_000_000;

/// Each half of the time up to the last of what is left behind has at least this share of it, in percent: a
/// leak comes again.
pub(super) const LEFT_BY_HALF: u64 = 20;

/// That time is up to the moment at which this share was there, in percent: the program may be idle after
/// that.
pub(super) const NEARLY_ALL_LEFT: u64 = 90;

/// The percentage of freed blocks that were younger than what is called their lifetime.
pub(super) const LIFETIME_COVERS: u64 = 95;

/// The number of moments at which live bytes are compared. If they move at random, one in 5,040 places rises
/// at each of the last seven.
pub(super) const MOMENTS: usize = 8;

/// The shortest run in which something grows: a shorter one does not show whether that would go on.
pub(super) const MIN_GROWTH_NS: u64 = 1_000_000_000;

/// Growth is steady if no part of it is steeper than the whole by more than this factor, or less steep: a
/// program that does its work in phases has some in which a place hardly grows.
pub(super) const STEADY: u128 = 2;

/// What grows up to the peak has not been freed while the program ran but for the rest, in percent.
pub(super) const HELD_TO_END: u64 = 90;

/// At least this share of the live bytes at the end came in the second half of the run, in percent:
/// what is filled at the start and then stays is a table.
pub(super) const GROWN_LATE: u64 = 25;

/// One size makes at least this share of the blocks of a place, in percent: then what is live there is
/// nearly all of this size.
pub(super) const ONE_SIZE: u64 = 90;

/// The largest size that an arena would be worth it for: above, the allocator adds less than 7 %.
pub(super) const SMALL: u64 = 256;

/// A size is just above a class if it is above it by at most this share of the class, in percent.
pub(super) const JUST_ABOVE: u64 = 6;

/// The smallest size with classes that are far apart: below, allocators have one for every 16 bytes.
pub(super) const MIN_ROUNDED: u64 = 512;

/// Other threads free at least this share of the blocks, in percent.
pub(super) const FREED_BY_OTHERS: u64 = 50;

/// The fewest blocks that wait for another thread, and the fewest that it has freed: channels with a bound
/// have fewer.
pub(super) const MIN_WAITING: u64 = 64;

/// What waits is at least this share of the peak, in percent: a compiler also hands a part of its memory to
/// another thread.
pub(super) const WAITING: u64 = 5;

/// Half of the blocks that wait live at least this long: less is on the way, and does not wait.
pub(super) const MIN_WAIT_NS: u64 = 1_000_000;

/// Each of two parts of the program that make the peak together has at least this share of it, in percent.
pub(super) const HALF_OF_PEAK: u64 = 25;

/// The fewest bytes of each of them: an interpreter has as much when it has begun, and what it runs is no
/// copy of that.
pub(super) const MIN_COPY: u64 = 8 << 20;

/// A part of the program stays as it was while it has at least this share of what it has at the peak, in
/// percent.
pub(super) const UNCHANGED: u64 = 95;

/// The other one has yet to come while it has at most this share of it, in percent.
pub(super) const TO_COME: u64 = 10;

/// The fewest bytes that stay: a program begins with as much.
pub(super) const MIN_HELD: u64 = 2 << 20;

/// The fewest bytes that the allocator keeps: fewer are the arenas of a few threads.
pub(super) const MIN_KEPT: u64 = 8 << 20;

/// What the allocator keeps was freed before the last quarter of the run, which is at least and at most this
/// long, or in the first half of a shorter run.
pub(super) const KEPT_NS: [u64; 2] = [2_000_000_000, 10_000_000_000];

/// What the allocator keeps is at least this share of the resident memory, in percent.
pub(super) const KEPT: u64 = 33;

/// After the peak, live bytes fall at least by this factor times 100, for what stays to be of interest.
pub(super) const FALLEN_TO: u64 = 200;

/// What stays is at least this share of what is live then, in percent.
pub(super) const STAYS_OF_LIVE: u64 = 50;

/// It is at least this share of what its place has at the peak, and was not there before the peak began to
/// come, in percent.
pub(super) const STAYS: u64 = 50;

/// The bytes that glibc takes for a block of `size`: 8 more, a multiple of 16, at least 32.
pub(super) fn chunk_of_glibc(size: u64) -> u64 {
    size.saturating_add(8).max(32).checked_next_multiple_of(16).unwrap_or(u64::MAX)
}
