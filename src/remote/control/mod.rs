//! Steering a running program: what is recorded, and where it goes.
//!
//! A program that asks for it listens on port 1985 of the loopback address, as Unreal Engine does,
//! and takes Unreal's commands, one a line, words separated by spaces:
//!
//! | command | does |
//! |---|---|
//! | `Status` | reports what is recorded, where it goes, and what was lost |
//! | `ToggleChannels a,b 0\|1` | turns channels off or on |
//! | `SendTo host[:port] [channels]` | sends the trace to a recorder, as one more destination |
//! | `WriteTo name [channels]` | writes the trace to one more file, in the folder that the program has chosen |
//! | `Stop` | ends all destinations but the first file |
//! | `StopAll` | ends all destinations, the first file included |
//! | `Start` | starts the first file, under a new name, and the host again, if they have ended |
//! | `Token secret` | must be the first command if the program has set a token |
//!
//! `channels` selects the channels of that destination, as
//! [`Destination::channels`](crate::Destination::channels) does; without it, the destination gets
//! all channels.
//!
//! The answer to each command is lines `name value`, followed by a line `ok` or `refused: reason`.
//! Unreal's own tools ignore the answers.
//!
//! # What no client can do
//! - Connect from another machine, unless the program listens for that *and* has set a token.
//! - Write a file outside the program's folder, an existing file, or one that is no regular file.
//! - Add a destination other than this machine or a host that the program allows.
//! - Change these rules: only the program and its environment set them.
//!
//! A line that is no command ends the connection, so that a browser that is made to send a request
//! here gets no further than its first word. Lines have at most 4 KiB, there are at most 4 clients,
//! and one that has not sent a whole command for 10 s is disconnected. The server has its own
//! thread, and delays neither the program nor the worker.
#![cfg_attr(doctest, doc = include_str!("../../../docs/control.md"))]

mod client;
mod command;
#[cfg(feature = "__fuzzing")]
pub(crate) mod fuzzing;
#[cfg(feature = "enable")]
mod lines;
#[cfg(feature = "enable")]
mod listener;
#[cfg(feature = "enable")]
mod rules;
#[cfg(feature = "enable")]
mod server;

pub use client::Client;
pub use command::{Command, DEFAULT_PORT};

#[cfg(feature = "enable")]
pub(crate) use listener::{ListenAddress, Listener};
#[cfg(feature = "enable")]
pub(crate) use rules::Rules;
#[cfg(feature = "enable")]
pub(crate) use server::{Actions, Reply, Server};
