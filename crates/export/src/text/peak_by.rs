//! Below which function most of the peak was allocated.

use crate::findings::at_line;
use crate::names::short;
use crate::units::percent;
use memledger_document::internal::Calls;
use memledger_document::{Frames, Report};
use memledger_format::words::escape;
use std::collections::HashMap;

/// If a finding is about this share of it, in percent, it need not be said again.
const SAID: u64 = 75;

/// A function of the program's own code, with all that was allocated below it.
struct Function<'a> {
    name: &'a str,
    /// Its crate, or the file that it is in.
    owner: &'a str,
    bytes: u64,
    /// Of the stack with the most bytes: these, the function that calls it there, and the line in it.
    most: (u64, Option<&'a str>, Option<(&'a str, u32)>),
    /// The stack that was counted last.
    counted: usize,
}

/// The innermost function of the program's own code below which at least half of the peak was allocated, and
/// who calls it; `None` if that is `main`, if a finding says it, or if only a sample of blocks has a stack.
/// Without lines, own code is that of the crate of `main`.
pub(super) fn line(report: &Report) -> Option<String> {
    if report.stack_sampling_bytes.is_some() {
        return None;
    }
    let peak = report.totals.peak_bytes;
    let calls = Calls::of(report, Frames::Folded);
    let functions = functions(&calls);
    let own = functions.iter().find(|function| function.name.ends_with("::main"));
    let own = own.map(|main| main.owner).filter(|_| calls.unnamed().lines);
    let is_own = |function: &&Function<'_>| own.is_none_or(|own| function.owner == own);
    let is_half = |function: &&Function<'_>| function.bytes >= peak.div_ceil(2).max(1);
    let most = functions.iter().filter(is_own).filter(is_half);
    let most = most.min_by_key(|function| function.bytes)?;
    let is_main = most.name == "main" || most.name.ends_with("::main");
    let is_said = report.findings.iter().flatten().any(|finding| {
        let of_peak = u128::from(finding.bytes) * 100;
        finding.is_of_peak() && of_peak >= u128::from(most.bytes) * u128::from(SAID)
    });
    if is_main || is_said {
        return None;
    }
    let (_, caller, source) = most.most;
    let caller =
        caller.map_or(String::new(), |name| format!(", called by {}", escape(&short(name))));
    let (file, line) = source.unzip();
    Some(format!(
        "{} of it is allocated below {}{caller}",
        percent(most.bytes, peak),
        at_line(most.name, file, line)
    ))
}

/// All functions of the program's own code that have a name and below which something is live at the peak.
fn functions<'a>(calls: &'a Calls<'_>) -> Vec<Function<'a>> {
    let mut functions = Vec::<Function<'_>>::new();
    let mut by_name = HashMap::<&str, usize>::new();
    let stacks = calls.report.by_stack.all_figures().enumerate();
    for (number, figures) in stacks.filter(|(_, figures)| figures.live_bytes_at_peak > 0) {
        let bytes = figures.live_bytes_at_peak;
        let is_named = |call: &u32| calls.is_own(*call) && calls.get(*call).found().is_some();
        let mut shown = calls.shown(number).filter(is_named);
        while let Some(call) = shown.next() {
            let (name, owner) = (calls.get(call).name_of_function(), calls.get(call).owner());
            let function = *by_name.entry(name).or_insert_with(|| {
                let most = (0, None, None);
                functions.push(Function { name, owner, bytes: 0, most, counted: usize::MAX });
                functions.len() - 1
            });
            let function = &mut functions[function];
            if std::mem::replace(&mut function.counted, number) == number {
                continue;
            }
            function.bytes = function.bytes.saturating_add(bytes);
            if bytes > function.most.0 {
                let caller = shown.clone().map(|call| calls.function(call)).find(|of| *of != name);
                function.most = (bytes, caller, calls.get(call).source());
            }
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;
    use memledger_document::made;
    use memledger_document::{Finding, Frame, SourceFrame, StackKind, StackRow, WeightOf};

    /// A report with the bytes at the peak of stacks, each of them with its functions, innermost first.
    fn report(stacks: &[(u64, &[&str])], has_lines: bool) -> Report {
        let mut report = Report::default();
        for (bytes, functions) in stacks {
            let mut row = made!(StackRow { kind: StackKind::Known });
            row.figures.live_bytes_at_peak = *bytes;
            for function in *functions {
                let (file, line) = ("/home/a/game/src/load.rs".to_owned(), 7);
                let found = SourceFrame::new(
                    *function,
                    has_lines.then_some(file),
                    has_lines.then_some(line),
                );
                row.frames.push(report.frames.len() as u32);
                report.frames.push(made!(Frame { functions: vec![found] }));
            }
            report.by_stack.push(row);
            report.totals.peak_bytes += bytes;
        }
        report
    }

    #[test]
    fn the_innermost_function_with_half_of_the_peak_is_named() {
        let stacks: &[(u64, &[&str])] = &[
            (40, &["game::text", "game::load", "game::load", "game::main"]),
            (35, &["game::image", "game::load", "game::main"]),
            (25, &["game::main"]),
        ];
        let of = |has_lines| line(&report(stacks, has_lines)).unwrap_or_default();
        assert_eq!(
            of(true),
            "75 % of it is allocated below game::load (load.rs:7), called by game::main"
        );
        assert_eq!(of(false), "75 % of it is allocated below game::load, called by game::main");
        // That all is below `main` says nothing, and nothing is said twice.
        assert_eq!(
            line(&report(
                &[(9, &["game::a", "game::main"]), (9, &["game::b", "game::main"])],
                true
            )),
            Some(
                "50 % of it is allocated below game::a (load.rs:7), called by game::main"
                    .to_owned()
            )
        );
        assert_eq!(line(&report(&[(9, &["game::main"])], true)), None);
        let mut said = report(stacks, true);
        let finding = made!(Finding { bytes: 60, weight_of: WeightOf::Peak });
        said.findings = Some(vec![finding]);
        assert_eq!(line(&said), None);
        assert_eq!(line(&Report::default()), None);
    }

    #[test]
    fn without_lines_own_code_is_of_the_crate_of_main() {
        let stacks: &[(u64, &[&str])] =
            &[(90, &["json::value", "game::load", "game::main"]), (10, &["game::main"])];
        let of = |has_lines| line(&report(stacks, has_lines)).unwrap_or_default();
        assert!(of(false).contains("below game::load, called by game::main"), "{}", of(false));
        assert!(of(true).contains("below json::value (load.rs:7), called by game::load"));
        // A function without a name says nothing.
        let mut nameless = report(&[(9, &["game::load", "game::main"])], false);
        nameless.frames[0].functions.clear();
        assert_eq!(line(&nameless), None);
        // The standard library is not the program's own code.
        let of_std: &[(u64, &[&str])] =
            &[(9, &["std::sys::backtrace::__rust_begin_short_backtrace"])];
        assert_eq!(line(&report(of_std, false)), None);
    }
}
