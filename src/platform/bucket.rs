//! A bucket of a table to which all threads add entries without locks: a list of numbers, the newest first.
//!
//! ```text
//! bucket ──► newest entry ──next──► entry ──next──► oldest entry ──next──► 0
//! ```
//! The argument for the memory orders:
//!
//! - A thread writes an entry and its `next`, and then links it by a compare-and-exchange with `Release`. A
//!   thread that finds the number has loaded it from the bucket with `Acquire`, or from the `next` of an
//!   entry that it has found so. Each link is also an `Acquire` of the one before, so an entry is seen
//!   completely, and so is all that its thread had seen before, such as other entries that it refers to.
//! - An entry is linked only if the bucket is as it was when all entries in it were compared. So no two
//!   linked entries are the same.
//! - No entry is removed while a thread can be here, so the same head is the same list.

use super::atomic::{AtomicU32, Ordering};

/// *Hook.* The number of the entry of this bucket for which `is_wanted`; if there is none, of the one that
/// `add` writes, unless that is `None`. `next` is the field of an entry that is for this list, and 0 is no
/// entry.
///
/// NOTE: if another thread links the same entry meanwhile, that one is returned. What `add` has written is
/// then in no list, and stays unused.
#[inline(always)]
pub(crate) fn find_or_add<'a>(
    bucket: &AtomicU32,
    next: impl Fn(u32) -> Option<&'a AtomicU32>,
    is_wanted: impl Fn(u32) -> bool,
    add: impl FnOnce() -> Option<u32>,
) -> Option<u32> {
    let find = |mut number: u32, end: u32| {
        while number != end {
            if is_wanted(number) {
                return Some(number);
            }
            number = next(number)?.load(Ordering::Relaxed);
        }
        None
    };
    let mut head = bucket.load(Ordering::Acquire);
    if let Some(found) = find(head, 0) {
        return Some(found);
    }
    let added = add()?;
    loop {
        next(added)?.store(head, Ordering::Relaxed);
        match bucket.compare_exchange(head, added, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Some(added),
            Err(newer) => {
                // The entries from `head` on were compared already.
                if let Some(found) = find(newer, head) {
                    return Some(found);
                }
                head = newer;
            }
        }
    }
}
