//! What a store answers, as a program reads it.

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
    /// Names the trace in requests. Never 0.
    pub id: u32,
    /// The name of its file without the ending.
    pub name: String,
    /// Bytes so far.
    pub size: u64,
    /// When it was last written to.
    pub modified: SystemTime,
    /// Whether its program is still sending.
    pub live: bool,
    /// Why the store ended it before its program did, if it did.
    pub ended: Option<String>,
    /// Whether the program has written the end of its trace; `None` while it sends, and for programs
    /// and stores that do not say. A killed program has not written it.
    pub complete: Option<bool>,
}

/// A program that is sending.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Session {
    /// Names the session in requests.
    pub id: u32,
    /// The trace it is sending.
    pub trace_id: u32,
    /// Where it runs. `0.0.0.0` if it sends over IPv6.
    pub address: Ipv4Addr,
    /// Port of its control server there, or `None` if there is none.
    pub control_port: Option<u16>,
}
