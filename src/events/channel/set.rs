//! The channel that a program declares.

use super::registry;
use crate::error::Error;
use memledger_format::channel::is_name;

/// A named set of events that are recorded together or not at all.
/// [`channel!`](crate::events::channel) makes it.
///
/// ```
/// use memledger::events::Channel;
///
/// memledger::events::channel! { GAME = "Game"; }
///
/// if let Some(channel) = Channel::find("game") {
///     channel.set_enabled(true)?;
///     println!("{}: {}", channel.name(), channel.is_enabled());
/// }
/// # assert!(!GAME.is_read_only() && GAME.is_enabled() == cfg!(tracking));
/// # Ok::<(), memledger::Error>(())
/// ```
#[derive(Debug)]
pub struct Channel {
    name: &'static str,
    read_only: bool,
    pub(super) entry: registry::Entry,
}

/// Declares channels, for [`log!`](crate::events::log) sites.
///
/// ```
/// memledger::events::channel! {
///     /// Everything that happens in the game.
///     pub GAME = "Game";
///     /// On or off for a whole run: a reader must see all of it, or nothing.
///     pub ASSETS = "Assets" [ReadOnly];
/// }
///
/// GAME.set_enabled(true)?;
/// # #[cfg(tracking)]
/// assert!(GAME.is_enabled() && !ASSETS.is_enabled());
/// # #[cfg(tracking)]
/// assert!(ASSETS.set_enabled(true).is_err());
/// # Ok::<(), memledger::Error>(())
/// ```
/// They exist from before `main` on, and are off until something enables them:
/// `MEMLEDGER_CHANNELS=memory,scope,game`, the flag `-trace=`,
/// [`LedgerBuilder::channels`](crate::LedgerBuilder::channels), or [`Channel::set_enabled`] and
/// [`Channel::set_enabled_by_name`], which return an error for read-only channels.
/// [`channel_presets!`](crate::events::channel_presets) gives a list of channels a name. Names are compared
/// as Unreal does: upper and lower case are the same, and so is a name with an `s` or the suffix `Channel` at
/// its end. Channels of the same name, in several crates, are turned on and off together by their name. A
/// program can have 1024 channels.
#[doc(hidden)]
#[macro_export]
macro_rules! __events_channel {
    ($($(#[$attribute:meta])* $visibility:vis $name:ident = $text:literal $([ $flag:ident ])?;)*) => {
        $(
            $(#[$attribute])*
            #[allow(dead_code)]
            $visibility static $name: $crate::events::Channel = {
                $crate::__before_main! { $crate::events::Channel::add(&$name) }
                $crate::events::Channel::new($text, $crate::__read_only!($($flag)?))
            };
        )*
    };
}

/// Names for lists of channels, for settings.
///
/// ```
/// memledger::events::channel! { GAME = "Game"; NETWORK = "Network"; }
///
/// // `MEMLEDGER_CHANNELS=gameplay`, `-trace=gameplay,callstack`
/// memledger::events::channel_presets! {
///     "gameplay" = "default,game,network";
/// }
/// ```
/// A preset can be used where a channel can be named: in `MEMLEDGER_CHANNELS`, the flag `-trace=`,
/// [`LedgerBuilder::channels`](crate::LedgerBuilder::channels), [`Channel::set_enabled_by_name`], and
/// commands of the control server. Upper and lower case are the same. The preset `default`, which every
/// program has, is `memory,scope`; others may contain it. A preset hides a channel of the same name.
#[doc(hidden)]
#[macro_export]
macro_rules! __events_channel_presets {
    ($($name:literal = $channels:literal;)*) => {
        $(
            const _: () = {
                #[allow(dead_code)]
                static PRESET: $crate::__private::ChannelPreset =
                    $crate::__private::ChannelPreset::new($name, $channels);
                $crate::__before_main! { $crate::__private::ChannelPreset::add(&PRESET) }
            };
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
    /// What [`channel!`](crate::events::channel) declares, for generated code: a static, off by default. It
    /// exists from its first use on, while one of `channel!` exists before `main`. `read_only`: only settings
    /// can enable it.
    ///
    /// ```
    /// use memledger::events::Channel;
    ///
    /// static GAME: Channel = Channel::new("Game", false);
    ///
    /// GAME.set_enabled(true)?;
    /// assert_eq!(GAME.is_enabled(), cfg!(tracking));
    /// # Ok::<(), memledger::Error>(())
    /// ```
    /// # Panics
    /// If `name` is not 1 to 255 ASCII letters, digits, `_`, `.` or `-`, the last not at its start: in a
    /// static, when it is compiled.
    pub const fn new(name: &'static str, read_only: bool) -> Self {
        assert!(
            is_name(name),
            "a channel's name is 1 to 255 ASCII letters, digits, _ . or -, the last not at its start"
        );
        Self { name, read_only, entry: registry::Entry::new(name) }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Whether only settings can enable it.
    pub const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether its events are recorded while a recording runs. Costs one relaxed load.
    #[inline(always)]
    pub fn is_enabled(&'static self) -> bool {
        registry::is_enabled(self)
    }

    /// Turns it on or off, for all threads. Events that other threads log at the same time may or
    /// may not be recorded. The trace has the change within 10 ms.
    ///
    /// ```
    /// memledger::events::channel! { NETWORK = "Network"; }
    ///
    /// NETWORK.set_enabled(true)?;
    /// // ... what is to be seen ...
    /// NETWORK.set_enabled(false)?;
    /// assert!(!NETWORK.is_enabled());
    /// # Ok::<(), memledger::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ErrorKind::ReadOnlyChannel`; `ErrorKind::TooManyChannels` if the program has 1024 others.
    pub fn set_enabled(&'static self, enabled: bool) -> Result<(), Error> {
        self.refuse_read_only()?;
        registry::set_enabled(self, enabled)
    }

    pub(super) fn refuse_read_only(&'static self) -> Result<(), Error> {
        if self.read_only {
            return Err(Error::new(
                crate::error::ErrorKind::ReadOnlyChannel,
                format!(
                    "the channel {} is read-only: it can be enabled where recording starts only, by MEMLEDGER_CHANNELS, -trace= or LedgerBuilder::channels",
                    self.name
                ),
            ));
        }
        Ok(())
    }

    /// All channels of the program and of the libraries that are loaded, including the tracker's own, in no
    /// particular order. Costs a few loads for each.
    ///
    /// ```
    /// memledger::events::channel! { GAME = "Game"; }
    ///
    /// let names: Vec<_> = memledger::events::Channel::all().map(|channel| channel.name()).collect();
    /// # #[cfg(tracking)]
    /// assert!(names.contains(&"Game"));
    /// ```
    pub fn all() -> impl Iterator<Item = &'static Self> {
        registry::all()
    }

    /// The channel of this name. Names are compared as in
    /// [`channel!`](crate::events::channel).
    ///
    /// ```
    /// use memledger::events::Channel;
    ///
    /// memledger::events::channel! { GAME = "Game"; }
    ///
    /// let found = Channel::find("gamechannel");
    /// # #[cfg(tracking)]
    /// assert_eq!(found.map(Channel::name), Some("Game"));
    /// ```
    pub fn find(name: &str) -> Option<&'static Self> {
        registry::find(name)
    }

    /// Turns the channels of these names on or off; commas separate the names. On an error, changes no
    /// channel. A name that no channel has so far is kept, and applies when a library with such a channel is
    /// loaded; at most 1024 names are kept.
    ///
    /// ```
    /// use memledger::events::Channel;
    ///
    /// memledger::events::channel! { GAME = "Game"; NETWORK = "Network"; }
    ///
    /// Channel::set_enabled_by_name("game,NetworkChannel", true)?;
    /// # #[cfg(tracking)]
    /// assert!(GAME.is_enabled() && NETWORK.is_enabled());
    /// # Ok::<(), memledger::Error>(())
    /// ```
    /// # Errors
    /// `ErrorKind::InvalidChannels` for a text that no channel can have as its name,
    /// `ErrorKind::ReadOnlyChannel`, and `ErrorKind::UnknownChannel` for more than 1024 unknown names.
    pub fn set_enabled_by_name(names: &str, enabled: bool) -> Result<(), Error> {
        registry::switch_named(names, enabled)
    }
}
