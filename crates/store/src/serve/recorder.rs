//! Receives the trace of one program.
//!
//! ```text
//! connected ── start of a trace within 10 s ──► recording ── it ends, or falls silent ──► closed
//!     │                                             │
//!     └── anything else: closed, nothing kept       └── a quota, the disk: closed after a packet
//! ```
//!
//! The bytes are neither decoded nor changed. A program takes 64 KiB of memory here, whatever it
//! sends.

use super::access::Access;
use super::connection_limit::{FIRST_REQUEST_TIMEOUT as START_TIMEOUT, Permit};
use super::recording::Recording;
use super::server::Server;
use crate::TOKEN_PREFIX;
use memledger_export::text;
use memledger_format::framing::{Framing, Start};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// The maximum number of bytes of one read.
const BUFFER: usize = 64 << 10;
/// Bytes of the first read: most starts of a trace are shorter.
const FIRST: usize = 4 << 10;
/// Bytes of the longest line with a token, the line feed included.
const TOKEN_LINE: usize = TOKEN_PREFIX.len() + 256 + 1;

/// While the recorder stops, a program that has sent nothing for this time has nothing under way:
/// bytes that it sent before can still be in its own send buffer, or unknown to the runtime.
const DELIVERY_TIMEOUT: Duration = Duration::from_millis(200);

/// Receives the trace of one program until it ends, and reports on stderr how it ended.
pub(super) async fn record(
    mut stream: TcpStream,
    peer: SocketAddr,
    permit: Permit,
    server: Arc<Server>,
    mut stop: watch::Receiver<bool>,
) {
    let revoked =
        || Err("another program needed the connection, and no trace had begun".to_owned());
    let started = tokio::select! {
        biased;
        started = timeout(START_TIMEOUT, start(&mut stream, peer, &server.access)) => match started {
            Ok(Ok(_)) if !permit.set_busy() => revoked(),
            Ok(started) => started,
            Err(_) => Err(format!("no start of a trace arrived within {} s", START_TIMEOUT.as_secs())),
        },
        () = permit.revoked() => revoked(),
        _ = stop.wait_for(|stop| *stop) => return,
    };
    let begun = match started {
        Ok((start, first)) => begin(start, peer, &server).await.map(|begun| (begun, first)),
        Err(reason) => Err(reason),
    };
    let (recording, first) = match begun {
        Ok(begun) => begun,
        Err(reason) => return (server.note)(&format!("nothing from {peer} is stored: {reason}")),
    };
    let name = recording.name().to_owned();
    (server.note)(&format!("{name}: recording {peer}"));
    let (recording, how) = follow(&mut stream, recording, first, server.silence, &mut stop).await;
    let size = recording.as_ref().map_or(0, Recording::size);
    // The catalogue shows the end of the trace before the note reports it.
    let _ = spawn_blocking(|| drop(recording)).await;
    (server.note)(&format!("{name}: {how}, {}", text::bytes(size)));
}

/// Creates the file of a trace.
async fn begin(start: Start, peer: SocketAddr, server: &Arc<Server>) -> Result<Recording, String> {
    let catalogue = Arc::clone(&server.catalogue);
    let recording = spawn_blocking(move || catalogue.begin(&start, peer.ip())).await;
    recording.map_err(|error| error.to_string())?
}

/// Reads until it is clear that the input is a trace. Returns its start, and the bytes received so
/// far.
pub async fn start(
    stream: &mut (impl AsyncRead + Unpin),
    peer: SocketAddr,
    access: &Access,
) -> Result<(Start, Vec<u8>), String> {
    let mut bytes = Vec::new();
    more(stream, &mut bytes).await?;
    // A program on this machine may also send a token, because a tunnel can make another machine's
    // program look like one of this machine. That token is not checked.
    if Access::needs_token(peer) || bytes.first() == TOKEN_PREFIX.as_bytes().first() {
        take_token(stream, peer, access, &mut bytes).await?;
    }
    let mut framing = Framing::new();
    loop {
        let known = framing.len() as usize;
        framing.push(bytes.get(known..).unwrap_or_default()).map_err(|error| error.to_string())?;
        match framing.start() {
            Some(start) => return Ok((start.clone(), bytes)),
            None => more(stream, &mut bytes).await?,
        }
    }
}

/// Removes the line with the token from the start of `bytes`, and checks the token if one is
/// needed.
async fn take_token(
    stream: &mut (impl AsyncRead + Unpin),
    peer: SocketAddr,
    access: &Access,
    bytes: &mut Vec<u8>,
) -> Result<(), String> {
    let prefix = TOKEN_PREFIX.as_bytes();
    let end = loop {
        let length = bytes.len().min(prefix.len());
        let end = bytes.iter().take(TOKEN_LINE).position(|byte| *byte == b'\n');
        if bytes.get(..length) != prefix.get(..length) {
            // A program on this machine needs no token. A later step checks whether it sends a
            // trace.
            return match Access::needs_token(peer) {
                true => {
                    Err("a program on another machine must send a token first, and it sent none"
                        .to_owned())
                }
                false => Ok(()),
            };
        }
        if let Some(end) = end {
            break end;
        }
        if bytes.len() >= TOKEN_LINE {
            return Err(format!("its token has no end within {TOKEN_LINE} bytes"));
        }
        more(stream, bytes).await?;
    };
    let line = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned();
    let token = line.strip_prefix(TOKEN_PREFIX).map(|token| token.trim_end_matches('\r'));
    if !access.allows(peer, token) {
        return Err("its token is wrong".to_owned());
    }
    bytes.drain(..=end);
    Ok(())
}

/// Appends the next bytes.
async fn more(stream: &mut (impl AsyncRead + Unpin), bytes: &mut Vec<u8>) -> Result<(), String> {
    bytes.reserve(FIRST);
    match stream.read_buf(bytes).await {
        Ok(0) => Err(format!("it closed after {} bytes, inside the start of a trace", bytes.len())),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("receiving failed: {error}")),
    }
}

/// Writes the bytes of the program until the trace ends. Returns how it ended.
async fn follow(
    stream: &mut TcpStream,
    mut recording: Recording,
    mut bytes: Vec<u8>,
    silence: Option<Duration>,
    stop: &mut watch::Receiver<bool>,
) -> (Option<Recording>, String) {
    loop {
        // PERF: a write can wait for the disk, so it does not run on a thread of the runtime.
        let written = spawn_blocking(move || {
            let result = recording.write(&bytes);
            (recording, bytes, result)
        });
        let Ok((returned, mut buffer, result)) = written.await else {
            return (None, "the write was abandoned".to_owned());
        };
        if let Err(reason) = result {
            return (Some(returned), format!("cut, because {reason}"));
        }
        recording = returned;
        buffer.clear();
        buffer.reserve_exact(BUFFER);
        let stopping = *stop.borrow();
        let read = tokio::select! {
            biased;
            read = receive(stream, &mut buffer, stopping) => read,
            _ = stop.wait_for(|stop| *stop), if !stopping => {
                // Bytes that were sent before are still recorded.
                bytes = buffer;
                continue;
            }
            () = quiet(silence) => {
                let silence = silence.unwrap_or_default().as_secs();
                return (Some(recording), format!("closed after {silence} s without data"));
            }
        };
        match read {
            Ok(0) if stopping => return (Some(recording), "the recorder stops".to_owned()),
            Ok(0) => return (Some(recording), "ended".to_owned()),
            Ok(_) => bytes = buffer,
            Err(error) => return (Some(recording), format!("the connection broke: {error}")),
        }
    }
}

/// Receives the next bytes: waits for them, or, while the recorder is `stopping`, at most
/// [`DELIVERY_TIMEOUT`]; then the count is 0.
async fn receive(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    stopping: bool,
) -> io::Result<usize> {
    if !stopping {
        return stream.read_buf(buffer).await;
    }
    timeout(DELIVERY_TIMEOUT, stream.read_buf(buffer)).await.unwrap_or(Ok(0))
}

/// Completes after `silence`; never, if there is no limit.
async fn quiet(silence: Option<Duration>) {
    match silence {
        Some(silence) => tokio::time::sleep(silence).await,
        None => std::future::pending().await,
    }
}
