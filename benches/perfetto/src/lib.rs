//! Perfetto's C library, as far as it is compared with memledger: sessions in the process, and the
//! high-level emission with all its extras.

#![allow(missing_docs, reason = "fields and variants have the names of the C library")]
#[cfg(feature = "sdk")]
mod emit;
#[cfg(feature = "sdk")]
pub mod loads;
#[cfg(feature = "sdk")]
mod session;

#[cfg(feature = "sdk")]
pub use emit::{
    Category, Extra, Field, Kind, Nested, Registered, process_uuid, publish_categories, thread_uuid,
};
#[cfg(feature = "sdk")]
pub use session::{Session, SessionConfig, start};
