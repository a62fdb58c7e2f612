use super::*;
use crate::{Frame, GroupRow, NameRow, ScopeRow, SourceFrame, StackKind, StackRow, ThreadRow};
use memledger_document::made;
use proptest::prelude::*;

#[test]
fn what_is_numbered_is_not_in_a_stable_name() {
    for (name, stable) in [
        ("parse::file", "parse::file"),
        ("parse::file::{closure#0}", "parse::file::{closure}"),
        ("parse::file::{{closure}}", "parse::file::{closure}"),
        ("a::b::{closure#0}::{closure#12}", "a::b::{closure}::{closure}"),
        ("{impl#3}::grow<[u8; 4]>", "{impl}::grow<[u8; 4]>"),
        ("core[1a2b3c4d5e6f7890]::fmt::write", "core::fmt::write"),
        ("a::b::h0123456789abcdef", "a::b"),
        ("a::b::hash", "a::b"),
        ("a::grow.llvm.1234567", "a::grow"),
        ("<a::Tree<[u8]> as b::Grow>::grow", "<a::Tree<[u8]> as b::Grow>::grow"),
        ("a::f::<{ 3 }>", "a::f::<{ 3 }>"),
        ("program+0x12ab", "program (no symbols)"),
        ("0x7f001122", "(no symbols)"),
        ("operator+0", "operator+0"),
        ("é#}é[12345678é", "é#}é[12345678é"),
        ("", ""),
    ] {
        let expected = if name == "a::b::hash" { name } else { stable };
        assert_eq!(stable_function(name), expected, "{name}");
    }
}

fn figures(numbers: [u64; 4]) -> Figures {
    let [allocations, live_bytes, allocated_bytes, peak_bytes] = numbers;
    made!(Figures { allocations, live_bytes, allocated_bytes, peak_bytes })
}

#[test]
fn threads_of_a_pool_are_one_row() {
    let threads = |names: &[&str]| {
        let row = |name: &&str| {
            made!(ThreadRow { name: (*name).to_owned(), figures: figures([1, 10, 10, 10]) })
        };
        made!(Report { by_thread: names.iter().map(row).collect() })
    };
    let old = threads(&["main", "pool-1", "pool-2", "", "io", "x 3"]);
    let new = threads(&["main", "pool-1", "pool-12", "pool-3", "", "", "x 3"]);
    let rows = old.diff(&new, DiffBy::Thread, Frames::Folded);
    let count = |side: &Option<DiffSide>| side.map(|side| side.own.allocations);
    let found: Vec<_> =
        rows.iter().map(|row| (&*row.path[0], count(&row.old), count(&row.new))).collect();
    assert_eq!(
        found,
        [
            ("(no name)", Some(1), Some(2)),
            ("io", Some(1), None),
            ("main", Some(1), Some(1)),
            ("pool-*", Some(2), Some(3)),
            ("x 3", Some(1), Some(1)),
        ]
    );
    assert_eq!(rows[3].new.map(|side| side.own.peak_bytes), Some(30), "not less than what is live");
}

/// A stack of the functions with these numbers, innermost first.
type Stack = (Vec<u8>, [u64; 4]);

/// A report of such stacks, whose frames have other numbers, offsets and lines in each `build`; inner
/// functions are inlined into their callers if it is odd.
fn report_of(stacks: &[Stack], build: u64) -> Report {
    let mut report = Report::default();
    for (functions, numbers) in stacks {
        let groups: Vec<&[u8]> = if build % 2 == 1 {
            functions.chunks(2).collect()
        } else {
            functions.chunks(1).collect()
        };
        let mut frames = Vec::new();
        for group in groups {
            let functions = group.iter().map(|number| {
                SourceFrame::new(
                    format!("app::f{number}::{{closure#{}}}", build % 7),
                    Some("/src/app.rs".to_owned()),
                    Some(build as u32),
                )
            });
            let (offset, functions) =
                (build * 1000 + report.frames.len() as u64, functions.collect());
            report.frames.push(made!(Frame { offset, functions }));
            frames.push(report.frames.len() as u32 - 1);
        }
        let kind = if functions.is_empty() { StackKind::NotTaken } else { StackKind::Known };
        let figures = figures(*numbers);
        report.by_stack.push(made!(StackRow { kind, frames, figures }));
    }
    report
}

/// What each path has, and each function on all its paths, summed one by one.
fn naive(stacks: &[Stack], path: &[Arc<str>], by: DiffBy) -> Option<[[u64; 3]; 2]> {
    let mut sums = None::<[[u64; 3]; 2]>;
    for (functions, [count, live, allocated, _]) in stacks {
        let name = |number| format!("app::f{number}::{{closure}}").into();
        let mut names: Vec<Arc<str>> = functions.iter().map(name).collect();
        if names.is_empty() {
            names.push("(no stack)".into());
        }
        let (is_own, is_inside) = match by {
            DiffBy::Function => (names[0] == path[0], names.contains(&path[0])),
            _ => {
                names.reverse();
                (names == path, names == path)
            }
        };
        if is_inside {
            let [own, inclusive] = sums.get_or_insert_default();
            for (at, figure) in [count, live, allocated].into_iter().enumerate() {
                own[at] += if is_own { *figure } else { 0 };
                inclusive[at] += figure;
            }
        }
    }
    sums
}

fn stacks() -> impl Strategy<Value = Vec<Stack>> {
    let stack = (prop::collection::vec(0_u8..6, 0..5), [0_u64..9, 0_u64..9, 0_u64..99, 0_u64..9]);
    prop::collection::vec(stack, 0..20)
}

/// A stack of these functions, innermost first, each in a frame of its own and in the file `src/FILE.rs`.
fn report_of_names(stacks: &[&[(&str, &str)]]) -> Report {
    let mut report = Report::default();
    for names in stacks {
        let mut frames = Vec::new();
        for (function, file) in *names {
            let (function, file) = ((*function).to_owned(), Some(format!("/src/a/src/{file}.rs")));
            let offset = report.frames.len() as u64;
            let functions = vec![SourceFrame::new(function, file, Some(1))];
            report.frames.push(made!(Frame { offset, functions }));
            frames.push(offset as u32);
        }
        let (kind, figures) = (StackKind::Known, figures([1, 10, 100, 0]));
        report.by_stack.push(made!(StackRow { kind, frames, figures }));
    }
    report
}

/// Line tables have the last part of the name of a function that is inlined; its symbol has all of it.
#[test]
fn a_short_name_is_the_function_that_has_it() {
    let old = report_of_names(&[
        &[("a::words::Words::add", "words"), ("a::count::{closure#1}", "main")],
        &[("<a::words::Words as core::ops::Drop>::drop", "words"), ("a::main", "main")],
        &[("a::read::<u8>", "main"), ("a::main", "main")],
        &[("a::words::A::get", "words")],
        &[("a::words::B::get", "words")],
        &[("a::lines::C::get", "lines")],
    ]);
    let new = report_of_names(&[
        &[("add", "words"), ("{closure#0}", "main")],
        &[("drop", "words"), ("a::main", "main")],
        &[("read<alloc::string::String>", "main"), ("main", "main")],
        &[("get", "words")],
        &[("a::words::B::get", "words")],
        &[("a::lines::C::get", "lines")],
    ]);
    for by in [DiffBy::Function, DiffBy::Stack] {
        let rows = old.diff(&new, by, Frames::Folded);
        let different: Vec<_> = rows.iter().filter(|row| row.old != row.new).collect();
        assert!(different.is_empty(), "{different:#?}");
    }
    let rows = old.diff(&new, DiffBy::Function, Frames::Folded);
    let names: Vec<_> = rows.iter().map(|row| &*row.path[0]).collect();
    let expected = [
        "<a::words::Words as core::ops::Drop>::drop",
        "a::count::{closure}",
        "a::lines::C::get",
        "a::main",
        "a::read::<…>",
        "a::words::Words::add",
        "words::get",
    ];
    assert_eq!(names, expected, "a name that is two functions is one row");
    assert_eq!(rows[6].new.map(|side| side.own.allocations), Some(2));
    // Where no name is short, those that could be mistaken are rows of their own.
    let rows = old.diff(&old, DiffBy::Function, Frames::Folded);
    assert!(rows.iter().any(|row| row.path == ["a::words::A::get".into()]), "{rows:#?}");
}

proptest! {
    /// Two reports of stacks that are built differently differ by what a naive sum differs by.
    #[test]
    fn functions_and_stacks_equal_a_naive_sum(old in stacks(), new in stacks()) {
        let (old_report, new_report) = (report_of(&old, 2), report_of(&new, 5));
        for by in [DiffBy::Function, DiffBy::Stack] {
            let rows = old_report.diff(&new_report, by, Frames::Folded);
            let mut total = [[0_u64; 3]; 2];
            for row in &rows {
                let sides = [(&row.old, &old), (&row.new, &new)];
                for (at, (side, stacks)) in sides.into_iter().enumerate() {
                    let of = |f: &Figures| [f.allocations, f.live_bytes, f.allocated_bytes];
                    let found = side.map(|side| [of(&side.own), of(&side.inclusive)]);
                    prop_assert_eq!(found, naive(stacks, &row.path, by), "{:?}", row.path);
                    let own = found.map_or([0; 3], |[own, _]| own);
                    total[at].iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
                }
            }
            for (stacks, total) in [(&old, total[0]), (&new, total[1])] {
                let mut sum = [0; 3];
                for (_, [count, live, allocated, _]) in stacks {
                    let figures = [count, live, allocated];
                    sum.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
                }
                prop_assert_eq!(sum, total);
            }
            let equal = old_report.diff(&report_of(&old, 9), by, Frames::Folded);
            prop_assert!(equal.iter().all(|row| row.old == row.new));
        }
    }

    /// The same with rows that have a path.
    #[test]
    fn paths_equal_a_naive_sum(
        old in prop::collection::btree_map(prop::collection::vec("[ab]", 1..3), [0_u64..9, 0..9, 0..9, 0..9], 0..6),
        new in prop::collection::btree_map(prop::collection::vec("[ab]", 1..3), [0_u64..9, 0..9, 0..9, 0..9], 0..6),
    ) {
        let report = |rows: &BTreeMap<Vec<String>, [u64; 4]>| {
            let mut report = Report::default();
            for (path, numbers) in rows {
                let (own, inclusive) = (figures(*numbers), figures(numbers.map(|n| 2 * n)));
                let path = path.clone();
                let (group, name) = (path.clone(), "name".to_owned());
                let group_row = made!(GroupRow { group: group.clone(), figures: own, inclusive });
                report.by_group.push(group_row);
                report.by_name.push(made!(NameRow { group, name, figures: own }));
                let scope = made!(ScopeRow { path, figures: own, inclusive});
                report.by_scope.push(scope);
            }
            report
        };
        for by in [DiffBy::Scope, DiffBy::Group, DiffBy::Name] {
            let rows = report(&old).diff(&report(&new), by, Frames::Folded);
            let keys: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
            prop_assert_eq!(rows.len(), keys.len());
            for key in keys {
                let mut path: Vec<Arc<str>> = key.iter().map(|name| (**name).into()).collect();
                path.extend((by == DiffBy::Name).then(|| "name".into()));
                let row = rows.iter().find(|row| row.path == path).expect("the row");
                for (side, of) in [(row.old, old.get(key)), (row.new, new.get(key))] {
                    prop_assert_eq!(side.is_some(), of.is_some());
                    let Some((side, of)) = side.zip(of) else { continue };
                    let least = of[3].max(of[1]);
                    prop_assert_eq!(side.own.allocated_bytes, of[2]);
                    prop_assert_eq!(side.own.peak_bytes, least);
                    let twice = if by == DiffBy::Name { 1 } else { 2 };
                    prop_assert_eq!(side.inclusive.live_bytes, twice * of[1]);
                }
            }
        }
    }
}
