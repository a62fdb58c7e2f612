//! The table of call stacks of a packet.

use super::{ALLOC, alloc_fields, coded, encoder, sign};
use memledger_format::compact::{CompactDecoder, CompactEncoder};
use memledger_test_support::wire::synced;

/// An encoder whose last payload had another stack in each allocation.
pub(super) fn encoder_with_table(protocol: u8) -> CompactEncoder {
    let mut encoder = encoder(protocol);
    let events = (0..100).map(|i| synced(ALLOC, i, &alloc_fields(0x7000, i as u32, 64, 4)));
    assert!(coded(&mut encoder, 2, &events.collect::<Vec<_>>().concat()).is_some());
    encoder
}

#[test]
fn a_known_stack_costs_one_byte_and_its_layout_none() {
    let round = |first: u64| {
        let events = (0..20_u64).map(move |i| {
            let fields = alloc_fields(0x7000, 5 + 9 * i as u32, 16 + 300 * i, 4);
            synced(ALLOC, first + i, &fields)
        });
        events.collect::<Vec<_>>().concat()
    };
    let rounds = |count: u64| (0..count).flat_map(|n| round(20 * n)).collect::<Vec<_>>();
    let mut encoder = encoder_with_table(7);
    let one = coded(&mut encoder, 2, &rounds(1)).unwrap();
    let packets = [2, 50].map(|count| coded(&mut encoder, 2, &rounds(count)).unwrap());
    assert_eq!(packets[1].len() - packets[0].len(), 48 * 20 * 2, "a control byte, and the entry");
    // New stacks: their distances, 2 bytes of layout, or 4 for a large one.
    assert!(one.len() < 20 * 9, "{}", one.len());
    // Without a table, each stack is an escape.
    let plain = coded(&mut super::encoder(7), 2, &rounds(50)).unwrap();
    assert!(plain.len() > packets[1].len() * 2, "{} {}", plain.len(), packets[1].len());
}

#[test]
fn more_stacks_than_the_table_has_take_the_oldest_entries() {
    for stacks in [252, 253, 254, 1000] {
        let events = (0..1200_u64).map(|i| {
            let stack = (i % stacks) as u32 * 77_777;
            synced(ALLOC, i, &alloc_fields(0x7000 + 16 * (i % 7), stack, 8 + stacks % 5, 3))
        });
        let payload = events.collect::<Vec<_>>().concat();
        let packet = coded(&mut encoder_with_table(7), 2, &payload).unwrap();
        let each = packet.len() / 1200;
        assert_eq!(each < 5, stacks <= 253, "{stacks}: {} bytes", packet.len());
    }
}

#[test]
fn the_table_goes_when_the_stacks_do() {
    let same = |stack| {
        let events = (0..200).map(|i| synced(ALLOC, i, &alloc_fields(0x7000, stack, 64, 4)));
        events.collect::<Vec<_>>().concat()
    };
    let mut encoder = encoder_with_table(7);
    let table = coded(&mut encoder, 2, &same(0)).unwrap();
    let none = coded(&mut encoder, 2, &same(0)).unwrap();
    assert_eq!((table[10] & 8, none[10] & 8), (8, 0));
    assert!(table.len() > none.len() + 190);
}

#[test]
fn an_event_with_two_stacks_is_an_error() {
    // A shape of an allocation; the entry 0 of the table, then an escape with another stack.
    let mut packet = vec![0, 0, 2, 0x40, 22, 0, 0, 0, 0, 0];
    packet.extend([1 | 8 | 4 << 4, 0x7e, 0x43, 0, 0x02, 0, 1 << 2, 7]);
    let size = packet.len() as u16;
    packet[..2].copy_from_slice(&size.to_le_bytes());
    sign(&mut packet);
    let error = CompactDecoder::new().decode(&packet).unwrap_err();
    assert!(error.contains("two call stacks"), "{error}");
    packet[17] = 1;
    packet[16] = 1;
    sign(&mut packet);
    let payload = CompactDecoder::new().decode(&packet).unwrap().to_vec();
    assert_eq!(payload, synced(ALLOC, 1, &alloc_fields(0, 0, 0, 0)));
}
