//! Findings: all of them, or the first ones on the first screen. Those that hold memory come first, then
//! those that cost time.

use super::over_time::argument;
use super::rss;
use super::style::Style;
use super::table::{Row, Table, wrapped};
use crate::findings::{evidence, heading, suggestion, words};
use crate::names;
use crate::names::{is_untagged, shown_scope, tag};
use crate::options::Options;
use crate::units::{bytes, count, percent};
use memledger_document::internal::sort;
use memledger_document::{Finding, FindingKind, FreedIn, Place, Report, short_path};
use memledger_format::words::escape;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

/// How many findings the first screen has.
const FIRST: usize = 3;
/// The place of a finding that has no function, no tag and no scope: of a program without the tracker, for
/// one.
const WHOLE: &str = "the program";
/// The headings: of what holds memory, and of what costs time.
const OF_PEAK: &str = "Look at first";
const OF_TIME: &str = "Cheap to speed up";
/// How many times what is live the resident memory is where blocks do not explain it.
const MUCH: u64 = 2;
/// Columns of a finding's number.
const NUMBER: usize = 5;

/// What is shown of functions.
type Names<'a> = HashMap<&'a str, String>;

/// What is shown of the functions of findings: all of it in a verbose report.
fn names_in<'a>(findings: &[&'a Finding], options: &Options) -> Names<'a> {
    let places = findings.iter().map(|finding| &finding.place);
    let functions = places.flat_map(|place| place.function.iter().chain(&place.callers));
    let functions: BTreeSet<_> = functions.map(String::as_str).collect();
    let functions = functions.iter().copied();
    match options.verbose {
        true => functions.map(|name| (name, name.to_owned())).collect(),
        false => functions.clone().zip(names::apart(functions)).collect(),
    }
}

/// Where it is, with its line and all that is known; `names` are those of functions.
fn at(place: &Place, names: &Names<'_>) -> String {
    let shown = |name: &str| match names.get(name) {
        Some(shown) => escape(shown),
        None => escape(&names::short(name)),
    };
    let scope = || within_global(&place.scope);
    let is_tagged = place.name.as_ref().is_some_and(|name| !is_untagged(&place.group, name));
    let mut text = match &place.function {
        Some(function) => shown(function),
        None if is_tagged => escape(&tag(&place.group, place.name.as_deref().unwrap_or_default())),
        // The outermost scope alone is the whole program.
        None if place.scope.len() > 1 => escape(&scope().join(" > ")),
        None => WHOLE.to_owned(),
    };
    if let Some(file) = &place.file {
        let line = place.line.map_or(String::new(), |line| format!(":{line}"));
        text += &format!(" ({}{line})", escape(short_path(file)));
    }
    if !place.callers.is_empty() {
        let callers: Vec<_> = place.callers.iter().map(|name| shown(name)).collect();
        text += &format!(" < {}", callers.join(" < "));
    }
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
    [&*path, &*name, function, finding.kind_name()].iter().any(|text| options.shows(text))
}

/// The findings that the options select, one below the other: all of them, or the first on the first screen.
/// A report without those of single blocks has those of its rows.
pub(super) fn write(
    report: &Report,
    options: &Options,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let brief = || Cow::Owned(report.brief_findings());
    let found = report.findings.as_deref().map_or_else(brief, Cow::Borrowed);
    let shown: Vec<_> = found.iter().filter(|finding| is_shown(finding, options)).collect();
    if shown.is_empty() && options.findings {
        let why = match found.len() {
            0 => none_found(report),
            _ => "none with that in its place".to_owned(),
        };
        writeln!(out)?;
        let lines = wrapped(&format!("Findings: {why}"), options.width, options.width);
        return lines.iter().try_for_each(|line| writeln!(out, "{}", style.bold(line)));
    }
    let most = if options.findings { options.top } else { FIRST };
    let (peak, time): (Vec<_>, Vec<_>) = shown.iter().partition(|finding| finding.is_of_peak());
    let names = names_in(&shown, options);
    let mut numbers = 1..=most.min(shown.len());
    for (title, list) in [(OF_PEAK, &peak), (OF_TIME, &time)] {
        for (at, (&finding, number)) in list.iter().zip(numbers.by_ref()).enumerate() {
            if at == 0 {
                writeln!(out, "\n{}", style.bold(title))?;
            }
            one(finding, number, &names, options, style, out)?;
        }
    }
    let left = shown.len().saturating_sub(most);
    if left > 0 {
        let flag = match &options.trace {
            _ if !options.flags => String::new(),
            _ if options.findings => format!(" (--top {})", shown.len()),
            Some(trace) => format!(" (memledger report {} --findings)", argument(trace)),
            None => " (--findings)".to_owned(),
        };
        writeln!(out, "{}", style.dim(&format!("  … and {} more{flag}", count(left as u64))))?;
    }
    Ok(())
}

/// What is said where all was looked for and nothing was found: no finding of blocks explains a resident
/// memory of more than [`MUCH`] times what is live, or one that the trace does not have.
pub(crate) fn none_found(report: &Report) -> String {
    let end = report.rss.as_ref().and_then(|rss| rss.end.as_ref());
    let Some((end, resident)) = end.zip(rss::resident(report)) else {
        return "none about blocks. The trace does not say what the resident memory was".to_owned();
    };
    if end.rss_bytes() <= report.totals.live_bytes.saturating_mul(MUCH) {
        return "none. Nothing above 1 % of the program stands out".to_owned();
    }
    format!("none about blocks. Resident: {} = {}", resident.all, resident.parts)
}

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
    let evidence = match finding.kind {
        // Its shares are in the sentence.
        FindingKind::HoldsPeak { .. } => format!("{}.", evidence(finding)),
        _ => {
            let share = percent(finding.weight, 1_000_000);
            format!("{share} {}: {}.", words(finding.weight_of), evidence(finding))
        }
    };
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
    use memledger_document::{ResidentMemory, Rss};

    #[test]
    fn a_finding_without_a_place_is_of_the_program() {
        let scope = vec!["GlobalScope".to_owned()];
        for place in [Place::default(), made!(Place { scope })] {
            assert_eq!(at(&place, &Names::new()), "the program");
        }
    }

    /// What is resident, live, and said.
    #[test]
    fn nothing_found_is_no_answer_where_blocks_do_not_explain_what_is_resident() {
        let said = |parts: Option<(u64, u64)>| {
            let mut report = made!(Report { findings: Some(Vec::new()) });
            if let Some((live, freed)) = parts {
                let end = made!(ResidentMemory { live_bytes: live, allocator_bytes: freed });
                report.totals.live_bytes = live;
                report.rss = Some(made!(Rss { end: Some(end) }));
            }
            let mut text = Vec::new();
            let options = Options { findings: true, width: 200, ..Options::default() };
            write(&report, &options, Style { color: false }, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        let mib = 1 << 20;
        for (parts, sentence) in [
            (Some((60 * mib, 40 * mib)), "none. Nothing above 1 % of the program stands out"),
            (
                Some((10 * mib, 152 * mib)),
                "none about blocks. Resident: 162 MiB = 10 live + 152 kept by the allocator",
            ),
            (None, "none about blocks. The trace does not say what the resident memory was"),
        ] {
            assert_eq!(said(parts), format!("\nFindings: {sentence}\n"));
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
            let report = made!(Report { findings: Some(found.to_vec()) });
            write(&report, options, Style { color: false }, &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        let text = shown(&Options::default());
        assert!(text.contains("1. reallocates often: a::Expression<…>::evaluate\n"), "{text}");
        assert!(text.contains("2. reallocates often: a::Expression<…>::evaluate #2\n"), "{text}");
        let whole = shown(&Options { verbose: true, ..Options::default() });
        let whole = whole.replace(['\n', ' '], "");
        assert!(whole.contains(&name("A")) && whole.contains(&name("B")));
    }
}
