//! An append-only table of statics, which all threads share without a lock.
#![expect(unsafe_code, reason = "a table of pointers to statics")]

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// At most `N` statics, in the order in which they were added.
pub(crate) struct StaticTable<T: Sync + 'static, const N: usize>([AtomicPtr<T>; N]);

impl<T: Sync + 'static, const N: usize> StaticTable<T, N> {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicPtr::new(ptr::null_mut()) }; N])
    }

    pub(crate) fn get(&self, number: usize) -> Option<&'static T> {
        // SAFETY: only pointers to statics are stored there.
        unsafe { self.0.get(number)?.load(Ordering::SeqCst).as_ref() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static T> {
        (0..N).map_while(|number| self.get(number))
    }

    /// The number of the first entry that is `like` the new one, or of the new one, which is added if there
    /// is none; `None` if the table is full.
    pub(crate) fn find_or_add(
        &self,
        new: &'static T,
        like: impl Fn(&'static T) -> bool,
    ) -> Option<usize> {
        let this = ptr::from_ref(new).cast_mut();
        self.0.iter().position(|entry| {
            let free = ptr::null_mut();
            let before = entry.load(Ordering::SeqCst);
            let before = if before.is_null() {
                entry
                    .compare_exchange(free, this, Ordering::SeqCst, Ordering::SeqCst)
                    .unwrap_or_else(|other| other)
            } else {
                before
            };
            // SAFETY: only pointers to statics are stored there.
            unsafe { before.as_ref() }.is_none_or(&like)
        })
    }

    pub(crate) fn set(&self, number: usize, entry: &'static T) {
        if let Some(free) = self.0.get(number) {
            free.store(ptr::from_ref(entry).cast_mut(), Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_static_has_one_entry_until_the_table_is_full() {
        static TABLE: StaticTable<u32, 2> = StaticTable::new();
        static VALUES: [u32; 4] = [7, 8, 7, 9];
        let add = |at: usize| TABLE.find_or_add(&VALUES[at], |known| *known == VALUES[at]);
        assert_eq!((TABLE.get(0), add(0), add(1)), (None, Some(0), Some(1)));
        assert_eq!((add(0), add(2), add(3)), (Some(0), Some(0), None));
        assert!(TABLE.iter().eq(&VALUES[..2]) && TABLE.get(2).is_none());
    }
}
