//! Memory that is in no block: known reasons, and resident memory outside of where blocks have been.

use memledger_analysis::{Analyzer, CoverageWord, Report, UntrackedKind, Weighed};
use memledger_export::json;
use memledger_export::text::{self, Options, lacks};
use memledger_format::schema::FieldType;
use memledger_test_support::feed::{
    Feed,
    V::{B, N, S},
};

const MIB: u64 = 1 << 20;

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A recording from the start of its process; `has_c`: with the heap of `malloc`.
fn feed(has_c: bool) -> Feed {
    let mut feed = Feed::ours(Analyzer::new());
    if has_c {
        feed.emit("Memory.HeapSpec", 1, &[N(2), N(u32::MAX.into()), N(1), S("C")]);
    }
    feed
}

/// One range of anonymous memory, of which so much is resident, and 1 MiB of binaries.
fn resident(feed: &mut Feed, own: u64, start: u64, bytes: u64, resident: u64) {
    let [start, bytes, resident] = [start, bytes, resident].map(|value| words(&[value]));
    let sums = [N(7), N(own), N(0), N(0), N(MIB), N(0), N(0), N(0), N(0)];
    let ranges = [B(&start), B(&bytes), B(&resident)];
    feed.emit("Memledger.ResidentMemory", 1, &[&sums[..], &ranges].concat());
}

fn shown(report: &Report) -> String {
    let mut text = Vec::new();
    let mut options = Options::default();
    options.width = 1_000;
    text::write(report, &options, &mut text).expect("a Vec takes all");
    String::from_utf8(text).expect("text")
}

#[test]
fn what_is_resident_where_no_block_has_been_is_said() {
    let mut feed = feed(true);
    // Two windows of 64 KiB in which blocks have been, one of them freed.
    feed.alloc(2, 0x1000_0000, 100);
    feed.alloc(2, 0x1001_0000, 100);
    feed.free(2, 0x1001_0000);
    resident(&mut feed, 64 << 10, 0x1000_0000, 64 * MIB, 10 * MIB);
    feed.our_report(9);
    let report = feed.report();
    let weighed = report.untracked.weighed.expect("it was weighed");
    // The windows, and the tracker's 64 KiB with half as much again.
    let explained = (2 * 64 + 96) << 10;
    assert_eq!((weighed.rss_bytes, weighed.untracked_bytes), (11 * MIB, 10 * MIB - explained));
    assert!(!report.trace.complete && report.trace.ended);
    assert_eq!(report.trace.coverage.word, CoverageWord::Incomplete);
    let text = shown(&report);
    let sentence = "at least 9.8 MiB of 11.0 MiB resident are in no block seen";
    let expected = format!(", INCOMPLETE, {sentence}\n  UNTRACKED    {sentence}: no function ");
    assert!(text.contains(&expected) && !text.contains("no end"), "{text}");
    let mut written = Vec::new();
    json::write(&report, &mut written).expect("a Vec takes all");
    let written: serde_json::Value = serde_json::from_slice(&written).expect("JSON");
    assert_eq!(written["untracked"]["known"], true);
    assert_eq!(written["untracked"]["weighed"]["untracked_bytes"], weighed.untracked_bytes);
}

#[test]
fn the_most_that_the_tracker_had_explains_as_much_and_half_of_it() {
    for most in [MIB, 4 * MIB, 8 * MIB] {
        let mut feed = feed(true);
        feed.add_field("Memledger.ResidentMemory", ("MostOwnBytes", FieldType::U64));
        feed.alloc(2, 0x1000_0000, 100);
        let [start, bytes, resident] =
            [0x1000_0000, 64 * MIB, 10 * MIB].map(|value| words(&[value]));
        // It has 64 KiB now.
        let sums = [N(7), N(64 << 10), N(0), N(0), N(MIB), N(0), N(0), N(0), N(0)];
        let ranges = [B(&start), B(&bytes), B(&resident), N(most)];
        feed.emit("Memledger.ResidentMemory", 1, &[&sums[..], &ranges].concat());
        feed.our_report(9);
        let weighed = feed.report().untracked.weighed.expect("it was weighed");
        let explained = (64 << 10) + most + most / 2;
        assert_eq!(weighed.untracked_bytes, (10 * MIB).saturating_sub(explained), "{most}");
    }
}

#[test]
fn shared_memory_that_no_block_has_is_untracked() {
    let mut feed = feed(true);
    let array = |name| (name, FieldType::U64Array);
    let arrays = ["SharedStarts", "SharedSizes", "SharedResident"].map(array);
    feed.add_fields("Memledger.ResidentMemory", &arrays);
    // A block has been in one half of it.
    feed.alloc(2, 0x1000_0000, 2 << 20);
    let sums = [N(7), N(0), N(0), N(0), N(MIB), N(0), N(4 * MIB), N(0), N(0)];
    let [start, bytes] = [0x1000_0000, 4 * MIB].map(|value| words(&[value]));
    let ranges = [B(&[]), B(&[]), B(&[]), B(&start), B(&bytes), B(&bytes)];
    feed.emit("Memledger.ResidentMemory", 1, &[&sums[..], &ranges].concat());
    feed.our_report(9);
    let report = feed.report();
    let weighed = report.untracked.weighed.expect("it was weighed");
    assert_eq!((weighed.rss_bytes, weighed.untracked_bytes), (5 * MIB, 2 * MIB));
    // It is one part still.
    assert_eq!(report.rss.unwrap().end.unwrap().shared_bytes, 4 * MIB);
}

#[test]
fn lazy_mappings_are_no_blocks_and_say_who_has_made_them() {
    const LAZY: u64 = 6;
    let mut feed = feed(true);
    let array = |name| (name, FieldType::U64Array);
    let mut more = ["ChangedStarts", "ChangedSizes", "ChangedResident"].map(array).to_vec();
    more.push(("ChangedFiles", FieldType::U64));
    feed.add_fields("Memledger.ResidentMemory", &more);
    let map = |feed: &mut Feed, at, bytes, stack, state| {
        let values = [N(at), N(stack), N(bytes), N(3), N(state)];
        feed.emit("Memledger.Mapping", 2, &values);
    };
    map(&mut feed, 0x1000_0000, 64 * MIB, 5, LAZY);
    map(&mut feed, 0x2000_0000, 8 * MIB, 6, LAZY);
    // Writable, as it was: no block for that.
    map(&mut feed, 0x1000_0000, 64 * MIB, 5, 1);
    // A part was given back.
    map(&mut feed, 0x1000_0000, 4 * MIB, 0, 3);
    let sums = [N(7), N(0), N(0), N(0), N(MIB), N(0), N(0), N(0), N(0)];
    let [at, bytes, resident] = [0x1040_0000, 60 * MIB, 10 * MIB].map(|value| words(&[value]));
    let [file, file_bytes, changed] = [0x2000_0000, 8 * MIB, 3 * MIB].map(|value| words(&[value]));
    let ranges = [B(&at), B(&bytes), B(&resident), B(&file), B(&file_bytes), B(&changed)];
    let values = [&sums[..], &ranges, &[N(3 * MIB)]].concat();
    feed.emit("Memledger.ResidentMemory", 1, &values);
    feed.our_report(9);
    let report = feed.report();
    assert_eq!((report.totals.live_bytes, report.totals.peak_bytes), (0, 0));
    let weighed = report.untracked.weighed.expect("it was weighed");
    assert_eq!((weighed.rss_bytes, weighed.untracked_bytes), (14 * MIB, 0));
    let end = report.rss.unwrap().end.unwrap();
    assert_eq!([end.unreserved_bytes, end.changed_file_bytes], [10 * MIB, 3 * MIB]);
    let bytes: Vec<_> = end.mapped_by.iter().map(|row| row.bytes).collect();
    assert_eq!((bytes, end.anonymous_bytes), (vec![10 * MIB, 3 * MIB], 0));
}

#[test]
fn a_forked_child_has_untracked_what_memory_has_risen_by_without_blocks() {
    let of_child = |risen: u64, blocks: u64, of_stacks: u64| {
        let mut feed = Feed::with(Analyzer::new(), false);
        feed.emit("Memledger.Trace", 1, &[N(1), N(77), N(0), N(0)]);
        feed.emit("Memory.HeapSpec", 1, &[N(2), N(u32::MAX.into()), N(1), S("C")]);
        feed.alloc(2, 0x1000_0000, 100);
        feed.marker(5);
        feed.emit("Memledger.Alive", 1, &[N(1)]);
        let rss = |anonymous| [N(7), N(90 * MIB), N(90 * MIB), N(u64::MAX), N(anonymous)];
        // The parent has freed 50 MiB, of which the child has no event.
        feed.emit("Memledger.Rss", 1, &rss(50 * MIB));
        feed.alloc(2, 0x5000_0000, blocks);
        feed.emit("Memledger.Rss", 1, &rss(50 * MIB + risen));
        feed.add_field("Memledger.ResidentMemory", ("Risen", FieldType::U64));
        let [start, bytes, resident] =
            [0x2000_0000, 100 * MIB, 50 * MIB + risen - of_stacks].map(|value| words(&[value]));
        let sums = [N(7), N(0), N(0), N(3 * MIB + of_stacks), N(MIB), N(0), N(0), N(0), N(0)];
        let ranges = [B(&start), B(&bytes), B(&resident), N(of_stacks)];
        feed.emit("Memledger.ResidentMemory", 1, &[&sums[..], &ranges].concat());
        feed.our_report(9);
        let weighed = feed.report().untracked.weighed.expect("it was weighed");
        weighed.untracked_bytes
    };
    assert_eq!(of_child(0, 8, 0), 0);
    assert_eq!(of_child(40 * MIB, 8, 0), 40 * MIB - 8);
    assert_eq!(of_child(40 * MIB, 40 * MIB, 0), 0);
    // Stacks and static variables have risen, which are no blocks.
    assert_eq!(of_child(40 * MIB, 8, 30 * MIB), 10 * MIB - 8);
    assert_eq!(of_child(40 * MIB, 8, 40 * MIB), 0);
}

#[test]
fn where_blocks_have_been_explains_what_an_allocator_keeps() {
    let mut feed = feed(true);
    for block in 0..160 {
        feed.alloc(2, 0x1000_0000 + (block << 16), 8);
        feed.free(2, 0x1000_0000 + (block << 16));
    }
    resident(&mut feed, 0, 0x1000_0000, 64 * MIB, 10 * MIB);
    feed.our_report(9);
    let report = feed.report();
    assert_eq!(report.untracked.weighed.map(|weighed| weighed.untracked_bytes), Some(0));
    assert!(report.trace.complete && !report.untracked.is_known());
}

#[test]
fn the_memory_of_c_is_beside_a_trace_of_rusts_allocator() {
    let mut feed = feed(false);
    feed.alloc(2, 0x1000_0000, 100);
    resident(&mut feed, 0, 0x5000_0000, 64 * MIB, 10 * MIB);
    feed.our_report(9);
    let report = feed.report();
    assert!(report.trace.complete && report.untracked.is_known() && report.untracked.is_beside);
    let text = shown(&report);
    assert!(
        text.contains("complete, nothing lost\n") && text.contains("track_c_malloc!"),
        "{text}"
    );
}

#[test]
fn a_known_reason_is_said_however_little_it_is() {
    for (reason, kind, expected) in [
        (1, UntrackedKind::Malloc, "an allocator of its own, f in /bin/x"),
        (2, UntrackedKind::New, "f is that of /bin/x"),
        (3, UntrackedKind::Allocator, "/bin/x uses an allocator of its own, f"),
        (4, UntrackedKind::Go, "/bin/x is a program of Go"),
        (9, UntrackedKind::Handle, "the program has asked dlsym for f of /bin/x"),
        (10, UntrackedKind::Unreadable, "/bin/x could not be read by the program"),
    ] {
        let mut feed = feed(true);
        feed.emit("Memledger.Untracked", 1, &[N(reason), S("f"), S("/bin/x")]);
        feed.our_report(9);
        let report = feed.report();
        assert_eq!(report.untracked.reasons[0].kind, kind);
        assert!(!report.trace.complete && report.untracked.weighed.is_none());
        let text = shown(&report);
        assert!(
            text.contains("INCOMPLETE, the program has memory that is in no block seen\n"),
            "{text}"
        );
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn scopes_of_another_copy_are_said_and_nothing_is_beside() {
    for (has_c, copy, brief, copies) in [
        (false, "0.1.0", "not all scopes are recorded", "0.1.0 and 0.2.0; scopes of the former"),
        (
            true,
            "0.2.0",
            "at least 10.0 MiB of 11.0 MiB resident are in no block seen",
            "0.2.0 twice; scopes of one copy",
        ),
    ] {
        let mut feed = feed(has_c);
        feed.emit("Memledger.Untracked", 1, &[N(6), S(copy), S("0.2.0")]);
        feed.alloc(2, 0x1000_0000, 100);
        resident(&mut feed, 0, 0x5000_0000, 64 * MIB, 10 * MIB);
        feed.our_report(9);
        let report = feed.report();
        assert!(!report.trace.complete && report.untracked.has_scopes());
        let text = shown(&report);
        let sentence =
            format!("{brief}: this program contains memledger {copies} are not recorded");
        let expected = format!("INCOMPLETE, {brief}\n  UNTRACKED    {sentence}\n");
        assert!(text.contains(&expected) && text.matches(brief).count() == 2, "{text}");
    }
}

#[test]
fn a_program_that_has_replaced_the_process_and_has_no_trace_is_said_with_its_time() {
    for has_c in [true, false] {
        let mut feed = feed(has_c);
        feed.alloc(2, 0x1000_0000, 100);
        feed.emit("Memledger.Untracked", 1, &[N(7), S("5"), S("./program")]);
        feed.our_report(9);
        let report = feed.report();
        let reason = &report.untracked.reasons[0];
        assert!(!report.trace.complete && reason.kind == UntrackedKind::Replaced);
        let at = text::duration(reason.function.parse().expect("a number"));
        let brief = format!("INCOMPLETE, replaced by ./program at {at}\n");
        let text = shown(&report);
        assert!(text.contains(&brief), "{text}");
        assert!(text.contains("what ./program allocated is not recorded"), "{text}");
    }
}

#[test]
fn a_started_program_is_missing_only_if_it_was_executed_and_has_no_trace() {
    let mut feed = feed(true);
    let of_shell = [("", "sh"), ("", "sh")];
    let started = [("8", "./a"), ("8", ""), ("9", "./b"), ("10", "./c"), ("11", "./c")];
    for (process, file) in started.into_iter().chain(of_shell) {
        feed.emit("Memledger.Untracked", 1, &[N(8), S(process), S(file)]);
    }
    feed.our_report(9);
    let mut report = feed.report();
    let is_incomplete = |report: &Report| report.trace.coverage.word == CoverageWord::Incomplete;
    assert!(!is_incomplete(&report) && report.untracked.reasons.is_empty());
    report.judge_children(|process| process != 8);
    assert!(!is_incomplete(&report), "it was not executed");
    report.judge_children(|process| process == 9);
    assert!(is_incomplete(&report) && !report.trace.complete);
    let reasons = &report.untracked.reasons;
    let of = |number: usize| (&*reasons[number].function, &*reasons[number].file);
    assert_eq!((reasons.len(), of(0), of(1)), (2, ("10", "./c"), ("", "sh")));
    let text = shown(&report);
    assert!(text.contains("INCOMPLETE, ./c (process 10) has no trace\n"), "{text}");
    let mut report = feed.report();
    report.judge_children(|process| process != 0);
    let text = shown(&report);
    assert!(text.contains("INCOMPLETE, sh has no trace\n"), "{text}");
    assert!(text.contains("system or popen has started it"), "{text}");
}

#[test]
fn what_began_late_is_not_weighed() {
    let mut feed = Feed::with(Analyzer::new(), false);
    feed.emit("Memledger.Trace", 1, &[N(1), N(77), N(0), N(0)]);
    feed.marker(5);
    resident(&mut feed, 0, 0x5000_0000, 64 * MIB, 10 * MIB);
    assert_eq!(feed.report().untracked.weighed, None);
}

/// The words for so much in no block of so much resident memory: no more than 1 MiB or 1 % is complete, more
/// than 1 MiB and 5 % is not.
#[test]
fn how_much_is_in_no_block_decides_the_word() {
    use CoverageWord::{Complete, CompleteFor, Incomplete};
    for (unseen, all, expected) in [
        (MIB - 1, 3 * MIB, Complete),
        (MIB, 3 * MIB, CompleteFor),
        (MIB + 4096, 3 * MIB, Incomplete),
        (MIB + 4096, 30 * MIB, CompleteFor),
        (9 * MIB, 1000 * MIB, Complete),
        (10 * MIB, 1000 * MIB, CompleteFor),
        (50 * MIB, 1000 * MIB, CompleteFor),
        (51 * MIB, 1000 * MIB, Incomplete),
    ] {
        let mut feed = feed(true);
        feed.alloc(2, 0x1000_0000, 100);
        let parts = [(0x1000_0000, 64 << 10), (0x5000_0000, unseen)];
        let rest = all - MIB - unseen - (64 << 10);
        let parts = [&parts[..], &[(0x9000_0000, rest)]].concat();
        feed.alloc(2, 0x9000_0000, rest);
        let array = |of: fn(&(u64, u64)) -> u64| words(&parts.iter().map(of).collect::<Vec<_>>());
        let [starts, sizes] = [array(|part| part.0), array(|part| part.1)];
        let sums = [N(7), N(0), N(0), N(0), N(MIB), N(0), N(0), N(0), N(0)];
        let ranges = [B(&starts), B(&sizes), B(&sizes)];
        feed.emit("Memledger.ResidentMemory", 1, &[&sums[..], &ranges].concat());
        feed.our_report(9);
        let report = feed.report();
        let coverage = &report.trace.coverage;
        assert_eq!(coverage.word, expected, "{unseen} of {all}");
        assert_eq!(report.trace.complete, expected == Complete);
        assert_eq!(coverage.unseen_bytes(), if expected == Complete { 0 } else { unseen });
        let text = shown(&report);
        let first = text.lines().next().expect("a line");
        assert!(
            first.contains(match expected {
                Complete => ", complete, nothing lost",
                CompleteFor => ", complete but for at least ",
                _ => ", INCOMPLETE, at least ",
            }),
            "{first}"
        );
    }
}

/// The kernel's maximum, against what a reading says is beside the windows of blocks, and what was mapped.
#[test]
fn a_maximum_between_two_readings_is_unseen() {
    for (most, mapped, expected) in [
        (11 * MIB, 0, CoverageWord::Complete),
        (60 * MIB, 0, CoverageWord::Incomplete),
        (60 * MIB, 50 * MIB, CoverageWord::Complete),
    ] {
        let mut feed = feed(true);
        feed.add_field("Memledger.Rss", ("MappedBytes", FieldType::U64));
        feed.alloc(2, 0x1000_0000, 10 * MIB);
        feed.free(2, 0x1000_0000);
        let look = |feed: &mut Feed, most, mapped| {
            feed.emit("Memledger.Rss", 1, &[N(6), N(MIB), N(most), N(u64::MAX), N(0), N(mapped)]);
        };
        look(&mut feed, most, mapped);
        resident(&mut feed, 0, 0x1000_0000, 10 * MIB, 0);
        // What is mapped afterwards explains nothing.
        look(&mut feed, most, 999 * MIB);
        feed.our_report(9);
        let report = feed.report();
        assert_eq!(report.trace.coverage.word, expected, "{most} {mapped}");
        if expected == CoverageWord::Incomplete {
            let unseen = most - 11 * MIB;
            assert_eq!(report.untracked.unseen_peak.map(|peak| peak.untracked_bytes), Some(unseen));
            assert!(
                shown(&report)
                    .contains("INCOMPLETE, at least 49.0 MiB of 60.0 MiB resident at most")
            );
        }
    }
}

/// A maximum that was much of what was resident then is as grave where more is unseen later, of far more.
#[test]
fn a_grave_maximum_stays_where_more_is_unseen_later() {
    let mut feed = feed(true);
    feed.add_field("Memledger.Rss", ("MappedBytes", FieldType::U64));
    let look = [N(6), N(MIB), N(10 * MIB), N(u64::MAX), N(0), N(0)];
    feed.emit("Memledger.Rss", 1, &look);
    resident(&mut feed, 0, 0x1000_0000, 10 * MIB, 0);
    feed.emit("Memledger.Rss", 1, &look);
    feed.alloc(2, 0x4000_0000, 500 * MIB);
    resident(&mut feed, 0, 0x4000_0000, 512 * MIB, 512 * MIB);
    feed.our_report(9);
    let report = feed.report();
    let [weighed, peak] = [report.untracked.weighed, report.untracked.unseen_peak];
    assert_eq!(
        [weighed, peak].map(|of| of.map(|of| of.untracked_bytes / MIB)),
        [Some(12), Some(9)]
    );
    assert_eq!(report.trace.coverage.word, CoverageWord::Incomplete);
    assert!(shown(&report).contains("INCOMPLETE, at least 9.0 MiB of 10.0 MiB resident at most"));
}

/// Blocks that come in events after a reading were there, and explain it; those that come after a maximum and
/// the look behind it do not explain that.
#[test]
fn blocks_explain_what_was_resident_before_their_events() {
    for (blocks_at, expected) in [(1, CoverageWord::Complete), (2, CoverageWord::Incomplete)] {
        let mut feed = feed(true);
        feed.add_field("Memledger.Rss", ("MappedBytes", FieldType::U64));
        let look = |feed: &mut Feed, at| {
            feed.emit("Memledger.Rss", 1, &[N(at), N(MIB), N(21 * MIB), N(u64::MAX), N(0), N(0)]);
        };
        let blocks = |feed: &mut Feed, at: u64| {
            if at == blocks_at {
                feed.alloc(2, 0x1000_0000, 20 * MIB);
            }
        };
        look(&mut feed, 6);
        blocks(&mut feed, 1);
        look(&mut feed, 7);
        blocks(&mut feed, 2);
        resident(&mut feed, 0, 0x1000_0000, 20 * MIB, 0);
        feed.our_report(9);
        assert_eq!(feed.report().trace.coverage.word, expected, "a maximum, {blocks_at}");
    }
    let mut feed = feed(true);
    resident(&mut feed, 0, 0x1000_0000, 20 * MIB, 20 * MIB);
    assert_eq!(feed.report().trace.coverage.word, CoverageWord::Incomplete);
    feed.alloc(2, 0x1000_0000, 20 * MIB);
    feed.our_report(9);
    assert_eq!(feed.report().trace.coverage.word, CoverageWord::Complete);
}

/// Reserved addresses in which blocks have been explain what is resident there, and nothing elsewhere.
#[test]
fn reserved_addresses_explain_only_what_is_in_them() {
    const LAZY: u64 = 6;
    let mut feed = feed(true);
    feed.emit("Memledger.Mapping", 2, &[N(0x1000_0000), N(0), N(8 * MIB), N(3), N(LAZY)]);
    feed.alloc(2, 0x1000_0000, 4 * MIB);
    let [starts, sizes] = [words(&[0x1000_0000, 0x5000_0000]), words(&[4 * MIB, 3 * MIB])];
    let sums = [N(7), N(0), N(0), N(0), N(MIB), N(0), N(0), N(0), N(0)];
    let ranges = [B(&starts), B(&sizes), B(&sizes)];
    feed.emit("Memledger.ResidentMemory", 1, &[&sums[..], &ranges].concat());
    feed.our_report(9);
    let weighed = feed.report().untracked.weighed.expect("it was weighed");
    assert_eq!((weighed.rss_bytes, weighed.untracked_bytes), (8 * MIB, 3 * MIB));
}

/// What an allocator has mapped whose functions are recorded is in blocks, free, or its tables.
#[test]
fn what_an_allocator_has_mapped_is_explained() {
    let mut feed = feed(true);
    feed.add_field("Memledger.ResidentMemory", ("Allocators", FieldType::U8Array));
    let [starts, sizes] = [words(&[0x1000_0000, 0x5000_0000]), words(&[4 * MIB, 3 * MIB])];
    let sums = [N(7), N(0), N(0), N(0), N(MIB), N(0), N(0), N(0), N(0)];
    let ranges = [B(&starts), B(&sizes), B(&sizes), B(&[1, 0])];
    feed.emit("Memledger.ResidentMemory", 1, &[&sums[..], &ranges].concat());
    feed.our_report(9);
    let weighed = feed.report().untracked.weighed.expect("it was weighed");
    assert_eq!((weighed.rss_bytes, weighed.untracked_bytes), (8 * MIB, 3 * MIB));
}

/// 2 of 3 MiB are a graver lack than 3 of 204; both are said, and the larger one bounds conditions.
#[test]
fn the_gravest_reading_is_the_word_and_the_largest_bounds_conditions() {
    let mut feed = feed(true);
    resident(&mut feed, 0, 0x5000_0000, 8 * MIB, 2 * MIB);
    feed.alloc(2, 0x9000_0000, 200 * MIB);
    let [starts, sizes] = [words(&[0x5000_0000, 0x9000_0000]), words(&[3 * MIB, 200 * MIB])];
    let sums = [N(8), N(0), N(0), N(0), N(MIB), N(0), N(0), N(0), N(0)];
    let ranges = [B(&starts), B(&sizes), B(&sizes)];
    feed.emit("Memledger.ResidentMemory", 1, &[&sums[..], &ranges].concat());
    feed.our_report(9);
    let report = feed.report();
    let bytes = |of: Option<Weighed>| of.map(|of| (of.untracked_bytes, of.rss_bytes));
    assert_eq!(bytes(report.untracked.weighed), Some((2 * MIB, 3 * MIB)));
    assert_eq!(bytes(report.untracked.largest), Some((3 * MIB, 204 * MIB)));
    assert_eq!(report.trace.coverage.word, CoverageWord::Incomplete);
    assert_eq!(report.trace.coverage.unseen_bytes(), 3 * MIB);
    assert!(shown(&report).contains("INCOMPLETE, at least 2.0 MiB of 3.0 MiB resident"));
}

#[test]
fn what_was_not_weighed_to_the_end_is_complete_for_malloc() {
    let mut never = feed(true);
    never.alloc(2, 0x1000_0000, 100);
    never.our_report(9);
    let mut early = feed(true);
    early.add_field("Memledger.ResidentMemory", ("IsLast", FieldType::U8));
    early.alloc(2, 0x1000_0000, 100);
    let none = words(&[]);
    let sums = [N(7), N(0), N(0), N(0), N(MIB), N(0), N(0), N(0), N(0)];
    let parts = |is_last| [&sums[..], &[B(&none), B(&none), B(&none), N(is_last)]].concat();
    early.emit("Memledger.ResidentMemory", 1, &parts(0));
    let running = early.report();
    assert_eq!(running.trace.coverage.reasons.len(), 1, "it has no end yet, and no more");
    early.our_report(800_000_007);
    let mut last = feed(true);
    last.add_field("Memledger.ResidentMemory", ("IsLast", FieldType::U8));
    last.emit("Memledger.ResidentMemory", 1, &parts(1));
    last.our_report(800_000_007);
    for (mut feed, words) in [
        (never, "complete for malloc; other memory was not weighed\n"),
        (early, "complete for malloc; other memory was last weighed 800.0 ms before the end\n"),
        (last, "complete, nothing lost\n"),
    ] {
        let report = feed.report();
        let text = shown(&report);
        assert!(text.contains(words), "{text}");
        let is_complete = words.contains("nothing lost");
        assert_eq!(report.trace.complete, is_complete);
        assert_eq!(report.trace.coverage.unseen_bytes(), 0);
        let bounded = report.trace.coverage.is_bounded();
        assert!(bounded && lacks(&report).is_empty());
    }
}
