//! What damage costs, counted in bytes worked through on trial.

use super::*;
use crate::trace::read::event::Event;
use crate::trace::transport::lz4;

struct Ignore;

impl Visitor for Ignore {
    fn event(&mut self, _: &Event<'_>) {}
}

/// A trace whose packets each decode to `decoded` bytes, with what `header` makes of their sizes.
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
    (reader.trials.spent, reader.finish(&mut Ignore))
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
    // As from a writer: packets of 4 KiB.
    let bytes = trace(4000, 4000, |number, size| size + u16::from(number % 100 == 99));
    let (_, summary) = spent(&bytes);
    assert_eq!((summary.packets.encoded, summary.counts.damages), (3960, 41));
}
