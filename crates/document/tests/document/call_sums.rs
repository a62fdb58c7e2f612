//! The figures of functions, lines and crates, against those that each stack gives alone.

use memledger_document::internal::{CallKind, Calls, StackTree, order};
use memledger_document::{
    CallRow, Figures, Frame, Frames, Module, Moves, Report, SourceFrame, StackEnd, StackKind,
    StackRows, made,
};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

/// One call of each kind that folding knows: function, source file, and module.
const CALLS: &[(&str, Option<&str>, Option<usize>)] = &[
    ("app::read", Some("/home/a/app/src/read.rs"), Some(0)),
    ("app::parse", Some("/home/a/app/src/parse.rs"), Some(0)),
    ("app::main", Some("/home/a/app/src/main.rs"), Some(0)),
    ("main", None, Some(0)),
    ("std::rt::lang_start", Some("/rustc/1/library/std/src/rt.rs"), Some(0)),
    ("alloc::vec::grow", Some("/rustc/1/library/alloc/src/vec/mod.rs"), Some(0)),
    ("alloc::alloc::alloc", Some("/rustc/1/library/alloc/src/alloc.rs"), Some(0)),
    ("serde::de", Some("/home/a/.cargo/registry/src/i/serde-1.0.0/src/de.rs"), Some(0)),
    ("_PyEval_EvalFrame", None, Some(1)),
    ("keep", Some("/home/a/keep.py"), None),
    ("__libc_start_main", None, Some(2)),
    ("malloc", None, Some(2)),
];

/// A report of these stacks. A frame has the calls of its number, as inlined ones; frame 0 has no symbols.
fn report(frames: &[Vec<usize>], stacks: &[Stack]) -> Report {
    let mut report = Report::default();
    let paths = ["/home/a/app/target/app", "/usr/bin/python3.12", "/usr/lib/libc.so.6"];
    report.modules = paths.map(|path| Module::new(path.to_owned(), 0, 9, Vec::new())).to_vec();
    for (number, calls) in frames.iter().enumerate() {
        let mut frame = made!(Frame { offset: number as u64 });
        for &call in calls {
            let (function, file, module) = CALLS[call];
            frame.module = module;
            let file = file.map(str::to_owned);
            let line = file.is_some().then_some(call as u32 + 1);
            frame.functions.push(SourceFrame::new(function, file, line));
        }
        report.frames.push(frame);
    }
    // As the analyzer has them: one node for each frame in one caller.
    let mut tree = StackTree::default();
    let mut children = HashMap::new();
    let mut rows = Vec::<(u32, StackEnd, &Figures)>::new();
    for (path, end, figures) in stacks {
        let node = path.iter().fold(*end as u32, |node, &frame| {
            *children.entry((node, frame)).or_insert_with(|| tree.add(node, frame))
        });
        if rows.iter().all(|(known, ..)| *known != node) {
            rows.push((node, *end, figures));
        }
    }
    let frame_of = (0..frames.len() as u32).collect();
    let mut stacks = StackRows::of_tree(tree.into(), frame_of, rows.len(), Default::default());
    for (node, end, figures) in rows {
        let kind = if node == 0 { StackKind::NotTaken } else { StackKind::Known };
        stacks.push_node(node, (kind, end), figures, None);
    }
    report.by_stack = stacks;
    report
}

/// The frames of a stack, outermost first, how it ends, and its figures.
type Stack = (Vec<u32>, StackEnd, Figures);

fn figures() -> impl Strategy<Value = Figures> {
    (0..9_u64, 0..99_u64, any::<u64>(), 0..3_u64).prop_map(|(allocations, live, all, moves)| {
        let moved_in = made!(Moves { blocks: moves, bytes: live });
        let (live_bytes, allocated_bytes) = (live, all);
        made!(Figures { allocations, live_bytes, allocated_bytes, moved_in })
    })
}

fn reports() -> impl Strategy<Value = Report> {
    const FRAMES: u32 = 14;
    let calls = prop::collection::vec(0..CALLS.len(), 0..3);
    let frames = prop::collection::vec(calls, FRAMES as usize);
    let path = prop::collection::vec(0..FRAMES, 0..7);
    let end = prop_oneof![4 => Just(StackEnd::Complete), 1 => Just(StackEnd::FrameLimit)];
    let stacks = prop::collection::vec((path, end, figures()), 0..24);
    (frames, stacks).prop_map(|(frames, stacks)| report(&frames, &stacks))
}

/// The rows as they are defined: each stack counts in the row of each call that it shows, once.
fn naive(calls: &Calls<'_>, kind: CallKind, from_own: bool) -> Vec<CallRow> {
    let mut rows = HashMap::<String, CallRow>::new();
    for (number, stack) in calls.report.by_stack.iter().enumerate() {
        let shown: Vec<_> = match from_own {
            true => calls.shown_from_own(number).collect(),
            false => calls.shown(number).collect(),
        };
        let mut counted = HashSet::new();
        for (depth, call) in shown.into_iter().enumerate() {
            if depth > 0 && calls.is_text(call) {
                continue;
            }
            let call = calls.get(call);
            let name = call.name(kind).into_owned();
            if !counted.insert(name.clone()) {
                continue;
            }
            let row = rows.entry(name.clone()).or_default();
            row.name = name;
            if kind == CallKind::Line {
                (row.file, row.line) =
                    call.source().map(|(file, line)| (file.to_owned(), line)).unzip();
            }
            let own = (depth == 0).then_some(&mut row.figures);
            for sum in [&mut row.inclusive].into_iter().chain(own) {
                sum.add(&stack.figures);
                sum.add_moves(&stack.figures);
            }
        }
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.sort_by(|a, b| order(&a.figures, &b.figures).then_with(|| a.name.cmp(&b.name)));
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_those_of_each_stack_alone(report in reports()) {
        for frames in [Frames::Folded, Frames::All] {
            let calls = Calls::of(&report, frames);
            for kind in [CallKind::Function, CallKind::Line, CallKind::Crate] {
                let from_own = kind == CallKind::Line;
                prop_assert_eq!(calls.rows(kind), naive(&calls, kind, from_own));
            }
        }
    }
}

/// The compiler makes a `main` that calls std; one that is called again is of the program.
#[test]
fn a_main_that_std_calls_back_is_shown_in_some_stacks_only() {
    let one = made!(Figures { allocations: 1 });
    let frames = [vec![3], vec![4], vec![0]];
    let stack = |path: &[u32]| (path.to_vec(), StackEnd::Complete, one);
    let report = report(&frames, &[stack(&[0, 2]), stack(&[0, 1, 2]), stack(&[0, 1, 0])]);
    let rows = report.by_function(Frames::Folded);
    let row = |name: &str| rows.iter().find(|row| row.name == name).map(|row| row.inclusive);
    assert_eq!(row("main").unwrap().allocations, 2);
    assert_eq!(row("app::read").unwrap().allocations, 2);
}
