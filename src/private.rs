//! What macros of this crate expand to, and what the library of `preload/` needs. A macro's code is in the
//! crate that calls it, so this has to be public; no other code may name it, and no version number says when
//! it changes.

pub use crate::events::channel::ChannelPreset;
pub use crate::events::declare::{Loggable, check_event, check_kind, check_scope, empty};
pub use crate::events::field::{Definition, Kind};
pub use crate::events::log::{IS_WRITTEN, LogSite};
pub use crate::events::site::are_enabled;
#[cfg(redirects)]
pub use crate::interpose::c_dlopen as dlopen;
#[cfg(redirects)]
pub use crate::interpose::c_dlsym as dlsym;
#[cfg(feature = "c-malloc")]
pub use crate::interpose::c_malloc;
#[cfg(c_filter)]
pub use crate::ledger::lifecycle::c_filter;
#[cfg(c_identity)]
pub use crate::ledger::lifecycle::c_identity;
pub use crate::scopes::name::{NameOf, literal_name};
#[cfg(tracking)]
pub use crate::{
    events::bookmark::BookmarkSite,
    events::wire::{Plain, WireDefinition, WireEvent, WireKind, field},
    trace::write::declared,
};
pub use memledger_format as format;

#[cfg(redirects)]
pub mod start {
    pub use crate::platform::os::again::take;
    pub use crate::platform::os::exec::*;
    pub use crate::platform::os::main_function::start_main;
}
#[cfg(all(preload, c_malloc))]
pub use crate::platform::os::next_signals::shown as signals;
#[cfg(preload)]
pub use crate::platform::os::signals::exit_after_report;
