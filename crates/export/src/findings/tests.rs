//! What sentences say.

use super::*;
use memledger_document::FreedBy;
use memledger_document::made;

fn said(kind: FindingKind) -> [String; 2] {
    let finding = made!(Finding { kind, calls: 120 });
    [evidence(&finding), suggestion(&finding)]
}

#[test]
fn headings_have_two_words() {
    for (kind, expected) in [
        (
            FindingKind::HoldsPeak { first: PeakPart::default(), second: PeakPart::default() },
            "live together",
        ),
        (
            FindingKind::KeptByMalloc {
                kept_bytes: 1,
                returnable_bytes: 1,
                resident_bytes: 1,
                live_bytes: 1,
                before_end_ns: None,
                is_estimate: false,
                blocks: 0,
                pages: 0,
            },
            "malloc keeps",
        ),
        (FindingKind::ShortLived { blocks: 1, of: 1, bytes: None }, "short-lived blocks"),
    ] {
        let finding = made!(Finding { kind });
        assert_eq!(heading(&finding), expected);
        assert_eq!(expected.split(' ').count(), 2, "{expected}");
    }
}

#[test]
fn each_kind_is_said_in_sentences() {
    let freed_by = |thread, name: &str, blocks, is_own| {
        made!(FreedBy { name: name.to_owned(), thread, blocks, bytes: 100, is_own })
    };
    let path = |name: &str| vec!["GlobalScope".to_owned(), name.to_owned()];
    let freed_in = |to: &str, blocks| {
        made!(FreedIn { allocated_in: path("read"), freed_in: path(to), blocks, bytes: 100 })
    };
    let live_at = |at_ns, live_bytes| made!(LiveAt { event: at_ns, at_ns, live_bytes });
    for (kind, expected) in [
        (
            FindingKind::Grows {
                blocks: 20,
                growths: 130,
                moved: 100,
                copied_bytes: 4096,
                largest_bytes: 2048,
                reserve_bytes: 1024,
                peak_millionths: 0,
            },
            [
                "20 blocks grew 130 times; 100 times to another address, copying up to 4.0 KiB. \
                 The largest became 2.0 KiB",
                "Reserve what they need when they are made: 1.0 KiB is enough for 9 in 10. A \
                 recording with call stacks says which they are",
            ],
        ),
        (
            FindingKind::Grows {
                blocks: 1,
                growths: 1,
                moved: 0,
                copied_bytes: 0,
                largest_bytes: 16,
                reserve_bytes: 16,
                peak_millionths: 0,
            },
            [
                "1 block grew 1 time, each time in place. The largest became 16 B",
                "Reserve what they need when they are made: 16 B is enough for 9 in 10. A \
                 recording with call stacks says which they are",
            ],
        ),
        (
            FindingKind::Reallocates { reallocations: 1200, allocations: 7 },
            [
                "1,200 reallocations, and 7 allocations",
                "Reserve the size that is needed when the block is made",
            ],
        ),
        (
            FindingKind::Reallocates { reallocations: 1200, allocations: 0 },
            ["1,200 reallocations", "Reserve the size that is needed when the block is made"],
        ),
        (
            FindingKind::ShortLived { blocks: 1500, of: 2000, bytes: Some(15_000) },
            [
                "1,500 of 2,000 blocks ended before their thread allocated again, 10 B each on average",
                "Reuse one buffer, or do without the block",
            ],
        ),
        (
            FindingKind::ShortLived { blocks: 2000, of: 2000, bytes: None },
            [
                "all 2,000 blocks ended before their thread allocated again",
                "Reuse one buffer, or do without the block",
            ],
        ),
        (
            FindingKind::Shrinks { blocks: 2, bytes_before: 4096, bytes_after: 1024 },
            [
                "2 blocks were made smaller at the end, on average from 2.0 KiB to 512 B: 3.0 KiB \
                 given back",
                "Allocate the size that is needed, if it is known before",
            ],
        ),
        (
            FindingKind::LeftBehind {
                blocks: 12,
                bytes: 1200,
                freed: 3000,
                mean_age_ns: 3_000_000_000,
                freed_within_ns: 20_000_000,
            },
            [
                "12 blocks are still live with 1.2 KiB, 3.00 s old on average, while 3,000 others \
                 were freed, 95 % of them after less than 20.0 ms",
                "Look for who still holds them: unless they are meant to stay, they are a leak",
            ],
        ),
        (
            FindingKind::OnlyGrows {
                moments: vec![live_at(1_000_000, 1024), live_at(9_000_000, 4096)],
                blocks: 7,
                until: GrowsUntil::End { youngest_ns: 1_000, median_ns: 3_000_000 },
            },
            [
                "rose throughout the run, from 1.0 KiB at 1.0 ms to 4.0 KiB in 7 blocks after 9.0 ms; \
                 all are live still: the youngest is 1.0 µs old, and half are older than 3.0 ms",
                "If it is a cache or a queue, give it a limit; if it is the result, all is well",
            ],
        ),
        (
            FindingKind::OnlyGrows {
                moments: vec![live_at(1_000_000, 1024), live_at(9_000_000, 4096)],
                blocks: 7,
                until: GrowsUntil::Peak,
            },
            [
                "rose throughout the run, from 1.0 KiB at 1.0 ms to 4.0 KiB in 7 blocks at the peak \
                 (9.0 ms); not freed before the program ended",
                "If it is a cache or a queue, give it a limit; if it is the result, all is well",
            ],
        ),
        (
            FindingKind::StaysAfterPeak {
                bytes: 3 << 20,
                blocks: 1,
                live_bytes: 4 << 20,
                peak_bytes: 40 << 20,
                peak_at_ns: 5_000_000,
            },
            [
                "live bytes fell from 40.0 MiB at the peak (5.0 ms) to 4.0 MiB; 3.0 MiB of these came with \
                 the peak in 1 block, and stay",
                "Shrink it when most of what it was for is gone, or make it anew",
            ],
        ),
        (
            FindingKind::KeptByMalloc {
                kept_bytes: 48 << 20,
                returnable_bytes: 9 << 20,
                resident_bytes: 58 << 20,
                live_bytes: 1 << 20,
                before_end_ns: None,
                is_estimate: false,
                blocks: 0,
                pages: 0,
            },
            [
                "malloc keeps 48.0 MiB that was freed, of 58.0 MiB resident, with 1.0 MiB live; about 9.0 MiB \
                 of it could be returned (malloc_trim)",
                "Call malloc_trim(0) after such a phase, or keep less at once",
            ],
        ),
        (
            FindingKind::OneSize {
                size: 24,
                blocks: 5000,
                of: 5000,
                at_peak: 1024,
                overhead_bytes: 8192,
            },
            [
                "all 5,000 blocks have 24 bytes, and 1,024 were live at the peak; glibc adds about \
                 8.0 KiB to these",
                "Keep them in one Vec or an arena instead of a block each",
            ],
        ),
        (
            FindingKind::RoundsUp {
                size: 4097,
                class_below: 4096,
                class: 5120,
                blocks: 1200,
                of: 1201,
                at_peak: 1024,
            },
            [
                "1,200 of 1,201 blocks have 4,097 bytes, 1 more than the size class of 4,096. An \
                 allocator with four classes in each doubling, such as jemalloc, gives each 5,120; \
                 the 1,024 that were live at the peak waste 1023.0 KiB",
                "Keep the block within 4,096 bytes, with any header that is part of it",
            ],
        ),
        (
            FindingKind::FreedElsewhere {
                blocks: 50,
                of: 60,
                waiting: 40,
                waiting_bytes: 4096,
                median_ns: 16_777_216,
                freed_by: vec![
                    freed_by(3, "consumer", 40, false),
                    freed_by(1, "main", 10, true),
                    freed_by(4, "", 10, false),
                ],
                freed_in: vec![freed_in("read", 10), freed_in("merge", 50)],
            },
            [
                "50 of 60 freed blocks were passed to consumer, which freed them; 50 of read were freed in \
                 merge; 40 (4.0 KiB) waited at once at the peak, and half of all lived longer than 16.8 ms",
                "Bound the queue between them, or make its reader faster",
            ],
        ),
    ] {
        assert_eq!(said(kind), expected);
    }
}

#[test]
fn parts_and_places_have_their_lines() {
    let part = |name: &str, line, bytes| {
        made!(PeakPart {
            name: name.to_owned(),
            file: Some("/home/me/batch/src/main.rs".to_owned()),
            line: Some(line),
            bytes,
            blocks: 1,
        })
    };
    let kind = FindingKind::HoldsPeak {
        first: part("batch::read", 18, 600),
        second: part("batch::clean", 29, 400),
    };
    let finding = made!(Finding { kind, bytes: 400, weight: 400_000 });
    let expected = "60 % of the peak is below batch::read (main.rs:18), and 40 % below batch::clean \
         (main.rs:29): both are live at once, and all of the second came while the first stayed";
    assert_eq!(evidence(&finding), expected);
    let expected = "Free batch::read before that, or make both piece by piece";
    assert_eq!(suggestion(&finding), expected);

    let kind = FindingKind::KeptByMalloc {
        kept_bytes: 48 << 20,
        returnable_bytes: 9 << 20,
        resident_bytes: 58 << 20,
        live_bytes: 1 << 20,
        before_end_ns: Some(5_000_000),
        is_estimate: true,
        blocks: 30_000,
        pages: 9_839,
    };
    let mut finding = made!(Finding { kind });
    finding.place.function = Some("Book::add".to_owned());
    (finding.place.file, finding.place.line) = (Some("src/frag.cpp".to_owned()), Some(16));
    let expected = "malloc keeps about 48.0 MiB that was freed, of 58.0 MiB resident at 5.0 ms, before the program \
         freed what it had, with 1.0 MiB live; about 9.0 MiB of it could be returned (malloc_trim of glibc). It lies \
         between 30,000 live blocks of Book::add (frag.cpp:16) in 9,839 pages";
    assert_eq!(evidence(&finding), expected);
    assert!(suggestion(&finding).contains("a pool of their own"), "{}", suggestion(&finding));
    // Outside any scope, as tables have it.
    finding.place = made!(Place { scope: vec!["GlobalScope".to_owned()] });
    let evidence = evidence(&finding);
    assert!(evidence.contains("30,000 live blocks of (whole program) in 9,839"), "{evidence}");
}

#[test]
fn threads_of_one_name_have_their_numbers() {
    let freed_by = made!(FreedBy { thread: 4, name: "pack".to_owned(), blocks: 9 });
    let kind = FindingKind::FreedElsewhere {
        blocks: 9,
        of: 9,
        waiting: 9,
        waiting_bytes: 9,
        median_ns: 1,
        freed_by: vec![freed_by],
        freed_in: Vec::new(),
    };
    let mut finding = made!(Finding { kind });
    for (name, expected) in [("pack", "from pack (2) to pack (4),"), ("read", "from read to pack,")]
    {
        finding.place.thread = Some((2, name.to_owned()));
        assert!(evidence(&finding).contains(expected), "{}", evidence(&finding));
    }
}

#[test]
fn one_container_is_told_what_it_saves() {
    let kind = FindingKind::Grows {
        blocks: 20,
        growths: 130,
        moved: 0,
        copied_bytes: 0,
        largest_bytes: 2048,
        reserve_bytes: 1024,
        peak_millionths: 249_999,
    };
    let mut finding = made!(Finding { kind, calls: 120, is_of_sample: true });
    finding.place.function = Some("read".to_owned());
    let expected = "Reserve 1.0 KiB when it is made, which is enough for 9 in 10; this saves 120 reallocations";
    assert_eq!(suggestion(&finding), expected);
    assert!(evidence(&finding).starts_with("In the sample of blocks: 20 blocks grew"));
    // Where they make the peak, a larger size from the start would make it larger.
    if let FindingKind::Grows { peak_millionths, .. } = &mut finding.kind {
        *peak_millionths = 990_000;
    }
    let expected = "Its blocks are 99 % of the peak: shrink them when a burst is over; reserve only what is always needed";
    assert_eq!(suggestion(&finding), expected);
}
