//! Channels that are always off.

#[path = "../../../events/channel/preset.rs"]
mod preset;
mod presets;
mod registry;
#[path = "../../../events/channel/set.rs"]
mod set;

pub(crate) use registry::{Names, names};
pub use {preset::ChannelPreset, set::Channel};
