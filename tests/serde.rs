//! Tagged containers are written and read as the plain ones are.

use memledger::containers::{
    TaggedBTreeMap, TaggedBox, TaggedHashMap, TaggedHashSet, TaggedString, TaggedVec,
    TaggedVecDeque,
};
use serde_json::{from_str, from_value, json, to_string, to_value};

#[test]
fn there_and_back() {
    let vec: TaggedVec<u8> = from_str("[1,2,3]").unwrap();
    assert_eq!(vec, [1, 2, 3]);
    assert_eq!(to_string(&vec).unwrap(), "[1,2,3]");
    let queue: TaggedVecDeque<TaggedString> = from_str(r#"["a","b\n"]"#).unwrap();
    assert_eq!(queue, ["a", "b\n"].map(TaggedString::from));
    assert_eq!(to_string(&queue).unwrap(), r#"["a","b\n"]"#);
    let map: TaggedBTreeMap<TaggedString, TaggedBox<u8>> = from_str(r#"{"y":2,"x":1}"#).unwrap();
    assert_eq!(to_string(&map).unwrap(), r#"{"x":1,"y":2}"#);
    let hashed: TaggedHashMap<String, Option<u8>> = from_value(json!({"x": 1, "y": null})).unwrap();
    assert_eq!(to_value(&hashed).unwrap(), json!({"x": 1, "y": null}));
    let set: TaggedHashSet<u64> = from_str("[5,5,6]").unwrap();
    assert_eq!(set, std::collections::HashSet::from([5, 6]));
    let ordered: memledger::containers::TaggedBTreeSet<u64> = from_str("[6,5,6]").unwrap();
    assert_eq!(to_string(&ordered).unwrap(), "[5,6]");
    let heap: memledger::containers::TaggedBinaryHeap<u8> = from_str("[2,9,4]").unwrap();
    assert_eq!(heap.peek(), Some(&9));
    let slice = vec.into_boxed_slice();
    assert_eq!(to_string(&slice).unwrap(), "[1,2,3]");
}

#[test]
fn what_is_something_else_is_refused() {
    assert!(from_str::<TaggedVec<u8>>("{}").unwrap_err().to_string().contains("a sequence"));
    assert!(from_str::<TaggedHashMap<String, u8>>("[]").unwrap_err().to_string().contains("a map"));
    assert!(from_str::<TaggedString>("1").unwrap_err().to_string().contains("a string"));
    assert!(from_str::<TaggedVec<u8>>("[1,300]").is_err());
}
