//! A stack of the numbers of free entries. It has no locks, so that the hook can use it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The lower half of the head is the number of the top entry plus one, or 0 if the stack is empty.
/// The upper half counts the changes of the head.
///
/// ```text
/// head   u64 changes:32 | top + 1:32        link of an entry   u32 next below + 1
/// ```
/// The count prevents the ABA problem: if another thread pops or pushes after this thread has read
/// the head, the count differs, and the exchange fails.
pub(crate) struct FreeStack(AtomicU64);

impl FreeStack {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds the entry `number`, whose link is `link`. The caller must own the entry.
    pub(crate) fn push(&self, number: u32, link: &AtomicU32) {
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            link.store(head as u32, Ordering::Relaxed);
            let new = next_change(head) | u64::from(number + 1);
            match self.0.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Removes an entry and returns its number. `link` finds the link of an entry, which must stay
    /// readable after another thread has taken the entry.
    pub(crate) fn pop(&self, link: impl Fn(u32) -> Option<&'static AtomicU32>) -> Option<u32> {
        let mut head = self.0.load(Ordering::Acquire);
        loop {
            let number = (head as u32).checked_sub(1)?;
            let new = next_change(head) | u64::from(link(number)?.load(Ordering::Relaxed));
            match self.0.compare_exchange_weak(head, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(number),
                Err(now) => head = now,
            }
        }
    }

    /// Removes all entries. Requires that no other thread uses the stack, as in the child of a
    /// fork.
    pub(crate) fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

fn next_change(head: u64) -> u64 {
    (head >> 32).wrapping_add(1) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn the_last_entry_added_is_the_first_removed() {
        static LINKS: [AtomicU32; 3] = [const { AtomicU32::new(0) }; 3];
        let stack = FreeStack::new();
        let pop = || stack.pop(|number| LINKS.get(number as usize));
        (0..3).for_each(|number| stack.push(number, &LINKS[number as usize]));
        assert_eq!([pop(), pop(), pop(), pop()], [Some(2), Some(1), Some(0), None]);
        stack.push(1, &LINKS[1]);
        stack.clear();
        assert_eq!(pop(), None);
    }

    #[test]
    fn no_entry_is_removed_twice() {
        const ENTRIES: u32 = 8;
        static STACK: FreeStack = FreeStack::new();
        static LINKS: [AtomicU32; ENTRIES as usize] = [const { AtomicU32::new(0) }; 8];
        static TAKEN: [AtomicBool; ENTRIES as usize] = [const { AtomicBool::new(false) }; 8];
        (0..ENTRIES).for_each(|number| STACK.push(number, &LINKS[number as usize]));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50_000 {
                        let pop = || STACK.pop(|number| LINKS.get(number as usize));
                        let held = [pop(), pop()];
                        for number in held.into_iter().flatten() {
                            assert!(!TAKEN[number as usize].swap(true, Ordering::Relaxed));
                        }
                        for number in held.into_iter().flatten() {
                            assert!(TAKEN[number as usize].swap(false, Ordering::Relaxed));
                            STACK.push(number, &LINKS[number as usize]);
                        }
                    }
                });
            }
        });
        let left = std::iter::from_fn(|| STACK.pop(|number| LINKS.get(number as usize)));
        assert_eq!(left.count(), ENTRIES as usize);
    }
}
