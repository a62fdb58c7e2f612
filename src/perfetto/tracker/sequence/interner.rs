//! Numbers for texts, which a sequence writes once.

use memledger_format::protobuf::Message;
use memledger_format::protobuf::perfetto::interned_data;
use memledger_format::protobuf::perfetto::sequence::intern;
use std::collections::HashMap;

/// Categories of sites have their numbers in the table of categories. Those of channels, and of fields of the
/// program, have larger ones.
const OTHER_CATEGORIES: u64 = 1 << 16;

/// Numbers for texts, in lists as `InternedData` has them.
#[derive(Default)]
pub(super) struct Interner {
    /// By their numbers: a program names few lists. A list is hashed with random keys, because texts can come
    /// from outside of the program.
    lists: Vec<(u32, HashMap<Vec<u8>, u64>)>,
    /// The fields of `InternedData` for the next packet.
    pub(super) fresh: Vec<u8>,
    pub(super) bytes: usize,
}

impl Interner {
    pub(super) fn id(&mut self, list: u32, text: &[u8]) -> u64 {
        let base = if list == interned_data::EVENT_CATEGORIES { OTHER_CATEGORIES } else { 0 };
        let at = self.lists.iter().position(|(number, _)| *number == list).unwrap_or_else(|| {
            self.lists.push((list, HashMap::new()));
            self.lists.len() - 1
        });
        let Some((_, known)) = self.lists.get_mut(at) else { return 0 };
        if let Some(id) = known.get(text) {
            return *id;
        }
        let id = base + known.len() as u64 + 1;
        known.insert(text.to_vec(), id);
        self.add(list, id, text);
        id
    }

    pub(super) fn add(&mut self, list: u32, id: u64, text: &[u8]) {
        self.bytes += text.len() + 64;
        intern(&mut Message::new(&mut self.fresh), list, id, text);
    }
}

/// The names are those of the tests of the C library's `intern_map`.
#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: u32 = interned_data::EVENT_NAMES;

    #[test]
    fn small_value() {
        let mut interner = Interner::default();
        assert_eq!(interner.id(NAMES, b"a"), 1);
        let once = interner.fresh.clone();
        assert_eq!((interner.id(NAMES, b"a"), &interner.fresh), (1, &once));
        // InternedData.event_names { iid: 1 name: "a" }
        assert_eq!(once, [0x12, 5, 0x08, 1, 0x12, 1, b'a']);
    }

    #[test]
    fn big_value() {
        let (mut interner, big) = (Interner::default(), vec![b'x'; 1 << 16]);
        assert_eq!(interner.id(NAMES, &big), 1);
        assert_eq!(interner.id(NAMES, &big[1..]), 2);
        assert_eq!(interner.id(NAMES, &big), 1);
        assert!(interner.bytes > 2 * (big.len() - 1), "{} bytes", interner.bytes);
    }

    #[test]
    fn two_values_same_type() {
        let mut interner = Interner::default();
        let ids = [&b"a"[..], b"b", b"a", b"", b"b"].map(|text| interner.id(NAMES, text));
        assert_eq!(ids, [1, 2, 1, 3, 2]);
    }

    #[test]
    fn same_value_different_types() {
        let mut interner = Interner::default();
        let lists = [NAMES, interned_data::DEBUG_ANNOTATION_NAMES, 1000];
        assert_eq!(lists.map(|list| interner.id(list, b"a")), [1, 1, 1]);
        assert_eq!(lists.map(|list| interner.id(list, b"b")), [2, 2, 2]);
        // Categories of sites have the numbers below.
        assert_eq!(interner.id(interned_data::EVENT_CATEGORIES, b"a"), OTHER_CATEGORIES + 1);
    }
}
