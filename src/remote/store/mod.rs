//! Traces of many programs in one place, over TCP: the client of a store, and what both ends of
//! its protocol share.
//!
//! A store keeps what a recorder receives: `memledger serve`, or Unreal's trace server, which
//! speaks the same protocol. [`Store`] lists its traces and streams their bytes, also of
//! traces that still grow, to [`read`](crate::trace::read) or to a file.
//!
//! # The protocol
//! On port [`PORT`], requests and responses take turns. Each is a `u32`, little-endian, for the
//! size of what follows, and one CBOR map with text keys: a [`Message`].
//!
//! | request | with | answer |
//! |---|---|---|
//! | `v1/status` | | `recorder_port`, `store_port`, `change_serial`, `store_dir` ... |
//! | `v1/version` | | `major`, `minor`, `configuration` |
//! | `v1/trace/count` | | `count` |
//! | `v1/trace/info` | `index` or `id` | `id`, `size`, `timestamp`, `name`, `uri`; from memledger also `live`, `ended`, `complete` |
//! | `v1/trace/read` | `id` | `port`: connect to it within 3 s to receive the bytes of the trace |
//! | `v1/session/count` | | `count` of the programs that are sending now |
//! | `v1/session/info` | `index`, `id`, `trace_id` or `trace_guid` | `id`, `trace_id`, `ip_address`, `control_port` |
//!
//! A request has `$request` (`GET`) and `$path`, an answer `$status`: 200, 400 for an invalid
//! request, 403 for one that is not allowed, 404 if the object does not exist, 500 for a failure,
//! 503 if the client was disconnected to make room for another.
//! Refusals of memledger have a `reason`, one sentence.
//!
//! # Other machines
//! Without a token, `memledger serve` talks to its own machine only. With one, a request from
//! another machine carries it as `$token` ([`Store::with_token`]), and a program that sends a
//! trace from there sends [`token_line`] first, before the trace's first byte.
#![forbid(unsafe_code)]

mod answers;
mod client;
mod connection;
mod message;
mod stream;
mod token;

pub use answers::{Session, Status, StoredTrace};
pub use client::Store;
pub use message::{MAX_REQUEST, MAX_RESPONSE, Message, MessageValue};
pub use stream::TraceStream;
pub use token::{TOKEN_PREFIX, check_token, token_line};

/// The port of a store, as Unreal's.
pub const PORT: u16 = 1989;
