//! Events that the program declares and logs: without a tracker they compile, and nothing is written.

pub(crate) mod channel;
#[path = "../../events/declare.rs"]
pub(crate) mod declare;
#[path = "../../events/field.rs"]
pub(crate) mod field;
pub(crate) mod log;
#[path = "../../events/site.rs"]
pub(crate) mod site;
mod wire;

#[doc(inline)]
pub use crate::{
    __events_channel as channel, __events_channel_presets as channel_presets,
    __events_event as event, __events_log as log, __events_log_scope as log_scope,
};
pub use channel::Channel;
pub use field::{AnsiString, AnsiText, DefinitionId, Pointer, Reference, WideString, WideText};
pub use site::LogScope;
