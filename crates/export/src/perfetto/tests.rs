//! What is written, read back by the rules of Perfetto's reader: see `heap.rs`.

use super::*;
use memledger_document::made;
use memledger_document::{BucketRow, GroupRow, NameRow, ScopeRow, ThreadRow};
use memledger_format::protobuf::perfetto::track_event;
use memledger_test_support::packets::{Dump, Field, Message, Trace, TrackEvent};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};

/// What a file has. Each sequence begins once, and no two dumps have the same time, in whatever heap.
fn read(bytes: &[u8]) -> Trace {
    let trace = Trace::decode(bytes);
    let packets: Vec<_> = Message::decode(bytes).messages(1).collect();
    let sequences: HashSet<_> = packets.iter().filter_map(|packet| packet.number(10)).collect();
    assert_eq!(trace.starts, sequences.len());
    let times: Vec<_> = trace.heaps.values().flatten().map(|(at, _)| *at).collect();
    assert_eq!(times.iter().collect::<HashSet<_>>().len(), times.len(), "two dumps at one time");
    trace
}

/// The packets of heap profiles.
fn profiles(bytes: &[u8]) -> Vec<Message> {
    Message::decode(bytes).messages(1).filter_map(|packet| packet.message(37)).collect()
}

/// All do everything on the first thread, in the outermost scope.
fn who(_: Actor) -> (u32, Option<Vec<String>>) {
    (1, Some(vec!["GlobalScope".to_owned()]))
}

/// A report of some buckets without stacks: each is a scope within the outermost one, and a name.
fn report(scopes: usize) -> Report {
    let mut report = Report::default();
    let global = String::from("GlobalScope");
    report.by_scope.push(made!(ScopeRow { path: vec![global.clone()] }));
    for number in 0..scopes {
        let path = vec![global.clone(), format!("scope {number}")];
        let mut row = made!(ScopeRow { path });
        row.inclusive.peak_bytes = 1;
        report.by_scope.push(row);
    }
    for name in ["Unnamed", "mesh"] {
        let group = vec![if name == "mesh" { "Rendering" } else { "Unknown" }.to_owned()];
        report.by_name.push(made!(NameRow { group, name: name.to_owned() }));
    }
    let mut group = made!(GroupRow { group: vec!["Rendering".to_owned()] });
    group.inclusive.peak_bytes = 1;
    report.by_group.push(group);
    report.by_thread.push(made!(ThreadRow { id: 1, name: "main".to_owned() }));
    report.by_thread.push(made!(ThreadRow { id: 2 }));
    for number in 0..=scopes {
        for name in 0..2 {
            let mut row = BucketRow::default();
            (row.scope, row.name, row.thread) = (number, name, number % 2);
            report.by_bucket.push(row);
        }
    }
    report.trace.duration_ns = 1_000_000;
    report
}

/// Something that happens to a block of a program.
#[derive(Clone, Debug)]
enum Step {
    Alloc { bucket: u32, heap: u8, bytes: u64 },
    Free { which: usize },
    Realloc { which: usize, bytes: u64 },
    FailedRealloc { which: usize },
    Retag { which: usize, bucket: u32 },
    Large { which: usize, more: u64 },
    Time { ns: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0_usize..64;
    prop_oneof![
        4 => (0_u32..10, 0_u8..3, 0_u64..1 << 40)
            .prop_map(|(bucket, heap, bytes)| Step::Alloc { bucket, heap, bytes }),
        2 => which.clone().prop_map(|which| Step::Free { which }),
        1 => (which.clone(), 0_u64..1 << 40).prop_map(|(which, bytes)| Step::Realloc { which, bytes }),
        1 => which.clone().prop_map(|which| Step::FailedRealloc { which }),
        1 => (which.clone(), 0_u32..10).prop_map(|(which, bucket)| Step::Retag { which, bucket }),
        1 => (which, 0_u64..1 << 40).prop_map(|(which, more)| Step::Large { which, more }),
        3 => (0_u64..30_000).prop_map(|ns| Step::Time { ns }),
    ]
}

proptest! {
    /// Each heap's sums by stack, the counters and the slices are those of a model that adds up events.
    #[test]
    fn sums_are_those_of_the_events(steps in proptest::collection::vec(step(), 0..200)) {
        let mut report = report(4);
        report.trace.initial_live_blocks = Some(3);
        let analyzer = Analyzer::observing(Events::default());
        let mut export = Export::new(&report, steps.len() as u64 / 2, &ExportOptions::default());
        let mut live = Vec::<BlockEvent>::new();
        let mut model = BTreeMap::<(u8, u32), [u64; 4]>::new();
        let (mut now, mut number, mut allocated) = (0, 0, 0);
        let actor = Actor::default();
        for step in steps {
            number += 1;
            let stamp = |block: &mut BlockEvent| (block.number, block.at_ns) = (number, now);
            let pick = |which: usize| (!live.is_empty()).then(|| which % live.len());
            let mut add = |block: &BlockEvent, sums: [u64; 4]| {
                let site = model.entry((block.heap, block.bucket)).or_default();
                site.iter_mut().zip(sums).for_each(|(site, sum)| *site = site.wrapping_add(sum));
            };
            let mut emit = |block: &BlockEvent, change| export.event(block, change, &who);
            match step {
                Step::Time { ns } => now += ns,
                Step::Alloc { bucket, heap, bytes } => {
                    let mut block = made!(BlockEvent { bucket, heap, bytes });
                    stamp(&mut block);
                    emit(&block, BlockChange::Allocated);
                    add(&block, [bytes, 0, 1, 0]);
                    allocated += bytes;
                    live.push(block);
                }
                Step::Free { which } => {
                    let Some(which) = pick(which) else { continue };
                    let mut block = live.swap_remove(which);
                    stamp(&mut block);
                    emit(&block, BlockChange::Freed { by: actor, short_lived: false });
                    add(&block, [0, block.bytes, 0, 1]);
                }
                Step::Realloc { which, bytes } => {
                    let Some(which) = pick(which) else { continue };
                    let block = &mut live[which];
                    stamp(block);
                    emit(block, BlockChange::ReallocBegun);
                    add(block, [bytes, block.bytes, 1, 1]);
                    let bytes_before = std::mem::replace(&mut block.bytes, bytes);
                    let (begun, from, bucket_before) = (number, block.address, block.bucket);
                    let by = actor;
                    emit(block, BlockChange::Reallocated { begun, from, bytes_before, bucket_before, by });
                    allocated += bytes;
                }
                Step::FailedRealloc { which } => {
                    let Some(which) = pick(which) else { continue };
                    let block = &mut live[which];
                    stamp(block);
                    emit(block, BlockChange::ReallocBegun);
                    let (bytes_before, bucket_before) = (block.bytes, block.bucket);
                    let (begun, from, by) = (number, block.address, actor);
                    emit(block, BlockChange::Reallocated { begun, from, bytes_before, bucket_before, by });
                    emit(block, BlockChange::ReallocFailed { is_live: true });
                    // Its site is in the profile, though nothing is there.
                    add(block, [0; 4]);
                }
                Step::Retag { which, bucket } => {
                    let Some(which) = pick(which) else { continue };
                    let block = &mut live[which];
                    stamp(block);
                    let from = std::mem::replace(&mut block.bucket, bucket);
                    emit(block, BlockChange::Moved { from });
                    if from != bucket {
                        let mut before = *block;
                        before.bucket = from;
                        add(&before, [0, block.bytes, 0, 1]);
                        add(block, [block.bytes, 0, 1, 0]);
                    }
                }
                Step::Large { which, more } => {
                    let Some(which) = pick(which) else { continue };
                    let block = &mut live[which];
                    stamp(block);
                    let bytes_before = block.bytes;
                    block.bytes += more;
                    emit(block, BlockChange::Corrected { bytes_before, is_live: true });
                    add(block, [more, 0, 0, 0]);
                    allocated += more;
                }
            }
        }
        let mut analyzer = analyzer;
        let mut out = Vec::new();
        export.finish(&mut analyzer, &mut out).unwrap();

        let found = read(&out);
        let frames = |bucket: u32| {
            let row = &report.by_bucket[bucket as usize];
            let mut frames = report.by_scope[row.scope].path.clone();
            frames.extend((row.name == 1).then(|| "Rendering / mesh".to_owned()));
            frames
        };
        // The report has no rows of heaps.
        let heap = |number: u8| format!("heap {number}");
        let expected: BTreeMap<_, _> = model
            .iter()
            .map(|((number, bucket), sums)| ((heap(*number), frames(*bucket)), *sums))
            .collect();
        let last = |dumps: &Vec<Dump>| dumps.last().unwrap().1.clone();
        let sums = found.heaps.iter().flat_map(|(heap, dumps)| {
            last(dumps).into_iter().map(|(frames, sums)| ((heap.clone(), frames), sums))
        });
        prop_assert_eq!(sums.collect::<BTreeMap<_, _>>(), expected);
        let bytes: u64 = live.iter().map(|block| block.bytes).sum();
        let last = |name: &str| found.counter(name).last().map_or(0, |point| point.1);
        prop_assert_eq!(last("live bytes"), bytes);
        prop_assert_eq!(last("live blocks"), live.len() as u64);
        prop_assert_eq!(last("allocated bytes"), allocated);
        let of = |fits: &dyn Fn(&BucketRow) -> bool| -> u64 {
            let blocks = live.iter().filter(|block| fits(&report.by_bucket[block.bucket as usize]));
            blocks.map(|block| block.bytes).sum()
        };
        prop_assert_eq!(last("Rendering"), of(&|row| row.name == 1));
        prop_assert_eq!(last("GlobalScope > scope 2"), of(&|row| row.scope == 3));
        for track in found.tracks.keys() {
            let is_point = |event: &&TrackEvent| event.track == *track && event.kind == 4;
            let times = found.events.iter().filter(is_point).map(|event| event.time);
            prop_assert!(times.is_sorted_by(|a, b| a < b));
        }
        prop_assert_eq!(slices(&found), allocated as i64);
    }
}

/// What was allocated in all slices. They nest, and each sequence ends all that it begins.
fn slices(trace: &Trace) -> i64 {
    let mut open = BTreeMap::<u64, Vec<[i64; 2]>>::new();
    let mut sum = 0;
    for event in &trace.events {
        let open = open.entry(event.sequence).or_default();
        match event.kind {
            track_event::SLICE_BEGIN => open.push([0; 2]),
            track_event::SLICE_END => {
                let [inner, count] = open.pop().expect("a slice that has begun");
                let value = |nth: usize| match event.arguments[nth].1 {
                    Field::Number(value) => value as i64,
                    ref other => panic!("{other:?}"),
                };
                sum += value(0);
                assert_eq!([value(2), value(3)], [value(0) + inner, value(1) + count]);
                if let Some(outer) = open.last_mut() {
                    *outer = [outer[0] + value(2), outer[1] + value(3)];
                }
            }
            _ => {}
        }
    }
    assert!(open.values().all(Vec::is_empty), "a slice without an end");
    sum
}

/// More samples than fit a packet: all but the last packet of a dump say that more follows.
#[test]
fn a_long_dump_has_several_packets() {
    let report = report(5_000);
    let analyzer = Analyzer::observing(Events::default());
    let mut export = Export::new(&report, 1, &ExportOptions::default());
    for bucket in 0..report.by_bucket.len() as u32 {
        let block = made!(BlockEvent { number: 2, bucket, bytes: 1 });
        export.event(&block, BlockChange::Allocated, &who);
    }
    let mut out = Vec::new();
    export.finish(&mut { analyzer }, &mut out).unwrap();
    let found = read(&out);
    let [(_, sums)] = &*found.heaps["heap 0"] else { panic!("{} heaps", found.heaps.len()) };
    assert_eq!(sums.len(), 10_002);
    let continued: Vec<_> = profiles(&out).iter().map(|profile| profile.number(6)).collect();
    assert_eq!(continued, [Some(1), Some(1), Some(1), Some(1), Some(0)]);
    // The counters of scopes are those with the largest peaks.
    assert!(found.tracks.len() < 100);
}

/// What was live when the trace began is in the first dump, and no later event is.
#[test]
fn what_was_live_at_the_start_is_the_first_dump() {
    let mut report = report(1);
    report.trace.initial_live_blocks = Some(2);
    let analyzer = Analyzer::observing(Events::default());
    let mut export = Export::new(&report, 3, &ExportOptions::default());
    for number in 1..=4 {
        let block = made!(BlockEvent { number, bytes: 1 << number });
        export.event(&block, BlockChange::Allocated, &who);
    }
    let mut out = Vec::new();
    export.finish(&mut { analyzer }, &mut out).unwrap();
    let found = read(&out);
    let dumps = &found.heaps["heap 0"];
    let allocated = dumps.iter().map(|(_, sums)| sums.values().map(|sums| sums[0]).sum());
    // The blocks at the start, the peak, the end.
    assert_eq!(allocated.collect::<Vec<u64>>(), [2 + 4, 2 + 4 + 8, 2 + 4 + 8 + 16]);
}

/// A sum that a dump has and a correction takes back does not fall.
#[test]
fn a_correction_after_a_dump_makes_no_sum_smaller() {
    let report = report(1);
    let analyzer = Analyzer::observing(Events::default());
    let mut export = Export::new(&report, 1, &ExportOptions::default());
    let block = made!(BlockEvent { number: 1, bytes: 100 });
    export.event(&block, BlockChange::Allocated, &who);
    export.moment();
    let mut smaller = block;
    smaller.bytes = 60;
    export.event(&smaller, BlockChange::Corrected { bytes_before: 100, is_live: true }, &who);
    let mut out = Vec::new();
    export.finish(&mut { analyzer }, &mut out).unwrap();
    let found = read(&out);
    let (_, sums) = found.heaps["heap 0"].last().unwrap();
    assert_eq!(sums.values().collect::<Vec<_>>(), [&[100, 0, 1, 0]]);
}
