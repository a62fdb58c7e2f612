//! A program compiles with memledger in its tree if it compiles without.
//!
//! Each statement here compiles because exactly one impl fits, from which the compiler infers the
//! other type. A second impl for one of these types, in memledger or in a crate that it depends on,
//! is an error of type inference (E0282, E0283) in programs that never name memledger. So the test
//! is that this file compiles with every feature; `tests/layers` finds the impls themselves.

use memledger as _;
use std::cell::{Cell, RefCell};
use std::collections::{
    BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, VecDeque, hash_map::RandomState,
};
use std::net::SocketAddr;
use std::num::Wrapping;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn what_a_collection_is_compared_with_is_inferred() {
    let set = HashSet::<u8>::new();
    assert!(set == [1_u8; 0].into_iter().collect());
    assert!(set == Default::default());
    assert!(HashMap::<u8, String>::new() == [].into_iter().collect());
    assert!(HashMap::<u8, String, RandomState>::default() == Default::default());
    assert!(BTreeMap::<u8, u8>::new() == [].into_iter().collect());
    assert!(BTreeMap::<u8, u8>::new() == Default::default());
    assert!(BTreeSet::<u8>::new() == [].into_iter().collect());
    assert!(BTreeSet::<u8>::new() == Default::default());
    assert!(LinkedList::<u8>::new() == [].into_iter().collect());
}

#[test]
fn what_any_value_is_compared_with_is_inferred() {
    assert!(Box::<str>::from("a") == "a".into());
    assert!(Rc::new(0) == Default::default());
    assert!(Arc::new(0) == Default::default());
    assert!(Cell::new(0) == Default::default());
    assert!(RefCell::new(0) == Default::default());
    assert!(Some(String::new()) != Default::default());
    assert!((0, [0_u8; 4]) == Default::default());
    assert!(1_u64 == "1".parse().unwrap());
    assert!('a' == "a".parse().unwrap());
    assert!(1.0 < "2.0".parse().unwrap());
    assert!("[::]:1".parse::<SocketAddr>().unwrap() == "[::]:1".parse().unwrap());
    assert!(Duration::ZERO == Default::default());
    assert!(Wrapping(0_u8) == Default::default());
}

#[test]
fn what_a_collection_is_made_of_is_inferred() {
    let zeros = || [(); 3].into_iter();
    assert_eq!(zeros().map(|()| Default::default()).collect::<Vec<u8>>(), [0; 3]);
    assert_eq!(zeros().map(|()| Default::default()).collect::<VecDeque<u8>>(), [0; 3]);
    assert_eq!(zeros().map(|()| Default::default()).collect::<BinaryHeap<u8>>().len(), 3);
    assert_eq!(zeros().map(|()| Default::default()).collect::<BTreeSet<u8>>().len(), 1);
    assert_eq!(zeros().map(|()| Default::default()).collect::<HashSet<u8>>().len(), 1);
    assert_eq!(zeros().map(|()| Default::default()).collect::<HashMap<u8, String>>().len(), 1);
    assert_eq!(zeros().map(|()| Default::default()).collect::<BTreeMap<u8, String>>().len(), 1);
    assert_eq!(zeros().map(|()| Default::default()).collect::<Box<[u8]>>().len(), 3);
}

#[test]
#[expect(clippy::useless_conversion, reason = "that it is one is inferred")]
fn what_a_collection_is_converted_from_is_inferred() {
    /// A value without an order: an array of pairs with such a key makes no map.
    #[derive(Debug)]
    struct NoOrder;
    // Only the conversion of a type into itself is left.
    let map: BTreeMap<NoOrder, u8> = From::from(Default::default());
    let set: BTreeSet<NoOrder> = From::from(Default::default());
    assert!(map.is_empty() && set.is_empty());
}

#[test]
#[expect(clippy::useless_conversion, reason = "that it is one is inferred")]
fn what_is_added_is_inferred() {
    assert_eq!(Duration::ZERO + Default::default(), Duration::ZERO);
    assert_eq!(String::from("a") + "b".into(), "ab");
}
