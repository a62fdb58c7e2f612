//! Code of the program that panics within operations of containers.

use super::{A, B, C, now};
use crate::allocator::gained;
use crate::harness::start;
use memledger::containers::{TaggedHashMap, TaggedVec};
use std::cell::Cell;
use std::hash::{BuildHasher, Hash, Hasher};
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static FUSE: Cell<u32> = const { Cell::new(u32::MAX) };
}

fn burn() {
    FUSE.set(FUSE.get().wrapping_sub(1));
    assert_ne!(FUSE.get(), 0, "the fuse has burnt down");
}

/// A key whose hash, clone and drop panic when the fuse has burnt down.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Fickle(u32);

impl Hash for Fickle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        burn();
        self.0.hash(state);
    }
}

impl Clone for Fickle {
    fn clone(&self) -> Self {
        burn();
        Self(self.0)
    }
}

impl Drop for Fickle {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            burn();
        }
    }
}

#[derive(Clone, Default)]
struct Plain(std::hash::BuildHasherDefault<std::collections::hash_map::DefaultHasher>);

impl BuildHasher for Plain {
    type Hasher = std::collections::hash_map::DefaultHasher;

    fn build_hasher(&self) -> Self::Hasher {
        self.0.build_hasher()
    }
}

pub(super) fn panics() {
    let ledger = start();
    std::panic::set_hook(Box::new(|panic| {
        let text = panic.to_string();
        if !["fuse", "capacity"].iter().any(|expected| text.contains(expected)) {
            eprintln!("{text}");
        }
    }));
    let burning = |after: u32, body: &mut dyn FnMut()| {
        FUSE.set(after);
        let panicked = catch_unwind(AssertUnwindSafe(body)).is_err();
        FUSE.set(u32::MAX);
        panicked
    };
    let (mut a, mut b, mut leaked, mut panicked) = (0, 0, 0, 0);
    let mut map = TaggedHashMap::with_hasher(A, Plain::default());
    let mut other = TaggedHashMap::with_hasher(B, Plain::default());
    for after in 1..40 {
        a += gained(|| {
            panicked += u32::from(burning(after, &mut || {
                map.extend((after * 30..after * 30 + 30).map(|n| (Fickle(n), n)));
            }));
        });
        assert_eq!(now(&ledger, A), a + leaked, "a panic after {after} hashes");
        b += gained(|| {
            panicked += u32::from(burning(after * 7, &mut || other.clone_from(&map)));
        });
        assert_eq!(now(&ledger, B), b, "a panic after {after} clones");
        // A table whose elements panic when it is dropped leaks; it keeps its name.
        leaked += gained(|| panicked += u32::from(burning(after, &mut || drop(map.clone()))));
        a += gained(|| {
            panicked += u32::from(burning(after, &mut || map.retain(|key, _| key.0 % 3 > 0)));
            panicked += u32::from(burning(after, &mut || map.shrink_to_fit()));
        });
        // And to the other tag and back, with all there is.
        map.set_tag(C);
        assert_eq!((now(&ledger, A), now(&ledger, C)), (leaked, a));
        map.set_tag(A);
        assert_eq!((now(&ledger, A), now(&ledger, C)), (leaked + a, 0));
    }
    assert!(panicked > 50, "{panicked}");
    a += gained(|| {
        burning(3, &mut || {
            drop(std::mem::replace(&mut map, TaggedHashMap::with_hasher(A, Plain::default())))
        });
    });
    assert_eq!(now(&ledger, A), a + leaked);
    let mut vec = TaggedVec::new(C);
    let mut c = gained(|| vec.extend((0..50).map(Fickle)));
    for after in 1..60 {
        c += gained(|| {
            burning(after, &mut || vec.extend_from_within(..20));
            burning(after, &mut || vec.truncate(40));
            burning(after, &mut || vec.resize(70, Fickle(1)));
        });
        assert_eq!(now(&ledger, C), c);
    }
    // A capacity that cannot be: the thread's tag is what it was.
    catch_unwind(AssertUnwindSafe(|| vec.reserve(usize::MAX))).unwrap_err();
    vec.try_reserve(usize::MAX).unwrap_err();
    std::mem::forget(black_box(vec![1_u8; 99]));
    assert_eq!(now(&ledger, C), c);
}
