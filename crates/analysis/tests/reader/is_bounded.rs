//! The reader's memory for small traces that decode to much, counted by the allocator.
#![expect(unsafe_code, reason = "counts what a reader allocates")]

use memledger_analysis::Analyzer;
use memledger_analysis::read::{Event, Reader, Summary, Visitor};
use memledger_test_support::wire::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes allocated by this thread now, and the maximum.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

struct Counting;

fn count(bytes: isize) {
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + bytes, most.max(now + bytes)));
    });
}

// SAFETY: all calls go to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller makes the same guarantee.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller makes the same guarantee.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MIB: isize = 1 << 20;

#[derive(Default)]
struct Seen {
    events: u64,
    damages: u64,
    given_up: u64,
}

impl Visitor for Seen {
    fn event(&mut self, _: &Event<'_>) {
        self.events += 1;
    }

    fn damage(&mut self, damage: &memledger_analysis::read::Damage) {
        self.damages += 1;
        self.given_up += u64::from(damage.what.contains("are given up"));
    }
}

/// Reads a trace; returns the maximum of memory allocated meanwhile, without the trace itself.
fn read(bytes: &[u8], limit: Option<usize>) -> (isize, Seen, Summary) {
    let before = HELD.get().0;
    HELD.set((before, before));
    let mut seen = Seen::default();
    let mut reader = Reader::open(bytes).unwrap();
    if let Some(limit) = limit {
        reader = reader.memory_limit(limit);
    }
    while reader.packet(&mut seen) {}
    let summary = reader.finish(&mut seen);
    (HELD.get().1 - before, seen, summary)
}

/// A packet with an LZ4 block.
fn encoded(stream: u16, payload: &[u8]) -> Vec<u8> {
    let block = lz4_flex::block::compress(payload);
    let size = (block.len() + 6) as u16;
    let head = [size, stream | 0x8000, payload.len() as u16].map(u16::to_le_bytes);
    [&head.concat()[..], &block].concat()
}

fn start() -> Vec<u8> {
    let first = important(31, &[&[1][..], &[0; 8]].concat(), &[], 0);
    [handshake(7), packet(TYPES, &types(7)), packet(IMPORTANTS, &first)].concat()
}

#[test]
fn zeros_on_one_stream_take_no_memory_and_one_damage_a_packet() {
    let zeros = vec![0; 65_535];
    for stream in [TYPES, IMPORTANTS, 2] {
        let bytes = [start(), encoded(stream, &zeros).repeat(1500)].concat();
        assert!(bytes.len() < 450_000);
        let (most, seen, summary) = read(&bytes, None);
        println!("stream {stream}: {} bytes took {most}, {} damages", bytes.len(), seen.damages);
        assert!(most < 8 * MIB, "stream {stream}: {most} bytes");
        assert!(seen.damages <= 3 * 1500, "stream {stream}: {} damages", seen.damages);
        assert_eq!(summary.packets.encoded, 1500);
    }
}

#[test]
fn what_waits_is_given_up_at_the_limit_and_delivered() {
    // An event waits for serial 0; after it, each of the other events of three bytes takes 24 more.
    let mut bytes = start();
    bytes.extend(packet(2, &serials([1])));
    let many = plain(17, &[0]).repeat(21_000);
    bytes.extend(encoded(2, &many).repeat(300));
    let (most, seen, summary) = read(&bytes, Some(16 << 20));
    println!("{} bytes took {most}", bytes.len());
    assert!(most < 48 * MIB, "{most}");
    assert_eq!((seen.given_up, summary.counts.holes, seen.events), (1, 1, 2 + 300 * 21_000));
    assert!(!summary.is_complete());
    // The report says so.
    let mut analyzer = Analyzer::new();
    let mut reader = Reader::open(&bytes[..]).unwrap().memory_limit(16 << 20);
    while reader.packet(&mut analyzer) {}
    reader.finish(&mut analyzer);
    assert!(!analyzer.report().trace.complete);
    let sentence = "MiB, but a reader of this trace may keep 16 MiB: the events that they wait for are given up";
    let problems = analyzer.problems();
    assert!(problems.iter().any(|problem| problem.contains(sentence)), "{problems:?}");
}

#[test]
fn an_event_without_an_end_and_one_of_an_unknown_type_do_not_grow_for_ever() {
    let open = [plain(18, &[0]), aux(1, &[0; 60_000])].concat();
    let more = aux(1, &[0; 65_000]);
    let unknown = plain(99, &[0; 65_000]);
    for (first, then) in [(open, more), (unknown.clone(), unknown)] {
        let bytes = [start(), encoded(3, &first), encoded(3, &then).repeat(1000)].concat();
        let (most, seen, _) = read(&bytes, Some(8 << 20));
        assert!(most < 32 * MIB, "{most}");
        assert!(seen.given_up > 0);
    }
}

#[test]
fn many_streams_share_one_limit() {
    let many = [serials([1]), plain(17, &[0]).repeat(21_000)].concat();
    let mut bytes = start();
    for stream in 2..2002 {
        bytes.extend(encoded(stream, &many));
    }
    let (most, seen, summary) = read(&bytes, Some(16 << 20));
    assert!(most < 48 * MIB, "{most}");
    assert!(seen.given_up > 0);
    assert_eq!(summary.counts.events, 1 + 2000 * 21_001);
}

#[test]
fn types_that_are_declared_again_and_again_have_a_limit() {
    let names = ["T.A", "T.B"];
    let record = |n: usize| type_record(7, 60, names[n % 2], NO_SYNC, &[]);
    let records = [record(0), record(1)].concat().repeat(2000);
    let bytes = [start(), encoded(TYPES, &records).repeat(400)].concat();
    let (most, seen, _) = read(&bytes, None);
    assert!(most < 200 * MIB, "{most}");
    assert_eq!(seen.damages, 1);
}

#[test]
fn a_thread_that_is_silent_for_long_is_waited_for() {
    let mut bytes = start();
    for first in (1..500_001).step_by(5000) {
        bytes.extend(packet(2, &serials(first..first + 5000)));
    }
    bytes.extend(packet(3, &serials([0])));
    bytes.extend(packet(9, &plain(30, &500_001_u64.to_le_bytes())));
    let (_, seen, summary) = read(&bytes, None);
    assert_eq!((seen.damages, summary.counts.holes, summary.counts.late), (0, 0, 0));
    assert_eq!(summary.counts.last_serial, Some(500_000));
}
