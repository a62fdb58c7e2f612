//! The preset that a program declares: a name for a list of channels.

use super::presets::Next;
use memledger_format::channel::is_name;

/// A name for a list of channels; [`channel_presets!`](crate::events::channel_presets) makes it.
#[derive(Debug)]
#[allow(dead_code, reason = "without a tracker, nothing looks for it")]
pub struct ChannelPreset {
    pub(super) name: &'static str,
    pub(super) channels: &'static str,
    pub(super) next: Next,
}

impl ChannelPreset {
    /// # Panics
    /// At compile time, if a name cannot be that of a channel.
    pub const fn new(name: &'static str, channels: &'static str) -> Self {
        assert!(
            is_name(name),
            "a preset's name is 1 to 255 ASCII letters, digits, _ . or -, the last not at its start"
        );
        assert!(are_names(channels), "a preset is names of channels with commas between them");
        Self { name, channels, next: Next::none() }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_names_only() {
        assert!(are_names("a") && are_names("a,b-c,d.e"));
        for text in ["", ",", "a,", ",a", "a b", "a,,b", "-a", "a,-b"] {
            assert!(!are_names(text), "{text}");
        }
    }
}
