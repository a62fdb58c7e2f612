//! The descriptors of registered tracks.
//!
//! NOTE: without a lock. The child of a fork has a lock as it was in its parent, and the thread that held it
//! there does not exist in the child, which would wait for ever. So what is in the table is never freed.
#![expect(unsafe_code, reason = "a table of pointers that are never freed")]

use crate::error::{Error, ErrorKind};
use crate::perfetto::track::{Track, TrackBuilder, TrackKind};
use crate::trace::write::{state, untracked};
use memledger_format::protobuf::Message;
use memledger_format::protobuf::perfetto::{track, track_descriptor};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// The most tracks that a program can register. One that is registered with another description counts again.
const MAX_TRACKS: usize = 1 << 16;
/// At most half of the table is taken, so tracks are found near the place that their uuid gives.
const ENTRIES: usize = 2 * MAX_TRACKS;

struct Registered {
    uuid: u64,
    descriptor: Vec<u8>,
}

static TABLE: [AtomicPtr<Registered>; ENTRIES] =
    [const { AtomicPtr::new(ptr::null_mut()) }; ENTRIES];
/// The descriptors that are kept.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The entries where the track with this uuid can be, the most probable first.
fn entries(uuid: u64) -> impl Iterator<Item = &'static AtomicPtr<Registered>> {
    // The upper bits of a product depend on all bits of the uuid.
    let first = (uuid.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % ENTRIES;
    let (before, after) = TABLE.split_at(first);
    after.iter().chain(before)
}

/// Keeps the descriptor of a track in the place of its last one; returns whether there was room for it.
fn keep(uuid: u64, descriptor: Vec<u8>) -> bool {
    let new = Box::new(Registered { uuid, descriptor });
    if descriptor_of(uuid).is_some_and(|known| known == new.descriptor) {
        return true;
    }
    if COUNT.fetch_add(1, Ordering::Relaxed) >= MAX_TRACKS {
        COUNT.fetch_sub(1, Ordering::Relaxed);
        return false;
    }
    let new = Box::into_raw(new);
    for entry in entries(uuid) {
        let free = ptr::null_mut();
        let Err(known) = entry.compare_exchange(free, new, Ordering::AcqRel, Ordering::Acquire)
        else {
            return true;
        };
        // SAFETY: what is in the table is never freed.
        if unsafe { &*known }.uuid == uuid {
            // NOTE: the one before stays, because another thread can be reading it.
            entry.store(new, Ordering::Release);
            return true;
        }
    }
    unreachable!("half of the table is free")
}

impl TrackBuilder<'_> {
    /// Registers it for the rest of the process. Each thread's part of a file that has an event on
    /// it describes the track once. [`TrackBuilder`] has an example.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSession`] if there are 65 536 others. A track that is registered again, with
    /// another unit or order, counts again.
    pub fn register(self) -> Result<Track, Error> {
        let (uuid, parent) = self.uuids();
        if !state::is_forked() {
            let is_kept = untracked(|| keep(uuid, self.descriptor(uuid, parent)));
            if !is_kept {
                return Err(Error::new(
                    ErrorKind::InvalidSession,
                    format!(
                        "the track {:?} cannot be registered: there are {MAX_TRACKS} others",
                        self.name
                    ),
                ));
            }
        }
        Ok(Track { uuid })
    }

    /// The fields of its `TrackDescriptor`.
    fn descriptor(&self, uuid: u64, parent: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut message = Message::new(&mut bytes);
        track::named(&mut message, uuid, parent, self.name);
        if self.order != 0 {
            message.int(track_descriptor::SIBLING_ORDER_RANK, self.order.into());
        }
        if let Some(order) = self.child_order {
            message.uint(track_descriptor::CHILD_ORDERING, order as u64);
        }
        if let Some(key) = self.merge_key {
            track::merge_by(&mut message, key.as_bytes());
        }
        match self.kind {
            TrackKind::Named(_) => {}
            TrackKind::Counter(unit) => track::counter(&mut message, unit),
            TrackKind::State => message.nested(track_descriptor::STATE, |_| {}),
        }
        bytes
    }
}

/// The descriptor of a registered track.
pub(super) fn descriptor_of(uuid: u64) -> Option<&'static [u8]> {
    let known = entries(uuid).map(|entry| entry.load(Ordering::Acquire));
    // SAFETY: what is in the table is never freed.
    let mut known = known.map_while(|known| unsafe { known.as_ref() });
    known.find(|known| known.uuid == uuid).map(|known| &*known.descriptor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::{ChildOrder, Unit};
    use memledger_format::protobuf::perfetto::counter_track_uuid;

    #[test]
    fn a_track_is_described_with_all_that_is_said_of_it() {
        let described = |track: TrackBuilder<'_>| {
            let (uuid, parent) = track.uuids();
            let (bytes, mut begin) = (track.descriptor(uuid, parent), Vec::new());
            Message::new(&mut begin).uint(track_descriptor::UUID, uuid);
            bytes.strip_prefix(&*begin).expect("a uuid").to_vec()
        };
        let parent = Track::from_uuid(2);
        let counter = Track::counter("a").parent(parent);
        assert_eq!(counter.uuids(), (counter_track_uuid("a", 2), 2));
        assert_eq!(described(counter), [0x28, 2, 0x12, 1, b'a', 0x42, 0]);
        for (unit, value) in [(Unit::TimeNs, 1), (Unit::Count, 2), (Unit::Bytes, 3)] {
            let bytes = described(counter.unit(unit));
            assert_eq!(bytes, [0x28, 2, 0x12, 1, b'a', 0x42, 2, 0x18, value]);
        }
        let named = described(counter.unit(Unit::Named("m")));
        assert_eq!(named, [0x28, 2, 0x12, 1, b'a', 0x42, 3, 0x32, 1, b'm']);
        let global = Track::state("a").parent(Track::global());
        let global = global.order(3).child_order(ChildOrder::Chronological).merge_by("k");
        let expected = [0x12, 1, b'a', 0x60, 3, 0x58, 2, 0x78, 3, 0x82, 1, 1, b'k', 0x92, 1, 0];
        assert_eq!(described(global.unit(Unit::Bytes)), expected);
    }

    #[test]
    fn the_process_is_around_a_track_without_a_parent() {
        let named = Track::named("a", 1);
        assert_eq!(named.uuids(), named.parent(Track::process()).uuids());
        assert_ne!(named.uuids(), named.parent(Track::global()).uuids());
    }
}
