//! The list of presets.
//!
//! A preset is a static, and the list has no lock. Code that runs before `main` adds it.
#![expect(unsafe_code, reason = "a list of pointers to statics")]

use super::ChannelPreset;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// What the tracker keeps in a preset.
#[derive(Debug)]
pub(super) struct PresetEntry {
    name: &'static str,
    channels: &'static str,
    next: AtomicPtr<Self>,
}

/// The presets of the program, the last one that was added first.
static PRESETS: AtomicPtr<PresetEntry> = AtomicPtr::new(ptr::null_mut());

/// The preset of every program: a recording without a setting has these channels.
static DEFAULT: PresetEntry = PresetEntry::new("default", "memory,scope");

impl PresetEntry {
    pub(super) const fn new(name: &'static str, channels: &'static str) -> Self {
        Self { name, channels, next: AtomicPtr::new(ptr::null_mut()) }
    }
}

impl ChannelPreset {
    /// Adds it to the list. Called once, before `main` or when its library is loaded.
    pub fn add(&'static self) {
        let entry = &self.0;
        let this = ptr::from_ref(entry).cast_mut();
        let link = |first| {
            entry.next.store(first, Ordering::SeqCst);
            Some(this)
        };
        // The function never refuses.
        let _ = PRESETS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, link);
    }
}

fn find(name: &str) -> Option<&'static PresetEntry> {
    // SAFETY: only pointers to statics are stored there.
    let get = |pointer: &AtomicPtr<PresetEntry>| unsafe { pointer.load(Ordering::SeqCst).as_ref() };
    let presets = std::iter::successors(get(&PRESETS), move |preset| get(&preset.next));
    presets.chain([&DEFAULT]).find(|preset| preset.name.eq_ignore_ascii_case(name))
}

/// The names in `text`, separated by commas, with their channels in place of presets. The presets of the program may
/// contain `default`, but not each other.
pub(super) fn expand(text: &str) -> impl Iterator<Item = &str> {
    words(text).flat_map(|name| words(find(name).map_or(name, |preset| preset.channels))).flat_map(
        |name| {
            let is_default = name.eq_ignore_ascii_case(DEFAULT.name);
            words(if is_default { DEFAULT.channels } else { name })
        },
    )
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_stand_for_their_channels() {
        crate::channel_presets! {
            "preset-test" = "default,PresetTest";
        }
        let expanded = |text| expand(text).collect::<Vec<_>>();
        assert_eq!(expanded("Default"), ["memory", "scope"]);
        assert_eq!(expanded(" PRESET-TEST, x,"), ["memory", "scope", "PresetTest", "x"]);
        assert_eq!(expanded("defaults,memory"), ["defaults", "memory"]);
    }
}
