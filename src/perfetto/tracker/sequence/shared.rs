//! What the sequences of a session share.

use crate::perfetto::config::TrackEventConfig;
use memledger_format::protobuf::perfetto::track::Process;
use memledger_format::protobuf::perfetto::track_descriptor;
use std::collections::HashMap;

/// The most descriptors that a session remembers to compare others with, and the most bytes of one.
const MAX_COMPARED: usize = 1 << 16;
const MAX_COMPARED_BYTES: usize = 1 << 10;

/// What the sequences of a session share.
pub(in crate::perfetto::tracker) struct Shared {
    pub(in crate::perfetto::tracker) config: TrackEventConfig,
    pub(in crate::perfetto::tracker) process: Process,
    /// For each site, whether the session has its category enabled.
    pub(in crate::perfetto::tracker) wanted: Vec<Option<bool>>,
    /// For each track that was described, the descriptor, to find different ones with one uuid.
    pub(in crate::perfetto::tracker) tracks: HashMap<u64, Vec<u8>>,
    pub(in crate::perfetto::tracker) collisions: Vec<String>,
}

impl Shared {
    /// Notes it if another track has this uuid.
    pub(super) fn compare(&mut self, uuid: u64, descriptor: Vec<u8>) {
        let remembered: usize = self.tracks.len();
        match self.tracks.get_mut(&uuid) {
            None if remembered < MAX_COMPARED && descriptor.len() <= MAX_COMPARED_BYTES => {
                drop(self.tracks.insert(uuid, descriptor));
            }
            Some(known) if !known.is_empty() && *known != descriptor => {
                self.collisions.push(format!(
                    "the tracks {:?} and {:?} have the same uuid, {uuid:#x}, so a viewer shows them as one",
                    name_in(known),
                    name_in(&descriptor)
                ));
                // Reported once.
                known.clear();
            }
            _ => {}
        }
    }
}

fn name_in(descriptor: &[u8]) -> String {
    let mut rest = descriptor;
    while let Some((&key, after)) = rest.split_first() {
        let (mut value, mut shift) = (0_u64, 0);
        rest = after;
        while let Some((&byte, after)) = rest.split_first() {
            value |= u64::from(byte & 0x7f) << shift;
            (rest, shift) = (after, (shift + 7).min(63));
            if byte < 0x80 {
                break;
            }
        }
        if key & 7 == 2 {
            let Some((bytes, after)) = rest.split_at_checked(value as usize) else { break };
            if u32::from(key >> 3) == track_descriptor::NAME {
                return String::from_utf8_lossy(bytes).into_owned();
            }
            rest = after;
        }
    }
    String::new()
}
