//! Bytes to packets to typed events, in serial order across threads.
//!
//! No `unsafe`, no panic, and no allocation sized by an unchecked length: the input may be
//! anything. What is damaged is reported to the [`Visitor`] and everything else is delivered.
#![forbid(unsafe_code)]

pub mod event;

pub use event::{Damage, Event, Hole, Value, Visitor};
