//! Channels: named sets of events that are recorded together or not at all.
//!
//! A channel is a static in the code that logs on it. A function that the loader calls before `main` adds it
//! to an append-only table, which all threads share without locks ([`channel!`](crate::events::channel)
//! declares it). A channel of a library that is loaded later is added then. So a setting can name channels
//! that are not there yet: their names are kept until the channels are added.
//!
//! ```text
//! NEW ──added──► ON    named by the setting, or on by default
//!           └──► OFF   ◄──► ON by `set_enabled`, unless it is read-only
//! ```

mod preset;
mod presets;
mod registry;
mod requested;
mod set;

pub use preset::ChannelPreset;
pub use set::Channel;

pub(crate) use registry::{
    ChannelAnnouncer, Names, apply_setting, are_some_known, clear_setting, expected, known, names,
    refused, switch,
};
