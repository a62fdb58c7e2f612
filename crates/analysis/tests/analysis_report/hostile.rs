//! Traces that were damaged on purpose: whatever comes, there is a report.

use memledger_analysis::read::{Event, Visitor, read};
use memledger_analysis::{Analyzer, Position};
use memledger_export::{json, text};
use memledger_format::schema::FieldType as T;
use memledger_test_support::feed::Feed;

fn reports(analyzer: &mut Analyzer) {
    analyzer.flush();
    let report = analyzer.report();
    let mut out = Vec::new();
    json::write(&report, &mut out).expect("memory takes everything");
    serde_json::from_slice::<serde_json::Value>(&out).expect("JSON");
    text::write(&report, &text::Options::default(), &mut out).expect("memory takes everything");
}

#[test]
fn a_sample_with_wrong_bytes_still_gives_a_report() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/ue511-smoke.utrace");
    let sample = std::fs::read(path).expect("the sample");
    let mut random = 7_u64;
    let mut next = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize
    };
    for round in 0..150 {
        let mut bytes = sample.clone();
        for _ in 0..1 + round % 20 {
            let at = next() % bytes.len();
            bytes[at] = next() as u8;
        }
        let mut analyzer = Analyzer::new().until(if round % 3 == 0 {
            Position::Event(500)
        } else {
            Position::End
        });
        if read(&bytes[..], &mut analyzer).is_ok() {
            reports(&mut analyzer);
        }
    }
}

/// Events whose every field is random, of all the types the analyzer knows.
#[test]
fn random_values_in_every_field_do_no_harm() {
    const FIELDS: &[(&str, T)] = &[
        ("Address", T::U64),
        ("CallstackId", T::U32),
        ("Size", T::U32),
        ("AlignmentPow2_SizeLower", T::U8),
        ("RootHeap", T::U8),
        ("Cycle", T::U64),
        ("Tag", T::I32),
        ("Parent", T::I32),
        ("Kind", T::U8),
        ("Owner", T::I32),
        ("Ptr", T::U64),
        ("Id", T::U32),
        ("SystemId", T::U32),
        ("Events", T::U64),
        ("StartCycle", T::U64),
        ("CycleFrequency", T::U64),
        ("ThreadId", T::U32),
        ("SizeShift", T::U8),
        ("Version", T::U8),
        ("Pid", T::U32),
        ("FromProcessStart", T::U8),
        ("Blocks", T::U64),
        ("Entries", T::U64),
        ("Before", T::U8),
        ("Serial", T::U64),
        ("OverheadBytes", T::U64),
        ("LostEvents", T::U64),
        ("ScopeMisuses", T::U64),
        ("IsEnabled", T::U8),
        ("ReadOnly", T::U8),
        ("BookmarkPoint", T::U64),
        ("FormatArgs", T::U8Array),
        ("FormatString", T::AnsiString),
        ("AppName", T::AnsiString),
        ("CommandLine", T::WideString),
        ("Display", T::AnsiString),
        ("Name", T::AnsiString),
        ("Frames", T::U64Array),
        ("CompressedFrames", T::U8Array),
        ("ImageId", T::U8Array),
        ("Reason", T::U8),
        ("From", T::U8),
        ("MeanBytes", T::U64),
        ("ModuleBaseShift", T::U8),
        ("Base", T::U64),
        ("First", T::U32),
        ("Stacks", T::U8Array),
    ];
    let arrays = (0..).zip(FIELDS).filter(|(_, (_, field))| field.fixed_size() == 0);
    let arrays: Vec<u8> = arrays.map(|(index, _)| index).collect();
    // Few values for most, so that they meet.
    const NAMES: &[&str] = &[
        "Memory.Alloc",
        "Memory.ReallocAlloc",
        "Memory.Free",
        "Memory.ReallocFree",
        "Memory.Marker",
        "Memory.MemoryScope",
        "Memory.MemoryScopePtr",
        "Memory.UpdateAlloc",
        "Memory.HeapMarkAlloc",
        "Memory.HeapUnmarkAlloc",
        "Memory.TagSpec",
        "Memory.Init",
        "$Trace.NewTrace",
        "$Trace.ThreadInfo",
        "Memledger.Trace",
        "Memledger.ThreadStart",
        "Memledger.Lost",
        "Memledger.ReallocFailed",
        "Memledger.Alive",
        "Memledger.ScopeEntries",
        "Memledger.Report",
        "Misc.BookmarkSpec",
        "Misc.Bookmark",
        "Trace.ChannelAnnounce",
        "Trace.ChannelToggle",
        "Diagnostics.Session2",
        "Memory.AllocSystem",
        "Memory.FreeSystem",
        "Memory.ReallocAllocSystem",
        "Memory.ReallocFreeSystem",
        "Memory.AllocVideo",
        "Memory.FreeVideo",
        "Memory.CallstackSpec",
        "Memory.CallstackSpecXORAndRLE",
        "Memory.CallstackSpecDelta7bit",
        "Memory.CallstackSpecDeltaVarInt",
        "Memledger.CallstackEnd",
        "Memledger.Callstacks",
        "Memledger.CallstackGuess",
        "Memledger.StackSampling",
        "Diagnostics.ModuleInit",
        "Diagnostics.ModuleLoad",
        "Diagnostics.ModuleUnload",
    ];
    let mut analyzer = Analyzer::new();
    let mut types = Vec::new();
    for (index, name) in NAMES.iter().enumerate() {
        types.push(memledger_test_support::feed::event_type(16 + index as u16, name, true, FIELDS));
        analyzer.event_type(index, &types[index]);
    }
    let large = &[("Address", T::U64), ("Size", T::U64)];
    types.push(memledger_test_support::feed::event_type(99, "Memledger.LargeSize", false, large));
    analyzer.event_type(NAMES.len(), &types[NAMES.len()]);
    assert_eq!(analyzer.problems(), [""; 0]);

    let mut random = 1_u64;
    let mut next = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random >> 33
    };
    for round in 0..40_000 {
        let type_index = next() as usize % types.len();
        let event_type = &types[type_index];
        let mut fixed = Vec::new();
        for field in event_type.fields.iter() {
            let value = match next() % 16 {
                0 => u64::MAX,
                1 => next() << 33 | next(),
                _ => next() % 6,
            };
            fixed.extend_from_slice(&value.to_le_bytes()[..field.field_type.fixed_size()]);
        }
        let stream = if next() % 50 == 0 { next() as u16 } else { (next() % 4) as u16 };
        // As a name, or as frames: few different ones, of every length.
        let name =
            [b'a' + (next() % 3) as u8, 0, 0, 0, 0, 0, 0, 0].repeat(1 + (next() % 3) as usize);
        let name = &name[..(next() as usize % (name.len() + 1)).max(1)];
        let enters_scope = next() % 8 != 0;
        let aux: Vec<_> = arrays.iter().map(|&index| (index, name)).collect();
        let mut event = Event::new(event_type, type_index, stream, &fixed);
        (event.enters_scope, event.aux) = (enters_scope, &aux);
        analyzer.event(&event);
        if next() % 3 == 0 {
            analyzer.leave_scope(stream);
        }
        if round % 4000 == 0 {
            reports(&mut analyzer);
        }
    }
    // A type index that was never announced, and an event shorter than its type.
    let event_type = &types[0];
    for (type_index, fixed) in [(1000, &[0; 4][..]), (0, &[0; 4][..]), (0, &[][..])] {
        analyzer.event(&Event::new(event_type, type_index, 2, fixed));
    }
    reports(&mut analyzer);
}

/// The time for a scope is bounded by the depth of the tree, not by the number of scopes: otherwise
/// this takes minutes.
#[test]
fn a_long_chain_of_scopes_without_blocks_costs_little() {
    const SCOPES: i32 = 30_000;
    let mut feed = Feed::new();
    for scope in 0..SCOPES {
        feed.spec(0, 1000 + scope, 999 + scope, -1, "inner");
        feed.entries(1000 + scope, 1, false);
    }
    let report = feed.report();
    assert!(report.by_scope.len() < 1000, "{}", report.by_scope.len());
}
