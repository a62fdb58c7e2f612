//! The commands as a user meets them, one module each: what they print, where, and with which exit status.
//! `run` and `serve`, whose tests have harnesses of their own, are beside.
#![allow(clippy::unwrap_used)]

mod control;
mod diff;
mod export;
mod export_events;
mod page;
mod perfetto;
mod profile;
mod query;
mod report;
mod symbols;
mod unreal4;
#[cfg(target_os = "linux")]
mod view;
