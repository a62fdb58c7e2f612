//! Events that the program declares and logs: without a tracker they compile, and nothing is written.

pub(crate) mod channel;
#[path = "../../events/declare.rs"]
mod declare;
#[path = "../../events/field.rs"]
mod field;
mod log;
#[path = "../../events/site.rs"]
mod site;
mod wire;

#[doc(inline)]
pub use crate::{
    __events_channel as channel, __events_channel_presets as channel_presets,
    __events_event as event, __events_log as log, __events_log_scope as log_scope,
};
pub use channel::Channel;
#[doc(hidden)]
pub use channel::ChannelPreset;
pub use log::{IS_WRITTEN, NoLogSite as LogSite};
pub use {declare::*, field::*, site::*};
