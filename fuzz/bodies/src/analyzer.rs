//! A whole trace to a report, as text and as JSON. The first byte selects the options; the trace
//! follows.

use crate::figures::{add_up, print};
use memledger_analysis::{Analyzer, Position, Query, Report, Rule};
use memledger_export::query::Written;
use memledger_export::text::{self, By, Options, Sort};
use memledger_analysis::read::read;

/// The options of the report.
fn options(first: u8) -> Options {
    let mut options = Options::default();
    options.by = [None, Some(By::Scope), Some(By::Group), Some(By::Name), Some(By::Thread)]
        .into_iter()
        .chain([Some(By::Size)])
        .nth(usize::from(first % 6))
        .flatten();
    options.sort = [Sort::Live, Sort::Peak, Sort::Allocated, Sort::Count][usize::from(first >> 6)];
    options.inclusive = first & 8 != 0;
    options.color = first & 16 != 0;
    options.top = usize::from(first >> 5);
    options.filter = (first % 7 == 6).then(|| "e".to_owned());
    options
}

/// Analyzes the trace, and again up to a moment of it.
pub fn run(data: &[u8]) {
    let Some((&first, trace)) = data.split_first() else { return };
    let mut analyzer = Analyzer::new();
    let Ok(summary) = read(trace, &mut analyzer) else { return };
    let report = analyzer.report();
    add_up(&report);
    print(&report);
    assert!(report.trace.complete <= summary.is_complete(), "complete, with parts missing");
    if first & 4 != 0 {
        assert_eq!(report, analyzer.report(), "the same each time");
    }
    let mut out = Vec::new();
    let options = options(first);
    assert!(text::write(&report, &options, &mut out).is_ok());
    let out = String::from_utf8_lossy(&out);
    let bad = |c: char| c.is_control() && c != '\n' && !(options.color && c == '\u{1b}');
    assert!(!out.contains(bad), "a name of the trace reaches the terminal: {out:?}");

    ask(first, trace, &report);

    let until = match first & 3 {
        0 => Position::Event(analyzer.peak_event()),
        1 => Position::Time(report.trace.duration_ns / 2),
        _ => return,
    };
    let mut part = Analyzer::new().until(until.clone()).largest_live(3);
    assert!(read(trace, &mut part).is_ok());
    let part = part.report();
    add_up(&part);
    if let Position::Event(_) = until {
        assert_eq!(part.totals.peak_bytes, report.totals.peak_bytes);
        assert_eq!(part.totals.live_bytes, report.totals.peak_bytes, "as it stood at the peak");
    }
}

/// Asks for the blocks that a rule finds: the first byte selects it. What is live at the end is that of
/// the report, whatever the trace.
fn ask(first: u8, trace: &[u8], report: &Report) {
    let (middle, half) = (Position::Event(report.trace.events / 3), report.trace.duration_ns / 2);
    let answer = |rule, positions| {
        let mut analyzer = Query::new(rule, positions).by_size().blocks(2).analyzer();
        assert!(read(trace, &mut analyzer).is_ok());
        analyzer.answer()
    };
    let rule = Rule::ALL[usize::from(first) % Rule::ALL.len()];
    let positions = vec![middle, Position::Time(half), Position::End];
    if let Ok(answer) = answer(rule, positions) {
        let mut options = options(first);
        options.color = false;
        let (mut out, asked) = (Vec::new(), ["x".to_owned()]);
        let written = Written::new(&answer, &asked, &options);
        assert!(written.text(&mut out).is_ok());
        assert!(!String::from_utf8_lossy(&out).contains(|c: char| c.is_control() && c != '\n'));
        assert!(written.json(&mut Vec::new()).is_ok());
    }
    if let Ok(answer) = answer(Rule::AliveAtA, vec![Position::End]) {
        let total = (answer.total.blocks, answer.total.bytes);
        assert_eq!(total, (report.totals.live_blocks, report.totals.live_bytes));
    }
}

/// Small traces.
pub fn seeds() -> Vec<Vec<u8>> {
    let traces = crate::seeds::traces().into_iter().enumerate();
    traces.map(|(i, trace)| [&[(i * 37) as u8][..], &trace].concat()).collect()
}
