//! The store's side of the query protocol: one connection, its requests in turn.
//!
//! Every request gets an answer with a status and, if it is refused, a reason. A connection is
//! closed when the start of the next request is not known: after an invalid size, and when a peer
//! stalls.

mod encoding;
mod respond;

use super::connection_limit::{FIRST_REQUEST_TIMEOUT, Permit};
use super::server::Server;
use crate::{MAX_REQUEST, Message};
use respond::{BAD_REQUEST, refusal, respond};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

/// The longest time between two requests.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// The longest time to receive the rest of a request that has begun, or to send an answer.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection is read after its last answer. Closing it at once could discard the answer
/// for a peer that is still sending.
const LINGER: Duration = Duration::from_secs(1);
/// At most this many bytes are read and discarded after the last answer.
const LINGER_BYTES: usize = 4 << 20;

/// Answers requests until the peer disconnects or stalls, or the server stops.
pub async fn answer(
    mut stream: TcpStream,
    peer: SocketAddr,
    permit: Permit,
    server: Arc<Server>,
    mut stop: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let begun = Instant::now();
    loop {
        let limit = if permit.is_new() {
            begun + FIRST_REQUEST_TIMEOUT
        } else {
            Instant::now() + IDLE_TIMEOUT
        };
        let body = tokio::select! {
            // A request that has arrived gets an answer, even if its permit was revoked.
            biased;
            request = timeout_at(limit, request(&mut stream)) => match request {
                Ok(Some(body)) => body,
                _ => return,
            },
            () = permit.revoked() => return,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let (response, keep_open) = match body {
            Ok(body) => respond(&body, &stream, peer, &permit, &server, &stop).await,
            Err(response) => (response, false),
        };
        let sent = timeout(STALL_TIMEOUT, stream.write_all(&response.encode())).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
        if !keep_open || !permit.set_idle() {
            return linger(stream).await;
        }
    }
}

/// The next request, or why it is not valid; `None` if the connection ended.
async fn request(stream: &mut TcpStream) -> Option<Result<Vec<u8>, Message>> {
    let mut size = [0; 4];
    stream.read_exact(&mut size).await.ok()?;
    body(stream, size).await.transpose()
}

/// The bytes after the size; `None` if the connection ends or stalls before the last of them.
async fn body(stream: &mut TcpStream, size: [u8; 4]) -> Result<Option<Vec<u8>>, Message> {
    let length = u32::from_le_bytes(size) as usize;
    if matches!(&size, b"GET " | b"POST" | b"PUT " | b"HEAD" | b"OPTI" | b"PRI ") {
        return Err(refusal(BAD_REQUEST, "this is HTTP, but the store speaks CBOR"));
    }
    if length == 0 || length > MAX_REQUEST {
        return Err(refusal(
            BAD_REQUEST,
            &format!("a request has 1 to {MAX_REQUEST} bytes, but this one announces {length}"),
        ));
    }
    let mut body = vec![0; length];
    let read = timeout(STALL_TIMEOUT, stream.read_exact(&mut body)).await;
    Ok(matches!(read, Ok(Ok(_))).then_some(body))
}

/// Lets the peer receive the answer before the connection is closed.
async fn linger(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let mut thrown = 0;
    let mut buffer = [0; 4096];
    let read = async {
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            thrown += count;
            if thrown > LINGER_BYTES {
                break;
            }
        }
    };
    let _ = timeout(LINGER, read).await;
}

#[cfg(test)]
mod tests {
    use super::super::access::Access;
    use super::super::catalogue::{Catalogue, Limits};
    use super::super::connection_limit::ConnectionLimit;
    use super::super::directory::Directory;
    use super::super::server::Clients;
    use super::*;
    use tokio::net::TcpListener;
    use tokio::sync::Semaphore;

    #[test]
    fn a_request_that_has_arrived_gets_an_answer_though_its_permit_was_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        let limits = Limits { trace: u64::MAX, store: u64::MAX };
        let server = Arc::new(Server {
            catalogue: Arc::new(Catalogue::new(directory, limits).unwrap()),
            access: Access::with(None),
            recorder_port: 0,
            store_port: 0,
            limits: Clients { programs: 1, readers: 1 },
            readers: Arc::new(Semaphore::new(1)),
            silence: None,
            note: |_| {},
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let answer = runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut client = TcpStream::connect(address).await.unwrap();
            let (stream, peer) = listener.accept().await.unwrap();
            client.write_all(&Message::request("v1/version").encode()).await.unwrap();
            stream.readable().await.unwrap();
            let limit = ConnectionLimit::new(1);
            let permit = limit.acquire().unwrap();
            let _another = limit.acquire().unwrap();
            let (_stop, stopping) = watch::channel(false);
            let answered = tokio::spawn(super::answer(stream, peer, permit, server, stopping));
            let mut size = [0; 4];
            client.read_exact(&mut size).await.unwrap();
            let mut answer = vec![0; u32::from_le_bytes(size) as usize];
            client.read_exact(&mut answer).await.unwrap();
            drop(client);
            answered.await.unwrap();
            Message::decode(&answer).unwrap()
        });
        assert_eq!(answer.integer("$status"), Some(i64::from(respond::BUSY)));
        assert!(answer.text("reason").unwrap().contains("all 1 connections are in use"));
    }
}
