//! Presets: names for lists of channels.
//!
//! A preset is a static, too, and is in a list without a lock. Code that runs before `main` adds it.
#![cfg_attr(tracking, expect(unsafe_code, reason = "a list of pointers to statics"))]

use memledger_format::channel::is_name;
#[cfg(tracking)]
use std::ptr;
#[cfg(tracking)]
use std::sync::atomic::{AtomicPtr, Ordering};

/// A name for a list of channels; [`channel_presets!`](crate::channel_presets) makes it.
#[doc(hidden)]
#[derive(Debug)]
#[cfg_attr(not(tracking), expect(dead_code, reason = "nothing is recorded"))]
pub struct ChannelPreset {
    name: &'static str,
    channels: &'static str,
    #[cfg(tracking)]
    next: AtomicPtr<ChannelPreset>,
}

/// The presets of the program, the last one that was added first.
#[cfg(tracking)]
static PRESETS: AtomicPtr<ChannelPreset> = AtomicPtr::new(ptr::null_mut());

/// The preset of every program: a recording without a setting has these channels.
#[cfg(tracking)]
static DEFAULT: ChannelPreset = ChannelPreset::new("default", "memory,scope");

impl ChannelPreset {
    /// # Panics
    /// At compile time, if a name cannot be that of a channel.
    pub const fn new(name: &'static str, channels: &'static str) -> Self {
        assert!(
            is_name(name),
            "a preset's name is 1 to 255 ASCII letters, digits, _ . or -, the last not at its start"
        );
        assert!(are_names(channels), "a preset is names of channels with commas between them");
        Self {
            name,
            channels,
            #[cfg(tracking)]
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Adds it to the list. Called once, before `main` or when its library is loaded.
    #[cfg(tracking)]
    pub fn add(&'static self) {
        let this = ptr::from_ref(self).cast_mut();
        let link = |first| {
            self.next.store(first, Ordering::SeqCst);
            Some(this)
        };
        // The function never refuses.
        let _ = PRESETS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, link);
    }
}

#[cfg(tracking)]
fn find(name: &str) -> Option<&'static ChannelPreset> {
    // SAFETY: only pointers to statics are stored there.
    let get =
        |pointer: &AtomicPtr<ChannelPreset>| unsafe { pointer.load(Ordering::SeqCst).as_ref() };
    let presets = std::iter::successors(get(&PRESETS), move |preset| get(&preset.next));
    presets.chain([&DEFAULT]).find(|preset| preset.name.eq_ignore_ascii_case(name))
}

/// The names in `text`, separated by commas, with their channels in place of presets. The presets of the program may
/// contain `default`, but not each other.
#[cfg(tracking)]
pub(super) fn expand(text: &str) -> impl Iterator<Item = &str> {
    words(text).flat_map(|name| words(find(name).map_or(name, |preset| preset.channels))).flat_map(
        |name| {
            let is_default = name.eq_ignore_ascii_case(DEFAULT.name);
            words(if is_default { DEFAULT.channels } else { name })
        },
    )
}

#[cfg(tracking)]
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// Whether `text` is names with commas between them.
const fn are_names(text: &str) -> bool {
    let (mut rest, mut at) = (text, 0);
    while at < rest.len() {
        if rest.as_bytes()[at] == b',' {
            let (name, after) = rest.split_at(at);
            if !is_name(name) {
                return false;
            }
            (rest, at) = (after.split_at(1).1, 0);
        } else {
            at += 1;
        }
    }
    is_name(rest)
}

#[cfg(all(test, tracking))]
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

    #[test]
    fn a_preset_is_names_only() {
        assert!(are_names("a") && are_names("a,b-c,d.e"));
        for text in ["", ",", "a,", ",a", "a b", "a,,b", "-a", "a,-b"] {
            assert!(!are_names(text), "{text}");
        }
    }
}
