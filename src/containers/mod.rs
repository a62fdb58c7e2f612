//! Containers that have a tag: all memory that they allocate carries it.
//!
//! Each is a plain container and the number of a tag. Only the container's own allocations run
//! under the tag. The program's code (an iterator, a closure, `clone`, `hash`) runs outside it: a
//! container reserves capacity before it calls such code, and a hash table sets the tag only inside
//! its allocator. A block keeps its tag when any code reallocates it, so only its first allocation
//! matters.
//!
//! | container | over the plain one, in bytes |
//! |---|---|
//! | [`TaggedVec`], [`TaggedVecDeque`], [`TaggedString`], [`TaggedBox`], [`TaggedBTreeMap`], [`TaggedBTreeSet`], [`TaggedBinaryHeap`] | 8 |
//! | [`TaggedHashMap`], [`TaggedHashSet`] | 24 |
//! | any of them, without feature `enable` | 0 |
//!
//! A container is compared with a plain one on its right: `tagged == plain`. The other direction, and
//! `Vec::from(tagged)`, do not exist (`into_vec`, `into` do). An impl for `Vec` or `HashMap` would be a
//! second one that fits where a program lets the compiler infer a type, as in `set == iterator.collect()`;
//! the program would no longer compile once memledger is anywhere among its dependencies.
//!
//! A change of the tag is one event for each block that the container holds (`hook::retag`). The
//! plain vector, string, box and binary heap give the address of their block. A queue is converted
//! to a vector and back. A hash table's allocator remembers its block. A B-tree map cannot find its
//! nodes, and moves its pairs to new ones.

mod aligned;
mod allocator;
mod binary_heap;
mod block;
mod boxed;
pub mod btree_map;
mod btree_set;
mod deque;
mod entry;
mod forward;
pub mod hash_map;
pub mod hash_set;
mod iterators;
#[cfg_attr(not(tracking), path = "../disabled/containers/own_tag.rs")]
mod own_tag;
#[cfg(feature = "serde")]
mod serde;
mod single;
mod string;
mod table;
mod vec;

pub use aligned::AlignedBox;
pub use binary_heap::TaggedBinaryHeap;
pub use boxed::TaggedBox;
pub use btree_map::TaggedBTreeMap;
pub use btree_set::TaggedBTreeSet;
pub use deque::TaggedVecDeque;
pub use hash_map::TaggedHashMap;
pub use hash_set::TaggedHashSet;
pub use string::TaggedString;
pub use vec::TaggedVec;

/// Checks by how many bytes each container is larger than the plain one, and that threads can share
/// it.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::collections as plain;
    const fn more<Tagged, Plain>() -> usize {
        size_of::<Tagged>() - size_of::<Plain>()
    }
    // With its padding.
    let tag = 2 * size_of::<own_tag::OwnTag>();
    assert!(more::<TaggedVec<u8>, Vec<u8>>() == tag);
    assert!(more::<TaggedString, String>() == tag);
    assert!(more::<TaggedBox<u8>, Box<u8>>() == tag);
    assert!(more::<TaggedBox<str>, Box<str>>() == tag);
    assert!(more::<TaggedVecDeque<u8>, plain::VecDeque<u8>>() == tag);
    assert!(more::<TaggedBTreeMap<u8, u8>, plain::BTreeMap<u8, u8>>() == tag);
    assert!(more::<TaggedBTreeSet<u8>, plain::BTreeSet<u8>>() == tag);
    assert!(more::<TaggedBinaryHeap<u8>, plain::BinaryHeap<u8>>() == tag);
    assert!(more::<TaggedHashMap<u8, u8>, plain::HashMap<u8, u8>>() == 3 * tag);
    assert!(more::<TaggedHashSet<u8>, plain::HashSet<u8>>() == 3 * tag);
    const fn goes_anywhere<T: Send + Sync>() {}
    goes_anywhere::<TaggedHashMap<u8, u8>>();
    goes_anywhere::<TaggedVec<u8>>();
};
