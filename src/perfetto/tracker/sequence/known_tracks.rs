//! The tracks that a sequence has described.

use std::collections::HashMap;

/// How many tracks are found without the table.
const RECENT: usize = 64;

/// The tracks that were described, by uuid. The number differs between tracks of one uuid.
///
/// PERF: most events are on a track of the last few ones, which a comparison finds. The table is hashed with
/// random keys, because ids of tracks can come from outside of the program.
#[derive(Default)]
pub(super) struct KnownTracks {
    all: HashMap<u64, u64>,
    /// Of the tracks whose uuids end in the same bits, the one that was looked up last. Empty, or [`RECENT`]
    /// long.
    recent: Vec<Option<(u64, u64)>>,
}

impl KnownTracks {
    /// The number of the track with this uuid.
    #[inline]
    pub(super) fn get(&mut self, uuid: u64) -> Option<u64> {
        let recent = self.recent.get(uuid as usize % RECENT).copied().flatten();
        match recent {
            Some((known, number)) if known == uuid => Some(number),
            _ => self.find(uuid),
        }
    }

    fn find(&mut self, uuid: u64) -> Option<u64> {
        let number = *self.all.get(&uuid)?;
        self.remember(uuid, number);
        Some(number)
    }

    /// Adds a track; returns whether none had its uuid.
    pub(super) fn insert(&mut self, uuid: u64, number: u64) -> bool {
        self.remember(uuid, number);
        self.all.insert(uuid, number).is_none()
    }

    fn remember(&mut self, uuid: u64, number: u64) {
        self.recent.resize(RECENT, None);
        if let Some(recent) = self.recent.get_mut(uuid as usize % RECENT) {
            *recent = Some((uuid, number));
        }
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracks_that_share_an_entry_are_told_apart() {
        let mut tracks = KnownTracks::default();
        assert_eq!(tracks.get(0), None);
        let uuids = [5, 5 + RECENT as u64, 5 + 2 * RECENT as u64, 0, u64::MAX];
        for (number, uuid) in (0..).zip(uuids) {
            assert!(tracks.insert(uuid, number), "{uuid}");
        }
        for _ in 0..2 {
            for (number, uuid) in (0..).zip(uuids) {
                assert_eq!(tracks.get(uuid), Some(number), "{uuid}");
            }
        }
        assert!(!tracks.insert(5, 7));
        assert_eq!((tracks.get(5), tracks.get(5 + RECENT as u64)), (Some(7), Some(1)));
        tracks.clear();
        assert_eq!(uuids.map(|uuid| tracks.get(uuid)), [None; 5]);
    }
}
