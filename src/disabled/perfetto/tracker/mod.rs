//! Track events in a program without the tracker: no category is enabled, and nothing is emitted.

use crate::error::Error;
use crate::perfetto::{Category, CategoryChange, Site, Track, TrackBuilder, Values};

impl Category {
    /// Whether a session has enabled it: never, without the tracker.
    #[inline(always)]
    pub fn is_enabled(&'static self) -> bool {
        let _ = (&self.wanted_by, &self.callback);
        false
    }

    /// Calls `callback` when a session enables or disables this category, which never happens without the
    /// tracker.
    pub fn on_change(&'static self, callback: Option<fn(CategoryChange)>) {
        let _ = callback;
    }
}

impl Site {
    /// Emits nothing.
    #[inline(always)]
    pub fn emit<V: Values>(&'static self, values: V) {
        let _ = (self.kind, self.name, self.roles, &self.number, values);
    }
}

impl TrackBuilder<'_> {
    /// The track, which is known to no session.
    ///
    /// # Errors
    /// None without the tracker.
    pub fn register(self) -> Result<Track, Error> {
        let _ = (self.order, self.child_order, self.merge_key);
        Ok(Track { uuid: self.uuids().0 })
    }
}

impl Track {
    /// The track of this process: its uuid is 0 without the tracker.
    pub const fn process() -> Self {
        Self { uuid: 0 }
    }

    /// The track of the calling thread: its uuid is 0 without the tracker.
    pub const fn thread() -> Self {
        Self { uuid: 0 }
    }
}
