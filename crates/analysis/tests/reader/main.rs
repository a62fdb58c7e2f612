//! The reader's results for every protocol, both transports, damage, and the order of events.
//! One binary, because each one links the whole library.
#![allow(clippy::unwrap_used)]

mod compact_files;
mod compact_packets;
mod damaged_traces;
mod events_are_found_by_name;
mod gives_what_the_checker_found;
mod is_bounded;
mod matches_a_naive_model;
mod packed_files;
mod parses_every_protocol;
#[cfg(feature = "symbols")]
mod symbols_of_macos;
mod symbols_of_pdb;
mod symbols_of_windows;
mod tells_late_from_lost;
mod unreal_engine_4;
