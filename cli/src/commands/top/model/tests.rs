use super::*;
use crate::commands::top::lines::Change;
use crate::commands::top::sample::{Row, Values};
use memledger_analysis::{Frame, Report, ScopeRow, SourceFrame, StackRow, ThreadRow};

const SECOND: u64 = 1_000_000_000;

/// A sample of scopes with these paths (`a>b`), live and allocated bytes.
pub fn sample(pid: u32, seconds: u64, rows: &[(&str, u64, u64)]) -> Sample {
    let mut report = Report::default();
    report.trace.program = Some("server".into());
    report.trace.pid = Some(pid);
    report.trace.duration_ns = seconds * SECOND;
    for &(path, live, allocated) in rows {
        let mut row = ScopeRow::default();
        row.path = path.split('>').map(str::to_owned).collect();
        row.figures.live_bytes = live;
        row.figures.allocated_bytes = allocated;
        row.figures.allocations = allocated / 10;
        row.figures.peak_bytes = live * 2;
        report.totals.live_bytes += live;
        report.totals.allocated_bytes += allocated;
        report.by_scope.push(row);
    }
    // With all that is inside them.
    for at in 0..report.by_scope.len() {
        let path = report.by_scope[at].path.clone();
        let inside = report.by_scope.iter().filter(|row| row.path.starts_with(&path));
        let (live, allocated) = inside.fold((0, 0), |(live, allocated), row| {
            (live + row.figures.live_bytes, allocated + row.figures.allocated_bytes)
        });
        let row = &mut report.by_scope[at];
        row.inclusive = row.figures;
        (row.inclusive.live_bytes, row.inclusive.allocated_bytes) = (live, allocated);
    }
    let mut thread = ThreadRow::default();
    (thread.id, thread.name) = (2, "main".into());
    report.by_thread.push(thread);
    Sample::of(&report, false)
}

fn model() -> Model {
    Model::new("server".into(), Some(By::Scope), Sort::Live)
}

/// The names that are shown, indented by their level.
fn names(model: &Model) -> Vec<String> {
    let name = |line: &Line| format!("{}{}", " ".repeat(line.level), line.name);
    model.list.lines.iter().map(name).collect()
}

const FIRST: &[(&str, u64, u64)] =
    &[("all", 0, 0), ("all>load", 500, 900), ("all>load>mesh", 200, 300), ("all>run", 600, 600)];
const SECOND_ONE: &[(&str, u64, u64)] = &[
    ("all", 0, 0),
    ("all>load", 100, 900),
    ("all>load>mesh", 900, 1500),
    ("all>run", 600, 5600),
    ("all>new", 50, 50),
];

#[test]
fn rows_are_a_tree_sorted_at_each_level() {
    let mut model = model();
    model.add(sample(1, 1, FIRST), None);
    assert_eq!(names(&model), ["all", " load", "  mesh", " run"], "700 bytes and 600");
    model.act(Action::SortBy(Sort::Peak));
    model.act(Action::Reverse);
    assert_eq!(names(&model), ["all", " load", "  mesh", " run"], "1,000 bytes and 1,200");
    model.act(Action::Inclusive);
    model.act(Action::SortBy(Sort::Live));
    assert_eq!(names(&model), ["all", " run", " load", "  mesh"], "each for itself");
    assert_eq!(model.list.lines[2].values.live, 500);
}

#[test]
fn rates_are_of_the_last_refresh_and_by_the_clock_that_advances() {
    let mut model = model();
    model.add(sample(1, 10, FIRST), None);
    assert_eq!(model.list.lines[0].rate, None, "there is no moment before");
    // The trace's clock has not advanced, because the program did nothing for a while.
    model.add(sample(1, 10, FIRST), Some(2 * SECOND));
    assert_eq!(model.list.lines[0].rate, Some(Default::default()));
    model.add(sample(1, 11, SECOND_ONE), Some(2 * SECOND));
    let run = model.list.lines.iter().find(|line| line.name == "run").unwrap();
    let rate = run.rate.unwrap();
    assert_eq!((rate.bytes, rate.count), (2500, 250), "5,000 bytes in two seconds");
    let new = model.list.lines.iter().find(|line| line.name == "new").unwrap();
    assert_eq!(new.rate.unwrap().bytes, 25, "a row that was not there had nothing");
    model.act(Action::SortBy(Sort::Rate));
    assert_eq!(names(&model), ["all", " run", " load", "  mesh", " new"]);
}

#[test]
fn a_mark_shows_what_has_changed_since() {
    let mut model = model();
    model.act(Action::Mark);
    assert!(model.mark().is_none(), "there is nothing yet");
    model.add(sample(1, 1, FIRST), None);
    model.act(Action::Mark);
    model.add(sample(1, 2, SECOND_ONE), Some(SECOND));
    model.act(Action::SortBy(Sort::Change));
    assert_eq!(names(&model), ["all", " load", "  mesh", " new", " run"]);
    let changes = model.list.lines.iter().map(|line| line.change.unwrap());
    let changes: Vec<_> = changes.map(|change| (change.live, change.allocated)).collect();
    assert_eq!(changes, [(350, 6250), (300, 1200), (700, 1200), (50, 50), (0, 5000)]);
    model.act(Action::Inclusive);
    let load = model.list.lines.iter().find(|line| line.name == "load").unwrap();
    assert_eq!(load.change.unwrap().live, -400, "for itself");
    model.act(Action::Unmark);
    assert_eq!((model.mark().is_some(), model.sort), (false, Sort::Live));
    assert_eq!(model.list.lines[0].change, None);
}

#[test]
fn a_filter_shows_rows_with_those_around_them_and_esc_brings_back_what_was() {
    let mut model = model();
    model.add(sample(1, 1, SECOND_ONE), None);
    model.act(Action::Collapse);
    assert_eq!(names(&model), ["all"]);
    model.act(Action::Filter);
    "MESH".chars().for_each(|char| _ = model.act(Action::Type(char)));
    assert_eq!(names(&model), ["all", " load", "  mesh"], "also what is closed");
    let around: Vec<_> = model.list.lines.iter().map(|line| line.is_around).collect();
    assert_eq!(around, [true, true, false]);
    model.act(Action::Type('!'));
    assert_eq!(names(&model), [""; 0]);
    model.act(Action::Erase);
    model.act(Action::Accept);
    assert_eq!((model.typing.is_some(), names(&model).len()), (false, 3));
    model.act(Action::Filter);
    model.act(Action::Erase);
    model.act(Action::Cancel);
    assert_eq!(model.filter, "MESH", "as before");
    model.act(Action::Cancel);
    assert_eq!((model.filter.as_str(), names(&model)), ("", vec!["all".to_owned()]));
    model.act(Action::ExpandAll);
    assert_eq!(names(&model).len(), 5);
}

#[test]
fn the_cursor_stays_on_its_row_as_figures_change() {
    let mut model = model();
    model.add(sample(1, 1, FIRST), None);
    assert_eq!((model.list.cursor(), model.list.scroll(2)), (0, 0));
    model.act(Action::Last);
    assert_eq!((model.list.cursor(), model.list.scroll(2)), (3, 2), "run");
    model.act(Action::SortBy(Sort::Allocated));
    model.add(sample(1, 2, SECOND_ONE), Some(SECOND));
    assert_eq!(model.list.lines[model.list.cursor()].name, "run");
    assert_eq!(model.list.cursor(), 1);
    assert_eq!(model.list.scroll(2), 1, "it is seen");
    model.act(Action::Up);
    model.act(Action::Up);
    assert_eq!((model.list.cursor(), model.list.scroll(2)), (0, 0));
    model.act(Action::PageDown);
    assert_eq!(model.list.cursor(), 2);
    model.act(Action::Collapse);
    assert_eq!(model.list.lines[model.list.cursor()].name, "load", "closed, or the row around");
    model.act(Action::First);
    assert_eq!(model.list.cursor(), 0);
}

#[test]
fn a_pause_keeps_the_screen_and_continues_with_the_latest() {
    let mut model = model();
    model.add(sample(1, 1, FIRST), None);
    model.act(Action::Pause);
    model.add(sample(1, 2, SECOND_ONE), Some(SECOND));
    model.add(sample(1, 3, SECOND_ONE), Some(SECOND));
    assert_eq!((names(&model).len(), model.now().unwrap().at_ns), (4, SECOND));
    model.act(Action::Pause);
    assert_eq!((names(&model).len(), model.now().unwrap().at_ns), (5, 3 * SECOND));
    assert_eq!(model.list.lines[0].rate, Some(Default::default()), "of the last second");
}

#[test]
fn another_process_at_the_same_place_begins_anew() {
    let mut model = model();
    model.add(sample(1, 100, SECOND_ONE), None);
    model.act(Action::Mark);
    model.act(Action::Pause);
    model.add(sample(2, 1, FIRST), Some(SECOND));
    assert!(model.mark().is_none() && model.before().is_none() && !model.paused);
    assert_eq!(model.now().unwrap().at_ns, SECOND);
    assert!(model.problem.as_ref().unwrap().contains("process 2"), "{:?}", model.problem);
}

#[test]
fn what_a_list_lacks_is_not_sorted_by() {
    let mut model = Model::new("x".into(), Some(By::Scope), Sort::Peak);
    model.add(sample(1, 1, FIRST), None);
    model.act(Action::Show(By::Function));
    assert_eq!((model.sort, model.list.lines.len()), (Sort::Live, 0));
    assert!(model.wants_functions());
    model.act(Action::NextView);
    assert_eq!(names(&model), ["main (2)"]);
    for _ in 0..20 {
        model.act(Action::NextSort);
        assert_ne!(model.sort, Sort::Change, "there is no mark");
    }
}

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// Whatever happens in whatever order: the cursor is on a row that is seen, rows are in their order at each
/// level, and each row of the sample is shown unless it is filtered out or in a closed row.
#[test]
fn any_actions_and_any_figures_keep_the_screen_in_order() {
    let names = ["a", "b", "long name", "日本", "\u{202e}x", ""];
    for seed in 0..200 {
        let mut numbers = Numbers(seed);
        let mut model = model();
        let mut seconds = 0;
        for _ in 0..60 {
            if numbers.below(3) == 0 {
                let mut rows: Vec<(String, u64, u64)> = Vec::new();
                for _ in 0..numbers.below(12) {
                    let depth = 1 + numbers.below(4);
                    let path = (0..depth).map(|_| names[numbers.below(6) as usize]);
                    let path = path.collect::<Vec<_>>().join(">");
                    if rows.iter().all(|row| row.0 != path) {
                        rows.push((path, numbers.below(1000), numbers.below(u64::MAX >> 33)));
                    }
                }
                let rows: Vec<_> = rows.iter().map(|row| (&*row.0, row.1, row.2)).collect();
                seconds += numbers.below(3);
                let elapsed = (numbers.below(2) == 0).then(|| numbers.below(5) * SECOND / 2);
                model.add(sample(1 + (numbers.below(40) == 0) as u32, seconds, &rows), elapsed);
            }
            let action = action(&mut numbers);
            model.act(action.clone());
            check(&mut model, numbers.below(8) as usize, &action);
        }
    }
}

fn action(numbers: &mut Numbers) -> Action {
    let moves = [
        Action::Up,
        Action::Down,
        Action::PageUp,
        Action::PageDown,
        Action::First,
        Action::Last,
        Action::Expand,
        Action::Collapse,
        Action::ExpandAll,
        Action::CollapseAll,
        Action::Mark,
        Action::Unmark,
        Action::Pause,
        Action::Inclusive,
        Action::Reverse,
        Action::NextSort,
        Action::NextView,
        Action::PreviousView,
        Action::Show(By::Scope),
        Action::SortBy(Sort::Rate),
        Action::Filter,
        Action::Type('a'),
        Action::Erase,
        Action::Accept,
        Action::Cancel,
        Action::Help,
    ];
    moves[numbers.below(moves.len() as u64) as usize].clone()
}

fn check(model: &mut Model, page: usize, action: &Action) {
    let first = model.list.scroll(page);
    let (cursor, lines) = (model.list.cursor(), &model.list.lines);
    assert!(lines.is_empty() || cursor < lines.len(), "{action:?}");
    assert!(lines.is_empty() || (first..first + page.max(1)).contains(&cursor), "{action:?}");
    let Some(now) = model.now() else { return };
    if model.filter.is_empty() && lines.iter().all(|line| line.is_expanded != Some(false)) {
        assert_eq!(lines.len(), now.sample.rows(model.by).len(), "{action:?}");
    }
    if model.sort != Sort::Live {
        return;
    }
    for (at, line) in lines.iter().enumerate() {
        let rest = lines[at + 1..].iter().take_while(|other| other.level >= line.level);
        if let Some(next) = rest.into_iter().find(|other| other.level == line.level) {
            let (one, other) = (line.values.live, next.values.live);
            assert!(if model.reverse { one <= other } else { one >= other }, "{action:?}");
        }
    }
}

#[test]
fn the_largest_figures_do_not_overflow() {
    let most = Values { live: u64::MAX, allocated: u64::MAX, count: u64::MAX, ..Values::default() };
    let row = Row { path: vec![], label: None, own: most, inclusive: most };
    assert_eq!(row.values(true), row.values(false));
    let change = Change::between(Some(&most), &Values::default());
    assert_eq!((change.live, change.allocated), (-i128::from(u64::MAX), 0));
}

/// Figures with functions, each with its own live bytes and those with callees.
fn with_functions(seconds: u64, scopes: &[(&str, u64, u64)], functions: &[(&str, u64)]) -> Sample {
    let mut report = Report::default();
    let calls = functions.iter().map(|(name, _)| SourceFrame::new(*name, None, None));
    for (number, (call, (_, live))) in calls.zip(functions).enumerate() {
        let mut frame = Frame::default();
        frame.functions.push(call);
        report.frames.push(frame);
        let mut row = StackRow::default();
        // Each is called by those before it.
        row.frames = (0..=number as u32).rev().collect();
        row.figures.live_bytes = *live;
        report.by_stack.push(row);
    }
    let mut functions = Sample::of(&report, true);
    let scopes = sample(1, seconds, scopes);
    functions.duration_ns = scopes.duration_ns;
    let mut both = scopes;
    both.take_functions(&functions);
    both
}

#[test]
fn a_program_with_stacks_and_no_scopes_opens_on_its_functions_own_figures_first() {
    let functions = [("app::main", 5), ("app::load", 7)];
    let opened = |by, scopes: &[_]| {
        let mut model = Model::new("server".into(), by, Sort::Live);
        assert_eq!(model.wants_functions(), by.is_none());
        model.add(with_functions(1, scopes, &functions), None);
        model
    };
    let mut model = opened(None, &FIRST[..1]);
    assert_eq!(
        (model.by, names(&model)),
        (By::Function, ["app::load", "app::main"].map(str::to_owned).into())
    );
    assert_eq!(model.list.lines[1].values.live, 5);
    model.act(Action::Inclusive);
    assert_eq!(model.list.lines[0].values.live, 12, "with callees");

    assert_eq!(opened(None, FIRST).by, By::Scope, "scopes say more");
    assert!(!opened(None, FIRST).wants_functions());
    assert_eq!(opened(Some(By::Thread), &FIRST[..1]).by, By::Thread);
    let mut model = Model::new("server".into(), None, Sort::Live);
    model.act(Action::Show(By::Thread));
    model.add(with_functions(1, &FIRST[..1], &functions), None);
    assert_eq!(model.by, By::Thread, "a key has chosen");
}

#[test]
fn functions_change_from_a_mark_on_that_was_set_in_another_list() {
    let mut model = model();
    model.add(sample(1, 1, FIRST), None);
    model.act(Action::Mark);
    assert!(model.wants_functions(), "the mark has none");
    model.add(with_functions(2, FIRST, &[("app::load", 100)]), None);
    assert!(!model.wants_functions());
    model.add(with_functions(3, FIRST, &[("app::load", 175)]), None);
    model.act(Action::Show(By::Function));
    assert_eq!(model.list.lines[0].change.map(|change| change.live), Some(75));
}
