//! Any events to compact packets and back, byte for byte.

use memledger_test_support::wire::{AUX, ENTER, LEAVE, NO_SYNC, aux, plain, synced, type_record};
use arbitrary::{Result, Unstructured};
use memledger_format::schema::FieldType::{U8, U8Array, U32, U64};
use memledger_format::compact::{COMPACT_HEADER, CompactDecoder, CompactEncoder};
use std::cell::RefCell;
use std::sync::LazyLock;

/// Uids: two that begin with the same bits, 128 apart.
const ALLOC: u16 = 33;
const FREE: u16 = 34;
const SCOPE: u16 = 49;
const HEAP_ALLOC: u16 = 50;
const HEAP_FREE: u16 = 51;
const MARKER: u16 = 20;
const ARRAYS: u16 = 61;

/// Gives a packet the checksum of its bytes, as `docs/formats.md` describes it.
pub(crate) fn sign(packet: &mut [u8]) {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |lane: u64, word: u64| (lane ^ word).wrapping_mul(MIX).rotate_left(29);
    let word =
        |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |word, &byte| word << 8 | u64::from(byte));
    let mut lanes = [step(1, word(&packet[..6])), 2];
    let whole = (packet.len() - COMPACT_HEADER) / 16 * 16 + COMPACT_HEADER;
    for (index, bytes) in packet[COMPACT_HEADER..whole].chunks(8).enumerate() {
        lanes[index % 2] = step(lanes[index % 2], word(bytes));
    }
    let rest = &packet[whole..];
    let (first, second) = rest.split_at(rest.len().min(8));
    let all = step(step(step(lanes[0], word(first)), word(second)), lanes[1]);
    packet[6..COMPACT_HEADER].copy_from_slice(&((all ^ all >> 32) as u32).to_le_bytes());
}

/// The event types of this fuzzer, by protocol.
static TYPES: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| [5, 6, 7].map(types));

pub(crate) fn types(protocol: u8) -> Vec<u8> {
    let record = |uid, name, flags, fields: &[_]| type_record(protocol, uid, name, flags, fields);
    let (address, stack) = (("Address", U64), ("CallstackId", U32));
    let alloc = [address, stack, ("Size", U32), ("AlignmentPow2_SizeLower", U8)];
    let heap = ("RootHeap", U8);
    [
        record(MARKER, "Memory.Marker", 0, &[("Cycle", U64)]),
        record(ALLOC, "Memory.AllocSystem", 0, &alloc),
        record(ALLOC + 128, "Memory.FreeVideo", 0, &[address]),
        record(FREE, "Memory.FreeSystem", 0, &[address]),
        record(SCOPE, "Memory.MemoryScope", NO_SYNC, &[("Tag", U32)]),
        record(HEAP_ALLOC, "Memory.Alloc", 0, &[&alloc[..], &[heap]].concat()),
        record(HEAP_FREE, "Memory.Free", 0, &[address, stack, heap]),
        record(ARRAYS, "Memory.Arrays", NO_SYNC | AUX, &[("A", U8), ("B", U8Array)]),
    ]
    .concat()
}

/// An encoder that knows these types.
pub(crate) fn encoder(protocol: u8) -> CompactEncoder {
    let mut encoder = CompactEncoder::new(protocol);
    encoder.learn(&TYPES[usize::from(protocol - 5)]);
    encoder
}

/// The same, and its next packet has a table of call stacks.
fn encoder_with_table(protocol: u8) -> CompactEncoder {
    let mut encoder = encoder(protocol);
    let event = |i: u64| {
        let stack = (i as u32).to_le_bytes();
        let fields = [&(0x7f00_0000_1000 + i).to_le_bytes()[..], &stack, &[6, 0, 0, 0, 4 << 3]];
        synced(ALLOC, i, &fields.concat())
    };
    let payload: Vec<u8> = (0..100).flat_map(event).collect();
    assert!(encoder.append(2, &payload, &mut Vec::new()));
    encoder
}

/// Some allocations and frees.
pub(crate) fn example() -> Vec<u8> {
    let event = |i: u64| {
        let address = (0x7f00_0000_1000 + i * 48).to_le_bytes();
        let alloc = [&address[..], &[0, 0, 0, 0, 6, 0, 0, 0, 4 << 3]].concat();
        [synced(ALLOC, 2 * i, &alloc), synced(FREE, 2 * i + 1, &address)].concat()
    };
    (0..6).flat_map(event).collect()
}

/// The values of the latest events, so that those of the next ones are near them.
#[derive(Default)]
struct Last {
    address: u64,
    serial: u64,
}

fn event(u: &mut Unstructured<'_>, last: &mut Last) -> Result<Vec<u8>> {
    let kind: u8 = u.arbitrary()?;
    last.serial = match kind >> 6 {
        3 => u.arbitrary()?,
        2 => last.serial.wrapping_add(u64::from(u.arbitrary::<u8>()?)),
        _ => last.serial.wrapping_add(1),
    };
    last.address = match kind >> 4 & 3 {
        3 => u.arbitrary()?,
        2 => last.address.wrapping_add_signed(i64::from(u.arbitrary::<i32>()?)),
        1 => last.address.wrapping_add_signed(i64::from(u.arbitrary::<i8>()?) * 16),
        _ => last.address,
    };
    let (serial, address) = (last.serial, last.address.to_le_bytes());
    let mut rest = |size| u.bytes(size);
    Ok(match kind & 15 {
        0..=3 => synced(ALLOC, serial, &[&address[..], rest(9)?].concat()),
        4..=6 => synced(FREE, serial, &address),
        7 => synced(ALLOC + 128, serial, &address),
        8 => [ENTER, &plain(SCOPE, rest(4)?)].concat(),
        9 => LEAVE.to_vec(),
        10 => synced(HEAP_ALLOC, serial, &[&address[..], rest(10)?].concat()),
        11 => synced(HEAP_FREE, serial, &[&address[..], rest(5)?].concat()),
        12 => synced(MARKER, serial, rest(8)?),
        13 => [&plain(ARRAYS, rest(1)?)[..], &aux(1, rest(3)?), &[6]].concat(),
        14 => plain(SCOPE, rest(4)?),
        _ => {
            let size = usize::from(u.arbitrary::<u8>()?);
            u.bytes(size.min(u.len()))?.to_vec()
        }
    })
}

thread_local! {
    static DECODER: RefCell<CompactDecoder> = RefCell::new(CompactDecoder::new());
}

/// Makes events from `data`, encodes them, and checks that they decode to the same events.
pub fn run(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let first = u.arbitrary::<u8>().unwrap_or(0);
    let protocol = 5 + first % 3;
    let new_encoder = if first < 128 { encoder } else { encoder_with_table };
    let (mut last, mut payloads) = (Last::default(), vec![Vec::new()]);
    while !u.is_empty()
        && let Ok(event) = event(&mut u, &mut last)
    {
        let end = event.first() == Some(&0xee);
        if let Some(payload) = payloads.last_mut() {
            payload.extend(event);
        }
        if end {
            payloads.push(Vec::new());
        }
    }
    let mut encoder = new_encoder(protocol);
    let mut again = new_encoder(protocol);
    DECODER.with_borrow_mut(|decoder| {
        for payload in &payloads {
            let mut packet = vec![0xee];
            if !encoder.append(2, payload, &mut packet) {
                assert_eq!(packet, [0xee], "what is not coded leaves nothing behind");
                // The encoder has learned the distance of these addresses.
                assert!(!again.append(2, payload, &mut packet));
                continue;
            }
            assert!(packet.len() - 1 < payload.len() + 4);
            let decoded = decoder.decode(&packet[1..]);
            assert!(decoded.as_deref() == Ok(&payload[..]), "{decoded:?}");
            let mut second = vec![0xee];
            assert!(again.append(2, decoded.unwrap_or_default(), &mut second));
            assert_eq!(second, packet, "what was decoded is coded as before");
        }
    });
}

/// Bytes that give events of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let event = |kind: u8| [&[kind][..], &[kind; 12]].concat();
    vec![
        (0..16).flat_map(event).collect(),
        (0..48).flat_map(|i| [&[i & 15 | 16, 3][..], &[0; 9]].concat()).collect(),
        vec![0x10; 300],
        (128..144).chain(0..48).flat_map(event).collect(),
    ]
}
