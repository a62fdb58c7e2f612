//! Where a set of blocks is, and who has most of the peak.

use memledger_document::{Frame, PeakBy, Report, SourceFrame, StackKind, StackRow, made};

/// The set with most of the peak of stacks, each with its bytes and its functions, innermost first.
fn peak_by(stacks: &[(u64, &[&str])], has_lines: bool) -> Option<PeakBy> {
    let mut report = Report::default();
    for (bytes, functions) in stacks {
        let mut row = made!(StackRow { kind: StackKind::Known });
        row.figures.live_bytes_at_peak = *bytes;
        for function in *functions {
            let file = has_lines.then(|| "/home/a/game/src/load.rs".to_owned());
            let found = SourceFrame::new(*function, file, has_lines.then_some(7));
            row.frames.push(report.frames.len() as u32);
            report.frames.push(made!(Frame { functions: vec![found] }));
        }
        report.by_stack.push(row);
        report.totals.peak_bytes += bytes;
    }
    report.find_peak_by()
}

/// Its bytes, its function, and who calls that.
fn said(stacks: &[(u64, &[&str])], has_lines: bool) -> (u64, String, Vec<String>) {
    let set = peak_by(stacks, has_lines).expect("a set");
    let callers = set.place.callers.into_iter().map(|caller| caller.function).collect();
    (set.bytes, set.place.function.expect("a function"), callers)
}

fn set(bytes: u64, function: &str, callers: &[&str]) -> (u64, String, Vec<String>) {
    (bytes, function.to_owned(), callers.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn the_innermost_function_with_half_of_the_peak_has_most_of_it() {
    let stacks: &[(u64, &[&str])] = &[
        (40, &["game::text", "game::load", "game::load", "game::main"]),
        (35, &["game::image", "game::load", "game::main"]),
        (25, &["game::main"]),
    ];
    for has_lines in [true, false] {
        assert_eq!(said(stacks, has_lines), set(75, "game::load", &["game::main"]));
    }
    // That all is below `main` says nothing.
    let two: &[(u64, &[&str])] =
        &[(9, &["game::a", "game::main"]), (9, &["game::b", "game::main"])];
    assert_eq!(said(two, true), set(9, "game::a", &["game::main"]));
    assert_eq!(said(&[(9, &["game::main"])], true), set(9, "game::main", &[]));
    let generic: &[(u64, &[&str])] = &[(9, &["game::{closure#0}<u8, a::B>", "game::load"])];
    assert_eq!(said(generic, true), set(9, "game::load", &[]));
    // A closure is the function around it, or what a thread begins with.
    let closures: &[(u64, &[&str])] = &[(9, &["game::{closure#0}", "game::load", "game::main"])];
    assert_eq!(said(closures, true), set(9, "game::load", &["game::main"]));
    assert_eq!(
        said(&[(9, &["game::main::{{closure}}"])], true),
        set(9, "game::main::{{closure}}", &[])
    );
    assert_eq!(peak_by(&[], true), None);
}

#[test]
fn each_other_set_with_a_quarter_of_the_peak_is_next() {
    let stacks: &[(u64, &[&str])] = &[
        (36, &["game::book", "game::main"]),
        (16, &["game::copy", "game::rank", "game::main"]),
        (16, &["game::rank", "game::main"]),
        (26, &["game::load", "game::main"]),
        (6, &["game::rest", "game::main"]),
    ];
    let next = |stacks| {
        let sets = peak_by(stacks, true).expect("a set").next.into_iter();
        sets.map(|set| (set.place.function, set.weight)).collect::<Vec<_>>()
    };
    let some = |name: &str, weight| (Some(name.to_owned()), weight);
    assert_eq!(next(stacks), [some("game::rank", 320_000), some("game::load", 260_000)]);
    assert_eq!(next(&[(76, &["game::a"]), (24, &["game::b"])]), []);
    assert_eq!(next(&[(75, &["game::a"]), (25, &["game::b"])]), [some("game::b", 250_000)]);
}

#[test]
fn without_lines_own_code_is_of_the_crate_of_main() {
    let stacks: &[(u64, &[&str])] =
        &[(90, &["json::value", "game::load", "game::main"]), (10, &["game::main"])];
    assert_eq!(said(stacks, false), set(90, "game::load", &["game::main"]));
    assert_eq!(said(stacks, true), set(90, "json::value", &["game::load"]));
}

#[test]
fn shares_are_of_the_functions_that_have_it_together() {
    let stacks: &[(u64, &[&str])] = &[(60, &["game::main"]), (40, &["game::a", "game::main"])];
    let place = peak_by(stacks, true).expect("a set").place;
    let shares = [("game::main".to_owned(), 600_000), ("game::a".to_owned(), 400_000)];
    assert_eq!((&*place.shares, place.source.lines), (&shares[..], vec![7]));
}
