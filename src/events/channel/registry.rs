//! The table of all channels of the program, and the states that settings request.

use super::Channel;
use super::presets::expand;
use super::requested::RequestedStates;
use crate::error::{Error, ErrorKind};
use crate::platform::static_table::StaticTable;
use crate::trace::worker::Importants;
use memledger_format::channel::{id, is_name, no_name};
use memledger_format::stream_events::{CHANNEL_ANNOUNCE, CHANNEL_TOGGLE};
use std::ptr;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

pub(super) const OFF: u8 = 0;
pub(super) const ON: u8 = 1;
/// Nothing has set its state yet.
pub(super) const NEW: u8 = 2;

static TABLE: StaticTable<Channel, 1024> = StaticTable::new();
/// The number of channels that found the table full, and stay off.
static REFUSED: AtomicU32 = AtomicU32::new(0);
/// The maximum number of names for which [`switch`] keeps a state.
const MAX_SWITCHED: usize = 1024;

/// The channels that the setting of the current recording names.
static SETTING: RequestedStates = RequestedStates::new();
/// The states that [`switch`] has requested for names without a channel.
static SWITCHED: RequestedStates = RequestedStates::new();

/// What the tracker keeps in a channel.
#[derive(Debug)]
pub(super) struct Entry {
    /// The id of the channel in Unreal's streams.
    id: u32,
    on_by_default: bool,
    state: AtomicU8,
    turned_off: AtomicU32,
    /// Called after each change, with whether the channel is on.
    watcher: Option<fn(bool)>,
}

impl Entry {
    pub(super) const fn new(name: &str) -> Self {
        Self {
            id: id(name),
            on_by_default: false,
            state: AtomicU8::new(NEW),
            turned_off: AtomicU32::new(0),
            watcher: None,
        }
    }
}

impl Channel {
    /// Makes it known before its first use. Costs a few loads for each channel that is known already.
    #[doc(hidden)]
    pub fn add(&'static self) {
        self.find_or_claim_entry();
    }

    /// The id of the channel in Unreal's streams.
    #[doc(hidden)]
    pub const fn id(&self) -> u32 {
        self.entry.id
    }

    /// A channel of the tracker, which only settings turn on.
    pub(crate) const fn ours(name: &'static str) -> Self {
        Self::new(name, true)
    }

    #[cfg(feature = "perfetto")]
    pub(crate) fn by_id(id: u32) -> Option<&'static Self> {
        all().find(|channel| channel.entry.id == id)
    }

    /// A channel of the program; `watcher` is called after each change.
    #[cfg(feature = "perfetto")]
    pub(crate) const fn watched(name: &'static str, watcher: fn(bool)) -> Self {
        let mut channel = Self::new(name, false);
        channel.entry.watcher = Some(watcher);
        channel
    }

    pub(crate) const fn on_by_default(name: &'static str) -> Self {
        let mut channel = Self::new(name, false);
        channel.entry.on_by_default = true;
        channel
    }

    /// Adds the channel to the table; returns whether it is enabled.
    #[cold]
    fn register(&'static self) -> bool {
        self.find_or_claim_entry();
        self.entry.state.load(Ordering::Relaxed) == ON
    }

    /// Adds the channel to the table if it is not there, and leaves its state alone; returns `false` if the
    /// table is full.
    pub(crate) fn list(&'static self) -> bool {
        TABLE.find_or_add(self, |known| ptr::eq(known, self)).is_some()
    }

    /// Adds the channel to the table if it is not there; returns `false` if the table is full.
    fn find_or_claim_entry(&'static self) -> bool {
        let known = self.list();
        // NOTE: the request is read after the channel is in the table. So a setting that is applied
        // at the same time either finds the channel in the table, or is read here.
        let on = known && self.starts_on();
        let state = if on { ON } else { OFF };
        // A state that was set at the same time takes precedence.
        let set = self.entry.state.compare_exchange(NEW, state, Ordering::SeqCst, Ordering::SeqCst);
        if set.is_ok() && !known {
            REFUSED.fetch_add(1, Ordering::Relaxed);
        }
        known
    }

    /// Whether the channel is off; `false` while its state is new. Costs one relaxed load.
    #[inline(always)]
    pub(crate) fn is_off(&self) -> bool {
        self.entry.state.load(Ordering::Relaxed) == OFF
    }

    /// Turns it on or off, read-only or not. A channel stays off if the table has no room for it;
    /// returns whether there was room.
    pub(crate) fn force(&'static self, enabled: bool) -> bool {
        if !self.find_or_claim_entry() {
            return false;
        }
        self.entry.state.store(if enabled { ON } else { OFF }, Ordering::SeqCst);
        if !enabled {
            // NOTE: after the state is set. A measurement reads this counter before the state.
            self.entry.turned_off.fetch_add(1, Ordering::SeqCst);
        }
        if let Some(watcher) = self.entry.watcher {
            watcher(enabled);
        }
        true
    }

    pub(crate) fn times_turned_off(&self) -> u32 {
        self.entry.turned_off.load(Ordering::SeqCst)
    }

    fn starts_on(&self) -> bool {
        let switched = if self.is_read_only() { NEW } else { SWITCHED.state(self.entry.id) };
        match switched {
            NEW => self.is_in_setting() || self.entry.on_by_default,
            state => state == ON,
        }
    }

    fn is_in_setting(&self) -> bool {
        SETTING.state(self.entry.id) == ON
    }
}

/// Whether it is on; adds it to the table at its first use. Costs one relaxed load from then on.
#[inline(always)]
pub(super) fn is_enabled(channel: &'static Channel) -> bool {
    match channel.entry.state.load(Ordering::Relaxed) {
        OFF => false,
        ON => true,
        _ => channel.register(),
    }
}

pub(super) fn set_enabled(channel: &'static Channel, enabled: bool) -> Result<(), Error> {
    if !channel.force(enabled) && enabled {
        return Err(Error::new(
            ErrorKind::TooManyChannels,
            format!(
                "the channel {} stays off: the program has used 1024 others before it, the most that it can have",
                channel.name()
            ),
        ));
    }
    Ok(())
}

pub(super) fn find(name: &str) -> Option<&'static Channel> {
    all().find(|channel| channel.entry.id == id(name))
}

pub(super) fn switch_named(text: &str, enabled: bool) -> Result<(), Error> {
    switch(&names(text)?, enabled).map(drop)
}

pub(super) fn all() -> impl Iterator<Item = &'static Channel> {
    TABLE.iter()
}

/// The names in a setting.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(Vec<String>);

/// The names of channels in `text`, separated by commas; presets stand for their channels.
pub(crate) fn names(text: &str) -> Result<Names, Error> {
    let names = expand(text).map(|name| {
        if is_name(name) {
            return Ok(name.to_owned());
        }
        Err(Error::new(ErrorKind::InvalidChannels, no_name(name)))
    });
    names.collect::<Result<_, _>>().map(Names)
}

/// Whether `text` names a channel that there is, alone or in a list.
pub(crate) fn are_some_known(text: &str) -> bool {
    names(text).is_ok_and(|names| names.0.iter().any(|name| is_known(id(name))))
}

impl Names {
    pub(crate) fn contains(&self, channel: &Channel) -> bool {
        self.0.iter().any(|name| id(name) == channel.entry.id)
    }

    /// The names that no channel has so far.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|name| !is_known(id(name))).map(String::as_str)
    }

    /// The names, and that of `channel`.
    pub(crate) fn with(mut self, channel: &Channel) -> Self {
        if !self.contains(channel) {
            self.0.push(channel.name().to_owned());
        }
        self
    }

    /// The names without that of `channel`.
    pub(crate) fn without(mut self, channel: &Channel) -> Self {
        self.0.retain(|name| id(name) != channel.entry.id);
        self
    }
}

/// Enables the channels of these names: those in the table now, and others when they are added.
/// Must not run on several threads at once.
pub(crate) fn apply_setting(names: &Names) {
    for name in &names.0 {
        // The setting replaces an earlier request.
        SWITCHED.change(id(name), NEW);
        SETTING.set(name, ON);
    }
    for channel in all().filter(|channel| channel.is_in_setting()) {
        channel.force(true);
    }
}

/// The number of channels that stay off because the table is full.
pub(crate) fn refused() -> u32 {
    REFUSED.load(Ordering::Relaxed)
}

/// Ends the setting of [`apply_setting`]: turns off the channels that it names, except those that
/// are on by default. Returns the names that no channel has had.
pub(crate) fn clear_setting() -> Vec<&'static str> {
    for channel in all().filter(|channel| channel.is_in_setting()) {
        channel.force(channel.entry.on_by_default);
    }
    let missing =
        SETTING.iter().filter(|request| SETTING.state(request.id) == ON && !is_known(request.id));
    let mut missing: Vec<_> = missing.map(|request| request.name.as_str()).collect();
    missing.reverse();
    SETTING.clear();
    missing
}

fn is_known(id: u32) -> bool {
    all().any(|channel| channel.entry.id == id)
}

/// The channels in the table, and whether each is on.
pub(crate) fn known() -> impl Iterator<Item = (&'static str, bool)> {
    all().map(|channel| (channel.name(), channel.entry.state.load(Ordering::Relaxed) == ON))
}

/// The names with a requested state that no channel has so far, and whether the channel will be on.
pub(crate) fn expected() -> impl Iterator<Item = (&'static str, bool)> {
    let requested = SWITCHED.iter().map(|request| (request, SWITCHED.state(request.id)));
    let requested = requested.filter(|(request, state)| *state != NEW && !is_known(request.id));
    requested.map(|(request, state)| (request.name.as_str(), state == ON))
}

/// Turns the channels of these names on or off: those in the table now, and others when they are
/// added. On an error, changes none. Returns those in the table.
pub(crate) fn switch(names: &Names, enabled: bool) -> Result<Vec<&'static Channel>, Error> {
    let named = || all().filter(|channel| names.contains(channel));
    named().try_for_each(Channel::refuse_read_only)?;
    let state = if enabled { ON } else { OFF };
    let has_entry = |name: &&String| is_known(id(name)) || SWITCHED.has(id(name));
    let (old, new): (Vec<_>, Vec<_>) = names.0.iter().partition(has_entry);
    if !new.is_empty() && SWITCHED.iter().count() + new.len() > MAX_SWITCHED {
        return Err(Error::new(
            ErrorKind::UnknownChannel,
            format!(
                "the program has no channel {:?}, and waits for {MAX_SWITCHED} others at most",
                new[0]
            ),
        ));
    }
    // NOTE: requests are made before the table is read again. So a channel that is added at the
    // same time either is found in the table here, or finds the request.
    for name in old {
        SWITCHED.change(id(name), state);
    }
    for name in new {
        SWITCHED.set(name, state);
    }
    let chosen: Vec<_> = named().filter(|channel| !channel.is_read_only()).collect();
    for channel in &chosen {
        channel.force(enabled);
    }
    Ok(chosen)
}

/// Announces channels in a stream, and reports those that were turned on or off.
pub(crate) struct ChannelAnnouncer {
    /// The state of each channel, by its index in the table, that was last announced in the stream.
    announced: Vec<bool>,
}

impl ChannelAnnouncer {
    pub(crate) fn new() -> Self {
        Self { announced: Vec::new() }
    }

    pub(crate) fn announce(&mut self, importants: &mut Importants) {
        for (index, channel) in all().enumerate() {
            let enabled = channel.entry.state.load(Ordering::Relaxed) == ON;
            let (id, is_on) = (channel.entry.id.into(), u32::from(enabled).into());
            match self.announced.get_mut(index) {
                Some(announced) if *announced == enabled => {}
                Some(announced) => {
                    *announced = enabled;
                    importants.add(&CHANNEL_TOGGLE, &[id, is_on]);
                }
                None => {
                    self.announced.push(enabled);
                    let read_only = u32::from(channel.is_read_only()).into();
                    let name = channel.name().into();
                    importants.add(&CHANNEL_ANNOUNCE, &[id, is_on, read_only, name]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_or_refused() {
        static MEMORY: Channel = Channel::ours("Memory");
        let names = |text| super::names(text).map(|names| names.0);
        assert_eq!(names(" scope , memory,").unwrap(), ["scope", "memory"]);
        assert_eq!(names("").unwrap(), [""; 0]);
        assert!(names("a,b c").unwrap_err().to_string().contains("\"b c\""));
        assert!(names(&"x".repeat(256)).is_err());
        assert!(super::names("scope,MEMORY").unwrap().contains(&MEMORY));
        assert!(!super::names("scope,memo").unwrap().contains(&MEMORY));
    }
}
