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

#[doc(hidden)]
pub use channel::ChannelPreset;
pub use {declare::*, field::*, site::*};
