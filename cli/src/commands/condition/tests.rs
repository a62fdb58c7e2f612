use super::figures::Figures;
use super::*;
use memledger_analysis::{FIGURES, Figure, Report};

fn held(verdict: Verdict) -> Option<String> {
    match verdict {
        Verdict::Holds(sentence) => Some(sentence),
        Verdict::Fails => None,
        Verdict::Open(sentence) => panic!("{sentence}"),
    }
}

#[test]
fn memory_in_no_block_makes_figures_of_all_memory_intervals() {
    const MIB: u64 = 1 << 20;
    let mut report = Report::default();
    report.totals.peak_bytes = 10 * MIB;
    report.by_thread.push(Default::default());
    report.by_thread[0].figures.peak_bytes = 10 * MIB;
    let figures = Figures::of(&report);
    // From 10 to 49 MiB: whether it holds, does not, or is open.
    for (text, expected) in [
        ("peak_bytes > 9MiB", 'h'),
        ("peak_bytes > 10MiB", 'o'),
        ("peak_bytes >= 10MiB", 'h'),
        ("peak_bytes > 48MiB", 'o'),
        ("peak_bytes > 49MiB", 'f'),
        ("peak_bytes >= 49MiB", 'o'),
        ("peak_bytes < 10MiB", 'f'),
        ("peak_bytes <= 10MiB", 'o'),
        ("peak_bytes < 50MiB", 'h'),
        ("peak_bytes = 20MiB", 'o'),
        ("peak_bytes = 9MiB", 'f'),
        ("peak_bytes != 10MiB", 'o'),
        ("peak_bytes != 50MiB", 'h'),
        ("allocations > 1", 'f'),
        ("peak_bytes{thread='thread 0'} > 10MiB", 'f'),
    ] {
        let condition = text.parse::<Condition>().expect("an expression");
        let verdict = condition.check(&figures, 39 * MIB).expect("a figure");
        let found = match verdict {
            Verdict::Holds(_) => 'h',
            Verdict::Fails => 'f',
            Verdict::Open(_) => 'o',
        };
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn only_memory_of_a_known_size_leaves_conditions_judged() {
    let mut report = Report::default();
    report.totals.peak_bytes = 10 << 20;
    let judged = |lack: &Lack, text: &str| {
        let conditions = [text.parse::<Condition>().expect("an expression")];
        judge(&conditions, &report, lack.clone(), false)
    };
    let sentence = Some("x".to_owned());
    let bounded = Lack { sentence, is_bounded: true, unseen_bytes: 39 << 20 };
    let is_done = |outcome| matches!(outcome, Ok(Outcome::Done));
    assert!(is_done(judged(&bounded, "peak_bytes > 64MiB")));
    assert!(matches!(judged(&bounded, "peak_bytes > 9MiB"), Ok(Outcome::Held(_))));
    let Ok(Outcome::Incomplete(open)) = judged(&bounded, "peak_bytes > 40MiB") else { panic!() };
    assert!(open.contains("at least 10485760 (10.0 MiB), and 51380224 (49.0 MiB)"), "{open}");
    let lost = Lack { is_bounded: false, ..bounded };
    assert!(matches!(judged(&lost, "peak_bytes > 64MiB"), Ok(Outcome::Incomplete(_))));
    // Without conditions, what is missing counts.
    let none = judge(&[], &report, Lack { is_bounded: true, ..lost }, false);
    assert!(matches!(none, Ok(Outcome::Incomplete(_))));
}

#[test]
fn conditions() {
    let mut report = Report::default();
    report.totals.peak_bytes = 64 << 20;
    report.losses.lost_events = 3;
    let figures = Figures::of(&report);
    let check =
        |text: &str| text.parse::<Condition>().expect("an expression").check(&figures, 0).map(held);
    for (text, holds) in [
        ("peak_bytes > 64MiB", false),
        ("peak_bytes >= 64MiB", true),
        ("peak_bytes>67108863", true),
        ("peak_bytes < 0.1GiB", true),
        ("lost_events != 0", true),
        ("lost_events == 3", true),
        ("live_blocks <= 0", true),
        ("peak_bytes_at_ns > 1.5ms", false),
        ("complete = false", true),
        (" complete!=false ", false),
    ] {
        assert_eq!(check(text).map(|held| held.is_some()), Ok(holds), "{text}");
    }
    assert_eq!(
        check("peak_bytes >= 64MiB"),
        Ok(Some("'peak_bytes >= 64MiB' holds: peak_bytes is 67108864 (64.0 MiB)".to_owned()))
    );
    assert!(check("overhead_bytes > 0").is_err(), "a figure that is not known cannot pass");
    for text in [
        "peak_bytes",
        "peak_bytes >",
        "peak > 1",
        "lost_events > 1KiB",
        "> 3",
        "a ! b",
        "complete > false",
        "complete = 0",
        "lost_events = false",
        "pid > 1",
        "peak_bytes{} > 1",
        "peak_bytes{scope} > 1",
        "peak_bytes{scope=request} > 1",
        "peak_bytes{scope=\"request} > 1",
        "peak_bytes{scope=\"request\" > 1",
        "peak_bytes{colour=\"red\"} > 1",
        "peak_bytes{scope=\"a\",thread=\"b\"} > 1",
        "complete{scope=\"a\"} = true",
        "peak_blocks{scope=\"a\"} > 1",
    ] {
        let error = text.parse::<Condition>().expect_err(text);
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let error = |text: &str| text.parse::<Condition>().expect_err(text);
    assert!(error("live_bytes{thraed='x'} > 1").starts_with(
        "scope, group, name, thread, function or heap is expected before 'thraed='x'} > 1'; write it like"
    ));
    assert!(error("live_bytes").starts_with("a comparison is expected at the end; "));
    for (text, sentence) in [
        ("peak > 1", "there is no figure 'peak'; peak_bytes is likely meant"),
        ("live_byte > 1", "there is no figure 'live_byte'; live_bytes is likely meant"),
        (
            "heap_size > 1",
            "there is no figure 'heap_size'; there are peak_bytes, live_bytes, live_blocks, allocations, allocated_bytes, ",
        ),
        (
            "heap_size{scope='x'} > 1",
            "there is no figure 'heap_size'; there are peak_bytes, live_bytes, ",
        ),
    ] {
        let error = error(text);
        assert!(error.starts_with(sentence), "{error}");
        assert!(error.matches(", ").count() < 6, "not all of them: {error}");
    }
}

/// Two scopes `parse`, one of them within `request`; names, a group, and a thread without a name.
#[test]
fn an_estimated_start_is_a_margin_of_figures_that_count_blocks() {
    let mut report = Report::default();
    report.totals.live_blocks = 100;
    report.totals.live_bytes = 100;
    report.trace.missed_at_start = 14;
    let figures = Figures::of(&report);
    let check =
        |text: &str| text.parse::<Condition>().expect("an expression").check(&figures, 0).map(held);
    for (text, holds) in [
        ("live_blocks > 113", true),
        ("live_blocks > 114", false),
        ("live_blocks >= 114", true),
        ("live_blocks < 87", true),
        ("live_blocks < 86", false),
        ("live_blocks <= 86", true),
        ("live_blocks = 114", true),
        ("live_blocks = 115", false),
        ("live_blocks != 100", true),
        ("live_bytes > 100", false),
        ("missed_at_start > 0", true),
    ] {
        assert_eq!(check(text).map(|held| held.is_some()), Ok(holds), "{text}");
    }
    let held = "'live_blocks > 113' holds: live_blocks is 100, estimated to 14 blocks";
    assert_eq!(check("live_blocks > 113"), Ok(Some(held.to_owned())));
}

fn rows() -> Report {
    let mut report = Report::default();
    let text = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let paths: [&[&str]; 5] = [
        &["GlobalScope"],
        &["GlobalScope", "request"],
        &["GlobalScope", "request", "parse"],
        &["GlobalScope", "parse"],
        &["GlobalScope", "a \"quoted\" \\ name"],
    ];
    for (path, peak) in paths.into_iter().zip([900, 500, 400, 70, 5]) {
        let mut row = memledger_analysis::ScopeRow::default();
        row.path = text(path);
        row.figures.peak_bytes = 1;
        row.inclusive.peak_bytes = peak;
        report.by_scope.push(row);
    }
    for (group, name, live) in [("Index", "keys", 10), ("Cache", "keys", 20)] {
        let mut row = memledger_analysis::NameRow::default();
        (row.group, row.name) = (text(&["All", group]), name.to_owned());
        row.figures.live_blocks = live;
        report.by_name.push(row);
    }
    let mut group = memledger_analysis::GroupRow::default();
    (group.group, group.inclusive.allocations) = (text(&["All", "Index"]), 3);
    report.by_group.push(group);
    let mut thread = memledger_analysis::ThreadRow::default();
    (thread.id, thread.figures.frees) = (7, 2);
    report.by_thread.push(thread);
    for (name, live) in [("C", 30), ("Mapped", 40)] {
        let mut heap = memledger_analysis::HeapRow::default();
        (heap.name, heap.figures.live_bytes) = (name.to_owned(), live);
        report.by_heap.push(heap);
    }
    report
}

#[test]
fn conditions_on_rows() {
    let report = rows();
    let figures = Figures::of(&report);
    let check =
        |text: &str| text.parse::<Condition>().expect("an expression").check(&figures, 0).map(held);
    for (text, holds) in [
        ("peak_bytes{scope=\"request\"} = 500", true),
        ("peak_bytes { scope = \"request\" } > 499", true),
        ("peak_bytes{scope='GlobalScope > request'} > 500", false),
        ("peak_bytes{scope='request > parse'} > 399", true),
        // One of the two scopes with this name.
        ("peak_bytes{scope='parse'} > 100", true),
        ("peak_bytes{scope='parse'} > 400", false),
        ("peak_bytes{scope='GlobalScope > parse'} > 100", false),
        ("peak_bytes{scope='a \"quoted\" \\\\ name'} = 5", true),
        ("peak_bytes{scope=\"a \\\"quoted\\\" \\\\ name\"} = 5", true),
        ("live_blocks{name='keys'} > 15", true),
        ("live_blocks{name='keys',group='Index'} > 15", false),
        ("live_blocks{group='All > Cache', name='keys'} > 15", true),
        ("live_blocks{name='All > Cache / keys'} > 15", true),
        ("allocations{group='Index'} >= 3", true),
        ("moved_in_bytes{group='Index'} > 0", false),
        ("frees{thread='thread 7'} > 1", true),
        ("live_bytes{heap='C'} > 29", true),
        ("live_bytes{heap='malloc'} > 29", true),
        ("live_bytes{heap='malloc'} > 30", false),
        ("live_bytes{heap='Mapped'} = 40", true),
    ] {
        assert_eq!(check(text).map(|held| held.is_some()), Ok(holds), "{text}");
        let shown = text.parse::<Condition>().expect("an expression").to_string();
        assert_eq!(shown.parse::<Condition>().map(|again| again.to_string()), Ok(shown.clone()));
        assert_eq!(check(&shown).map(|held| held.is_some()), Ok(holds), "{shown}");
    }
    assert_eq!(
        check("peak_bytes{scope='parse'} > 100").ok().flatten().as_deref(),
        Some(
            "'peak_bytes{scope='parse'} > 100' holds: peak_bytes of GlobalScope > request > \
             parse is 400"
        )
    );
    for (text, sentence) in [
        (
            "peak_bytes{scope='reqest'} > 1",
            "the trace has no scope \"reqest\"; \"GlobalScope > request\" is likely meant",
        ),
        // Not a whole path element.
        ("peak_bytes{scope='quest'} > 1", "the trace has no scope \"quest\"; there are "),
        (
            "frees{name='keys',group='Indx'} > 1",
            "the trace has no name \"keys\" in a group \"Indx\"; \"All > Index / keys\" is likely meant",
        ),
    ] {
        let error = check(text).expect_err(text);
        assert!(error.contains(sentence), "{error}");
    }
    let none = "live_blocks{thread='x'} > 1".parse::<Condition>().expect("an expression");
    let error = none.check(&Figures::of(&Report::default()), 0).expect_err("no thread");
    assert!(error.ends_with("the trace has no thread \"x\"; there are none"), "{error}");
    let none = "live_blocks{function='x'} > 1".parse::<Condition>().expect("an expression");
    let error = none.check(&Figures::of(&Report::default()), 0).expect_err("no stacks");
    assert!(error.ends_with("so no function \"x\": record it with --stacks"), "{error}");
}

/// The row of docs/tests.md about a figure; what is measured has a budget of the name, too.
fn row_of_docs(figure: &Figure<memledger_analysis::Figures>, is_measured: bool) -> String {
    let word = figure.header.map_or("-".to_owned(), |word| format!("*{word}*"));
    let in_code = if is_measured { "measured" } else { "of rows" };
    let (first, rest) = figure.about.split_at(1);
    let about = format!("{}{}", first.to_lowercase(), rest.trim_end_matches('.'));
    format!("| `{}` | {word} | {in_code} | {about} |\n", figure.key)
}

/// The table of docs/tests.md is made of that of the figures. Rows in JSON, conditions, and where they are
/// measured figures and budgets, have them by the same name.
#[test]
fn each_figure_has_one_name_in_all_places() {
    let path = |file: &str| format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"));
    let read = |file| std::fs::read_to_string(path(file)).expect("text");
    let [docs, figures, budget] =
        ["docs/tests.md", "src/dump/snapshot.rs", "src/measure/budget.rs"].map(read);
    let mut table = String::new();
    for figure in FIGURES {
        let name = figure.key;
        let is_measured = figures.contains(&format!("    pub {name}: u64,"));
        assert_eq!(budget.contains(&format!("    pub fn {name}(self, ")), is_measured, "{name}");
        assert!(format!("{name}{{scope=\"a\"}} > 1").parse::<Condition>().is_ok(), "{name}");
        table += &row_of_docs(figure, is_measured);
    }
    let (before, rest) = docs.split_once("|---|---|---|---|\n| `allocations`").expect("the table");
    let after = rest.split_once("\n\n").expect("its end").1;
    let written = format!("{before}|---|---|---|---|\n{table}\n{after}");
    if std::env::var_os("MEMLEDGER_BLESS").is_some() {
        std::fs::write(path("docs/tests.md"), written).expect("it can be written");
    } else {
        assert_eq!(docs, written, "MEMLEDGER_BLESS=1 writes the table");
    }
}
