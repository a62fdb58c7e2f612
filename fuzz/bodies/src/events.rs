//! Payloads of packets to events, of each protocol.
//!
//! ```text
//! u8 protocol   u8 stream   u8 size   payload   u8 stream ...
//! ```
//! A payload that arrives in pieces gives the same events as one that arrives at once.

use crate::input::pieces;
use crate::log::{Entry, Log};
use memledger_test_support::wire;
use memledger_analysis::read::{Decoder, EventAnalyzer, Visitor};
use memledger_format::packet::{
    FIRST_THREAD, IMPORTANTS, LAST_THREAD, PSEUDO_IMPORTANTS, TYPES,
};

/// The stream and the payload of a packet. A packet without a stream is a sync.
type Packet<'a> = (Option<u16>, &'a [u8]);

/// The protocol, and the packets.
fn packets(data: &[u8]) -> (u8, Vec<Packet<'_>>) {
    let (&first, mut rest) = data.split_first().unwrap_or((&0, &[]));
    let mut packets = Vec::new();
    while let Some((&[stream, size], after)) = rest.split_first_chunk() {
        let (payload, after) = after.split_at(usize::from(size).min(after.len()));
        rest = after;
        packets.push(match stream {
            0 => (Some(TYPES), payload),
            1 => (Some(IMPORTANTS), payload),
            0xf0 => (Some(LAST_THREAD), payload),
            0xf1 => (Some(PSEUDO_IMPORTANTS), payload),
            0xff => (None, payload),
            _ => (Some(FIRST_THREAD + u16::from(stream & 3)), payload),
        });
    }
    (5 + first % 3, packets)
}

/// What an `EventAnalyzer` does for each event: fields by name, times, scopes.
fn look() -> impl Visitor {
    EventAnalyzer::new(0_u64)
        .on("*", "*", ["V", "Cycle"], |sum, event, fields| {
            *sum += u64::from(event.nanoseconds().is_some()) + event.scopes().count() as u64;
            *sum += u64::from(event.definition().is_some() && event.thread().is_some());
            for field in event.fields().chain(fields) {
                let _ = (field.scalar(), field.u64(), field.i64(), field.f64(), field.bool());
                let _ = (field.nanoseconds(), field.text(), field.bytes(), field.reference());
                *sum = sum.wrapping_add(field.elements().map_or(0, |all| all.count() as u64));
            }
        })
        .on_leave("*", "*", |sum, left| {
            *sum += u64::from(left.entered() <= left.left()) + left.depth() as u64;
        })
}

/// Decodes `data` packet by packet, then again in smaller packets.
pub fn run(data: &[u8]) {
    let (protocol, packets) = packets(data);
    let (mut decoder, mut both) = (Decoder::new(protocol), (Log::default(), look()));
    for &(stream, payload) in &packets {
        match stream {
            Some(stream) => decoder.packet(stream, payload, &mut both),
            None if payload.is_empty() => decoder.sync(&mut both),
            None => decoder.packet_lost(FIRST_THREAD, &mut both),
        }
    }
    decoder.finish(&mut both);
    let (whole, _) = both;
    assert_eq!(decoder.counts().events, whole.events);
    assert_eq!(decoder.counts().damages, whole.damages.len() as u64);
    assert_eq!(decoder.streams().iter().map(|of| of.events).sum::<u64>(), whole.events);
    let is_cut = |(stream, payload): &(Option<u16>, &[u8])| stream.is_none() && !payload.is_empty();
    if !whole.damages.is_empty() || packets.iter().any(is_cut) {
        return;
    }
    let (mut decoder, mut split) = (Decoder::new(protocol), Log::default());
    for (stream, payload) in packets {
        let Some(stream) = stream else {
            decoder.sync(&mut split);
            continue;
        };
        pieces(payload, 9).for_each(|piece| decoder.packet(stream, piece, &mut split));
    }
    decoder.finish(&mut split);
    assert!(split.damages.is_empty(), "{:?}", split.damages);
    assert_eq!(split.entries, whole.entries);
    let serials = whole.entries.iter().filter_map(|entry| match entry {
        Entry::Event { serial, .. } => *serial,
        _ => None,
    });
    assert!(decoder.counts().late > 0 || serials.is_sorted(), "serials go up");
}

/// The types of the reader's tests and some events of each.
pub fn seeds() -> Vec<Vec<u8>> {
    let framed = |stream: u8, payload: &[u8]| {
        let parts = payload.chunks(200);
        parts.flat_map(|part| [&[stream, part.len() as u8][..], part].concat()).collect::<Vec<_>>()
    };
    let mut seeds = Vec::new();
    for protocol in 5..=7_u8 {
        let scope: &[u8] = if protocol == 7 { &[0x0c, 1, 0, 0, 0, 0, 0, 0, 0] } else { &[] };
        let array = [wire::plain(18, &[1]), wire::aux(1, b"abc"), vec![6]].concat();
        let own = [
            wire::ENTER,
            &wire::plain(17, &[5]),
            scope,
            &wire::serials([2, 3]),
            &array,
            wire::LEAVE,
        ];
        seeds.push(
            [
                &[protocol - 5][..],
                &framed(0, &wire::types(protocol)),
                &framed(1, &wire::important(20, &[7], &[(1, b"xy")], 2)),
                &framed(2, &wire::serials([0, 1, 4])),
                &framed(3, &own.concat()),
                &[0xff, 0],
                &framed(2, &wire::plain(30, &5_u64.to_le_bytes())),
                &[0xff, 0, 0xff, 0],
            ]
            .concat(),
        );
    }
    seeds
}
