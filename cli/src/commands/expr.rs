//! What `--at` and `--fail-if` understand: moments, and comparisons with a figure of the report.

use super::figures::{Dimension, Figures, Kind, Rows, known, of_row};
use memledger::dump::text;
use std::fmt;
use std::str::FromStr;
use winnow::Parser;
use winnow::ascii::multispace0;
use winnow::combinator::{alt, delimited, preceded, repeat, separated, separated_pair};
use winnow::error::{ContextError, StrContext, StrContextValue};
use winnow::token::{any, none_of, rest, take_while};

const NS_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("", 1),
];

const BYTE_UNITS: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
    ("", 1),
];

/// `1.5s` with the units of time is 1 500 000 000, exactly; fractions of one unit are dropped.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let number = number.trim_end().replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || number.ends_with('.') {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(18)];
    let parts = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
    let factor = u128::from(factor);
    let sum = u128::from(whole.parse::<u64>().ok()?) * factor
        + parts * factor / 10_u128.pow(fraction.len() as u32);
    u64::try_from(sum).ok()
}

/// A number of bytes: `64MiB`, `1.5GB`, or without a unit.
pub fn size(text: &str) -> Result<u64, String> {
    let size = scaled(text.trim(), BYTE_UNITS);
    size.ok_or_else(|| "a size is a number with KiB, MiB, GiB, TiB, KB, MB, GB, TB or B".to_owned())
}

/// A moment of the trace.
#[derive(Clone, Debug, PartialEq)]
pub enum At {
    Nanoseconds(u64),
    /// A fraction of the duration, in billionths.
    Share(u64),
    /// Where the program set the bookmark of this name.
    Bookmark(String),
    Peak,
    End,
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let at = match text {
            "start" => Some(Self::Nanoseconds(0)),
            "peak" => Some(Self::Peak),
            "end" => Some(Self::End),
            _ if text.starts_with("bookmark:") => {
                text.strip_prefix("bookmark:").map(|name| Self::Bookmark(name.to_owned()))
            }
            _ if text.ends_with('%') => scaled(text, &[("%", 10_000_000)])
                .filter(|share| *share <= 1_000_000_000)
                .map(Self::Share),
            _ => scaled(text, NS_UNITS).map(Self::Nanoseconds),
        };
        at.ok_or_else(|| {
            "a time is 1.5s, 200ms, nanoseconds without a unit, a share such as 50%, start, peak, \
             end or bookmark:NAME"
                .to_owned()
        })
    }
}

/// A condition on one figure of the whole report, or of rows of it:
///
/// ```text
/// condition  = figure [ "{" selector { "," selector } "}" ] comparison value
/// selector   = ( "scope" | "group" | "name" | "thread" ) "=" text
/// comparison = ">" | ">=" | "<" | "<=" | "=" | "==" | "!="
/// value      = number [ unit ] | "true" | "false"
/// text       = what is between two " or two ', where a \ goes before a quote or another \
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    key: String,
    kind: Kind,
    rows: Option<Rows>,
    comparison: Comparison,
    value: u64,
    source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
}

/// A parsed condition whose figure and value are not checked yet.
type Parts<'a> = (&'a str, Vec<(Dimension, String)>, Comparison, &'a str);

fn token<'a, O>(
    inner: impl Parser<&'a str, O, ContextError>,
) -> impl Parser<&'a str, O, ContextError> {
    delimited(multispace0, inner, multispace0)
}

fn expected(what: &'static str) -> StrContext {
    StrContext::Expected(StrContextValue::Description(what))
}

fn quoted<'a>(quote: char) -> impl Parser<&'a str, String, ContextError> {
    let char = alt((preceded('\\', any), none_of([quote, '\\'])));
    delimited(quote, repeat(0.., char), quote)
}

fn selector(input: &mut &str) -> Result<(Dimension, String), ContextError> {
    let dimension = alt((
        "scope".value(Dimension::Scope),
        "group".value(Dimension::Group),
        "name".value(Dimension::Name),
        "thread".value(Dimension::Thread),
    ));
    let text = alt((quoted('"'), quoted('\'')));
    separated_pair(
        token(dimension).context(expected("scope, group, name or thread")),
        '='.context(expected("=")),
        token(text).context(expected("a text between quotes")),
    )
    .parse_next(input)
}

fn parts<'a>(input: &mut &'a str) -> Result<Parts<'a>, ContextError> {
    let key = take_while(1.., |c: char| c.is_ascii_alphanumeric() || c == '_');
    let comparison = alt((
        ">=".value(Comparison::GreaterOrEqual),
        "<=".value(Comparison::LessOrEqual),
        alt(("==", "=")).value(Comparison::Equal),
        "!=".value(Comparison::NotEqual),
        ">".value(Comparison::Greater),
        "<".value(Comparison::Less),
    ));
    let key = token(key).context(expected("a figure")).parse_next(input)?;
    let selectors = if input.starts_with('{') {
        let end = '}'.context(expected("}"));
        delimited('{', separated(1.., selector, ','), end).parse_next(input)?
    } else {
        Vec::new()
    };
    let comparison = token(comparison).context(expected("a comparison")).parse_next(input)?;
    Ok((key, selectors, comparison, rest.parse_next(input)?))
}

impl FromStr for Expr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, selectors, comparison, value) = parts.parse(text).map_err(|error| {
            let what = error.inner().context().find_map(|context| match context {
                StrContext::Expected(what) => Some(what.to_string()),
                _ => None,
            });
            let rest = match text.get(error.offset()..).unwrap_or_default() {
                "" => "at the end".to_owned(),
                rest => format!("before '{rest}'"),
            };
            format!(
                "{} is expected {rest}; write it like 'peak_bytes > 64MiB' or \
                 'peak_bytes{{scope=\"request\"}} > 1MiB'",
                what.as_deref().unwrap_or("something else")
            )
        })?;
        let rows = match <[_; 2]>::try_from(selectors) {
            Ok([(Dimension::Group, group), (Dimension::Name, name)])
            | Ok([(Dimension::Name, name), (Dimension::Group, group)]) => {
                Some(Rows { of: Dimension::Name, name, group: Some(group) })
            }
            Err(one) if one.len() < 2 => {
                one.into_iter().next().map(|(of, name)| Rows { of, name, group: None })
            }
            _ => return Err("only a name and its group can be asked for together".to_owned()),
        };
        let known = known(rows.as_ref().map(|rows| rows.of));
        let Some((_, kind)) = known.iter().find(|(known, _)| known == key) else {
            let keys: Vec<_> = known.into_iter().map(|(key, _)| key).collect();
            return Err(format!("there is no figure '{key}'; there are {}", keys.join(", ")));
        };
        let is_equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        let value = match (kind, value.trim()) {
            (Kind::Number, value) => number(key, value)?,
            (Kind::Flag, value @ ("true" | "false")) if is_equality => u64::from(value == "true"),
            (Kind::Flag, _) => return Err(format!("write it like '{key} = false'")),
        };
        let (key, source) = (key.to_owned(), text.trim().to_owned());
        Ok(Self { key, kind: *kind, rows, comparison, value, source })
    }
}

/// The number on the right side of a condition on `key`.
fn number(key: &str, value: &str) -> Result<u64, String> {
    let units = if key.ends_with("_ns") {
        NS_UNITS
    } else if key.contains("bytes") {
        BYTE_UNITS
    } else {
        &[("", 1)]
    };
    scaled(value, units).ok_or_else(|| {
        let units: Vec<_> = units.iter().map(|u| u.0).filter(|unit| !unit.is_empty()).collect();
        if units.is_empty() {
            format!("'{value}' is no number")
        } else {
            format!("'{value}' is no number, with or without one of {}", units.join(", "))
        }
    })
}

impl fmt::Display for Expr {
    /// The same condition in its shortest form, which parses back to the same condition.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted =
            |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        f.write_str(&self.key)?;
        if let Some(Rows { of, name, group }) = &self.rows {
            write!(f, "{{{}={}", of.name(), quoted(name))?;
            group.iter().try_for_each(|group| write!(f, ",group={}", quoted(group)))?;
            f.write_str("}")?;
        }
        let sign = match self.comparison {
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
        };
        match self.kind {
            Kind::Number => write!(f, " {sign} {}", self.value),
            Kind::Flag => write!(f, " {sign} {}", self.value == 1),
        }
    }
}

impl Expr {
    /// The condition as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether an incomplete trace can answer the condition.
    pub fn is_about_completeness(&self) -> bool {
        self.key == "complete"
    }

    /// Returns a sentence if the condition holds; of several rows, if it holds for at least one.
    /// `Err` if the report has no such figure, or no such row.
    pub fn check(&self, figures: &Figures) -> Result<Option<String>, String> {
        let Self { key, source, .. } = self;
        let unknown = || format!("'{source}' cannot be checked: this trace does not have {key}");
        let Some(rows) = &self.rows else {
            let actual = figures.total(key).ok_or_else(unknown)?;
            return Ok(self.holds(actual).then(|| self.sentence(key, actual)));
        };
        let selected = figures.select(rows);
        if selected.is_empty() {
            return Err(format!("'{source}' cannot be checked: {}", none_of_rows(rows, figures)));
        }
        for (label, row) in selected {
            let actual = of_row(row, key).ok_or_else(unknown)?;
            if self.holds(actual) {
                return Ok(Some(
                    self.sentence(&format!("{key} of {}", text::escape(&label)), actual),
                ));
            }
        }
        Ok(None)
    }

    fn holds(&self, actual: u64) -> bool {
        match self.comparison {
            Comparison::Greater => actual > self.value,
            Comparison::GreaterOrEqual => actual >= self.value,
            Comparison::Less => actual < self.value,
            Comparison::LessOrEqual => actual <= self.value,
            Comparison::Equal => actual == self.value,
            Comparison::NotEqual => actual != self.value,
        }
    }

    fn sentence(&self, figure: &str, actual: u64) -> String {
        let is_size = self.key.contains("bytes") && !self.key.ends_with("_ns");
        let actual = match self.kind {
            Kind::Flag => (actual == 1).to_string(),
            Kind::Number if is_size && actual >= 1024 => {
                format!("{actual} ({})", text::bytes(actual))
            }
            Kind::Number => actual.to_string(),
        };
        format!("'{}' holds: {figure} is {actual}", self.source)
    }
}

/// Reports that none of `rows` matches, and lists the existing rows, the most similar first.
fn none_of_rows(rows: &Rows, figures: &Figures) -> String {
    const LISTED: usize = 10;
    let Rows { of, name, group } = rows;
    let what = of.name();
    let within = group.as_ref().map_or(String::new(), |group| format!(" in a group {group:?}"));
    let mut labels: Vec<_> = figures.rows(*of).map(|(label, _)| label).collect();
    let separator = if *of == Dimension::Name { " / " } else { " > " };
    let last = |label: &String| label.rsplit(separator).next().unwrap_or(label).to_owned();
    let names: Vec<_> = labels.iter().map(last).collect();
    if let Some(nearest) = text::nearest(name, names.iter().map(String::as_str))
        && let Some(place) = names.iter().position(|name| name == nearest)
    {
        labels[..=place].rotate_right(1);
    }
    let count = labels.len();
    let listed: Vec<_> = labels.iter().take(LISTED).map(|label| format!("{label:?}")).collect();
    let listed = listed.join(", ");
    match count {
        0 => format!("the trace has no {what} {name:?}{within}, nor any other"),
        1..=LISTED => format!("the trace has no {what} {name:?}{within}; there are {listed}"),
        _ => format!(
            "the trace has no {what} {name:?}{within}; of its {count}, the first are {listed}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memledger::analysis::Report;

    #[test]
    fn times() {
        let cases = [
            ("1.5s", At::Nanoseconds(1_500_000_000)),
            ("200ms", At::Nanoseconds(200_000_000)),
            ("42", At::Nanoseconds(42)),
            ("0.000000001s", At::Nanoseconds(1)),
            ("2 min", At::Nanoseconds(120_000_000_000)),
            ("50%", At::Share(500_000_000)),
            ("12.5%", At::Share(125_000_000)),
            ("start", At::Nanoseconds(0)),
            ("peak", At::Peak),
            ("end", At::End),
        ];
        for (text, at) in cases {
            assert_eq!(text.parse(), Ok(at), "{text}");
        }
        for text in ["", "s", "1.5.2s", "-1s", "101%", "5 parsecs", "99999999999999999999", "1.s"] {
            assert!(text.parse::<At>().is_err(), "{text}");
        }
    }

    #[test]
    fn conditions() {
        let mut report = Report::default();
        report.totals.peak_bytes = 64 << 20;
        report.losses.lost_events = 3;
        let figures = Figures::of(&report);
        let check = |text: &str| text.parse::<Expr>().expect("an expression").check(&figures);
        for (text, holds) in [
            ("peak_bytes > 64MiB", false),
            ("peak_bytes >= 64MiB", true),
            ("peak_bytes>67108863", true),
            ("peak_bytes < 0.1GiB", true),
            ("lost_events != 0", true),
            ("lost_events == 3", true),
            ("live_blocks <= 0", true),
            ("peak_bytes_at_ns > 1.5ms", false),
            ("complete = false", true),
            (" complete!=false ", false),
        ] {
            assert_eq!(check(text).map(|held| held.is_some()), Ok(holds), "{text}");
        }
        assert_eq!(
            check("peak_bytes >= 64MiB"),
            Ok(Some("'peak_bytes >= 64MiB' holds: peak_bytes is 67108864 (64.0 MiB)".to_owned()))
        );
        assert!(check("overhead_bytes > 0").is_err(), "a figure that is not known cannot pass");
        for text in [
            "peak_bytes",
            "peak_bytes >",
            "peak > 1",
            "lost_events > 1KiB",
            "> 3",
            "a ! b",
            "complete > false",
            "complete = 0",
            "lost_events = false",
            "pid > 1",
            "peak_bytes{} > 1",
            "peak_bytes{scope} > 1",
            "peak_bytes{scope=request} > 1",
            "peak_bytes{scope=\"request} > 1",
            "peak_bytes{scope=\"request\" > 1",
            "peak_bytes{colour=\"red\"} > 1",
            "peak_bytes{scope=\"a\",thread=\"b\"} > 1",
            "complete{scope=\"a\"} = true",
            "peak_blocks{scope=\"a\"} > 1",
        ] {
            let error = text.parse::<Expr>().expect_err(text);
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        let error = |text: &str| text.parse::<Expr>().expect_err(text);
        assert!(error("live_bytes{thraed='x'} > 1").starts_with(
            "scope, group, name or thread is expected before 'thraed='x'} > 1'; write it like"
        ));
        assert!(error("live_bytes").starts_with("a comparison is expected at the end; "));
    }

    /// Two scopes `parse`, one of them within `request`; names, a group, and a thread without a name.
    fn rows() -> Figures {
        let mut report = Report::default();
        let text = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let paths: [&[&str]; 5] = [
            &["GlobalScope"],
            &["GlobalScope", "request"],
            &["GlobalScope", "request", "parse"],
            &["GlobalScope", "parse"],
            &["GlobalScope", "a \"quoted\" \\ name"],
        ];
        for (path, peak) in paths.into_iter().zip([900, 500, 400, 70, 5]) {
            let mut row = memledger::analysis::ScopeRow::default();
            row.path = text(path);
            row.figures.peak_bytes = 1;
            row.inclusive.peak_bytes = peak;
            report.by_scope.push(row);
        }
        for (group, name, live) in [("Index", "keys", 10), ("Cache", "keys", 20)] {
            let mut row = memledger::analysis::NameRow::default();
            (row.group, row.name) = (text(&["All", group]), name.to_owned());
            row.figures.live_blocks = live;
            report.by_name.push(row);
        }
        let mut group = memledger::analysis::GroupRow::default();
        (group.group, group.inclusive.allocations) = (text(&["All", "Index"]), 3);
        report.by_group.push(group);
        let mut thread = memledger::analysis::ThreadRow::default();
        (thread.id, thread.figures.frees) = (7, 2);
        report.by_thread.push(thread);
        Figures::of(&report)
    }

    #[test]
    fn conditions_on_rows() {
        let figures = rows();
        let check = |text: &str| text.parse::<Expr>().expect("an expression").check(&figures);
        for (text, holds) in [
            ("peak_bytes{scope=\"request\"} = 500", true),
            ("peak_bytes { scope = \"request\" } > 499", true),
            ("peak_bytes{scope='GlobalScope > request'} > 500", false),
            ("peak_bytes{scope='request > parse'} > 399", true),
            // One of the two scopes with this name.
            ("peak_bytes{scope='parse'} > 100", true),
            ("peak_bytes{scope='parse'} > 400", false),
            ("peak_bytes{scope='GlobalScope > parse'} > 100", false),
            ("peak_bytes{scope='a \"quoted\" \\\\ name'} = 5", true),
            ("peak_bytes{scope=\"a \\\"quoted\\\" \\\\ name\"} = 5", true),
            ("live_blocks{name='keys'} > 15", true),
            ("live_blocks{name='keys',group='Index'} > 15", false),
            ("live_blocks{group='All > Cache', name='keys'} > 15", true),
            ("live_blocks{name='All > Cache / keys'} > 15", true),
            ("allocations{group='Index'} >= 3", true),
            ("moved_in_bytes{group='Index'} > 0", false),
            ("frees{thread='thread 7'} > 1", true),
        ] {
            assert_eq!(check(text).map(|held| held.is_some()), Ok(holds), "{text}");
            let shown = text.parse::<Expr>().expect("an expression").to_string();
            assert_eq!(shown.parse::<Expr>().map(|again| again.to_string()), Ok(shown.clone()));
            assert_eq!(check(&shown).map(|held| held.is_some()), Ok(holds), "{shown}");
        }
        assert_eq!(
            check("peak_bytes{scope='parse'} > 100").ok().flatten().as_deref(),
            Some(
                "'peak_bytes{scope='parse'} > 100' holds: peak_bytes of GlobalScope > request > \
                 parse is 400"
            )
        );
        for (text, sentence) in [
            (
                "peak_bytes{scope='reqest'} > 1",
                "the trace has no scope \"reqest\"; there are \"GlobalScope > request\", ",
            ),
            // Not a whole path element.
            ("peak_bytes{scope='quest'} > 1", "the trace has no scope \"quest\"; there are "),
            (
                "frees{name='keys',group='Indx'} > 1",
                "the trace has no name \"keys\" in a group \"Indx\"; there are \"All > ",
            ),
        ] {
            let error = check(text).expect_err(text);
            assert!(error.contains(sentence), "{error}");
        }
        let none = "live_blocks{thread='x'} > 1".parse::<Expr>().expect("an expression");
        let error = none.check(&Figures::of(&Report::default())).expect_err("no thread");
        assert!(error.ends_with("the trace has no thread \"x\", nor any other"), "{error}");
    }
}
