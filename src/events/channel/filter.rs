//! The channel filter of a destination: which of the recorded channels it gets.

use super::is_name;
use super::preset::expand;
use super::registry::{all, id, no_name};
use crate::error::Error;

/// A filter, parsed from a text such as `memory,scope` or `-memory`.
///
/// A name includes its channel. Channels that are on by default are included without a name. A name
/// after a `-` excludes its channel, even one that is on by default or included by name. If each
/// name in the text has a `-`, all other channels are included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChannelFilter {
    wanted: Vec<(u32, String)>,
    unwanted: Vec<(u32, String)>,
}

impl ChannelFilter {
    /// Parses names that are separated by commas.
    ///
    /// # Errors
    /// [`Error::InvalidChannels`] for a text that no channel can have as its name, or without a
    /// name.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let (mut wanted, mut unwanted) = (Vec::new(), Vec::new());
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, list) = match word.strip_prefix('-') {
                Some(name) => (name, &mut unwanted),
                None => (word, &mut wanted),
            };
            if !is_name(name) {
                return Err(no_name(name));
            }
            list.extend(expand(name).map(|name| (id(name), name.to_owned())));
        }
        if wanted.is_empty() && unwanted.is_empty() {
            return Err(Error::InvalidChannels(format!(
                "{text:?} chooses no channel for a destination; write names with commas between them, such as memory,scope, or -memory for all others"
            )));
        }
        Ok(Self { wanted, unwanted })
    }

    /// Whether the filter includes the channel with this id.
    pub(crate) fn has(&self, id: u32) -> bool {
        let named = |names: &[(u32, String)]| names.iter().any(|(named, _)| *named == id);
        let by_default = || all().any(|channel| channel.id == id && channel.on_by_default);
        !named(&self.unwanted) && (self.wanted.is_empty() || named(&self.wanted) || by_default())
    }

    /// The names in the text that no channel has so far.
    pub(crate) fn missing(&self) -> Vec<&str> {
        let names = self.wanted.iter().chain(&self.unwanted);
        let missing = names.filter(|(id, _)| all().all(|channel| channel.id != *id));
        missing.map(|(_, name)| &**name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Channel;
    use super::*;

    static NAMED: Channel = Channel::new("ChosenByName", false);
    static OTHER: Channel = Channel::new("NotChosen", false);
    static DEFAULT: Channel = Channel::on_by_default("ChosenByDefault");

    #[test]
    fn names_say_what_is_wanted_or_what_is_not() {
        for channel in [&NAMED, &OTHER, &DEFAULT] {
            channel.is_enabled();
        }
        let has = |text: &str| {
            let filter = ChannelFilter::parse(text).unwrap();
            [&NAMED, &OTHER, &DEFAULT].map(|channel| filter.has(channel.id))
        };
        assert_eq!(has("chosenbyname"), [true, false, true]);
        assert_eq!(has("ChosenByNames , x"), [true, false, true]);
        assert_eq!(has("-chosenbyname,"), [false, true, true]);
        assert_eq!(has("-chosenbyname,-NotChosen"), [false, false, true]);
        assert_eq!(has("chosenbyname,-chosenbydefault"), [true, false, false]);
        assert_eq!(has("chosenbyname,notchosen,-notchosen"), [true, false, true]);
        assert_eq!(ChannelFilter::parse("NotChosen,nobody,-x").unwrap().missing(), ["nobody", "x"]);
        assert_eq!(ChannelFilter::parse("-NotChosen,-memroy").unwrap().missing(), ["memroy"]);
    }

    #[test]
    fn what_is_no_choice_is_refused_with_a_reason() {
        for (text, says) in [
            ("", "\"\" chooses no channel"),
            (" , ", "chooses no channel"),
            ("-", "called \"\""),
            ("--memory", "called \"-memory\""),
            ("memory,a b", "called \"a b\""),
        ] {
            let reason = ChannelFilter::parse(text).unwrap_err().to_string();
            assert!(reason.contains(says), "{text:?}: {reason}");
        }
    }
}
