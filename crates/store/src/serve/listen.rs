//! Ports and connections.

use super::connection_limit::{ConnectionLimit, Permit};
use super::server::Clients;
use crate::{Error, ErrorKind};
use socket2::{SockRef, TcpKeepalive};
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The interval of keep-alive packets: a peer whose machine is gone is noticed within minutes.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// The delay after accepting a connection failed, because another attempt at once would fail too.
const RETRY_DELAY: Duration = Duration::from_millis(100);

pub(super) async fn bind(address: IpAddr, port: u16) -> Result<TcpListener, Error> {
    let address = SocketAddr::new(address, port);
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => Error::new(
            ErrorKind::PortInUse,
            format!(
                "cannot listen on {address}: another program does; stop it, or choose another port"
            ),
        ),
        _ => Error::from_io(ErrorKind::Listen, format!("cannot listen on {address}"), source),
    })
}

/// Accepts connections and passes each to `handle`, within `limit`. Ends when `stop`
/// returns true.
pub(super) async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    limit: Arc<ConnectionLimit>,
    note: fn(&str),
    mut stop: watch::Receiver<bool>,
    handle: impl Fn(TcpStream, SocketAddr, Permit, watch::Receiver<bool>) -> F,
) {
    // A failure that persists is reported once.
    let (mut failing, mut at_limit) = (false, false);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // In most cases the cause is that all descriptors are in use, until another
                // connection ends.
                if !failing {
                    note(&format!("a connection cannot be accepted: {error}"));
                }
                failing = true;
                tokio::time::sleep(RETRY_DELAY).await;
                continue;
            }
        };
        failing = false;
        let Some(permit) = limit.acquire() else {
            if !at_limit {
                let max = limit.max();
                note(&format!("{peer} is turned away: all {max} connections are in use"));
            }
            at_limit = true;
            continue;
        };
        at_limit = false;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        tokio::spawn(handle(stream, peer, permit, stop.clone()));
    }
}

/// Raises the limit of descriptors of this process, if the system allows it: two for each program, each
/// client and each reader, of which there can be as many as clients, and some more. Otherwise `note` receives
/// a sentence.
pub fn raise_file_limit(clients: Clients, note: fn(&str)) {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let needed = 2 * (clients.programs + 2 * clients.readers) as u64 + 64;
        let mut limit = getrlimit(Resource::Nofile);
        if limit.current.is_some_and(|current| current < needed) {
            let allowed = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
            limit.current = Some(allowed);
            if setrlimit(Resource::Nofile, limit).is_err() || allowed < needed {
                note(&format!(
                    "the system allows fewer open files than the {needed} that all clients may need"
                ));
            }
        }
    }
    #[cfg(not(unix))]
    let _ = (clients, note);
}
