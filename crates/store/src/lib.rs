//! Access over TCP to a store, which has the traces of many programs: its client, and the parts of
//! the protocol that client and store share.
//!
//! A store keeps the traces that a recorder receives. `memledger serve` is one, and Unreal's trace
//! server another, with the same protocol. [`Store`] lists the traces of a store and streams their
//! bytes to [`read`](memledger_analysis::read) or to a file, also while a trace still grows.
//!
//! # The protocol
//! On port [`PORT`], requests and responses alternate. Each begins with its size in bytes, a
//! little-endian `u32` that does not count itself. A CBOR map with text keys follows: a
//! [`Message`].
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
//! A request has the keys `$request` (`GET`) and `$path`. An answer has the key `$status`: 200 for
//! success, 400 for an invalid request, 403 for a request that is not allowed, 404 if the object
//! does not exist, 500 for a failure, 503 if the client was disconnected to make room for another.
//! If memledger refuses a request, the answer also has a `reason`, which is one sentence.
//!
//! # Other machines
//! Without a token, `memledger serve` accepts only connections from its own machine. With a token,
//! it can also accept other machines. Their requests must have the token as `$token`
//! ([`Store::with_token`]), and their programs must send [`token_line`] before the first byte of a
//! trace.
#![warn(missing_debug_implementations)]
#![forbid(unsafe_code)]

mod answers;
mod client;
mod connection;
mod error;
mod message;
#[cfg(feature = "serve")]
pub mod serve;
mod stream;
mod token;

pub use answers::{Session, Status, StoredTrace};
pub use client::{Store, UNIX_EPOCH_TICKS};
pub use error::{Error, ErrorKind};
pub use message::{MAX_REQUEST, MAX_RESPONSE, Message, MessageValue};
pub use stream::TraceStream;
pub use token::{TOKEN_PREFIX, check_token, token_line};

/// The default port of a store, which is that of Unreal's store.
pub const PORT: u16 = 1989;
