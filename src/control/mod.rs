//! Control of a running program: the channels that are recorded, and the destinations of the trace.
//!
//! A program that starts the control server listens on port 1985 of the loopback address, as Unreal
//! Engine does. It takes Unreal's commands. Each command is one line, and spaces separate its
//! words:
//!
//! | command | does |
//! |---|---|
//! | `Status` | reports what is recorded, where it goes, and what was lost |
//! | `ToggleChannels a,b 0\|1` | turns channels off or on |
//! | `SendTo host[:port]` | sends the trace to a recorder, as one more destination |
//! | `WriteTo name` | writes the trace to one more file, in the folder that the program has chosen |
//! | `Stop` | ends all destinations but the first file |
//! | `StopAll` | ends all destinations, the first file included |
//! | `Start` | starts the first file again, under a new name, and the connection to the host, if they have ended |
//! | `StartSession name [config]` | starts a session of track events in one more file; `config` is words such as `categories=game*,-net`, `ring=4MiB`, `duration=10s`, `memory=1s` |
//! | `StopSession name`, `FlushSession name` | ends it; writes what it has |
//! | `DumpSession name file` | writes its ring to one more file |
//! | `Profile` | answers with a heap profile, and ends the connection |
//! | `Figures [stacks]` | answers with the figures of all rows of a report, and ends the connection |
//! | `Token secret` | must be the first command if the program has set a token |
//!
//! The answer to a command is any number of lines `name value`. The last line of an answer is `ok`
//! or `refused: reason`. Unreal's own tools ignore the answers. The answer to `Profile` is the line
//! `profile_bytes N`, `ok`, and the N bytes of a heap profile in pprof's format; that to `Figures` is
//! `figures_bytes N`, `ok`, and the N bytes of a report without single blocks in JSON.
//!
//! # What no client can do
//! - Connect from another machine, unless the program listens for that *and* has set a token.
//! - Write to a file outside the program's folder, to an existing file, or to one that is not a
//!   regular file.
//! - Send the trace to another machine, unless the program allows that host.
//! - Get a profile or figures on another machine, unless the program allows that host.
//! - Change these rules: only the program and its environment set them.
//!
//! A line that is not a command ends the connection. So if a web page makes a browser send a
//! request here, the server stops at the first line of the request. A line has at most 4 KiB, there
//! are at most 4 clients, and a client that has not sent a whole command for 10 s is disconnected.
//! The server has its own thread, and delays neither the program nor the worker.
#![cfg_attr(doctest, doc = include_str!("../../docs/production.md"))]

mod client;
mod command;
#[cfg(tracking)]
pub(crate) mod server;

pub use client::Client;
pub use command::{Command, DEFAULT_PORT};
