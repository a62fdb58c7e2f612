//! What is written, read back by the rules of Perfetto's reader: see `heap.rs`.

use super::*;
use crate::analysis::{BucketRow, GroupRow, NameRow, ScopeRow, ThreadRow};
use crate::protobuf::perfetto::{callstack, frame, interned, interned_data, profile_packet};
use crate::protobuf::perfetto::{heap_sample, process_heap_samples, track_descriptor};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};

/// The fields of a message: numbers, or bytes.
#[derive(Debug, Clone)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone, Default)]
struct Fields(Vec<(u32, Field)>);

impl Fields {
    fn of(mut bytes: &[u8]) -> Self {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let mut value = 0;
            for shift in (0..64).step_by(7) {
                let byte = bytes[0];
                *bytes = &bytes[1..];
                value |= u64::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    break;
                }
            }
            value
        }
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = match key & 7 {
                0 => Field::Number(varint(&mut bytes)),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (value, rest) = bytes.split_at(length);
                    bytes = rest;
                    Field::Bytes(value.to_owned())
                }
                kind => panic!("kind {kind}"),
            };
            fields.push(((key >> 3) as u32, value));
        }
        Self(fields)
    }

    fn number(&self, field: u32) -> Option<u64> {
        self.0.iter().find_map(|(number, value)| match value {
            Field::Number(value) if *number == field => Some(*value),
            _ => None,
        })
    }

    fn numbers(&self, field: u32) -> Vec<u64> {
        let numbers = self.0.iter().filter_map(|(number, value)| match value {
            Field::Number(value) if *number == field => Some(*value),
            _ => None,
        });
        numbers.collect()
    }

    fn bytes(&self, field: u32) -> Vec<&[u8]> {
        let all = self.0.iter().filter_map(|(number, value)| match value {
            Field::Bytes(bytes) if *number == field => Some(bytes.as_slice()),
            _ => None,
        });
        all.collect()
    }

    fn messages(&self, field: u32) -> Vec<Self> {
        self.bytes(field).into_iter().map(Self::of).collect()
    }

    fn text(&self, field: u32) -> String {
        String::from_utf8(self.bytes(field)[0].to_owned()).unwrap()
    }
}

/// What a reader keeps of the heap profiles.
#[derive(Debug, Default)]
struct Profiles {
    /// By heap and frames: allocated and freed bytes, and how often.
    sums: BTreeMap<(String, Vec<String>), [u64; 4]>,
    times: Vec<u64>,
}

/// Reads packets as the trace processor does. What it would drop is a failure.
fn profiles(bytes: &[u8]) -> Profiles {
    let mut found = Profiles::default();
    let mut begun = HashSet::new();
    let mut names = BTreeMap::new();
    let mut last = BTreeMap::<(u64, u64), [u64; 4]>::new();
    let mut indices = BTreeMap::<u64, u64>::new();
    let mut pending = BTreeMap::<u64, Vec<Fields>>::new();
    let mut has_clock = false;
    for packet in Fields::of(bytes).messages(1) {
        let sequence = packet.number(packet::TRUSTED_PACKET_SEQUENCE_ID).unwrap();
        match packet.number(packet::SEQUENCE_FLAGS).unwrap() {
            packet::INCREMENTAL_STATE_CLEARED => assert!(begun.insert(sequence), "cleared twice"),
            _ => assert!(begun.contains(&sequence), "sequence {sequence} was not begun"),
        }
        for snapshot in packet.messages(packet::CLOCK_SNAPSHOT) {
            has_clock |= snapshot.messages(1).iter().any(|clock| clock.number(1) == Some(4));
        }
        for data in packet.messages(packet::INTERNED_DATA) {
            for (field, value) in &data.0 {
                let Field::Bytes(value) = value else { panic!("{value:?}") };
                let entry = Fields::of(value);
                let iid = entry.number(interned::IID).unwrap();
                assert!(names.insert((sequence, *field, iid), entry).is_none(), "given twice");
            }
        }
        for profile in packet.messages(packet::PROFILE_PACKET) {
            assert!(has_clock, "a dump before clock 4");
            let index = indices.entry(sequence).or_default();
            assert_eq!(profile.number(profile_packet::INDEX), Some(*index));
            *index += 1;
            let dumps = pending.entry(sequence).or_default();
            dumps.extend(profile.messages(profile_packet::PROCESS_DUMPS));
            if profile.number(profile_packet::CONTINUED) == Some(1) {
                continue;
            }
            let dumps = pending.remove(&sequence).unwrap();
            let at = dumps[0].number(process_heap_samples::TIMESTAMP).unwrap();
            found.times.push(at);
            for dump in dumps {
                assert_eq!(dump.number(process_heap_samples::TIMESTAMP), Some(at));
                assert!(dump.number(process_heap_samples::ORIG_SAMPLING_INTERVAL_BYTES) > Some(0));
                let heap = dump.text(process_heap_samples::HEAP_NAME);
                for sample in dump.messages(process_heap_samples::SAMPLES) {
                    let stack = sample.number(heap_sample::CALLSTACK_ID).unwrap();
                    let now = [
                        heap_sample::SELF_ALLOCATED,
                        heap_sample::SELF_FREED,
                        heap_sample::ALLOC_COUNT,
                        heap_sample::FREE_COUNT,
                    ]
                    .map(|field| sample.number(field).unwrap());
                    let before = last.insert((sequence, stack), now).unwrap_or_default();
                    let entry = &names[&(sequence, interned_data::CALLSTACKS, stack)];
                    let frames = entry.numbers(callstack::FRAME_IDS).into_iter().map(|iid| {
                        let frame = &names[&(sequence, interned_data::FRAMES, iid)];
                        let name = frame.number(frame::FUNCTION_NAME_ID).unwrap();
                        names[&(sequence, interned_data::FUNCTION_NAMES, name)].text(interned::TEXT)
                    });
                    let sums = found.sums.entry((heap.clone(), frames.collect())).or_default();
                    for (sum, (now, before)) in sums.iter_mut().zip(now.into_iter().zip(before)) {
                        *sum += now.checked_sub(before).expect("a sum that falls");
                    }
                }
            }
        }
    }
    assert!(pending.is_empty(), "a dump without an end");
    let times: HashSet<_> = found.times.iter().collect();
    assert_eq!(times.len(), found.times.len(), "two dumps at one time");
    found
}

/// All do everything on the first thread, in the outermost scope.
fn who(_: Actor) -> (u32, Option<Vec<String>>) {
    (1, Some(vec!["GlobalScope".to_owned()]))
}

/// A report of some buckets without stacks: each is a scope within the outermost one, and a name.
fn report(scopes: usize) -> Report {
    let mut report = Report::default();
    let global = String::from("GlobalScope");
    report.by_scope.push(ScopeRow { path: vec![global.clone()], ..ScopeRow::default() });
    for number in 0..scopes {
        let path = vec![global.clone(), format!("scope {number}")];
        let mut row = ScopeRow { path, ..ScopeRow::default() };
        row.inclusive.peak_bytes = 1;
        report.by_scope.push(row);
    }
    for name in ["Unnamed", "mesh"] {
        let group = vec![if name == "mesh" { "Rendering" } else { "Unknown" }.to_owned()];
        report.by_name.push(NameRow { group, name: name.to_owned(), ..NameRow::default() });
    }
    let mut group = GroupRow { group: vec!["Rendering".to_owned()], ..GroupRow::default() };
    group.inclusive.peak_bytes = 1;
    report.by_group.push(group);
    report.by_thread.push(ThreadRow { id: 1, name: "main".to_owned(), ..ThreadRow::default() });
    report.by_thread.push(ThreadRow { id: 2, ..ThreadRow::default() });
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
                    let mut block = BlockEvent { bucket, heap, bytes, ..BlockEvent::default() };
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
                        add(&BlockEvent { bucket: from, ..*block }, [0, block.bytes, 0, 1]);
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

        let found = profiles(&out);
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
        prop_assert_eq!(found.sums, expected);
        let bytes: u64 = live.iter().map(|block| block.bytes).sum();
        let names = track_names(&out);
        let counters = counters(&out);
        let last = |name: &str| counters.get(&names[name]).map_or(0, |points| points.last().unwrap().1);
        prop_assert_eq!(last("live bytes"), bytes);
        prop_assert_eq!(last("live blocks"), live.len() as u64);
        prop_assert_eq!(last("allocated bytes"), allocated);
        let of = |fits: &dyn Fn(&BucketRow) -> bool| -> u64 {
            let blocks = live.iter().filter(|block| fits(&report.by_bucket[block.bucket as usize]));
            blocks.map(|block| block.bytes).sum()
        };
        prop_assert_eq!(last("Rendering"), of(&|row| row.name == 1));
        prop_assert_eq!(last("GlobalScope > scope 2"), of(&|row| row.scope == 3));
        for points in counters.values() {
            prop_assert!(points.windows(2).all(|two| two[0].0 < two[1].0), "{:?}", points);
        }
        prop_assert_eq!(slices(&out), allocated as i64);
    }
}

/// The tracks by name.
fn track_names(bytes: &[u8]) -> BTreeMap<String, u64> {
    let packets = Fields::of(bytes).messages(1);
    let tracks = packets.iter().flat_map(|packet| packet.messages(packet::TRACK_DESCRIPTOR));
    let named = tracks.filter(|track| !track.bytes(track_descriptor::NAME).is_empty());
    let named = named.map(|track| {
        (track.text(track_descriptor::NAME), track.number(track_descriptor::UUID).unwrap())
    });
    named.collect()
}

/// The points of counters: times and values.
fn counters(bytes: &[u8]) -> BTreeMap<u64, Vec<(u64, u64)>> {
    let mut counters = BTreeMap::<_, Vec<_>>::new();
    for packet in Fields::of(bytes).messages(1) {
        let at = packet.number(packet::TIMESTAMP).unwrap_or(0);
        for event in packet.messages(packet::TRACK_EVENT) {
            if event.number(track_event::TYPE) == Some(track_event::COUNTER) {
                let value = event.number(track_event::COUNTER_VALUE).unwrap();
                let track = event.number(track_event::TRACK_UUID).unwrap();
                counters.entry(track).or_default().push((at, value));
            }
        }
    }
    counters
}

/// What was allocated in all slices. They nest, and each sequence ends all that it begins.
fn slices(bytes: &[u8]) -> i64 {
    let mut open = BTreeMap::<u64, Vec<[i64; 2]>>::new();
    let mut sum = 0;
    for packet in Fields::of(bytes).messages(1) {
        let sequence = packet.number(packet::TRUSTED_PACKET_SEQUENCE_ID).unwrap();
        let open = open.entry(sequence).or_default();
        for event in packet.messages(packet::TRACK_EVENT) {
            match event.number(track_event::TYPE).unwrap() {
                track_event::SLICE_BEGIN => open.push([0; 2]),
                track_event::SLICE_END => {
                    let [inner, count] = open.pop().expect("a slice that has begun");
                    let arguments = event.messages(track_event::DEBUG_ANNOTATIONS);
                    let value = |nth: usize| arguments[nth].number(4).unwrap() as i64;
                    sum += value(0);
                    assert_eq!([value(2), value(3)], [value(0) + inner, value(1) + count]);
                    if let Some(outer) = open.last_mut() {
                        *outer = [outer[0] + value(2), outer[1] + value(3)];
                    }
                }
                _ => {}
            }
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
        let block = BlockEvent { number: 2, bucket, bytes: 1, ..BlockEvent::default() };
        export.event(&block, BlockChange::Allocated, &who);
    }
    let mut out = Vec::new();
    export.finish(&mut { analyzer }, &mut out).unwrap();
    let found = profiles(&out);
    assert_eq!((found.sums.len(), found.times.len()), (10_002, 1));
    let packets = Fields::of(&out).messages(1);
    let profiles = packets.iter().flat_map(|packet| packet.messages(packet::PROFILE_PACKET));
    let continued: Vec<_> =
        profiles.map(|profile| profile.number(profile_packet::CONTINUED).unwrap()).collect();
    assert_eq!(continued, [1, 1, 1, 1, 0]);
    // The counters of scopes are those with the largest peaks.
    assert!(track_names(&out).len() < 100);
}

/// What was live when the trace began is in the first dump, and no later event is.
#[test]
fn what_was_live_at_the_start_is_the_first_dump() {
    let mut report = report(1);
    report.trace.initial_live_blocks = Some(2);
    let analyzer = Analyzer::observing(Events::default());
    let mut export = Export::new(&report, 3, &ExportOptions::default());
    for number in 1..=4 {
        let block = BlockEvent { number, bytes: 1 << number, ..BlockEvent::default() };
        export.event(&block, BlockChange::Allocated, &who);
    }
    let mut out = Vec::new();
    export.finish(&mut { analyzer }, &mut out).unwrap();
    let packets = Fields::of(&out).messages(1);
    let profiles = packets.iter().flat_map(|packet| packet.messages(packet::PROFILE_PACKET));
    let dumps = profiles.flat_map(|profile| profile.messages(profile_packet::PROCESS_DUMPS));
    let allocated: Vec<_> = dumps
        .map(|dump| {
            dump.messages(process_heap_samples::SAMPLES)[0].number(heap_sample::SELF_ALLOCATED)
        })
        .collect();
    // The blocks at the start, the peak, the end.
    assert_eq!(allocated, [Some(2 + 4), Some(2 + 4 + 8), Some(2 + 4 + 8 + 16)]);
}

/// A sum that a dump has and a correction takes back does not fall.
#[test]
fn a_correction_after_a_dump_makes_no_sum_smaller() {
    let report = report(1);
    let analyzer = Analyzer::observing(Events::default());
    let mut export = Export::new(&report, 1, &ExportOptions::default());
    let block = BlockEvent { number: 1, bytes: 100, ..BlockEvent::default() };
    export.event(&block, BlockChange::Allocated, &who);
    export.moment();
    let smaller = BlockEvent { bytes: 60, ..block };
    export.event(&smaller, BlockChange::Corrected { bytes_before: 100, is_live: true }, &who);
    let mut out = Vec::new();
    export.finish(&mut { analyzer }, &mut out).unwrap();
    assert_eq!(profiles(&out).sums.values().copied().collect::<Vec<_>>(), [[100, 0, 1, 0]]);
}
