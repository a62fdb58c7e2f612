//! The list of presets.
//!
//! A preset is a static, and the list has no lock. Code that runs before `main` adds it.
#![expect(unsafe_code, reason = "a list of pointers to statics")]

use super::ChannelPreset;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The preset that was added before.
#[derive(Debug)]
pub(super) struct Next(AtomicPtr<ChannelPreset>);

impl Next {
    pub(super) const fn none() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    fn get(&self) -> Option<&'static ChannelPreset> {
        // SAFETY: only pointers to statics are stored there.
        unsafe { self.0.load(Ordering::SeqCst).as_ref() }
    }
}

/// The presets of the program, the last one that was added first.
static PRESETS: Next = Next::none();

/// The preset of every program: a recording without a setting has these channels.
static DEFAULT: ChannelPreset = ChannelPreset::new("default", "memory,scope");

impl ChannelPreset {
    /// Adds it to the list. Called once, before `main` or when its library is loaded.
    pub fn add(&'static self) {
        let this = ptr::from_ref(self).cast_mut();
        let link = |first| {
            self.next.0.store(first, Ordering::SeqCst);
            Some(this)
        };
        // The function never refuses.
        let _ = PRESETS.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, link);
    }
}

fn find(name: &str) -> Option<&'static ChannelPreset> {
    let presets = std::iter::successors(PRESETS.get(), |preset| preset.next.get());
    presets.chain([&DEFAULT]).find(|preset| preset.name.eq_ignore_ascii_case(name))
}

/// The names in `text`, separated by commas, with their channels in place of presets. The presets of the
/// program may contain `default`, but not each other.
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
        crate::events::channel_presets! {
            "preset-test" = "default,PresetTest";
        }
        let expanded = |text| expand(text).collect::<Vec<_>>();
        assert_eq!(expanded("Default"), ["memory", "scope"]);
        assert_eq!(expanded(" PRESET-TEST, x,"), ["memory", "scope", "PresetTest", "x"]);
        assert_eq!(expanded("defaults,memory"), ["defaults", "memory"]);
    }
}
