use super::*;
use crate::alloc::events::MemoryEvents;
use crate::scopes::events::ScopeEvents;
use crate::trace::worker::EventProvider;
use memledger_analysis::read::Decoder;
use memledger_analysis::{Analyzer, LiveBlock, Report};
use memledger_format::handshake::PROTOCOL;
use memledger_format::packet::TYPES;

const START: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Takes a stream in, and keeps its packets.
struct Read {
    decoder: Decoder,
    analyzer: Analyzer,
    packets: Vec<(u16, Vec<u8>)>,
}

impl Read {
    fn new() -> Self {
        let mut read = Self {
            decoder: Decoder::new(PROTOCOL),
            analyzer: Analyzer::new().largest_live(usize::MAX),
            packets: Vec::new(),
        };
        let (memory, scopes) = (MemoryEvents::new(), ScopeEvents::new(true));
        let mut records = Vec::new();
        for declaration in
            [stream_events::TYPES, memory.types(), scopes.types()].into_iter().flatten()
        {
            declaration.append_record(&mut records);
        }
        read.packet(TYPES, &records);
        let mut about = Vec::new();
        let frequency = clock::FREQUENCY.into();
        stream_events::NEW_TRACE
            .append(&[START.into(), frequency, 0x524d_u32.into(), 8_u32.into()], &mut about);
        for (tag, name) in [(7_u32, "seven"), (8, "eight")] {
            let (none, scope) = (u32::MAX.into(), 0_u32.into());
            crate::scopes::events::TAG_SPEC
                .append(&[tag.into(), none, name.into(), scope, none, name.into()], &mut about);
        }
        // A tag, and a context of it in the scope "eight".
        let tree = [(20, u32::MAX, "group", 1_u32, u32::MAX), (21, 20, "tag", 2, u32::MAX)];
        for (tag, parent, name, kind, owner) in tree.into_iter().chain([(22, 8, "tag", 3, 21)]) {
            let tag: u32 = tag;
            let [tag, parent, kind, owner] = [tag, parent, kind, owner].map(Into::into);
            let values = [tag, parent, name.into(), kind, owner, name.into()];
            crate::scopes::events::TAG_SPEC.append(&values, &mut about);
        }
        read.packet(IMPORTANTS, &about);
        read
    }

    fn report(&mut self) -> Report {
        self.decoder.finish(&mut self.analyzer);
        assert_eq!(self.analyzer.problems(), [""; 0]);
        let counts = self.decoder.counts();
        assert_eq!((counts.holes, counts.late, counts.damages), (0, 0, 0));
        self.analyzer.report()
    }

    /// Another analyzer, which joins late with the live set of this one.
    fn followed_by(&mut self, here: JoinPoint) -> Self {
        let mut late = Self::new();
        begin(Some(self.analyzer.initial_live_set(Vec::new())), here, &mut late).unwrap();
        late
    }
}

impl Sink for Read {
    fn packet(&mut self, stream: u16, payload: &[u8]) {
        assert!(u16::try_from(payload.len()).is_ok());
        self.decoder.packet(stream, payload, &mut self.analyzer);
        self.packets.push((stream, payload.to_vec()));
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.decoder.sync(&mut self.analyzer);
        Ok(())
    }
}

fn here(serial: u64, marked_at: u64) -> JoinPoint {
    JoinPoint {
        serial,
        start: START,
        marked_at,
        from_process_start: true,
        definitions: Vec::new(),
        streams: Vec::new(),
    }
}

/// A thread's start, as the worker writes it.
fn thread(id: u32, name: &str) -> Vec<u8> {
    let mut start = Vec::new();
    stream_events::THREAD_START.append(&[id.into(), (id + 1000).into(), name.into()], &mut start);
    start
}

fn scope(tag: u32) -> Vec<u8> {
    let mut event = vec![ENTER_SCOPE];
    MEMORY_SCOPE.append(&[tag.into()], &mut event);
    event
}

fn alloc(serial: u64, address: u64, size: u64) -> Vec<u8> {
    let mut event = Vec::new();
    append_alloc(serial, address, 0, size, RUST, &mut event);
    event
}

/// The live blocks, without the rows that were never used.
fn live(report: &Report) -> &[LiveBlock] {
    &report.largest_live
}

/// A stream that begins with the process, at serial 0.
fn first() -> Read {
    let mut read = Read::new();
    read.packet(IMPORTANTS, &preamble(0, true));
    read
}

#[test]
fn blocks_arrive_with_address_size_scope_thread_and_time() {
    let mut read = first();
    let marker =
        |serial, seconds: u64| stream_events::marker(serial, START + seconds * SECOND).to_vec();
    let large = (1 << 35) + 12_345;
    let on_main = [
        thread(2, "main"),
        alloc(0, 0x1000, 1),
        scope(7),
        marker(1, 1),
        alloc(2, 0x2000, 100),
        alloc(3, 0x3000, large),
        vec![LEAVE_SCOPE],
        // An hour later, with markers as the worker writes them.
        (4..84).flat_map(|number| marker(number, number * 45)).collect(),
        scope(8),
        alloc(84, 0x4000, 7),
        vec![LEAVE_SCOPE],
    ];
    read.packet(5, &on_main.concat());
    let on_other = [thread(3, "other"), scope(8), alloc(85, 0x5000, 7), vec![LEAVE_SCOPE]];
    read.packet(6, &on_other.concat());
    read.packet(3, &marker(86, 83 * 45 + 1));
    let mut late = read.followed_by(here(87, START + (83 * 45 + 1) * SECOND));
    let (whole, late) = (read.report(), late.report());
    assert_eq!(live(&whole).len(), 5);
    assert_eq!(live(&late), live(&whole));
    assert_eq!(live(&late)[0].bytes, large);
    assert_eq!(late.trace.duration_ns, whole.trace.duration_ns);
    assert_eq!(late.totals.live_bytes, whole.totals.live_bytes);
    // The hour between two blocks is no inaccuracy of a time.
    assert_eq!(late.trace.time_resolution_ns, 0);
}

#[test]
fn no_two_markers_are_a_minute_apart() {
    let mut read = first();
    let day = 24 * 3600;
    read.packet(5, &[thread(2, "main"), alloc(0, 0x1000, 1)].concat());
    let late = read.followed_by(here(2000, START + day * SECOND));
    let (_, packet) = late.packets.iter().find(|(stream, _)| *stream == BLOCKS).unwrap();
    // After the one block there are only markers, one every 50 seconds.
    let mut cycles = vec![START];
    let markers = packet.rchunks(stream_events::MARKER_BYTES).take(1728).collect::<Vec<_>>();
    for marker in markers.into_iter().rev() {
        assert_eq!(marker[..2], stream_events::MARKER.wire().to_le_bytes());
        cycles.push(u64::from_le_bytes(marker[5..].try_into().unwrap()));
    }
    assert_eq!(cycles.last(), Some(&(START + day * SECOND)));
    assert!(cycles.windows(2).all(|pair| (1..=50 * SECOND).contains(&(pair[1] - pair[0]))));
}

#[test]
fn a_reallocation_under_way_goes_on_with_its_block() {
    let mut read = first();
    let mut half = Vec::new();
    append_realloc_free(1, 0x1000, RUST, &mut half);
    let start = [thread(2, "main"), scope(7), alloc(0, 0x1000, 100), vec![LEAVE_SCOPE], half];
    read.packet(5, &start.concat());
    // Another thread has got the address meanwhile.
    read.packet(6, &[thread(3, "other"), alloc(2, 0x1000, 50)].concat());
    let mut here = here(3, START);
    here.streams = vec![(5, thread(2, "main")), (6, thread(3, "other"))];
    let mut late = read.followed_by(here);
    let mut end = alloc(3, 0x2000, 200);
    end[..2].copy_from_slice(&crate::alloc::events::REALLOC_ALLOC.wire().to_le_bytes());
    for read in [&mut read, &mut late] {
        read.packet(5, &end);
    }
    let (whole, late) = (read.report(), late.report());
    assert_eq!(live(&late), live(&whole));
    assert_eq!(live(&late).len(), 2);
    assert_eq!(live(&late)[0].path, ["GlobalScope", "seven"]);
    assert_eq!((late.totals.reallocations, late.totals.frees), (1, 0));
    assert_eq!(late.losses, whole.losses);
}

#[test]
fn renamed_blocks_arrive_under_their_new_name() {
    let update = |serial, address| {
        let mut event = Vec::new();
        append_update(serial, address, &mut event);
        event
    };
    let mut read = first();
    let on_main = [
        thread(2, "main"),
        scope(7),
        alloc(0, 0x1000, 10),
        alloc(1, 0x2000, 20),
        vec![LEAVE_SCOPE],
        alloc(2, 0x3000, 30),
        scope(22),
        alloc(3, 0x4000, 40),
        alloc(4, 0x5000, 50),
        // From a scope without a tag, and from outside all scopes.
        update(5, 0x1000),
        update(6, 0x3000),
        vec![LEAVE_SCOPE],
        // And from the tag to none.
        update(7, 0x4000),
    ];
    read.packet(5, &on_main.concat());
    let mut late = read.followed_by(here(8, START));
    let (whole, late_report) = (read.report(), late.report());
    assert_eq!(live(&late_report), live(&whole));
    let named = live(&whole).iter().map(|block| (block.bytes, &*block.name, block.path.len()));
    let expected =
        [(50, "tag", 2), (40, "Unnamed", 2), (30, "tag", 1), (20, "Unnamed", 2), (10, "tag", 2)];
    assert!(named.eq(expected), "{:?}", live(&whole));
    assert_eq!(late.decoder.counts().first_serial, Some(0), "there was room for it");
    assert_eq!(late.decoder.counts().last_serial, Some(7));
    // Another stream can join late from the late one.
    let mut later = late.followed_by(here(8, START));
    assert_eq!(live(&later.report()), live(&whole));
}

#[test]
fn many_blocks_come_in_whole_packets_with_consecutive_serials() {
    let mut read = first();
    let count = 50_000;
    read.packet(5, &thread(2, "main"));
    for serial in 0..count {
        let tag = 7 + serial as u32 % 2;
        let mut bytes = scope(tag);
        bytes.extend(alloc(serial, 0x1000 + 16 * serial, serial % 1000));
        bytes.push(LEAVE_SCOPE);
        read.packet(5, &bytes);
    }
    let mut late = read.followed_by(here(count, START));
    let blocks = late.packets.iter().filter(|(stream, _)| *stream == BLOCKS);
    assert!(blocks.clone().count() > 30);
    assert!(blocks.clone().all(|(_, packet)| packet.len() < PACKET + 64));
    assert_eq!(live(&late.report()), live(&read.report()));
    assert_eq!(late.decoder.counts().first_serial, Some(0));
    assert_eq!(late.decoder.counts().last_serial, Some(count - 1));
}

#[test]
fn an_empty_live_set_and_an_unknown_one_are_not_the_same() {
    for (live_set, from_process_start) in
        [(Some(Read::new().analyzer.initial_live_set(Vec::new())), true), (None, false)]
    {
        let mut late = Read::new();
        begin(live_set, here(1000, START), &mut late).unwrap();
        let marker = stream_events::marker(1000, START + SECOND);
        late.packet(3, &marker);
        let report = late.report();
        assert_eq!(report.trace.from_process_start, Some(from_process_start));
        assert_eq!(late.decoder.counts().first_serial, Some(1000));
        assert_eq!(report.totals.allocations, 0);
    }
}
