//! What several packages' tests have in common: builders of traces and readers of files, which share no code
//! with those of memledger, and commands with a deadline.
#![allow(missing_docs, reason = "helpers of tests, which say by their names what they are")]
#![allow(clippy::new_without_default, reason = "a test says what it makes")]
#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

#[cfg(any(unix, windows))]
pub mod command;
pub mod feed;
pub mod packets;
pub mod page;
pub mod pprof;
pub mod unreal4;
pub mod wire;
