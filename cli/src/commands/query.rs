//! `memledger query`: which blocks were allocated, freed or live between moments of a trace.

use super::completeness::{incomplete, outcome};
use super::finding;
use super::input::{open_watched, unreadable};
use super::moment::{self, TimeSpec, positions, unanswered};
use super::output::{frames, unwritable, write_to};
use super::report::note_no_row;
use super::{Format, choice};
use crate::cache::trace_arg;
use crate::error::{CliError, Outcome, usage_sentence};
use crate::quantity::{NS_UNITS, scaled};
use crate::symbols::{SymbolArgs, WithProgress};
use crate::terminal::{look, note};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, FromArgMatches};
use memledger_analysis::read::read;
use memledger_analysis::{Answer, Position, Query, Report, Rule, Unanswered};
use memledger_export::query::{Written, rows};
use memledger_export::text::{self, By};
use std::io::{self, Write};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  memledger query run.utrace                     blocks live at the peak
  memledger query run.utrace --rule grown --a 1s --b 2s
  memledger query run.utrace --rule leaked --a bookmark:open --b bookmark:close
  memledger query run.utrace --rule grown-and-declined --a 25% --b 75%
  memledger query run.utrace --rule grown --in-each request   per run of a scope
  memledger query run.utrace --rule short-lived --a start --shorter-than 20ms
  memledger query run.utrace --rule live --a end --longer-than 1min --blocks 20
  memledger query run.utrace --rule freed-between --a 1s --b 2s --format json

TIME is 1.5s, 200ms, nanoseconds without a unit, 50%, start, peak, end or bookmark:NAME. The \
trace stores the time every 10 ms; peak and bookmarks are exact. An event exactly at a time \
counts as before it. A reallocation ends a block and begins another.";

/// The most single blocks that can be listed.
const MAX_BLOCKS: usize = 1000;

/// Arguments of `memledger query`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct QueryArgs {
    /// The trace; last for that of the last run, - for standard input
    #[arg(value_parser = trace_arg())]
    trace: PathBuf,
    /// Rule that selects blocks (Insights' names work)
    #[arg(long, default_value = "live", value_parser = rule_by_name())]
    rule: Rule,
    #[command(flatten)]
    moments: Moments,
    /// Only the blocks of finding N of memledger report, by the rule and at the times that it is about
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    #[arg(conflicts_with_all = ["rule", "a", "b", "c", "d", "in_each"])]
    finding: Option<u32>,
    /// Apply the rule to each run of this scope between A and B (rules grown and short-lived)
    #[arg(long, value_name = "SCOPE", conflicts_with_all = ["scope", "longer_than", "shorter_than"])]
    in_each: Option<String>,
    /// Only blocks that lived at least this long since their first allocation
    #[arg(long, value_name = "TIME", value_parser = span)]
    longer_than: Option<u64>,
    /// Only blocks that lived less than this
    #[arg(long, value_name = "TIME", value_parser = span)]
    shorter_than: Option<u64>,
    /// Group rows by [default: function if the trace has call stacks but no scopes, else scope]
    #[arg(long, value_parser = choice(&By::OF_QUERIES, By::name))]
    by: Option<By>,
    /// Sort rows by this column
    #[arg(long, value_enum, default_value = "bytes")]
    sort: Sort,
    /// Only blocks in scopes whose path contains this text
    #[arg(long, value_name = "TEXT")]
    scope: Option<String>,
    /// Only rows whose name contains this text
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Limit the table to N rows
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Also list the N largest blocks
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    blocks: usize,
    /// Start the tree of stacks at the functions that allocate
    #[arg(long)]
    bottom_up: bool,
    /// Include frames of the standard library and of allocators
    #[arg(long)]
    all_frames: bool,
    /// Line width in columns [default: the terminal's, or 80]
    #[arg(long, value_name = "COLUMNS")]
    width: Option<usize>,
    /// Exit with status 0 even if the trace is incomplete (its program runs or was killed)
    #[arg(long)]
    allow_incomplete: bool,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// The times that a rule refers to.
#[derive(Debug, clap::Args)]
struct Moments {
    /// Time A [default: peak for the rule live, else start]
    #[arg(long, value_name = "TIME", value_parser = moment::time_arg)]
    a: Option<moment::TimeArg>,
    /// Time B [default: end]
    #[arg(long, value_name = "TIME", value_parser = moment::time_arg)]
    b: Option<moment::TimeArg>,
    /// Time C [default: end]
    #[arg(long, value_name = "TIME", value_parser = moment::time_arg)]
    c: Option<moment::TimeArg>,
    /// Time D [default: end]
    #[arg(long, value_name = "TIME", value_parser = moment::time_arg)]
    d: Option<moment::TimeArg>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Sort {
    Bytes,
    Blocks,
}

fn rule_by_name() -> impl TypedValueParser<Value = Rule> {
    let value = |rule: &Rule| {
        let help =
            format!("{} (Insights: {}, {})", rule.about(), rule.insights_title(), rule.insights());
        PossibleValue::new(rule.name()).aliases(rule.aliases()).help(help)
    };
    let parser = PossibleValuesParser::new(Rule::ALL.iter().map(value));
    parser.try_map(|name| Rule::by_name(&name).ok_or_else(|| format!("there is no rule {name}")))
}

/// A length of time.
fn span(text: &str) -> Result<u64, String> {
    scaled(text.trim(), NS_UNITS)
        .ok_or_else(|| "a length of time is 1.5s, 200ms, or nanoseconds without a unit".to_owned())
}

/// A query that another command was asked: its rule and moments, as this command takes them.
pub(super) struct ParsedQuery {
    pub(super) rule: Rule,
    moments: Vec<moment::TimeArg>,
}

impl ParsedQuery {
    /// `parameters` are names and values: `rule`, `a` and so on.
    pub(super) fn parse(parameters: &[(&str, &str)]) -> Result<Self, CliError> {
        let flags = parameters.iter().map(|(name, value)| format!("--{name}={value}"));
        let words = ["query".to_owned(), "-".to_owned()].into_iter().chain(flags);
        let command = QueryArgs::augment_args(clap::Command::new("query")).no_binary_name(false);
        let args = command
            .try_get_matches_from(words)
            .and_then(|matches| QueryArgs::from_arg_matches(&matches))
            .map_err(|error| {
                let command = QueryArgs::augment_args(clap::Command::new("query"));
                CliError::Usage(usage_sentence(&error, &command))
            })?;
        let moments = args.moments.of(args.rule)?;
        Ok(Self { rule: args.rule, moments })
    }

    /// Where the moments are, of a trace of this duration whose event `peak` reached the peak.
    pub(super) fn positions(&self, peak: u64, duration: u64) -> Vec<Position> {
        let position = |(_, moment): &moment::TimeArg| moment.position(peak, duration);
        let mut positions: Vec<_> = self.moments.iter().map(position).collect();
        from_the_start(self.rule, &self.moments, &mut positions);
        positions
    }

    /// Why there is no answer.
    pub(super) fn unanswered(&self, why: Unanswered) -> CliError {
        let asked: Vec<_> = self.moments.iter().map(|(text, _)| text.clone()).collect();
        unanswered(why, &asked)
    }
}

/// Moves `start` before the blocks that a trace begins with, for rules about blocks allocated after a moment.
fn from_the_start(rule: Rule, moments: &[moment::TimeArg], positions: &mut [Position]) {
    if matches!(rule, Rule::AliveAtA | Rule::FreedBefore) {
        return;
    }
    for ((text, _), position) in moments.iter().zip(positions) {
        if text.trim() == "start" {
            *position = Position::Event(0);
        }
    }
}

impl Moments {
    /// Those of `rule`, as far as they are given.
    fn of(&self, rule: Rule) -> Result<Vec<moment::TimeArg>, CliError> {
        let unless_given = || match rule {
            Rule::AliveAtA => ("peak".to_owned(), TimeSpec::Peak),
            _ => ("start".to_owned(), TimeSpec::Nanoseconds(0)),
        };
        let a = self.a.clone().unwrap_or_else(unless_given);
        let given = [Some(&a), self.b.as_ref(), self.c.as_ref(), self.d.as_ref()];
        let (names, used) = (["--a", "--b", "--c", "--d"], rule.times());
        if let Some(more) = (used..given.len()).find(|&number| given[number].is_some()) {
            return Err(CliError::Usage(format!(
                "{} does not apply to the rule {}, which uses {} ({})",
                names[more],
                rule.name(),
                names[..used].join(", "),
                rule.about()
            )));
        }
        let count = given.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        if let Some(gap) = given[..count].iter().position(Option::is_none) {
            return Err(CliError::Usage(format!(
                "{} is missing before {}",
                names[gap],
                names[count - 1]
            )));
        }
        Ok(given.into_iter().flatten().cloned().collect())
    }
}

impl QueryArgs {
    /// The least age of a block, and the age below which it is.
    fn ages(&self, rule: Rule) -> Result<Option<(u64, u64)>, CliError> {
        if self.longer_than.is_none() && self.shorter_than.is_none() {
            return Ok(None);
        }
        let flag = if self.longer_than.is_some() { "--longer-than" } else { "--shorter-than" };
        if !rule.has_ages() {
            return Err(CliError::Usage(format!(
                "{flag} does not apply to the rule {}, which selects blocks when they are allocated",
                rule.name()
            )));
        }
        let (least, below) = (self.longer_than.unwrap_or(0), self.shorter_than.unwrap_or(u64::MAX));
        if least >= below {
            return Err(CliError::Usage(
                "--longer-than must be less than --shorter-than".to_owned(),
            ));
        }
        Ok(Some((least, below)))
    }
}

impl QueryArgs {
    /// The scope whose runs the rule is asked about.
    fn each(&self) -> Result<Option<&str>, CliError> {
        let Some(scope) = self.in_each.as_deref() else { return Ok(None) };
        if !self.rule.has_runs() {
            let rules = Rule::ALL.iter().filter(|rule| rule.has_runs()).map(|rule| rule.name());
            return Err(CliError::Usage(format!(
                "--in-each does not apply to the rule {}; it applies to {}",
                self.rule.name(),
                rules.collect::<Vec<_>>().join(" and ")
            )));
        }
        if scope == "GlobalScope" {
            return Err(CliError::Usage(
                "GlobalScope never ends, so it has no runs; leave out --in-each".to_owned(),
            ));
        }
        Ok(Some(scope))
    }
}

/// Reads the trace and prints the answer to `out`, or into the file of `-o`.
pub fn run(args: &QueryArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let query_of = |number| finding::query_of(&args.trace, number, &args.symbols);
    let of_finding = args.finding.map(query_of).transpose()?;
    let rule = of_finding.as_ref().map_or(args.rule, Query::rule);
    let moments = match of_finding {
        Some(_) => Vec::new(),
        None => args.moments.of(rule)?,
    };
    let ages = args.ages(rule)?;
    if args.blocks > MAX_BLOCKS {
        return Err(CliError::Usage(format!("--blocks can be at most {MAX_BLOCKS}")));
    }
    let asked: Vec<String> = moments.iter().map(|(text, _)| text.clone()).collect();
    let mut query = match of_finding {
        Some(query) => query,
        None => {
            let mut positions = positions(&args.trace, &moments)?;
            from_the_start(rule, &moments, &mut positions);
            Query::new(rule, positions)
        }
    };
    query = query.blocks(args.blocks);
    if let Some(scope) = args.each()? {
        query = query.in_each(scope);
    }
    if let Some((least, below)) = ages {
        query = query.ages(least, below);
    }
    match args.by {
        Some(By::Size) => query = query.by_size(),
        Some(By::Lifetime) => query = query.by_lifetime(),
        _ => {}
    }
    if let Some(scope) = &args.scope {
        query = query.in_scope(scope);
    }
    let mut analyzer = query.analyzer();
    let source = open_watched(&args.trace)?;
    let summary = read(source, &mut analyzer).map_err(|error| unreadable(&args.trace, error))?;
    let mut answer = analyzer.answer().map_err(|why| unanswered(why, &asked))?;
    let by = args.by.unwrap_or_else(|| by_of(answer.report()));
    if by.is_of_calls() || args.blocks > 0 {
        answer.symbolize(&mut WithProgress::new(&args.symbols));
    }
    write(args, by, &answer, &asked, out)?;
    for problem in analyzer.problems() {
        note(problem);
    }
    note_late(&answer, &moments);
    note_unmatched(args, by, &answer);
    let incomplete = incomplete(&args.trace, answer.report(), &summary);
    Ok(outcome(incomplete, args.allow_incomplete))
}

/// What the rows are of, if nothing else was asked for: what most says who allocates.
fn by_of(report: &Report) -> By {
    let has_scopes = report.by_scope.len() > 1;
    if report.by_stack.is_empty() || has_scopes { By::Scope } else { By::Function }
}

fn write(
    args: &QueryArgs,
    by: By,
    answer: &Answer,
    asked: &[String],
    out: &mut dyn Write,
) -> Result<(), CliError> {
    let mut options = options(args, by);
    let print = |options: &text::Options, out: &mut dyn Write| {
        let written = Written::new(answer, asked, options);
        match args.format {
            Format::Text => written.text(out),
            Format::Json => written.json(out),
        }
    };
    let Some(path) = &args.output else {
        (options.color, options.width) = look(args.width, options.width, io::stdout());
        return print(&options, out).map_err(CliError::output);
    };
    write_to(path, out, |out| print(&options, out).map_err(|error| unwritable(path, error)))
}

/// What the arguments say of the answer as text, for any terminal.
fn options(args: &QueryArgs, by: By) -> text::Options {
    let mut options = text::Options::default();
    options.by = Some(by);
    options.top = args.top;
    options.width = args.width.unwrap_or(options.width);
    options.sort = match args.sort {
        Sort::Bytes => text::Sort::AtPeak,
        Sort::Blocks => text::Sort::Count,
    };
    (options.bottom_up, options.frames) = (args.bottom_up, frames(args.all_frames));
    options.filter.clone_from(&args.filter);
    options.flags = true;
    options
}

/// Says which moments are after the end.
fn note_late(answer: &Answer, moments: &[moment::TimeArg]) {
    let trace = &answer.report().trace;
    let end = answer.positions.last().map_or(0, |last| last.at_ns);
    for ((text, moment), name) in moments.iter().zip(["--a", "--b", "--c", "--d"]) {
        if let TimeSpec::Nanoseconds(time) = moment
            && *time > end.saturating_add(trace.time_resolution_ns)
        {
            let end = text::duration(end);
            note(&format!("{name} {text} is after the end of the trace, which is {end} long"));
        }
    }
}

/// Lists the existing rows when `--filter` selects none of them.
fn note_unmatched(args: &QueryArgs, by: By, answer: &Answer) {
    let Some(filter) = &args.filter else { return };
    let mut options = options(args, by);
    if !rows(answer, by, &options).is_empty() || matches!(by, By::Size | By::Lifetime) {
        return;
    }
    options.filter = None;
    let all = rows(answer, by, &options);
    let names = all.iter().map(|row| row.path.join(" > ")).collect();
    note_no_row(filter, &names);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time() {
        assert_eq!(span("20ms"), Ok(20_000_000));
        assert!(span("soon").is_err() && span("50%").is_err());
    }
}
