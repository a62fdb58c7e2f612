//! Converts a trace to the other transports and back. The events stay the same, and so does the
//! payload of each packet. A part of its channels is a trace.

use crate::log::read;
use memledger_analysis::convert::{ChannelList, convert, convert_channels};
use memledger_analysis::read::{Event, Reader, Visitor};
use memledger_format::handshake::Transport;

pub use crate::seeds::traces as seeds;

struct Ignore;

impl Visitor for Ignore {
    fn event(&mut self, _: &Event<'_>) {}
}

/// The payloads of all packets.
fn payloads(data: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let mut payloads = Vec::new();
    if let Ok(mut reader) = Reader::open(data) {
        while reader.packet_with(&mut Ignore, &mut |stream, payload| {
            payloads.push((stream, payload.to_vec()));
        }) {}
    }
    payloads
}

/// Converts `data` there and back.
pub fn run(data: &[u8]) {
    if let Ok(list) = ChannelList::parse("-scope") {
        let mut part = Vec::new();
        if convert_channels(data, &mut part, Transport::Compact, &list).is_ok() {
            assert!(read(&part[..], part.len()).is_some(), "what was written is a trace");
        }
    }
    [Transport::Compact, Transport::Packed].into_iter().for_each(|to| there_and_back(data, to));
}

fn there_and_back(data: &[u8], to: Transport) {
    let mut out = Vec::new();
    let Ok(summary) = convert(data, &mut out, to) else { return };
    let Some((there, _)) = read(&out[..], out.len()) else {
        panic!("what was written does not start as a trace");
    };
    if summary.counts.damages > 0 {
        return;
    }
    assert!(there.damages.is_empty(), "{:?}", there.damages);
    let mut plain = Vec::new();
    assert!(convert(&out[..], &mut plain, Transport::Unreal).is_ok());
    let before = read(data, data.len()).map(|(log, _)| log.entries);
    assert_eq!(Some(there.entries), before);
    assert_eq!(payloads(&plain), payloads(data));
}
