//! Events that the program declares and logs.
//!
//! ```
//! memledger::events::channel! { pub GAME = "Game"; }
//! memledger::events::event! { pub Spawned = "Game"."Spawned" { Id: u32, Name: WideString } }
//!
//! GAME.set_enabled(true)?; // or MEMLEDGER_CHANNELS=memory,scope,game
//! memledger::events::log!(GAME, Spawned { Id: 7, Name: "Ümit" });
//! # Ok::<(), memledger::Error>(())
//! ```
//! [`event!`](crate::events::event) declares event types. [`channel!`](crate::events::channel) declares
//! channels, the sets of events that are turned on and off together. [`log!`](crate::events::log) and
//! [`log_scope!`](crate::events::log_scope) write an event; [`bookmark!`](crate::bookmark) names a moment.
//! The guide is [`docs/events.md`].
//!
//! [`docs/events.md`]: https://github.com/memledger/memledger/blob/main/docs/events.md

pub(crate) mod bookmark;
pub(crate) mod channel;
pub(crate) mod declare;
pub(crate) mod field;
pub(crate) mod important;
pub(crate) mod log;
pub(crate) mod site;
pub(crate) mod wire;
mod write;

#[doc(inline)]
pub use crate::{
    __events_channel as channel, __events_channel_presets as channel_presets,
    __events_event as event, __events_log as log, __events_log_scope as log_scope,
};
pub use channel::Channel;
pub use field::{AnsiString, AnsiText, DefinitionId, Pointer, Reference, WideString, WideText};
pub use site::LogScope;

use crate::events::channel::ChannelAnnouncer;
use crate::trace::worker::{EventProvider, Importants};
use memledger_format::encode::Declaration;

/// Announces channels, and forwards the important events of the program.
pub(crate) struct ProgramEvents {
    channels: ChannelAnnouncer,
    /// The number of bytes of important events that were forwarded.
    sent: usize,
}

impl ProgramEvents {
    pub(crate) fn new() -> Self {
        // Registers the channel, so that it is announced even if no bookmark is set.
        bookmark::BOOKMARK.is_enabled();
        Self { channels: ChannelAnnouncer::new(), sent: 0 }
    }
}

impl EventProvider for ProgramEvents {
    /// Empty, because the types of the program are announced at their first use.
    fn types(&self) -> &'static [&'static Declaration] {
        &[]
    }

    fn announce(&mut self, importants: &mut Importants) {
        self.channels.announce(importants);
        self.sent = important::announce(self.sent, importants);
    }
}
