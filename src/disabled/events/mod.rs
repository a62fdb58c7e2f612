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
#[doc(hidden)]
pub use declare::{Loggable, empty};
pub use field::{AnsiString, AnsiText, DefinitionId, Pointer, Reference, WideString, WideText};
#[doc(hidden)]
pub use field::{Definition, Kind};
pub use site::LogScope;
#[doc(hidden)]
pub use site::are_enabled;
