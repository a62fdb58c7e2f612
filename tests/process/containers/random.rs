//! Random programs: three threads use containers of every kind under every tag, and pass them to
//! each other; against a model that knows nothing but the allocator.

use super::{TAGS, now};
use crate::allocator::gained;
use crate::harness::start;
use memledger::containers::{
    TaggedBTreeMap, TaggedBTreeSet, TaggedBinaryHeap, TaggedBox, TaggedHashMap, TaggedHashSet,
    TaggedString, TaggedVec, TaggedVecDeque,
};
use memledger::{Tag, alloc_scope, tagged};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

/// A container that a random program does things with.
trait Subject: Send {
    fn grow(&mut self, by: u32);
    fn shrink(&mut self);
    fn rename(&mut self, tag: Tag);
    fn copy(&self) -> Box<dyn Subject>;
}

macro_rules! subject {
    ($type:ty, |$this:ident, $value:ident| $add:expr, |$that:ident| $shrink:expr) => {
        impl Subject for $type {
            fn grow(&mut self, by: u32) {
                let $this = self;
                for $value in 0..by {
                    $add;
                }
            }

            fn shrink(&mut self) {
                let $that = self;
                $shrink;
            }

            fn rename(&mut self, tag: Tag) {
                self.set_tag(tag);
            }

            fn copy(&self) -> Box<dyn Subject> {
                Box::new(self.clone())
            }
        }
    };
}

subject! { TaggedVec<u32>, |it, n| it.push(n), |it| { it.truncate(it.len() / 3); it.shrink_to_fit() } }
subject! { TaggedString, |it, n| it.push_str(&"\u{20ac}uro"[..3 + (n % 2) as usize]),
|it| { it.clear(); it.shrink_to(10) } }
subject! { TaggedVecDeque<u16>,
|it, n| { it.push_back(n as u16); if n % 3 == 0 { it.pop_front(); } },
|it| { it.truncate(it.len() / 2); it.shrink_to_fit() } }
subject! { TaggedHashMap<u32, u64>, |it, n| { it.insert(n.wrapping_mul(2_654_435_761), 1) },
|it| { it.retain(|key, _| key % 5 == 0); it.shrink_to_fit() } }
subject! { TaggedHashSet<u64>, |it, n| it.extend([u64::from(n) << 7, 3]), |it| { it.clear(); it.shrink_to(9) } }
subject! { TaggedBTreeMap<u32, [u8; 9]>, |it, n| { it.insert(n.wrapping_mul(7919) % 997, [0; 9]) },
|it| it.retain(|key, _| key % 7 == 0) }
subject! { TaggedBTreeSet<[u32; 3]>, |it, n| { it.insert([n.wrapping_mul(7919) % 997; 3]) },
|it| { it.retain(|value| value[0] % 7 == 0); it.pop_first(); } }
subject! { TaggedBinaryHeap<u32>, |it, n| { it.push(n.wrapping_mul(7919) % 997); if n % 3 == 0 { it.pop(); } },
|it| { it.retain(|n| n % 2 == 0); it.shrink_to_fit() } }
subject! { TaggedBox<[u8; 100]>, |it, n| it[n as usize % 100] = 1, |it| it[0] = 0 }

impl Subject for TaggedBox<[u64]> {
    fn grow(&mut self, by: u32) {
        self.fill(by.into());
    }

    fn shrink(&mut self) {}

    fn rename(&mut self, tag: Tag) {
        self.set_tag(tag);
    }

    fn copy(&self) -> Box<dyn Subject> {
        Box::new(self.clone())
    }
}

/// The number of kinds of containers.
const KINDS: u32 = 10;

fn new_subject(kind: u32, tag: Tag) -> Box<dyn Subject> {
    match kind % KINDS {
        0 => Box::new(TaggedVec::<u32>::new(tag)),
        1 => Box::new(TaggedString::new(tag)),
        2 => Box::new(TaggedVecDeque::<u16>::with_capacity(tag, 5)),
        3 => Box::new(TaggedHashMap::<u32, u64>::new(tag)),
        4 => Box::new(TaggedHashSet::<u64>::with_capacity(tag, 3)),
        5 => Box::new(TaggedBTreeMap::<u32, [u8; 9]>::new(tag)),
        6 => Box::new(TaggedBox::new(tag, [0; 100])),
        7 => Box::new(TaggedBTreeSet::<[u32; 3]>::new(tag)),
        8 => Box::new(TaggedBinaryHeap::<u32>::with_capacity(tag, 4)),
        _ => Box::new(TaggedVec::from_slice(tag, &[1_u64; 17]).into_boxed_slice()),
    }
}

/// A subject, what it holds, and under which tag, by a model that knows nothing but the allocator.
struct Known {
    subject: Box<dyn Subject>,
    bytes: i64,
    tag: usize,
}

impl Known {
    /// How much larger the container alone became: its box is not its own.
    fn new(make: impl FnOnce() -> Box<dyn Subject>, tag: usize) -> Self {
        let mut subject = None;
        let bytes = gained(|| subject = Some(make()));
        let subject = subject.unwrap();
        let shell = size_of_val(&*subject) as i64;
        Self { subject, bytes: bytes - shell, tag }
    }
}

pub(super) fn random() {
    let ledger = start();
    let held = [const { AtomicI64::new(0) }; 3];
    let pool = Mutex::new(Vec::<Known>::new());
    for phase in 0..3 {
        std::thread::scope(|threads| {
            for number in 0..3_u64 {
                let (held, pool) = (&held, &pool);
                threads.spawn(move || {
                    alloc_scope!("random");
                    let mut seed = 0x9e37_79b9_7f4a_7c15 ^ (phase * 3 + number + 1) << 17;
                    for _ in 0..1500 {
                        step(&mut seed, held, pool);
                    }
                });
            }
        });
        for (tag, bytes) in TAGS.into_iter().zip(&held) {
            let bytes = bytes.load(Ordering::Relaxed);
            assert!(bytes > 1000, "{bytes}");
            assert_eq!(now(&ledger, tag), bytes, "{tag:?} in phase {phase}");
        }
    }
    drop(pool);
    for tag in TAGS {
        assert_eq!(now(&ledger, tag), 0);
    }
}

fn step(seed: &mut u64, held: &[AtomicI64; 3], pool: &Mutex<Vec<Known>>) {
    let mut dice = |sides: u64| {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        (*seed >> 20) % sides
    };
    let add = |tag: usize, bytes: i64| held[tag].fetch_add(bytes, Ordering::Relaxed);
    let put = |known: Known| pool.lock().unwrap().push(known);
    let taken = {
        let mut pool = pool.lock().unwrap();
        let index = dice(40) as usize;
        (index < pool.len()).then(|| pool.swap_remove(index))
    };
    let Some(mut known) = taken else {
        let (kind, tag) = (dice(u64::from(KINDS)) as u32, dice(3) as usize);
        let known = Known::new(|| new_subject(kind, TAGS[tag]), tag);
        add(tag, known.bytes);
        return put(known);
    };
    let before = known.bytes;
    match dice(10) {
        0..5 => {
            let by = dice(200) as u32;
            known.bytes += gained(|| known.subject.grow(by));
        }
        5 => known.bytes += gained(|| known.subject.shrink()),
        6 | 7 => {
            let tag = dice(3) as usize;
            // Another thing's tag meanwhile, and another scope, must not matter.
            alloc_scope!("renaming");
            let gain =
                gained(|| tagged(TAGS[dice(3) as usize], || known.subject.rename(TAGS[tag])));
            add(known.tag, -before);
            known.bytes += gain;
            known.tag = tag;
            add(tag, known.bytes);
            return put(known);
        }
        8 => {
            let copy = Known::new(|| known.subject.copy(), known.tag);
            add(copy.tag, copy.bytes);
            put(copy);
        }
        _ => {
            add(known.tag, -before);
            return drop(known);
        }
    }
    add(known.tag, known.bytes - before);
    put(known);
}
