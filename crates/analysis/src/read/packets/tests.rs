//! The cost of damage, in bytes decoded on trial.

use super::*;
use crate::read::event::{Damage, Event};
use memledger_format::lz4;

struct Ignore;

impl Visitor for Ignore {
    fn event(&mut self, _: &Event<'_>) {}
}

/// A trace whose packets each decode to `decoded` bytes. `size_of` returns the size in the header
/// of a packet, from its number and its true size.
fn trace(packets: usize, decoded: usize, size_of: impl Fn(usize, u16) -> u16) -> Vec<u8> {
    let mut bytes = [b"2CRT", &[4, 0, 2, 0, 0xff, 0xff][..], &[4, 7]].concat();
    let mut block = Vec::new();
    assert!(lz4::Compressor::new().append(&vec![0x0a; decoded], &mut block));
    let whole = (6 + block.len()) as u16;
    for number in 0..packets {
        bytes.extend(size_of(number, whole).to_le_bytes());
        bytes.extend((0x8000_u16 | 2).to_le_bytes());
        bytes.extend((decoded as u16).to_le_bytes());
        bytes.extend(&block);
    }
    bytes
}

fn spent(bytes: &[u8]) -> (u64, Summary) {
    let mut reader = Reader::open(bytes).unwrap();
    while reader.packet(&mut Ignore) {}
    (reader.resync_budget.spent, reader.finish(&mut Ignore))
}

#[test]
fn trials_are_in_proportion_to_the_input() {
    let (none, summary) = spent(&trace(1000, 65_535, |_, size| size));
    assert_eq!((none, summary.packets.encoded), (0, 1000));
    for wrong in [1, 2, 7, 4000] {
        let bytes = trace(20_000, 65_535, |number, size| size + (number as u16 % 2) * wrong);
        let (spent, _) = spent(&bytes);
        assert!(spent <= (64 << 20) + 64 * bytes.len() as u64, "{spent} for {}", bytes.len());
    }
}

#[test]
fn a_few_wrong_sizes_cost_their_packets_only() {
    // Packets of 4 KiB, as a writer makes them.
    let bytes = trace(4000, 4000, |number, size| size + u16::from(number % 100 == 99));
    let (_, summary) = spent(&bytes);
    assert_eq!((summary.packets.encoded, summary.counts.damages), (3960, 41));
}

/// The work is in proportion to the input even if nothing in it is valid.
#[test]
fn no_input_takes_long() {
    #[derive(Default)]
    struct Told(usize);
    impl Visitor for Told {
        fn event(&mut self, _: &Event<'_>) {
            self.0 += 1;
        }
        fn damage(&mut self, _: &Damage) {
            self.0 += 1;
        }
    }
    const SIZE: usize = 256 << 10;
    // A smaller budget than a reader has, so that a small input reaches the limit.
    const AT_ONCE: u64 = 1 << 20;
    let tiny = [5, 0, 2, 0, 0x0b];
    let encoded = [10, 0, 2, 0x80, 0xff, 0xff, 0x1f, 0, 0, 0xff];
    let mut state = 1_u64;
    let noise = std::iter::from_fn(|| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Some((state >> 56) as u8)
    });
    let bodies = [
        vec![0; SIZE],
        vec![0xff; SIZE],
        noise.take(SIZE).collect(),
        tiny.repeat(SIZE / 5),
        tiny[..4].repeat(SIZE / 4),
        encoded.repeat(SIZE / 10),
        [&[1][..], &encoded.repeat(SIZE / 10)].concat(),
        [&[1][..], &tiny.repeat(SIZE / 5)].concat(),
        // Every second packet has a wrong size, and all decode to many bytes.
        trace(2000, 65_535, |number, size| size + number as u16 % 2).split_off(12),
    ];
    for (number, body) in bodies.iter().enumerate() {
        let bytes = [&trace(0, 65_535, |_, size| size)[..], body].concat();
        let mut reader = Reader::open(&bytes[..]).unwrap();
        reader.resync_budget = ResyncBudget::new(AT_ONCE);
        let (mut told, mut calls) = (Told::default(), 1);
        while reader.packet(&mut told) {
            calls += 1;
        }
        let (spent, granted) = (reader.resync_budget.spent, AT_ONCE + 64 * bytes.len() as u64);
        let summary = reader.finish(&mut told);
        println!(
            "{number}: {} bytes, {calls} calls, {spent} on trial, told {}",
            bytes.len(),
            told.0
        );
        assert_eq!(summary.input_bytes, bytes.len() as u64, "{number}");
        assert!(spent <= granted, "{number}: {spent} of {granted}");
        assert!(calls <= bytes.len() && told.0 <= 2 * bytes.len(), "{number}: {calls}, {}", told.0);
        if number + 1 == bodies.len() {
            let (more, _) = self::spent(&bytes);
            assert!(more > 2 * spent, "{spent} of {more}: the limit has spared nothing");
        }
    }
}
