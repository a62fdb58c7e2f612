//! What sentences say.

use super::*;
use memledger_document::{Caller, FindingFigure, made};

fn finding(kind: FindingKind, figures: &[(&'static str, Unit, u64)]) -> Finding {
    let of = |(key, unit, value): &(&'static str, Unit, u64)| {
        FindingFigure::of_blocks(key, *unit, *value)
    };
    made!(Finding { kind, figures: figures.iter().map(of).collect() })
}

use Unit::{Bytes as B, Count as C, Nanoseconds as N};

#[test]
fn each_kind_is_said_in_sentences() {
    let left = [
        ("blocks", C, 60),
        ("bytes", B, 120_000),
        ("mean_age_ns", N, 2_000_000_000),
        ("freed", C, 720),
        ("freed_within_ns", N, 3_000_000),
    ];
    let with_ratio = [&left[..], &[("one_in", C, 13), ("sites", C, 9)]].concat();
    let at_one = [&left[..], &[("one_in", C, 13), ("sites", C, 1)]].concat();
    let grown = [
        ("blocks", C, 20),
        ("growths", C, 130),
        ("largest_bytes", B, 2048),
        ("reserve_bytes", B, 1024),
    ];
    let moved = [&grown[..], &[("moved", C, 100), ("copied_bytes", B, 4096)]].concat();
    let kept =
        [("kept_bytes", B, 40 << 20), ("resident_bytes", B, 50 << 20), ("live_bytes", B, 1 << 20)];
    let between = [
        &kept[..],
        &[("before_end_ns", N, 5_000_000_000), ("blocks", C, 8_000), ("pages", C, 7_000)],
    ]
    .concat();
    for (kind, figures, expected) in [
        (
            FindingKind::LeftBehind,
            &with_ratio[..],
            "60 blocks (117.2 KiB) not freed, 2.00 s old on average, while 720 others from the same place were, \
             95 % of them within 3.0 ms. One in 13 is left at each of 9 call stacks",
        ),
        (
            FindingKind::LeftBehind,
            &at_one,
            "60 blocks (117.2 KiB) not freed, 2.00 s old on average, while 720 others from the same place were, \
             95 % of them within 3.0 ms. One in 13 is left at its call stack",
        ),
        (
            FindingKind::LeftBehind,
            &left,
            "60 blocks (117.2 KiB) not freed, 2.00 s old on average, while 720 others from the same place were, \
             95 % of them within 3.0 ms",
        ),
        (
            FindingKind::NoLongerFreed,
            &[
                ("at_ns", N, 2_000_000_000),
                ("freed", C, 1_800),
                ("freed_within_ns", N, 200_000_000),
                ("blocks", C, 2_000),
                ("bytes", B, 16_000_000),
            ],
            "until 2.00 s, 1,800 blocks were freed, 95 % of them within 200 ms; since then 2,000 blocks (15.3 MiB) \
             came, and none was freed",
        ),
        (
            FindingKind::AgainAndAgain,
            &[
                ("calls", C, 8_400_000),
                ("allocated_bytes", B, 786 << 20),
                ("most_live_bytes", B, 131 << 10),
            ],
            "8,400,000 calls of the allocator for 786.0 MiB, of which never more than 131.0 KiB were live",
        ),
        (
            FindingKind::GrowsStepwise,
            &grown,
            "20 blocks grew 130 times. The largest became 2.0 KiB",
        ),
        (
            FindingKind::GrowsStepwise,
            &moved,
            "20 blocks grew 130 times; 100 times to another address, copying up to 4.0 KiB. The largest became 2.0 KiB",
        ),
        (
            FindingKind::Fragmentation,
            &kept,
            "the allocator keeps 40.0 MiB that was freed, of 50.0 MiB resident, with 1.0 MiB live",
        ),
        (
            FindingKind::Fragmentation,
            &between,
            "the allocator keeps 40.0 MiB that was freed, of 50.0 MiB resident at 5.00 s, before the program freed \
             what it had, with 1.0 MiB live. Between it lie 8,000 live blocks of this place, in 7,000 pages",
        ),
    ] {
        assert_eq!(evidence(&finding(kind, figures)), expected);
    }
    let advice = |figures| suggestion(&finding(FindingKind::Fragmentation, figures));
    assert!(advice(&between).starts_with("Give these 8,000 blocks a pool"));
    assert!(advice(&kept).starts_with("Hold less at once"));
}

#[test]
fn a_queue_and_a_temporary_set_name_who_and_what() {
    let by = |thread, name: &str, blocks, is_own| {
        made!(FreedBy { name: name.to_owned(), thread, blocks, is_own })
    };
    let figures = [
        ("passed", C, 900),
        ("freed", C, 901),
        ("blocks", C, 300),
        ("bytes", B, 3 << 20),
        ("median_ns", N, 20_000_000),
    ];
    let queue = |names: [&str; 2]| {
        let mut queue = finding(FindingKind::Queue, &figures);
        queue.freed_by = vec![by(7, names[1], 900, false), by(1, names[0], 1, true)];
        queue.place.thread = Some((1, names[0].to_owned()));
        evidence(&queue)
    };
    let said = |to: &str| {
        format!(
            "900 of 901 freed blocks were freed by other threads, most by {to}; 300 blocks were live at the peak \
                 (3.0 MiB). The median lived 20 ms"
        )
    };
    assert_eq!(queue(["reader", "writer"]), said("writer"));
    // A name of the program's is no name of a thread.
    assert_eq!(queue(["server", "server"]), said("server (7)"));
    assert_eq!(queue(["", ""]), said("thread 7"));
    let figures = [
        ("blocks", C, 100),
        ("bytes", B, 9 << 20),
        ("lived_ns", N, 400_000_000),
        ("other_bytes", B, 10 << 20),
        ("other_blocks", C, 90),
    ];
    let mut temporary = finding(FindingKind::Temporary, &figures);
    temporary.beside = Some("load_page".to_owned());
    assert_eq!(
        evidence(&temporary),
        "9.0 MiB in 100 blocks were freed after the peak, 95 % of them within 400 ms, while 10.0 MiB of load_page stayed"
    );
    temporary.is_of_sample = true;
    assert!(evidence(&temporary).starts_with("In the sample of blocks: 9.0 MiB in 100 blocks"));
}

/// What is never said, in any template.
#[test]
fn no_template_says_what_blocks_do_not_show() {
    let never = [
        "leak",
        "cache",
        " copy ",
        "forgot",
        "unbounded",
        "who holds",
        "capacity",
        "holders",
        "main",
        "Free ",
        "could be",
    ];
    for template in &TEMPLATES {
        let all = [&[template.heading, template.witness][..], template.advice].concat();
        for text in all {
            let found = never.iter().find(|word| text.contains(**word));
            assert_eq!(found, None, "{text}");
            assert!(!text.ends_with('.'), "{text}");
        }
    }
    for kind in FindingKind::ALL {
        assert_eq!(template(&finding(kind, &[])).kind, kind);
    }
}

#[test]
fn a_place_has_its_lines_and_those_of_its_callers() {
    let source = |file: &str, lines: &[u32]| {
        made!(SourceLines { file: Some(file.to_owned()), lines: lines.to_vec() })
    };
    let caller = |function: &str, source| made!(Caller { function: function.to_owned(), source });
    let mut place = made!(Place {
        function: Some("copy".to_owned()),
        source: source("/home/a/mail/mail.c", &[8]),
        callers: vec![
            caller("parse_header", source("/home/a/mail/mail.c", &[21, 22])),
            caller("work", source("/home/a/mail/main.c", &[37])),
            caller("serve", SourceLines::default()),
        ]
    });
    let said = |place: &Place| functions(place, &str::to_owned).expect("a function");
    assert_eq!(
        said(&place),
        "copy (mail/mail.c:8) < parse_header (:21, :22) < work (mail/main.c:37) < serve"
    );
    place.callers.clear();
    place.shares = vec![("copy".to_owned(), 600_000), ("paste".to_owned(), 380_000)];
    assert_eq!(said(&place), "copy (mail/mail.c:8) 60 %, paste 38 %");
}

#[test]
fn the_fact_of_the_peak_has_a_verb_and_no_advice() {
    let place = made!(Place { function: Some("open".to_owned()) });
    let set = |course| {
        made!(PeakBy {
            place: place.clone(),
            weight: 990_000,
            bytes: 2_000 << 16,
            blocks: 2_000,
            course
        })
    };
    let said = |course| peak_by(&set(course), &str::to_owned);
    assert_eq!(said(None), ["99 % open: 2,000 blocks (125.0 MiB)"]);
    let next = vec![set(None), set(Some(made!(Course { trend: Trend::RoseUntil(4_000_000_000) })))];
    assert_eq!(
        peak_by(&made!(PeakBy { next, ..set(None) }), &str::to_owned)[1..],
        [
            "99 % open: 2,000 blocks (125.0 MiB)",
            "99 % open: 2,000 blocks (125.0 MiB), rose until 4.00 s, flat since; none was freed"
        ]
    );
    let course = |freed, trend| {
        said(Some(made!(Course {
            size: Some(1 << 16),
            since_ns: 100_000_000,
            freed,
            median_ns: 2_000_000,
            trend
        })))[1]
            .clone()
    };
    let begin = "2,000 blocks of 64.0 KiB each, from 100.0 ms on, ";
    for (freed, trend, end) in [
        (
            0,
            Trend::RoseUntil(4_400_000_000),
            "rose until 4.40 s, flat since; none was freed before the end",
        ),
        (
            900,
            Trend::Flat,
            "flat; 900 blocks were freed before the end, half of them within 2.0 ms",
        ),
        (
            1,
            Trend::Falls(1 << 20),
            "fell to 1.0 MiB at the end; hardly any was freed before the end",
        ),
        (
            0,
            Trend::Rising { since_ns: 5_000_000_000, bytes_per_s: 13 << 20 },
            "rising to the end, from 5.00 s on by 13.0 MiB/s; none was freed before the end",
        ),
    ] {
        assert_eq!(course(freed, trend), format!("{begin}{end}"));
    }
}
