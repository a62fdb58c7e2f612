//! The bytes of a trace, to one reader: what is there, then what comes, until the program ends.

use super::catalogue::Reading;
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

/// For the reader to connect, as in Unreal's store.
const CONNECT: Duration = Duration::from_secs(3);
/// A reader that takes nothing for so long is gone.
const STALL: Duration = Duration::from_secs(600);
/// What one reader holds here.
const BUFFER: usize = 64 << 10;

/// Opens a port at `address` for one connection of `reader`, who gets the trace. The error says why
/// it cannot be.
pub async fn offer(
    reading: Reading,
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
            connected = timeout(CONNECT, accept(listener, reader)) => connected,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        if let Ok(Some(stream)) = connected {
            // NOTE: a reader that goes before the end is nobody's problem.
            let _ = send(reading, stream, stop, permit).await;
        }
    });
    Ok(port)
}

/// The first connection from where the request came.
async fn accept(listener: TcpListener, reader: IpAddr) -> Option<TcpStream> {
    loop {
        let (stream, peer) = listener.accept().await.ok()?;
        if peer.ip() == reader {
            return Some(stream);
        }
    }
}

/// Sends all of it. Keeps `stop` and `permit` until then: the server waits for readers a little,
/// and there is a limit to their number.
async fn send(
    reading: Reading,
    stream: TcpStream,
    _stop: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
) -> io::Result<()> {
    let Reading { mut file, size, mut live } = reading;
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
                // Somebody has cut the file.
                return Ok(());
            };
            timeout(STALL, stream.write_all(bytes)).await??;
            sent += count as u64;
        }
        let Some(live) = live.as_mut().filter(|_| grows) else { break };
        // NOTE: the last value is still to be read when the channel is closed.
        tokio::select! {
            changed = live.changed() => grows = changed.is_ok(),
            () = gone(&mut back) => return Ok(()),
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

/// Waits until the reader is gone. What it says is thrown away.
async fn gone(stream: &mut tokio::net::tcp::OwnedReadHalf) {
    let mut buffer = [0; 64];
    while let Ok(1..) = stream.read(&mut buffer).await {}
}
