//! Findings: all of them, or the first ones on the first screen, the most important first.

use super::over_time::argument;
use super::style::Style;
use super::table::{Row, Table, wrapped};
use crate::findings::{evidence, functions, heading, suggestion, words};
use crate::names;
use crate::names::{is_untagged, shown_scope, tag};
use crate::options::Options;
use crate::units::{bytes, count, percent};
use memledger_document::internal::sort;
use memledger_document::{Finding, FreedIn, Place, Report};
use memledger_format::words::escape;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

/// How many findings the first screen has.
const FIRST: usize = 3;
/// The place of a finding that has no function, no tag and no scope: of a program without the tracker, for
/// one.
const WHOLE: &str = "the program";
/// Above findings.
const TITLE: &str = "Findings";
/// Columns of a finding's number.
const NUMBER: usize = 5;

/// What is shown of functions.
pub(super) type Names<'a> = HashMap<&'a str, String>;

/// What is shown of the functions of places: all of it in a verbose report.
pub(super) fn names_in<'a>(
    places: impl Iterator<Item = &'a Place>,
    options: &Options,
) -> Names<'a> {
    let functions = places.flat_map(|place| {
        let callers = place.callers.iter().map(|caller| &caller.function);
        place.function.iter().chain(callers).chain(place.shares.iter().map(|(name, _)| name))
    });
    let functions: BTreeSet<_> = functions.map(String::as_str).collect();
    let functions = functions.iter().copied();
    match options.verbose {
        true => functions.map(|name| (name, name.to_owned())).collect(),
        false => functions.clone().zip(names::apart(functions)).collect(),
    }
}

/// The name of a function as it is shown.
pub(super) fn shown(name: &str, names: &Names<'_>) -> String {
    match names.get(name) {
        Some(shown) => escape(shown),
        None => escape(&names::short(name)),
    }
}

/// Where it is, with its line and all that is known; `names` are those of functions.
fn at(place: &Place, names: &Names<'_>) -> String {
    let scope = || within_global(&place.scope);
    let is_tagged = place.name.as_ref().is_some_and(|name| !is_untagged(&place.group, name));
    let mut text = match functions(place, &|name| shown(name, names)) {
        Some(functions) => functions,
        None if is_tagged => escape(&tag(&place.group, place.name.as_deref().unwrap_or_default())),
        // The outermost scope alone is the whole program.
        None if place.scope.len() > 1 => escape(&scope().join(" > ")),
        None => WHOLE.to_owned(),
    };
    if place.function.is_some() || is_tagged {
        if place.scope.len() > 1 {
            let inside = if place.has_inner_scopes { " and inside" } else { "" };
            text += &format!(", in {}{inside}", escape(&scope().join(" > ")));
        }
        if place.function.is_some() && is_tagged {
            let name = place.name.as_deref().unwrap_or_default();
            text += &format!(", {}", escape(&tag(&place.group, name)));
        }
    }
    if let Some((id, name)) = &place.thread {
        let thread = if name.is_empty() { format!("thread {id}") } else { escape(name) };
        text += &format!(", on {thread}");
    }
    text
}

/// A scope stack without the outermost scope, unless that is all.
fn within_global(path: &[String]) -> &[String] {
    path.get(1..).filter(|path| !path.is_empty()).unwrap_or(path)
}

/// Whether the options select it.
fn is_shown(finding: &Finding, options: &Options) -> bool {
    let place = &finding.place;
    let path = place.scope.join(" > ");
    let name = place.name.as_deref().map(|name| tag(&place.group, name)).unwrap_or_default();
    let function = place.function.as_deref().unwrap_or_default();
    [&*path, &*name, function, finding.kind.key()].iter().any(|text| options.shows(text))
}

/// The findings that the options select, one below the other: all, or the first on the first screen. Returns
/// whether it has written anything.
pub(super) fn write(
    report: &Report,
    options: &Options,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let has_blocks = options.findings || report.totals.allocations > 0;
    let Some(found) = report.findings.as_ref().filter(|_| has_blocks) else { return Ok(false) };
    let numbered = (1..).zip(found);
    let shown: Vec<_> = numbered.filter(|(_, finding)| is_shown(finding, options)).collect();
    if shown.is_empty() {
        let why = match found.len() {
            0 => NONE_FOUND.to_owned(),
            _ if options.findings => "none with that in its place".to_owned(),
            _ => return Ok(false),
        };
        writeln!(out)?;
        let lines = wrapped(&format!("{TITLE}: {why}"), options.width, options.width);
        lines.iter().try_for_each(|line| writeln!(out, "{}", style.bold(line)))?;
        return Ok(true);
    }
    let most = if options.findings { options.top } else { FIRST };
    let names = names_in(shown.iter().map(|(_, finding)| &finding.place), options);
    writeln!(out, "\n{}", style.bold(TITLE))?;
    for (number, finding) in shown.iter().take(most) {
        one(finding, *number, &names, options, style, out)?;
    }
    let left = shown.len().saturating_sub(most);
    if left > 0 {
        let flag = match &options.trace {
            Some(trace) if !options.findings => {
                format!(" (memledger report {} --findings)", argument(trace))
            }
            _ if !options.flags => String::new(),
            _ if options.findings => format!(" (--top {})", shown.len()),
            _ => " (--findings)".to_owned(),
        };
        writeln!(out, "{}", style.dim(&format!("  … and {} more{flag}", count(left as u64))))?;
    }
    if !found.iter().any(|finding| finding.weight_of.is_held()) {
        writeln!(out, "{}", style.dim(&format!("  {NOT_HELD}")))?;
    }
    let with_set = shown.iter().take(most).find(|(_, finding)| finding.set.is_some());
    if let (Some((number, _)), Some(trace)) = (with_set, &options.trace) {
        let command = format!("memledger query {} --finding {number} --by size", argument(trace));
        writeln!(out, "{}", style.dim(&format!("  its blocks: {command}")))?;
    }
    Ok(true)
}

/// What is said where all was looked for and nothing was found.
pub(crate) const NONE_FOUND: &str = "none: no block is left behind, no longer freed, in a queue, temporary, made again and again, \
                                     or grows stepwise. Whether what stays is needed, blocks do not say";

/// What is said where all of them are about work.
const NOT_HELD: &str = "time, not memory: whether what the peak holds is needed, blocks do not say";

/// One finding: its kind, its place, what was seen, and what to do.
fn one(
    finding: &Finding,
    number: usize,
    names: &Names<'_>,
    options: &Options,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let room = options.width.saturating_sub(NUMBER);
    let title = format!("{}: {}", heading(finding), at(&finding.place, names));
    let mut lines = wrapped(&title, room, room).into_iter();
    let first = format!("{number:>3}. {}", lines.next().unwrap_or_default());
    writeln!(out, "{}", style.bold(&first))?;
    let share = percent(finding.weight, 1_000_000);
    let evidence = format!("{share} {}: {}.", words(finding.weight_of), evidence(finding));
    let texts = [evidence, format!("{}.", suggestion(finding))];
    let rest = texts.iter().flat_map(|text| wrapped(text, room, room));
    lines.chain(rest).try_for_each(|line| writeln!(out, "{:NUMBER$}{line}", ""))
}

/// In which scopes blocks were freed, below the scopes that allocated them: those first of whose blocks
/// most were freed in other scopes.
pub(super) fn matrix(rows: &[FreedIn], options: &Options) -> Table {
    let name = |path: &[String]| shown_scope(path);
    let cells = |blocks: u64, size: u64| vec![count(blocks), bytes(size)];
    let mut by_scope = BTreeMap::<&[String], Vec<&FreedIn>>::new();
    for row in rows {
        by_scope.entry(&row.allocated_in).or_default().push(row);
    }
    let elsewhere = |rows: &[&FreedIn]| {
        rows.iter().filter(|row| !row.is_same()).map(|row| row.blocks).sum::<u64>()
    };
    by_scope.retain(|scope, rows| {
        let is_shown = |path: &[String]| options.shows(&name(path));
        elsewhere(rows) > 0 && (is_shown(scope) || rows.iter().any(|row| is_shown(&row.freed_in)))
    });
    let mut scopes: Vec<_> = by_scope.into_iter().collect();
    sort::by_key(&mut scopes, |(_, rows)| Reverse(elsewhere(rows)));
    let left = scopes.len().saturating_sub(options.top);
    let mut table = Table {
        title: "Freed in, below the scope that allocated".to_owned(),
        headers: vec!["blocks", "bytes"],
        kept: 1,
        names: 0,
        rows: Vec::new(),
        footer: (left > 0).then(|| format!("… and {} more", count(left as u64))),
    };
    for (scope, rows) in scopes.into_iter().take(options.top) {
        let sum = |of: fn(&FreedIn) -> u64| rows.iter().map(|row| of(row)).sum();
        let cells_of_all = cells(sum(|row| row.blocks), sum(|row| row.bytes));
        table.rows.push(Row { level: 0, name: name(scope), cells: cells_of_all });
        for row in rows.iter().take(options.top) {
            let name = if row.is_same() { "itself".to_owned() } else { name(&row.freed_in) };
            table.rows.push(Row { level: 1, name, cells: cells(row.blocks, row.bytes) });
        }
        if let Some(rest) = rows.get(options.top..).filter(|rest| !rest.is_empty()) {
            let sum = |of: fn(&FreedIn) -> u64| rest.iter().map(|row| of(row)).sum();
            let name = format!("… {} more", count(rest.len() as u64));
            let cells = cells(sum(|row| row.blocks), sum(|row| row.bytes));
            table.rows.push(Row { level: 1, name, cells });
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use memledger_document::made;

    #[test]
    fn a_finding_without_a_place_is_of_the_program() {
        let scope = vec!["GlobalScope".to_owned()];
        for place in [Place::default(), made!(Place { scope })] {
            assert_eq!(at(&place, &Names::new()), "the program");
        }
    }

    #[test]
    fn functions_of_kilobytes_are_short_and_apart() {
        let name = |of: &str| format!("a::Expression<{}>::evaluate", of.repeat(3000));
        let of = |function: String| {
            let place = made!(Place { function: Some(function) });
            made!(Finding { place })
        };
        let found = [of(name("A")), of(name("B"))];
        let shown = |options: &Options| {
            let mut text = Vec::new();
            let mut report = made!(Report { findings: Some(found.to_vec()) });
            report.totals.allocations = 1;
            write(&report, options, Style { color: false }, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        let text = shown(&Options::default());
        // They are about calls, as a finding is that says nothing else.
        assert!(text.contains(NOT_HELD), "{text}");
        assert!(text.contains("1. left behind: a::Expression<…>::evaluate\n"), "{text}");
        assert!(text.contains("2. left behind: a::Expression<…>::evaluate #2\n"), "{text}");
        let whole = shown(&Options { verbose: true, ..Options::default() });
        let whole = whole.replace(['\n', ' '], "");
        assert!(whole.contains(&name("A")) && whole.contains(&name("B")));
    }
}
