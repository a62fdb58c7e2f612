//! Numbers for texts, which a sequence writes once.

use crate::protobuf::Message;
use crate::protobuf::perfetto::{interned, interned_data};
use std::collections::HashMap;

/// Categories of sites have their numbers in the table of categories. Those of channels, and of fields of the
/// program, have larger ones.
const OTHER_CATEGORIES: u64 = 1 << 16;

/// Numbers for texts, in lists as `InternedData` has them.
#[derive(Default)]
pub(super) struct Interner {
    /// By their numbers: a program names few lists. A list is hashed with random keys, because texts can come from
    /// outside of the program.
    lists: Vec<(u32, HashMap<Vec<u8>, u64>)>,
    /// The fields of `InternedData` for the next packet.
    pub(super) fresh: Vec<u8>,
    pub(super) bytes: usize,
}

impl Interner {
    /// The number of a text.
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
        Message::new(&mut self.fresh).nested(list, |entry| {
            entry.uint(interned::IID, id);
            entry.bytes(interned::TEXT, text);
        });
    }
}
