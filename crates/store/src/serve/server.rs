//! The state that all connections of the server share.

use super::access::Access;
use super::catalogue::Catalogue;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How many clients may be connected at once.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Clients {
    /// Programs that send; each costs 64 KiB of memory.
    pub programs: usize,
    /// Clients that ask, and as many that read a trace.
    pub readers: usize,
}

/// The state that all connections share.
#[derive(Debug)]
pub struct Server {
    pub catalogue: Arc<Catalogue>,
    pub access: Access,
    pub recorder_port: u16,
    pub store_port: u16,
    pub limits: Clients,
    pub readers: Arc<Semaphore>,
    pub silence: Option<Duration>,
    pub note: fn(&str),
}
