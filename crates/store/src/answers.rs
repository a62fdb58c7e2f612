//! The answers of a store, as Rust types.

use std::net::Ipv4Addr;
use std::time::SystemTime;

/// The state of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Port on which programs send their traces.
    pub recorder_port: u16,
    /// Port of the store.
    pub store_port: u16,
    /// A number that changes when traces are added or removed.
    pub change_serial: u32,
    /// The folder with the traces, on the store's machine.
    pub directory: String,
}

/// A trace in a store. Its texts are from another machine and may have any contents.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredTrace {
    /// Identifies the trace in requests. Never 0.
    pub id: u32,
    /// The name of its file without the ending.
    pub name: String,
    /// The number of bytes so far.
    pub size: u64,
    /// The time at which it was last written to.
    pub modified: SystemTime,
    /// Whether its program is still sending.
    pub live: bool,
    /// The reason why the store ended the trace before the program did; `None` if the store did
    /// not.
    pub ended: Option<String>,
    /// Whether the program has written the end of its trace, which a killed program has not. `None`
    /// while it sends, and if the program or the store does not provide this.
    pub complete: Option<bool>,
}

/// A program that is sending.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Session {
    /// Identifies the session in requests.
    pub id: u32,
    /// The id of the trace that it is sending.
    pub trace_id: u32,
    /// The address of its machine; `0.0.0.0` if it sends over IPv6.
    pub address: Ipv4Addr,
    /// The port of its control server on that machine; `None` if it has none.
    pub control_port: Option<u16>,
}
