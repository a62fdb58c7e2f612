//! Channels: named sets of events that are recorded together or not at all.
//!
//! A channel is a static in the code that logs on it. Its first use adds it to an append-only
//! table, which all threads share without locks. A setting can name channels of code that has not
//! run yet: their names are kept until the channels are added.
//!
//! ```text
//! NEW ──first use──► ON    named by the setting, or on by default
//!               └──► OFF   ◄──► ON by `set_enabled`, unless it is read-only
//! ```

use crate::error::Error;
#[cfg(feature = "enable")]
use registry::{NEW, OFF, ON};
#[cfg(feature = "enable")]
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// A named set of events that are recorded together or not at all.
/// [`channel!`](crate::channel) makes it.
#[derive(Debug)]
pub struct Channel {
    name: &'static str,
    read_only: bool,
    #[cfg(feature = "enable")]
    id: u32,
    #[cfg(feature = "enable")]
    on_by_default: bool,
    #[cfg(feature = "enable")]
    state: AtomicU8,
    #[cfg(feature = "enable")]
    turned_off: AtomicU32,
    /// Called after each change, with whether the channel is on.
    #[cfg(feature = "enable")]
    watcher: Option<fn(bool)>,
}

/// Declares channels, for [`log!`](crate::log) sites.
///
/// ```
/// memledger::channel! {
///     /// Everything that happens in the game.
///     pub GAME = "Game";
///     /// On or off for a whole run: a reader must see all of it, or nothing.
///     pub ASSETS = "Assets" [ReadOnly];
/// }
///
/// GAME.set_enabled(true)?;
/// # #[cfg(feature = "enable")]
/// assert!(GAME.is_enabled() && !ASSETS.is_enabled());
/// # #[cfg(feature = "enable")]
/// assert!(ASSETS.set_enabled(true).is_err());
/// # Ok::<(), memledger::Error>(())
/// ```
/// They are off until something enables them: `MEMLEDGER_TRACE=memory,scope,game`, the flag
/// `-trace=`, [`LedgerBuilder::channels`](crate::LedgerBuilder::channels), or
/// [`Channel::set_enabled`] and [`Channel::switch`], which return an error for read-only channels.
/// Names are compared as Unreal does: upper and lower case are the same, and so is a name with an
/// `s` or the suffix `Channel` at its end. A program can have 1024 channels.
#[macro_export]
macro_rules! channel {
    ($($(#[$attribute:meta])* $visibility:vis $name:ident = $text:literal $([ $flag:ident ])?;)*) => {
        $(
            $(#[$attribute])*
            #[allow(dead_code)]
            $visibility static $name: $crate::Channel =
                $crate::Channel::new($text, $crate::__read_only!($($flag)?));
        )*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __read_only {
    () => {
        false
    };
    (ReadOnly) => {
        true
    };
}

impl Channel {
    /// A channel that is off by default.
    #[doc(hidden)]
    pub const fn new(name: &'static str, read_only: bool) -> Self {
        assert!(
            is_name(name),
            "a channel's name is 1 to 255 ASCII letters, digits, _ . or -, the last not at its start"
        );
        Self {
            name,
            read_only,
            #[cfg(feature = "enable")]
            id: registry::id(name),
            #[cfg(feature = "enable")]
            on_by_default: false,
            #[cfg(feature = "enable")]
            state: AtomicU8::new(NEW),
            #[cfg(feature = "enable")]
            turned_off: AtomicU32::new(0),
            #[cfg(feature = "enable")]
            watcher: None,
        }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The id of the channel in Unreal's streams, and in the filter of a destination.
    #[cfg(feature = "enable")]
    #[doc(hidden)]
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Whether only settings can enable it.
    pub const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether its events are recorded while a recording runs. Costs one relaxed load.
    #[inline(always)]
    pub fn is_enabled(&'static self) -> bool {
        #[cfg(feature = "enable")]
        return match self.state.load(Ordering::Relaxed) {
            OFF => false,
            ON => true,
            _ => self.register(),
        };
        #[cfg(not(feature = "enable"))]
        false
    }

    /// Turns it on or off, for all threads. Events that other threads log at the same time may or
    /// may not be recorded. The trace has the change within 10 ms.
    ///
    /// # Errors
    /// [`Error::ReadOnlyChannel`]; [`Error::TooManyChannels`] if the program has used 1024 others
    /// before.
    pub fn set_enabled(&'static self, enabled: bool) -> Result<(), Error> {
        self.refuse_read_only()?;
        #[cfg(feature = "enable")]
        if !self.force(enabled) && enabled {
            return Err(Error::TooManyChannels(self.name));
        }
        #[cfg(not(feature = "enable"))]
        let _ = enabled;
        Ok(())
    }

    fn refuse_read_only(&'static self) -> Result<(), Error> {
        if self.read_only {
            return Err(Error::ReadOnlyChannel(self.name));
        }
        Ok(())
    }

    /// All channels that the program has used so far, including the tracker's own, in the order of
    /// their first use. Costs a few loads for each.
    ///
    /// ```
    /// memledger::channel! { GAME = "Game"; }
    ///
    /// GAME.is_enabled(); // what a log site on it does first
    /// let names: Vec<_> = memledger::Channel::all().map(|channel| channel.name()).collect();
    /// # #[cfg(feature = "enable")]
    /// assert!(names.contains(&"Game"));
    /// ```
    pub fn all() -> impl Iterator<Item = &'static Self> {
        #[cfg(feature = "enable")]
        return registry::all();
        #[cfg(not(feature = "enable"))]
        std::iter::empty()
    }

    /// The channel of this name, if the program has used it. Names are compared as in
    /// [`channel!`](crate::channel).
    pub fn find(name: &str) -> Option<&'static Self> {
        #[cfg(feature = "enable")]
        return registry::all().find(|channel| channel.id == registry::id(name));
        #[cfg(not(feature = "enable"))]
        {
            let _ = name;
            None
        }
    }

    /// The channel with this id.
    #[cfg(all(feature = "enable", feature = "perfetto"))]
    pub(crate) fn by_id(id: u32) -> Option<&'static Self> {
        registry::all().find(|channel| channel.id == id)
    }

    /// Turns the channels of these names on or off; commas separate the names. On an error, changes
    /// no channel. A name that no channel has so far is kept, and applies when a channel of this
    /// name is first used; at most 1024 names are kept.
    ///
    /// ```
    /// use memledger::Channel;
    ///
    /// memledger::channel! { GAME = "Game"; NETWORK = "Network"; }
    ///
    /// Channel::switch("game,NetworkChannel", true)?;
    /// # #[cfg(feature = "enable")]
    /// assert!(GAME.is_enabled() && NETWORK.is_enabled());
    /// # Ok::<(), memledger::Error>(())
    /// ```
    /// # Errors
    /// [`Error::InvalidChannels`] for a text that no channel can have as its name,
    /// [`Error::ReadOnlyChannel`], and [`Error::UnknownChannel`] for more than 1024 unknown names.
    pub fn switch(names: &str, enabled: bool) -> Result<(), Error> {
        #[cfg(feature = "enable")]
        return registry::names(names)
            .and_then(|names| registry::switch(&names, enabled).map(drop));
        #[cfg(not(feature = "enable"))]
        {
            let _ = (names, enabled);
            Ok(())
        }
    }
}

/// Whether a channel can have this name, so that settings can name it.
const fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let mut index = 0;
    // NOTE: in a setting, a leading - excludes a channel.
    if !bytes.is_empty() && bytes[0] == b'-' {
        return false;
    }
    while index < bytes.len() {
        if !(bytes[index].is_ascii_alphanumeric() || matches!(bytes[index], b'_' | b'.' | b'-')) {
            return false;
        }
        index += 1;
    }
    1 <= index && index < 256
}

#[cfg(feature = "enable")]
mod filter;
#[cfg(feature = "enable")]
mod filtered_sink;
#[cfg(feature = "enable")]
mod registry;
#[cfg(feature = "enable")]
mod requested;
#[cfg(feature = "enable")]
pub(crate) use filter::ChannelFilter;
#[cfg(feature = "enable")]
pub(crate) use filtered_sink::{Cleared, FilteredSink, Needs};
#[cfg(feature = "enable")]
pub(crate) use registry::{
    ChannelAnnouncer, Names, apply_setting, clear_setting, expected, known, names, refused, switch,
};
