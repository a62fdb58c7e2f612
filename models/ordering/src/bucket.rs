//! The real `bucket.rs`, on loom's atomics: threads that add the same entries to one bucket, and copies of it
//! with a fault each (see `build.rs`).

use crate::{ALL, explore};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What `bucket.rs` imports from its parent module.
mod atomic {
    pub use loom::sync::atomic::{AtomicU32, Ordering};
}

#[path = "../../../src/platform/bucket.rs"]
mod real;

macro_rules! faulty {
    ($module:ident, $file:literal) => {
        mod $module {
            mod atomic {
                pub use loom::sync::atomic::{AtomicU32, Ordering};
            }
            #[allow(clippy::all, reason = "broken on purpose")]
            pub mod broken {
                include!(concat!(env!("OUT_DIR"), "/", $file));
            }
        }
    };
}
faulty!(plain_link, "plain_link.rs");
faulty!(not_compared, "not_compared.rs");

/// A table of one bucket. An entry's key is no atomic: loom sees if it is read before it is there.
struct Table {
    bucket: AtomicU32,
    count: AtomicU32,
    entries: [(UnsafeCell<u64>, AtomicU32); 4],
}

type FindOrAdd = fn(&Table, u64) -> u32;

macro_rules! find_or_add {
    ($function:path) => {
        |table: &Table, key| {
            let entry = |number: u32| table.entries.get(number as usize - 1);
            let next = |number| Some(&entry(number)?.1);
            // SAFETY: a linked entry is written no more, which is what is checked.
            let is_wanted =
                |number| entry(number).is_some_and(|(of, _)| of.with(|of| unsafe { *of } == key));
            let add = || {
                let number = table.count.fetch_add(1, Relaxed) + 1;
                // SAFETY: no other thread has this number.
                entry(number)?.0.with_mut(|of| unsafe { *of = key });
                Some(number)
            };
            $function(&table.bucket, next, is_wanted, add).expect("there is room")
        }
    };
}

/// Two threads add two keys each, in another order; then the first one is there once more.
fn check(name: &str, find_or_add: FindOrAdd) {
    explore(name, [ALL, ALL], move || {
        let table = Arc::new(Table {
            bucket: AtomicU32::new(0),
            count: AtomicU32::new(0),
            entries: std::array::from_fn(|_| (UnsafeCell::new(0), AtomicU32::new(0))),
        });
        let of_table = table.clone();
        let other = loom::thread::spawn(move || [7, 5].map(|key| find_or_add(&of_table, key)));
        let [five, seven] = [5, 7].map(|key| find_or_add(&table, key));
        assert_eq!(other.join().unwrap(), [seven, five], "one key has two numbers");
        assert_ne!(five, seven);
        assert_eq!([5, 7].map(|key| find_or_add(&table, key)), [five, seven]);
    });
}

#[test]
fn threads_that_add_the_same_entry_get_the_same_number() {
    check("one bucket", find_or_add!(real::find_or_add));
}

mod planted {
    use super::*;

    #[test]
    #[should_panic = "Causality violation"]
    fn an_entry_that_is_linked_without_release() {
        check("", find_or_add!(plain_link::broken::find_or_add));
    }

    #[test]
    #[should_panic = "one key has two numbers"]
    fn entries_that_another_thread_has_linked_meanwhile_are_not_compared() {
        check("", find_or_add!(not_compared::broken::find_or_add));
    }
}
