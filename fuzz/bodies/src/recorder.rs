//! The first bytes that a program sends to a recorder: a token, the start of a trace, packets. The
//! first byte selects the sender's address.

use crate::input::pieces;
use memledger_store::TOKEN_PREFIX;
use memledger_format::framing::{Framing, Start};
use memledger_format::handshake::Handshake;
use memledger_store::serve::Access;
use memledger_store::serve::recorder::start;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, ReadBuf};

const TOKEN: &str = "correct-horse-battery";

static ACCESS: LazyLock<Access> = LazyLock::new(|| Access::with(Some(TOKEN.to_owned())));

/// A connection that delivers one piece after the other, and then ends.
struct Connection<I>(I);

impl<'a, I: Iterator<Item = &'a [u8]> + Unpin> AsyncRead for Connection<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(piece) = self.0.next() {
            buffer.put_slice(piece.get(..buffer.remaining()).unwrap_or(piece));
        }
        Poll::Ready(Ok(()))
    }
}

/// The recorder's result for these pieces.
fn begin<'a>(
    pieces: impl Iterator<Item = &'a [u8]> + Unpin,
    peer: SocketAddr,
) -> Result<(Start, Vec<u8>), String> {
    let mut connection = Connection(pieces);
    let work = pin!(start(&mut connection, peer, &ACCESS));
    match work.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("it waits although everything has come"),
    }
}

/// Sends `data` at once and in pieces, and checks that the results are the same.
pub fn run(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let remote = first & 1 != 0;
    let ip = if remote { IpAddr::from([192, 0, 2, 1]) } else { Ipv4Addr::LOCALHOST.into() };
    let peer = SocketAddr::new(ip, 9);
    let result = begin(data.chunks(4096), peer);
    let slow = begin(pieces(data, 5), peer);
    let ending = |result: &Result<(Start, Vec<u8>), String>| {
        result.as_ref().map(|(start, _)| start.clone()).map_err(drop)
    };
    assert_eq!(ending(&slow), ending(&result), "{slow:?} {result:?}");
    match result {
        Ok((start, bytes)) => {
            let line = format!("{TOKEN_PREFIX}{TOKEN}");
            assert!(!remote || data.starts_with(line.as_bytes()), "nobody comes in without");
            let trace = match data.starts_with(TOKEN_PREFIX.as_bytes()) {
                true => data.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1),
                false => 0,
            };
            let trace = &data[trace..];
            assert!(trace.starts_with(&bytes));
            follow(trace, &start);
        }
        Err(reason) => {
            assert!(!reason.is_empty() && !reason.contains(char::is_control), "{reason:?}");
            assert!(!reason.contains(TOKEN), "the token is not shown");
        }
    }
}

/// Checks that the sizes of the pieces do not change where packets end.
fn follow(trace: &[u8], start: &Start) {
    let push = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let mut framing = Framing::new();
        for piece in pieces {
            let before = framing.whole();
            assert!(framing.push(piece).is_ok(), "it is a trace already");
            assert!(before <= framing.whole() && framing.whole() <= framing.len());
        }
        (framing.start().cloned(), framing.whole(), framing.len())
    };
    let whole = push(&mut std::iter::once(trace));
    assert_eq!((whole.0.as_ref(), whole.2), (Some(start), trace.len() as u64));
    assert_eq!(push(&mut pieces(trace, 5)), whole);
    if let Ok((handshake, size)) = Handshake::decode(&mut &trace[..]) {
        assert_eq!((handshake.transport.version(), size), (start.transport, start.size));
        assert_eq!(handshake.trace_guid, start.trace_guid);
        // NOTE: the rewritten start lacks metadata that we do not know.
        let encoded = handshake.encode();
        assert_eq!(Handshake::decode(&mut &encoded[..]).ok().map(|(again, _)| again), Some(handshake));
    }
}

/// Inputs from this machine and from another, with a token and without, for each transport.
pub fn seeds() -> Vec<Vec<u8>> {
    let head = |transport: u8| [b"2CRT\x04\x00\x02\x00\xff\xff", &[transport, 7][..], &[4, 0, 0xff, 0x3f]].concat();
    let guids = [b"\x00", &b"2CRT\x28\x00\x02\x00\xc1\x07\x10\x01"[..], &[7; 16], &[16, 2], &[8; 16], &[78, 7]].concat();
    let line = format!("{TOKEN_PREFIX}{TOKEN}\r\n").into_bytes();
    let mut seeds: Vec<_> =
        (1..=4).map(|transport| [&[0][..], &head(transport), &[9, 0, 2]].concat()).collect();
    seeds.push(guids);
    seeds.push([&[1][..], &line, &head(4)].concat());
    seeds.push([&[0][..], &line, &head(78)].concat());
    seeds.push(b"\x00ECRT\x03\x05\x06\x00\x01\x00ab".to_vec());
    seeds.push(b"\x01GET / HTTP/1.1\r\n".to_vec());
    seeds
}
