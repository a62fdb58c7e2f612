//! Call stacks: which stack a block counts in, and the tables made of it.

use memledger_analysis::Frames::{All, Folded};
use memledger_analysis::read::read;
use memledger_analysis::{
    Analyzer, CallRow, Figures, Frames, Module, Moves, Report, SourceFrame, StackEnd, StackKind,
    StackRow, StaticVariable, Symbolizer,
};
use memledger_export::html::Page;
use memledger_export::{json, text};
use memledger_test_support::feed::{
    Feed, Names, PROGRAM,
    V::{B, N},
    program,
};
use serde_json::Value;
use std::ops::Range;

fn printed(report: &Report, set: impl Fn(&mut text::Options)) -> String {
    let mut options = text::Options::default();
    options.width = 120;
    set(&mut options);
    let mut out = Vec::new();
    text::write(report, &options, &mut out).expect("memory takes everything");
    String::from_utf8(out).expect("UTF-8")
}

/// The addresses of a row's frames, innermost first, as offsets in their modules.
fn offsets(report: &Report, row: &StackRow) -> Vec<u64> {
    row.frames.iter().map(|&frame| report.frames[frame as usize].offset).collect()
}

fn row(report: &Report, expected: &[u64]) -> StackRow {
    let is_it = |row: &StackRow| row.kind == StackKind::Known && offsets(report, row) == expected;
    report.by_stack.iter().find(is_it).expect("a row")
}

fn called<'a>(rows: &'a [CallRow], name: &str) -> &'a CallRow {
    rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("no {name} in {rows:#?}"))
}

#[test]
fn a_block_counts_in_its_stack_and_ids_with_the_same_frames_are_one() {
    let mut feed = program(Analyzer::new());
    feed.stack(9, &[0x1040, 0x1050, 0x1060]);
    feed.alloc_at(2, 0x500, 5, 9);
    feed.free(2, 0x200);
    let report = feed.report();
    assert_eq!(report.by_stack.len(), 3);
    let deep = row(&report, &[0x0f, 0x1f, 0x2f, 0x3f, 0x4f, 0x5f]);
    assert_eq!((deep.figures.live_bytes, deep.figures.peak_bytes), (1000, 1200));
    assert_eq!((deep.figures.allocations, deep.figures.frees), (2, 1));
    let main = row(&report, &[0x3f, 0x4f, 0x5f]);
    assert_eq!((main.figures.live_bytes, main.figures.allocations), (35, 2));
    assert_eq!(main.end, StackEnd::Complete);
    let none = report.by_stack.iter().find(|row| row.kind == StackKind::NotTaken).expect("it");
    assert_eq!((none.figures.live_bytes, none.figures.peak_bytes), (4, 4));
    assert_eq!(report.modules.len(), 1);
    assert_eq!(report.largest_live[0].stack, Some(0));
}

/// A program whose libraries were compiled into it, with the paths of their sources.
#[test]
fn lines_and_findings_are_of_the_programs_own_code() {
    struct OfProgram(bool);
    impl Symbolizer for OfProgram {
        fn frames(&mut self, _: &Module, offset: u64) -> Vec<SourceFrame> {
            let (function, file) = match offset {
                0x0f => (
                    "serde_json::to_vec",
                    "/home/a/.cargo/registry/src/index-1/serde_json-1.0.1/src/ser.rs",
                ),
                0x1f => ("demo::save", "/home/a/demo/src/store/save.rs"),
                _ => ("demo::main", "/home/a/demo/src/main.rs"),
            };
            let (file, line) = (Some(file.to_owned()), Some(offset as u32));
            let (file, line) = if self.0 { (file, line) } else { (None, None) };
            vec![SourceFrame::new(function, file, line)]
        }
    }
    let mut feed = Feed::ours(Analyzer::new());
    feed.thread(2, 1, "main");
    feed.module("/home/a/demo/target/release/demo", 0x1000, 0x100);
    feed.stack(1, &[0x1010, 0x1020, 0x1030]);
    (1..=5_000).for_each(|at| feed.alloc_at(2, at * 0x100, 100, 1));
    (1..=5_000).for_each(|at| feed.free(2, at * 0x100));
    (1..=5_000).for_each(|at| {
        feed.alloc_at(2, at * 0x100, 100, 1);
        feed.free(2, at * 0x100);
    });
    let mut report = feed.report();
    let mut without = report.clone();
    report.symbolize(&mut OfProgram(true));
    without.symbolize(&mut OfProgram(false));
    let first = |frames: Frames| {
        let rows = report.by_line(frames).into_iter();
        let mut rows = rows.filter(|row| row.figures.allocations > 0);
        (rows.next().expect("a line"), rows.next())
    };
    let (own, rest) = first(Folded);
    assert_eq!(
        (own.file.as_deref(), own.line, rest),
        (Some("/home/a/demo/src/store/save.rs"), Some(0x1f), None)
    );
    assert!(first(All).0.name.contains("serde_json"), "all frames");
    assert_eq!(
        report.by_function(Folded)[0].name,
        "serde_json::to_vec",
        "functions are all code's"
    );
    let holder = report.find_peak_by().expect("who has the peak");
    assert_eq!(holder.place.function.as_deref(), Some("demo::save"));

    let lines = printed(&report, |options| options.by = Some(text::By::Line));
    assert!(lines.contains("\n  demo/src/store/save.rs:31 "), "{lines}");
    assert!(!lines.contains("  no lines "), "{lines}");
    let lines = printed(&without, |options| options.by = Some(text::By::Line));
    assert!(lines.contains("\n  no lines     build with [profile.release] debug"), "{lines}");

    let screen = printed(&report, |_| ());
    let own = "\n  peak by      100 % demo::save (demo/src/store/save.rs:31) < demo::main (";
    assert!(screen.contains(own) && screen.contains("\n\nBy function"), "{screen}");
    assert!(
        screen.contains("\n  findings     not looked for: ") && !screen.contains("alloc_scope!"),
        "{screen}"
    );
    let narrow = printed(&report, |options| options.width = 60);
    assert!(narrow.contains("\n  a wider text also has: "), "{narrow}");
}

/// What a program of Python tells of itself, and of which functions it consists, if that is known.
#[test]
fn an_interpreter_is_folded_where_its_scripts_have_names() {
    struct Python(bool);
    impl Symbolizer for Python {
        fn frames(&mut self, _: &Module, offset: u64) -> Vec<SourceFrame> {
            let function = match offset {
                0x0f => "_PyObject_Malloc",
                0x1f => "unicode_format",
                _ => "_PyEval_EvalFrameDefault",
            };
            vec![SourceFrame::new(function, None, None)]
        }

        fn made_at_run_time(&mut self, pid: u32, address: u64) -> Vec<SourceFrame> {
            assert_eq!((pid, address), (77, 0x9_ffff));
            let file = Some("/home/a/keep.py".to_owned());
            let script = SourceFrame::new("keep.load", file, None);
            self.0.then_some(script).into_iter().collect()
        }
    }
    let mut feed = Feed::ours(Analyzer::new());
    feed.thread(2, 1, "main");
    feed.module("/usr/bin/python3.12", 0x1000, 0x100);
    feed.stack(1, &[0x1010, 0x1020, 0x1030, 0xa_0000]);
    feed.alloc_at(2, 0x100, 100, 1);
    for (has_scripts, function) in [(false, "unicode_format"), (true, "keep.load")] {
        let mut report = feed.report();
        report.trace.pid = Some(77);
        report.symbolize(&mut Python(has_scripts));
        assert_eq!(report.by_function(Folded)[0].name, function);
        assert_eq!(report.by_line(Folded)[0].name, function);
        let lines = printed(&report, |options| options.by = Some(text::By::Line));
        let is_said = lines.contains("\n  not named    Python's own functions: ");
        assert_eq!((is_said, lines.contains("  no lines ")), (!has_scripts, false), "{lines}");
    }
}

/// A library that has no symbols, called by a program that has some.
#[test]
fn a_library_without_names_does_not_hide_its_caller() {
    struct OfProgram;
    impl Symbolizer for OfProgram {
        fn frames(&mut self, module: &Module, _: u64) -> Vec<SourceFrame> {
            let function = || SourceFrame::new("demo", None, None);
            (module.path == "/bin/demo").then(function).into_iter().collect()
        }
    }
    let mut feed = Feed::ours(Analyzer::new());
    feed.thread(2, 1, "main");
    feed.module("/bin/demo", 0x1000, 0x100);
    feed.module("/lib/libstdc++.so.6", 0x2000, 0x100);
    feed.module("/lib/jit", 0x3000, 0x100);
    for (id, frames) in [(1, &[0x2010, 0x1010][..]), (2, &[0x2010]), (3, &[0x3010, 0x1010])] {
        feed.stack(id, frames);
        feed.alloc_at(2, 0x100 * u64::from(id), 10_u64.pow(id), id);
    }
    let mut report = feed.report();
    report.symbolize(&mut OfProgram);
    let own = |frames| {
        let rows = report.by_function(frames).into_iter();
        let rows = rows.filter(|row| row.figures.allocations > 0);
        rows.map(|row| (row.name, row.figures.live_bytes)).collect::<Vec<_>>()
    };
    let row = |name: &str, bytes| (name.to_owned(), bytes);
    let unnamed = "libstdc++.so.6+0xf";
    assert_eq!(own(Folded), [row("jit+0xf", 1000), row(unnamed, 100), row("demo", 10)]);
    assert_eq!(own(All), [row("jit+0xf", 1000), row(unnamed, 110)]);
    // Findings name functions in the same way.
    assert_eq!(report.functions_of(2, Folded), ["demo"]);
}

/// As parameters of C++ make them.
#[test]
fn names_of_kilobytes_are_short_in_the_text_and_whole_in_json() {
    let name = |of: &str| format!("a::evaluate({})", of.repeat(3000));
    struct Long([String; 2]);
    impl Symbolizer for Long {
        fn frames(&mut self, _: &Module, offset: u64) -> Vec<SourceFrame> {
            let function = self.0[offset as usize / 16 % 2].clone();
            vec![SourceFrame::new(function, None, None)]
        }
    }
    let mut feed = Feed::ours(Analyzer::new().by_bucket());
    feed.thread(2, 1, "main");
    feed.module("/bin/program", 0x1000, 0x100);
    for (id, address) in [(1, 0x1010), (2, 0x1020)] {
        feed.stack(id, &[address]);
        feed.alloc_at(2, 0x100 * u64::from(id), 10_u64.pow(id), id);
    }
    let mut report = feed.report();
    report.symbolize(&mut Long([name("A"), name("B")]));
    for by in [text::By::Function, text::By::Stack, text::By::Line] {
        let text = printed(&report, |options| options.by = Some(by));
        assert!(text.contains(" a::evaluate #2 "), "{text}");
        assert!(text.contains(" a::evaluate "), "{text}");
        let verbose = |options: &mut text::Options| {
            options.by = Some(by);
            options.verbose = true;
        };
        let whole = printed(&report, verbose).replace(['\n', ' '], "");
        assert!(whole.contains(&name("A")) && whole.contains(&name("B")), "{by:?}");
    }
    let mut document = Vec::new();
    json::write(&report, &mut document).expect("memory takes everything");
    let document = String::from_utf8(document).expect("UTF-8");
    assert!(document.contains(&name("A")) && document.contains(&name("B")));
    // The page has both: what it shows, and the whole.
    let mut page = Vec::new();
    Page::new(&report, &text::Options::default()).write_json(&mut page).expect("a Vec takes all");
    let page: Value = serde_json::from_slice(&page).expect("JSON");
    assert_eq!(page["short"]["text"], serde_json::json!(["a::evaluate", "a::evaluate #2"]));
    let strings = page["strings"].as_array().expect("a list");
    assert!(strings.contains(&name("A").into()) && strings.contains(&name("B").into()));
}

#[test]
fn a_trace_without_stacks_has_no_rows_of_them() {
    let mut feed = Feed::new();
    feed.module("/bin/program", 0x1000, 0x100);
    feed.stack(1, &[0x1010]);
    feed.alloc(2, 0x10, 8);
    let report = feed.report();
    assert!(report.by_stack.is_empty() && report.frames.is_empty() && report.modules.is_empty());
    assert!(report.by_function(All).is_empty());
    let mut document = Vec::new();
    json::write(&report, &mut document).expect("memory takes everything");
    let document: Value = serde_json::from_slice(&document).expect("JSON");
    assert!(
        document.get("by_stack").is_none() && document["largest_live"][0].get("stack").is_none()
    );
}

#[test]
fn before_the_first_stack_all_blocks_are_without_one() {
    let mut feed = Feed::new();
    feed.module("/bin/program", 0x1000, 0x100);
    feed.stack(1, &[0x1010]);
    feed.alloc(2, 0x10, 100);
    feed.free(2, 0x10);
    feed.alloc(2, 0x20, 60);
    feed.alloc_at(2, 0x30, 7, 1);
    let report = feed.report();
    let none = report.by_stack.iter().find(|row| row.kind == StackKind::NotTaken).expect("it");
    assert_eq!((none.figures.peak_bytes, none.figures.live_bytes), (100, 60));
}

#[test]
fn a_reallocated_block_moves_to_the_stack_of_its_reallocation() {
    let mut feed = program(Analyzer::new());
    feed.realloc_free(2, 0x100);
    feed.realloc_alloc_at(2, 0x600, 1500, 2);
    // A reallocation without a stack says nothing.
    feed.realloc(2, 0x600, 0x600, 1600);
    let report = feed.report();
    let deep = row(&report, &[0x0f, 0x1f, 0x2f, 0x3f, 0x4f, 0x5f]).figures;
    assert_eq!((deep.live_bytes, deep.frees, deep.reallocations), (200, 0, 0));
    assert_eq!(deep.moved_out, moves(1, 1000));
    let main = row(&report, &[0x3f, 0x4f, 0x5f]).figures;
    assert_eq!((main.live_bytes, main.reallocations, main.allocated_bytes), (1630, 2, 3130));
    assert_eq!(main.moved_in, moves(1, 1500));
    assert_eq!(report.by_scope[0].figures.moved_out, Moves::default());
}

fn moves(blocks: u64, bytes: u64) -> Moves {
    let mut moves = Moves::default();
    (moves.blocks, moves.bytes) = (blocks, bytes);
    moves
}

#[test]
fn an_address_belongs_to_the_module_that_was_loaded_at_the_time_of_its_spec() {
    let mut feed = Feed::new();
    feed.emit("Diagnostics.ModuleInit", 1, &[memledger_test_support::feed::V::S("dwarf"), N(0)]);
    feed.module("/lib/first.so", 0x1000, 0x100);
    feed.stack(1, &[0x1010]);
    feed.emit("Diagnostics.ModuleUnload", 1, &[N(0x1000)]);
    feed.module("/lib/second.so", 0x1000, 0x100);
    feed.stack(2, &[0x1010]);
    feed.emit("Diagnostics.ModuleUnload", 1, &[N(0x1000)]);
    feed.module("/lib/first.so", 0x9000, 0x100);
    feed.stack(3, &[0x9010]);
    for (id, size) in [(1, 1), (2, 10), (3, 100)] {
        feed.alloc_at(2, 0x10 * u64::from(id), size, id);
    }
    let report = feed.report();
    let rows = report.by_function(Folded);
    assert_eq!(rows.len(), 2);
    assert_eq!(called(&rows, "first.so+0xf").figures.live_bytes, 101);
    assert_eq!(called(&rows, "second.so+0xf").figures.live_bytes, 10);
    let rows = report.by_crate(Folded);
    assert_eq!(called(&rows, "first.so").inclusive.live_bytes, 101);
}

#[test]
fn an_id_may_be_used_before_its_spec() {
    let mut feed = Feed::unreal();
    feed.alloc_at(2, 0x10, 5, 7);
    feed.stack(3, &[0x1010]);
    feed.alloc_at(2, 0x20, 6, 3);
    feed.stack(7, &[0x1010]);
    feed.alloc_at(2, 0x30, 7, 7);
    feed.alloc_at(2, 0x40, 8, u32::MAX);
    // A file that is announced after the stacks in it.
    feed.module("/bin/late", 0x1000, 0x100);
    let report = feed.report();
    assert_eq!(report.by_stack.len(), 2, "{:?}", report.by_stack);
    assert_eq!(row(&report, &[0xf]).figures.live_bytes, 18);
    let rows = report.by_function(Folded);
    assert_eq!(called(&rows, "(unknown stack)").figures.live_bytes, 8);
    assert_eq!(called(&rows, "late+0xf").figures.live_bytes, 18);
}

/// Frames that were found by frame pointers are others than those at the same addresses that were proved, in
/// each table.
#[test]
fn frames_that_are_a_guess_are_marked() {
    let mut feed = Feed::new();
    feed.module("/bin/program", 0x1000, 0x100);
    let frames = [0x9000, 0x1010, 0x1020];
    for (id, from) in [(1, None), (2, Some(1)), (3, Some(0)), (4, Some(1))] {
        feed.stack(id, &frames);
        if let Some(from) = from {
            feed.emit("Memledger.CallstackGuess", 1, &[N(id.into()), N(from)]);
        }
        if id == 4 {
            feed.emit("Memledger.CallstackEnd", 1, &[N(id.into()), N(2)]);
        }
        feed.alloc_at(2, 0x10 * u64::from(id), 1 << id, id);
    }
    // What is not announced, and one without frames.
    feed.emit("Memledger.CallstackGuess", 1, &[N(99), N(0)]);
    feed.stack(5, &[]);
    feed.emit("Memledger.CallstackGuess", 1, &[N(5), N(0)]);
    let report = feed.report();
    let of_row = |row: StackRow| {
        let frames = row.frames.iter().map(|frame| &report.frames[*frame as usize]);
        let marks = frames.map(|frame| (frame.offset, frame.is_guess)).collect::<Vec<_>>();
        (row.figures.live_bytes, row.end, marks)
    };
    let rows: Vec<_> = report.by_stack.iter().map(of_row).collect();
    let marked = |from: usize| {
        let offsets = [0x8fff, 0xf, 0x1f].into_iter().enumerate();
        offsets.map(|(index, offset)| (offset, index >= from)).collect::<Vec<_>>()
    };
    assert_eq!(
        rows,
        [
            (16, StackEnd::NoUnwindInformation, marked(1)),
            (8, StackEnd::Complete, marked(0)),
            (4, StackEnd::Complete, marked(1)),
            (2, StackEnd::Complete, marked(3)),
        ]
    );
    assert_eq!(report.losses.stacks_guessed, 3);
    let functions = report.by_function(Frames::All);
    assert_eq!(called(&functions, "program+0x1f").inclusive.live_bytes, 2);
    assert_eq!(called(&functions, "program+0x1f [frame pointer]").inclusive.live_bytes, 28);
    let tree = printed(&report, |options| options.by = Some(text::By::Stack));
    assert!(tree.contains("program+0xf [frame pointer]"), "{tree}");
    assert!(printed(&report, |_| {}).contains("75 % of those taken are a guess"));
    let mut out = Vec::new();
    json::write(&report, &mut out).expect("memory takes everything");
    let written: Value = serde_json::from_slice(&out).expect("JSON");
    let frames = written["frames"].as_array().expect("a list");
    assert_eq!(frames.iter().filter(|frame| frame["is_guess"] == true).count(), 3);
}

#[test]
fn a_stack_says_why_it_ends() {
    let mut feed = Feed::new();
    feed.module("/bin/program", 0x1000, 0x100);
    for (id, reason) in [(1, 0), (2, 1), (3, 2), (4, 3), (7, 4), (5, 99)] {
        feed.stack(id, &[0x1010, 0x1020]);
        feed.emit("Memledger.CallstackEnd", 1, &[N(id.into()), N(reason)]);
        feed.alloc_at(2, 0x10 * u64::from(id), 1 << id, id);
    }
    feed.stack(6, &[]);
    feed.alloc_at(2, 0x100, 64, 6);
    // A stack can end before its first frame.
    feed.stack(8, &[]);
    feed.emit("Memledger.CallstackEnd", 1, &[N(8), N(4)]);
    feed.alloc_at(2, 0x200, 1000, 8);
    let report = feed.report();
    let functions = report.by_function(Folded);
    assert_eq!(called(&functions, "(a library that came or went)").figures.live_bytes, 1000);
    let ends: Vec<_> =
        report.by_stack.iter().map(|row| (row.kind, row.end, row.figures.live_bytes)).collect();
    assert_eq!(
        ends,
        [
            (StackKind::Known, StackEnd::LibraryChanged, 1000),
            (StackKind::Known, StackEnd::LibraryChanged, 128),
            (StackKind::Other, StackEnd::Complete, 64),
            // Reason 99 is not known: there are more frames.
            (StackKind::Known, StackEnd::FrameLimit, 36),
            (StackKind::Known, StackEnd::UnreadableMemory, 16),
            (StackKind::Known, StackEnd::NoUnwindInformation, 8),
            (StackKind::Known, StackEnd::Complete, 2),
        ]
    );
    let tree = printed(&report, |options| options.by = Some(text::By::Stack));
    for label in [
        "(above the frame limit)",
        "(unreadable memory)",
        "(no unwind information)",
        "(a library that came or went)",
        "(other)",
    ] {
        assert!(tree.contains(label), "{label} in {tree}");
    }

    let losses = &report.losses;
    assert_eq!((losses.stacks_over_frame_limit, losses.stacks_without_unwind_information), (2, 1));
    assert_eq!((losses.stacks_unreadable, losses.stacks_other), (1, 1));
    assert_eq!(losses.stacks_in_changed_libraries, 2);
    let screen = printed(&report, |options| options.width = 200);
    for line in [
        "86 % of those taken lack their outer frames: 2 over the frame limit, 1 in code without unwind \
         information, 1 in unreadable memory, 2 in libraries that came or went",
        "1 allocation has the stack (other): the program's table of stacks was full",
    ] {
        assert!(screen.contains(line), "{line} in {screen}");
    }
    let mut out = Vec::new();
    json::write(&report, &mut out).expect("memory takes everything");
    let written: Value = serde_json::from_slice(&out).expect("JSON");
    for (key, count) in [
        ("stacks_over_frame_limit", 2),
        ("stacks_without_unwind_information", 1),
        ("stacks_unreadable", 1),
        ("stacks_in_changed_libraries", 2),
        ("stacks_other", 1),
    ] {
        assert_eq!(written["losses"][key], count, "{key}");
    }

    // Less than 1 % of all is said on request only.
    let mut report = report.clone();
    let mut rows: Vec<_> = report.by_stack.iter().collect();
    rows[0].figures.allocations = 10_000;
    report.by_stack = rows.into_iter().collect();
    for is_verbose in [false, true] {
        let screen = printed(&report, |options| options.verbose = is_verbose);
        assert_eq!(screen.contains("<1 % of those taken"), is_verbose, "{screen}");
    }
}

/// It is neither a leak nor the program's.
#[test]
fn what_the_run_time_of_cpp_allocates_when_it_is_loaded_is_named() {
    let mut feed = Feed::new();
    feed.thread(2, 1, "main");
    feed.module("/usr/lib/libstdc++.so.6.0.30", 0x1000, 0x100);
    feed.module("/usr/lib/ld-linux-x86-64.so.2", 0x2000, 0x100);
    feed.module("/bin/program", 0x3000, 0x100);
    feed.stack(1, &[0x1010, 0x2010]);
    feed.stack(2, &[0x1020, 0x3010]);
    feed.alloc_at(2, 0x10, 72_704, 1);
    feed.alloc_at(2, 0x20, 100, 2);
    let report = feed.report();
    for rows in [report.by_function(Folded), report.by_line(Folded)] {
        let rows = rows.iter().map(|row| (&*row.name, row.figures.live_bytes));
        assert_eq!(
            rows.collect::<Vec<_>>(),
            [("(libstdc++ reserve)", 72_704), ("program+0xf", 100)]
        );
    }
}

/// With optimisation, the allocator and its entry can be inlined into the code that allocates.
#[test]
fn what_is_inlined_into_the_allocators_entry_is_folded() {
    let mut feed = Feed::new();
    feed.thread(2, 1, "main");
    feed.module("/bin/program", 0x1000, 0x100);
    feed.stack(1, &[0x1010]);
    feed.alloc_at(2, 0x10, 100, 1);
    let mut report = feed.report();
    let calls: &[(&str, u32)] = &[("alloc<System>", 1), ("__rust_alloc", 2), ("demo::define", 3)];
    let program: &[(u64, &[(&str, u32)])] = Box::leak(Box::new([(0x0f, calls)]));
    report.symbolize(&mut Names(program, Vec::new()));
    let names: Vec<_> = report.by_function(Folded).into_iter().map(|row| row.name).collect();
    assert_eq!(names[0], "demo::define", "{names:?}");
    assert!(!names.contains(&"alloc<System>".to_owned()), "{names:?}");
}

/// `main` of an example, whose debug information has the last part of its name only, calls std.
struct MainOfExample;

impl Symbolizer for MainOfExample {
    fn frames(&mut self, _: &Module, offset: u64) -> Vec<SourceFrame> {
        let (function, file) = match offset {
            0x0f => ("std::io::stdio::_print", "library/std/src/io/stdio.rs"),
            _ => ("main", "examples/show.rs"),
        };
        vec![SourceFrame::new(function, Some(file.to_owned()), Some(1))]
    }
}

#[test]
fn main_of_the_program_is_shown_where_it_calls_std() {
    let mut feed = Feed::new();
    feed.thread(2, 1, "main");
    feed.module("/bin/program", 0x1000, 0x100);
    feed.stack(1, &[0x1010, 0x1020]);
    feed.alloc_at(2, 0x10, 100, 1);
    let mut report = feed.report();
    report.symbolize(&mut MainOfExample);
    let names: Vec<_> = report.by_function(Folded).into_iter().map(|row| row.name).collect();
    assert_eq!(names, ["show::main"]);
}

/// An allocator can be of any crate, and can itself allocate.
#[test]
fn what_an_allocator_calls_is_folded() {
    let mut feed = Feed::new();
    feed.thread(2, 1, "main");
    feed.module("/bin/program", 0x1000, 0x100);
    feed.stack(1, &[0x1010, 0x1020, 0x1030, 0x1040]);
    feed.alloc_at(2, 0x10, 100, 1);
    let mut report = feed.report();
    let program: &[(u64, &[(&str, u32)])] = &[
        (0x0f, &[("alloc<demo::Counting>", 1)]),
        (0x1f, &[("alloc::alloc::realloc", 1), ("<demo::Counting as GlobalAlloc>::alloc", 1)]),
        (0x2f, &[("alloc::alloc::alloc", 1), ("alloc::raw_vec::finish_grow", 1)]),
        (0x3f, &[("demo::define", 1)]),
    ];
    report.symbolize(&mut Names(program, Vec::new()));
    let names: Vec<_> = report.by_function(Folded).into_iter().map(|row| row.name).collect();
    assert_eq!(names, ["demo::define"]);
    assert_eq!(report.by_function(All).len(), 6);
}

#[test]
fn functions_are_named_by_the_first_frame_that_is_not_folded() {
    let mut report = program(Analyzer::new()).report();
    let mut names = Names(PROGRAM, Vec::new());
    report.symbolize(&mut names);
    names.1.sort_unstable();
    assert_eq!(names.1, [0x0f, 0x1f, 0x2f, 0x3f, 0x4f, 0x5f], "each is asked for once");
    let rows = report.by_function(Folded);
    let names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["demo::inlined", "demo::main", "(no stack)", "demo::parse"]);
    let of = |name: &str| {
        let row = called(&rows, name);
        (row.figures.live_bytes, row.inclusive.live_bytes, row.inclusive.allocations)
    };
    assert_eq!(of("demo::inlined"), (1200, 1200, 2));
    assert_eq!(of("demo::parse"), (0, 1200, 2), "recursion counts once");
    assert_eq!(of("demo::main"), (30, 1230, 3));

    let all = report.by_function(All);
    assert_eq!(called(&all, "alloc::raw_vec::finish_grow").figures.live_bytes, 1200);
    assert_eq!(called(&all, "main").inclusive.live_bytes, 1230);

    let lines = report.by_line(Folded);
    let line = called(&lines, "src/demo.rs:7");
    assert_eq!((line.file.as_deref(), line.line), (Some("src/demo.rs"), Some(7)));
    assert_eq!((line.figures.live_bytes, line.inclusive.live_bytes), (1200, 1200));
    assert_eq!(called(&lines, "src/demo.rs:31").inclusive.live_bytes, 1200);
    let crates = report.by_crate(Folded);
    assert_eq!(called(&crates, "demo").figures.live_bytes, 1230);
    assert_eq!(crates.len(), 2);
    for rows in [rows, all, lines, crates] {
        let sum = |of: fn(&Figures) -> u64| rows.iter().map(|row| of(&row.figures)).sum::<u64>();
        assert_eq!(sum(|figures| figures.live_bytes), report.totals.live_bytes);
        assert_eq!(sum(|figures| figures.allocations), report.totals.allocations);
    }
}

#[test]
fn a_stack_without_the_programs_own_code_has_the_functions_of_std() {
    let mut feed = program(Analyzer::new());
    feed.stack(3, &[0x1010, 0x1050, 0x1060]);
    feed.alloc_at(2, 0x500, 5, 3);
    let mut report = feed.report();
    report.symbolize(&mut Names(PROGRAM, Vec::new()));
    let stack = report.by_stack.iter().position(|row| row.figures.live_bytes == 5).expect("a row");
    assert_eq!(report.functions_of(stack, Folded), ["std::rt::lang_start", "main"]);
    assert_eq!(called(&report.by_function(Folded), "std::rt::lang_start").figures.live_bytes, 5);
}

#[test]
fn the_tree_reads_from_callers_or_from_allocators() {
    let mut report = program(Analyzer::new()).report();
    report.symbolize(&mut Names(PROGRAM, Vec::new()));
    let tree = printed(&report, |options| options.by = Some(text::By::Stack));
    let rows = |text: &str| {
        let lines = text.lines().skip_while(|line| !line.starts_with("By stack")).skip(1);
        lines
            .map(|line| {
                line.split("  ")
                    .filter(|cell| !cell.is_empty())
                    .take(2)
                    .map(str::trim)
                    .collect::<Vec<_>>()
                    .join("|")
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        rows(&tree),
        [
            "demo::main|1.2 KiB",
            "demo::parse > demo::parse > demo::inlined|1.2 KiB",
            "(no stack)|4 B"
        ]
    );
    let tree = printed(&report, |options| {
        (options.by, options.bottom_up) = (Some(text::By::Stack), true);
    });
    assert_eq!(
        rows(&tree),
        [
            "demo::inlined > … 1 more … > demo::parse > demo::main|1.2 KiB",
            "demo::main|30 B",
            "(no stack)|4 B"
        ]
    );
    let found = printed(&report, |options| {
        (options.by, options.filter) = (Some(text::By::Stack), Some("INLINED".to_owned()));
    });
    assert_eq!(rows(&found).len(), 2, "{found}");
    let first_screen = printed(&report, |_| ());
    assert!(first_screen.contains("By function"), "{first_screen}");
    let verbose = printed(&report, |options| options.verbose = true);
    assert!(verbose.contains("demo::inlined < demo::parse < demo::parse < …"), "{verbose}");
}

#[test]
fn stacks_can_be_those_of_a_scope() {
    let mut feed = program(Analyzer::new());
    let mut analyzer = Feed::with(Analyzer::new().stacks_in_scope("LOAD"), false);
    std::mem::swap(&mut feed, &mut analyzer);
    feed.spec(0, 100, -1, -1, "load level");
    feed.module("/bin/program", 0x1000, 0x100);
    feed.stack(1, &[0x1010]);
    feed.alloc_at(2, 0x10, 5, 1);
    feed.enter(2, 100);
    feed.alloc_at(2, 0x20, 70, 1);
    feed.leave(2);
    let report = feed.report();
    assert_eq!(report.by_stack.len(), 1);
    assert_eq!(report.by_stack.get(0).unwrap().figures.live_bytes, 70);
    assert_eq!(report.totals.live_bytes, 75);
}

#[test]
fn the_json_has_stacks_frames_and_functions() {
    let mut report = program(Analyzer::new()).report();
    report.symbolize(&mut Names(PROGRAM, Vec::new()));
    let mut document = Vec::new();
    json::write(&report, &mut document).expect("memory takes everything");
    let document: Value = serde_json::from_slice(&document).expect("JSON");
    assert_eq!(document["stack_sampling_bytes"], Value::Null);
    assert_eq!(document["modules"][0]["path"], "/bin/program");
    assert_eq!(document["modules"][0]["build_id"], "2f62696e2f70726f6772616d");
    let stack = &document["by_stack"][0];
    assert_eq!((&stack["kind"], &stack["end"]), (&"known".into(), &"complete".into()));
    assert_eq!(stack["live_bytes"], 1200);
    assert!(stack.get("estimates").is_none());
    let inner = &document["frames"][stack["frames"][1].as_u64().expect("an index") as usize];
    assert_eq!(inner["offset"], "0x1f");
    assert_eq!(inner["functions"][1]["function"], "demo::parse");
    assert_eq!(inner["functions"][1]["line"], 30);
    let function = &document["by_function"][0];
    assert_eq!(function["function"], "demo::inlined");
    assert_eq!(function["inclusive"]["live_bytes"], 1200);
    assert!(function.get("peak_bytes").is_none(), "it is not known");
    assert_eq!(document["by_line"][0]["line_number"], 7);
    assert_eq!(document["by_crate"][0]["crate"], "demo");
    assert_eq!(document["largest_live"][0]["stack"], 0);
}

#[test]
fn stacks_of_unreals_own_runtime_are_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/ue511-smoke.utrace");
    let mut analyzer = Analyzer::new();
    read(&std::fs::read(path).expect("the sample")[..], &mut analyzer).expect("a trace");
    let report = analyzer.report();
    let known = report.by_stack.iter().filter(|row| row.kind == StackKind::Known);
    assert!(known.clone().count() > 40, "{}", report.by_stack.len());
    assert!(known.clone().all(|row| !row.frames.is_empty()));
    let live: u64 = report.by_stack.iter().map(|row| row.figures.live_bytes).sum();
    let allocated: u64 = report.by_stack.iter().map(|row| row.figures.allocated_bytes).sum();
    assert_eq!((live, allocated), (261_720, 1_155_246));
}

/// The pages of the last reading count, in the file that was loaded there, and a variable once.
#[test]
fn static_variables_have_their_resident_pages() {
    struct OfLibrary;
    impl Symbolizer for OfLibrary {
        fn frames(&mut self, _: &Module, _: u64) -> Vec<SourceFrame> {
            Vec::new()
        }
        fn variables(&mut self, module: &Module) -> Vec<(Range<u64>, String)> {
            let all =
                [(0x2000..0x5800, "table\u{1b}".to_owned()), (0x2000..0x3000, "alias".into())];
            all.into_iter().filter(|_| module.path == "/lib/new.so").collect()
        }
    }
    let mut feed = Feed::ours(Analyzer::new());
    feed.thread(2, 1, "main");
    feed.module("/bin/program", 0x1000, 0x100);
    feed.module("/lib/old.so", 0x10_000, 0x8000);
    let pages = |feed: &mut Feed, cycle, address, bits: &[u8]| {
        let values = [N(cycle), N(address), N(0x1000), B(bits)];
        feed.emit("Memledger.ResidentPages", 1, &values);
    };
    pages(&mut feed, 5, 0x12_000, &[0xff]);
    feed.module("/lib/new.so", 0x10_000, 0x8000);
    feed.stack(1, &[0x1010]);
    feed.alloc_at(2, 0x10, 100, 1);
    // All but the second page, in two parts; and pages in no file.
    pages(&mut feed, 6, 0x12_000, &[0b101]);
    pages(&mut feed, 6, 0x15_000, &[0b11]);
    pages(&mut feed, 6, 0x99_000, &[0xff]);
    feed.our_report(9);
    let mut report = feed.report();
    let rows = |report: &Report| {
        let row = |row: &StaticVariable| {
            (row.name.clone(), report.modules[row.module].path.clone(), row.bytes, row.size)
        };
        report.static_variables.iter().map(row).collect::<Vec<_>>()
    };
    let new = || "/lib/new.so".to_owned();
    assert_eq!(rows(&report), [(None, new(), 0x4000, 0)]);
    report.symbolize(&mut OfLibrary);
    let table = Some("table\u{1b}".to_owned());
    assert_eq!(rows(&report), [(table, new(), 0x2800, 0x3800), (None, new(), 0x1800, 0)]);
    let text = printed(&report, |options| options.verbose = true);
    assert!(text.contains("table\\u{1b} in new.so"), "{text}");
    let mut written = Vec::new();
    json::write(&report, &mut written).unwrap();
    let written: Value = serde_json::from_slice(&written).unwrap();
    let expected = serde_json::json!([
        { "variable": "table\u{1b}", "module": new(), "bytes": 0x2800, "size": 0x3800 },
        { "variable": null, "module": new(), "bytes": 0x1800, "size": null },
    ]);
    assert_eq!(written["static_variables"], expected);
}
