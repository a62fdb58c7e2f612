//! Channels that are always off.

#[path = "../../../events/channel/preset.rs"]
mod preset;
mod presets;
mod registry;
#[path = "../../../events/channel/set.rs"]
mod set;

pub use preset::ChannelPreset;
pub use set::Channel;
