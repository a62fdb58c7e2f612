//! The descriptors of registered tracks.
//!
//! NOTE: without a lock. The child of a fork has a lock as it was in its parent, and the thread that held it there does
//! not exist in the child, which would wait for ever. So what is in the table is never freed.
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
    /// it describes the track once.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSession`] if there are 65 536 others. A track that is registered again, with another unit, counts
    /// again.
    pub fn register(self) -> Result<Track, Error> {
        if !state::is_forked() {
            let is_kept = untracked(|| keep(self.uuid, self.descriptor()));
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
        Ok(Track { uuid: self.uuid })
    }

    /// The fields of its `TrackDescriptor`.
    fn descriptor(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut message = Message::new(&mut bytes);
        track::named(&mut message, self.uuid, self.parent, self.name);
        match self.kind {
            TrackKind::Named => {}
            TrackKind::Counter => track::counter(&mut message, self.unit),
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
    use crate::perfetto::counter_track_uuid;

    #[test]
    fn a_counter_is_described_with_its_unit() {
        let bytes = Track::counter("a", 2).unit("bytes").descriptor();
        let mut expected = vec![0x08];
        let mut uuid = counter_track_uuid("a", 2);
        while uuid >= 0x80 {
            expected.push(uuid as u8 | 0x80);
            uuid >>= 7;
        }
        expected.push(uuid as u8);
        expected.extend([0x28, 2, 0x12, 1, b'a', 0x42, 2, 0x18, 3]);
        assert_eq!(bytes, expected);
    }
}
