//! The seeds of the fuzzers of whole traces: small traces as the tests make them, and parts of the
//! samples.

use memledger_analysis::convert::convert;
use memledger_analysis::read::{Event, Reader, Visitor};
use memledger_format::handshake::Transport;
use memledger_format::schema::FieldType;
use memledger_test_support::wire::{
    self, framed, handshake, important, packet, plain, serials, synced,
};
use std::collections::BTreeMap;

/// The number of bytes that a seed takes from a thread's stream in a sample.
const OF_A_THREAD: usize = 500;
/// The number of bytes that a seed takes from type records and from important events: all later
/// events depend on the first ones.
const OF_OTHERS: usize = 900;

struct Ignore;

impl Visitor for Ignore {
    fn event(&mut self, _: &Event<'_>) {}
}

/// The beginning of each stream of a sample, packed again: `shares` of its events.
fn cut(sample: &[u8]) -> Vec<u8> {
    let Ok(mut reader) = Reader::open(sample) else { return Vec::new() };
    let mut trace = reader.handshake().encode();
    let mut streams = BTreeMap::<u16, Vec<u8>>::new();
    while reader.packet_with(&mut Ignore, &mut |stream, payload| {
        streams.entry(stream).or_default().extend(payload);
    }) {}
    for (stream, mut bytes) in streams {
        bytes.truncate(if stream < 2 { OF_OTHERS } else { OF_A_THREAD });
        if !bytes.is_empty() {
            trace.extend(packet(stream, &bytes));
        }
    }
    trace.extend(wire::SYNC);
    trace
}

/// A trace from the writer of the tests.
fn made(protocol: u8) -> Vec<u8> {
    let array = [plain(18, &[1]), wire::aux(1, b"abc"), wire::TERMINAL.to_vec()].concat();
    [
        handshake(protocol),
        packet(0, &wire::types(protocol)),
        packet(1, &important(20, &[7], &[(1, b"text")], 1)),
        packet(2, &serials([0, 1, 4, 5])),
        packet(3, &[&serials([2]), &array[..], wire::ENTER, &plain(17, &[2])].concat()),
        packet(3, &[&serials([3])[..], wire::LEAVE].concat()),
        wire::SYNC.to_vec(),
        packet(2, &serials(6..30)),
        wire::SYNC.to_vec(),
    ]
    .concat()
}

/// Allocations and frees of two threads, with scopes, as our own writer declares them.
fn memory() -> Vec<u8> {
    use FieldType::{AnsiString, I32, U8, U32, U64};
    let no_sync = wire::NO_SYNC;
    let important_type = wire::IMPORTANT | no_sync;
    let record = |uid, name, flags, fields: &[_]| wire::type_record(7, uid, name, flags, fields);
    let alloc = [("Address", U64), ("CallstackId", U32), ("Size", U32)];
    let alloc = [&alloc[..], &[("AlignmentPow2_SizeLower", U8)]].concat();
    let spec = [("Tag", I32), ("Parent", I32), ("Display", AnsiString)];
    let types = [
        record(33, "Memory.AllocSystem", 0, &alloc),
        record(34, "Memory.FreeSystem", 0, &[("Address", U64)]),
        record(49, "Memory.MemoryScope", no_sync, &[("Tag", I32)]),
        record(50, "Memory.TagSpec", important_type | wire::AUX, &spec),
        record(51, "Memory.Marker", 0, &[("Cycle", U64)]),
    ];
    let tag = |id: u32, name: &[u8]| {
        important(50, &[id.to_le_bytes(), [0xff; 4]].concat(), &[(2, name)], 0)
    };
    let event = |i: u64| {
        let address = (0x7000 + i * 64).to_le_bytes();
        let fields = [&address[..], &[0, 0, 0, 0, 8, 0, 0, 0, 0x20]].concat();
        let free = if i.is_multiple_of(3) {
            synced(34, 2 * i + 1, &address)
        } else {
            synced(51, 2 * i + 1, &address)
        };
        [synced(33, 2 * i, &fields), free].concat()
    };
    let scoped = [
        wire::ENTER.to_vec(),
        plain(49, &300_u32.to_le_bytes()),
        (10..16).flat_map(event).collect(),
        wire::LEAVE.to_vec(),
    ];
    [
        handshake(7),
        packet(0, &types.concat()),
        packet(1, &[tag(300, b"load"), tag(301, b"draw")].concat()),
        packet(2, &(0..10).flat_map(event).collect::<Vec<_>>()),
        packet(3, &scoped.concat()),
        packet(0x3ffe, &framed(0, &[])),
        wire::SYNC.to_vec(),
    ]
    .concat()
}

/// Small traces, of each protocol and each transport.
pub fn traces() -> Vec<Vec<u8>> {
    let samples: [&[u8]; 2] = [
        include_bytes!("../../../tests/samples/ue511-smoke.utrace"),
        include_bytes!("../../../tests/samples/mem-2t-40k.utrace"),
    ];
    let mut traces = samples.map(cut).to_vec();
    traces.extend((5..=7).map(made));
    traces.push(memory());
    let coded = |plain: &Vec<u8>, to: Transport| {
        let mut out = Vec::new();
        assert!(convert(&plain[..], &mut out, to).is_ok());
        out
    };
    let ours = [Transport::Compact, Transport::Packed];
    let all = ours.iter().flat_map(|to| traces.iter().map(|plain| coded(plain, *to)));
    traces.extend(all.collect::<Vec<_>>());
    // The coded packets of a sample: LZ4.
    traces.push(samples[0][..2000].to_vec());
    // The beginnings of traces of Unreal Engine 4.
    let old: [&[u8]; 7] = [
        include_bytes!("../../../tests/samples/unreal4/p0-packet.utrace"),
        include_bytes!("../../../tests/samples/unreal4/p0-raw.utrace"),
        include_bytes!("../../../tests/samples/unreal4/p1-tid.utrace"),
        include_bytes!("../../../tests/samples/unreal4/p2-tid.utrace"),
        include_bytes!("../../../tests/samples/unreal4/p3-tid.utrace"),
        include_bytes!("../../../tests/samples/unreal4/p4-tid-trc2.utrace"),
        include_bytes!("../../../tests/samples/unreal4/p4-tid-ue426.utrace"),
    ];
    traces.extend(old.map(|trace| trace[..3000].to_vec()));
    traces
}
