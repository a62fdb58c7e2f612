//! What one event costs: `cargo test --release --test analysis_report -- --ignored --nocapture`.

use memledger_analysis::Analyzer;
use memledger_analysis::read::{Event, Visitor};
use memledger_format::schema::FieldType as T;
use std::time::Instant;

#[test]
#[ignore = "a measurement, for a quiet machine and a release build"]
fn nanoseconds_per_event_on_a_churn_of_100_000_live_blocks() {
    let mut feed = memledger_test_support::feed::Feed::new();
    feed.spec(0, 0x0100_0000, -1, -1, "GlobalScope");
    for depth in 1..=3 {
        feed.spec(0, 0x0100_0000 + depth, 0x0100_0000 + depth - 1, -1, "scope");
    }
    feed.thread(2, 1, "main");
    for depth in 1..=3 {
        feed.enter(2, 0x0100_0000 + depth);
        feed.alloc(2, 8, 1);
        feed.free(2, 8);
    }
    let mut analyzer = feed.analyzer;
    let alloc = memledger_test_support::feed::event_type(
        500,
        "Memory.AllocSystem",
        true,
        &[
            ("Address", T::U64),
            ("CallstackId", T::U32),
            ("Size", T::U32),
            ("AlignmentPow2_SizeLower", T::U8),
        ],
    );
    let free = memledger_test_support::feed::event_type(
        501,
        "Memory.FreeSystem",
        true,
        &[("Address", T::U64)],
    );
    analyzer.event_type(100, &alloc);
    analyzer.event_type(101, &free);

    const LIVE: usize = 100_000;
    const ROUNDS: usize = 4_000_000;
    let mut random = 1_u64;
    let mut next = move || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    // Addresses as an allocator gives them: scattered, and used again soon.
    let mut live: Vec<u64> = (0..LIVE as u64).map(|i| 0x7f00_0000_0000 + i * 96).collect();
    for i in (1..LIVE).rev() {
        live.swap(i, next() as usize % (i + 1));
    }
    let mut events: Vec<[u8; 17]> = Vec::new();
    let mut record = |address: u64, size: u32| {
        let mut fixed = [0; 17];
        fixed[..8].copy_from_slice(&address.to_le_bytes());
        fixed[12..16].copy_from_slice(&size.to_le_bytes());
        fixed[16] = 0x21;
        events.push(fixed);
    };
    for &address in &live {
        record(address, 8);
    }
    for _ in 0..ROUNDS {
        let address = live[next() as usize % LIVE];
        record(address, 0);
        record(address, (next() % 60) as u32);
    }
    let give = |analyzer: &mut Analyzer, fixed: &[u8; 17], free_it: bool| {
        let (event_type, type_index, fixed) =
            if free_it { (&free, 101, &fixed[..8]) } else { (&alloc, 100, &fixed[..]) };
        let mut event = Event::new(event_type, type_index, 2, fixed);
        event.serial = Some(0);
        analyzer.event(&event);
    };
    for fixed in &events[..LIVE] {
        give(&mut analyzer, fixed, false);
    }
    let mut best = f64::MAX;
    for part in events[LIVE..].chunks(1_000_000) {
        let start = Instant::now();
        for (i, fixed) in part.iter().enumerate() {
            give(&mut analyzer, fixed, i % 2 == 0);
        }
        let per_event = start.elapsed().as_nanos() as f64 / part.len() as f64;
        println!("{per_event:.1} ns per event");
        best = best.min(per_event);
    }
    // The yardstick: the same addresses through a hash map and nothing else.
    let mut map: std::collections::HashMap<u64, [u64; 3]> =
        live.iter().map(|&address| (address, [0; 3])).collect();
    let mut yardstick = f64::MAX;
    for part in events[LIVE..].chunks(1_000_000) {
        let start = Instant::now();
        for (i, fixed) in part.iter().enumerate() {
            let address = u64::from_le_bytes(fixed[..8].try_into().expect("8 bytes"));
            if i % 2 == 0 {
                std::hint::black_box(map.remove(&address));
            } else {
                map.insert(address, [i as u64; 3]);
            }
        }
        yardstick = yardstick.min(start.elapsed().as_nanos() as f64 / part.len() as f64);
    }
    println!("yardstick {yardstick:.1} ns per event: a std HashMap alone");
    analyzer.flush();
    let report = analyzer.report();
    assert_eq!(report.totals.live_blocks, LIVE as u64);
    assert_eq!(report.by_scope.len(), 4);
    println!("best {best:.1} ns per event; {:?}", report.by_scope[0].inclusive.peak_bytes);
}
