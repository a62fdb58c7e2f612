//! Sends the bytes of a trace to one reader: first those in the file, then new ones, until the
//! program ends.

use super::catalogue::OpenTrace;
use super::server::Server;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The longest time for the reader to connect, as in Unreal's store.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A reader that accepts no bytes for this time is disconnected.
const STALL_TIMEOUT: Duration = Duration::from_secs(600);
/// Bytes of memory for one reader.
const BUFFER: usize = 64 << 10;

/// Opens a port at `address` for one connection from `reader`, which receives the trace. The error
/// is the reason for a refusal.
pub async fn offer(
    trace: OpenTrace,
    address: IpAddr,
    reader: IpAddr,
    server: &Server,
    mut stop: watch::Receiver<bool>,
) -> Result<u16, String> {
    let readers = server.limits.readers;
    let permit = Arc::clone(&server.readers)
        .try_acquire_owned()
        .map_err(|_| format!("all {readers} connections for readers are in use"))?;
    let failed = |error: io::Error| format!("no port can be opened: {error}");
    let listener = TcpListener::bind((address, 0)).await.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    tokio::spawn(async move {
        let connected = tokio::select! {
            connected = timeout(CONNECT_TIMEOUT, accept(listener, reader)) => connected,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        if let Ok(Some(stream)) = connected {
            // A reader may disconnect before the end; this is not an error.
            let _ = send(trace, stream, stop, permit).await;
        }
    });
    Ok(port)
}

/// The first connection from the address that the request came from.
async fn accept(listener: TcpListener, reader: IpAddr) -> Option<TcpStream> {
    loop {
        let (stream, peer) = listener.accept().await.ok()?;
        if peer.ip() == reader {
            return Some(stream);
        }
    }
}

/// Sends the whole trace. Holds `stop` and `permit` until then: the server waits for its readers
/// before it ends, and limits their number.
async fn send(
    trace: OpenTrace,
    stream: TcpStream,
    _stop: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
) -> io::Result<()> {
    let OpenTrace { mut file, size, mut live } = trace;
    let (mut back, mut stream) = stream.into_split();
    let (mut sent, mut buffer) = (0, vec![0; BUFFER]);
    let mut grows = live.is_some();
    loop {
        let end = live.as_mut().map_or(size, |live| *live.borrow_and_update());
        while sent < end {
            let room = end.saturating_sub(sent).min(BUFFER as u64) as usize;
            let (returned, bytes, count) = read(file, buffer, room).await?;
            (file, buffer) = (returned, bytes);
            let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
                // The file was truncated by another program.
                return Ok(());
            };
            timeout(STALL_TIMEOUT, stream.write_all(bytes)).await??;
            sent += count as u64;
        }
        let Some(live) = live.as_mut().filter(|_| grows) else { break };
        // NOTE: the channel may close with a last value that this loop has not read yet.
        tokio::select! {
            changed = live.changed() => grows = changed.is_ok(),
            () = disconnected(&mut back) => return Ok(()),
        }
    }
    stream.shutdown().await
}

/// Reads at most `room` bytes, off the runtime's threads.
async fn read(
    mut file: File,
    mut buffer: Vec<u8>,
    room: usize,
) -> io::Result<(File, Vec<u8>, usize)> {
    let read = spawn_blocking(move || {
        let count = file.read(buffer.get_mut(..room).unwrap_or_default());
        count.map(|count| (file, buffer, count))
    });
    read.await.map_err(io::Error::other)?
}

/// Completes when the reader disconnects. Bytes that it sends are discarded.
async fn disconnected(stream: &mut tokio::net::tcp::OwnedReadHalf) {
    let mut buffer = [0; 64];
    while let Ok(1..) = stream.read(&mut buffer).await {}
}
