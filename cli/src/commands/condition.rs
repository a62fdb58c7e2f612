//! The value of `--fail-if`: a comparison with a figure of the report.

pub mod figures;
mod grammar;
#[cfg(test)]
mod tests;

use super::completeness::outcome;
use crate::error::{CliError, Outcome};
use crate::terminal::note;
use figures::{Dimension, FigureType, Figures, Selector, row_figure};
use memledger::analysis::Report;
use memledger::dump::text;
use std::cell::LazyCell;
use std::fmt;

/// A condition on one figure of the whole report, or of rows of it:
///
/// ```text
/// condition  = figure [ "{" selector { "," selector } "}" ] comparison value
/// selector   = ( "scope" | "group" | "name" | "thread" ) "=" text
/// comparison = ">" | ">=" | "<" | "<=" | "=" | "==" | "!="
/// value      = number [ unit ] | "true" | "false"
/// text       = the characters between two " or two ', with a \ before a quote or another \
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    key: String,
    figure_type: FigureType,
    selector: Option<Selector>,
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

impl fmt::Display for Condition {
    /// The same condition in its shortest form, which parses back to the same condition.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted =
            |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        f.write_str(&self.key)?;
        if let Some(Selector { of, name, group }) = &self.selector {
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
        match self.figure_type {
            FigureType::Number => write!(f, " {sign} {}", self.value),
            FigureType::Flag => write!(f, " {sign} {}", self.value == 1),
        }
    }
}

impl Condition {
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
        let Some(selector) = &self.selector else {
            let actual = figures.total(key).ok_or_else(unknown)?;
            return Ok(self.holds(actual).then(|| self.sentence(key, actual)));
        };
        let selected = figures.select(selector);
        if selected.is_empty() {
            return Err(format!(
                "'{source}' cannot be checked: {}",
                no_such_row(selector, figures)
            ));
        }
        for (label, row) in selected {
            let actual = row_figure(row, key).ok_or_else(unknown)?;
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
        let actual = match self.figure_type {
            FigureType::Flag => (actual == 1).to_string(),
            FigureType::Number if is_size && actual >= 1024 => {
                format!("{actual} ({})", text::bytes(actual))
            }
            FigureType::Number => actual.to_string(),
        };
        format!("'{}' holds: {figure} is {actual}", self.source)
    }
}

/// Checks all conditions on a report, and returns the outcome of the command: [`Outcome::Held`] for the
/// first that holds. `incomplete` is the reason why the figures are incomplete, if they are; then no
/// condition passes. Without conditions they are a success if `allow_incomplete`.
pub fn judge(
    conditions: &[Condition],
    report: &Report,
    incomplete: Option<String>,
    allow_incomplete: bool,
) -> Result<Outcome, CliError> {
    // PERF: figures are looked up in the report's JSON, which is large, and which only conditions
    // need.
    let figures = LazyCell::new(|| Figures::of(report));
    let (mut unknown, mut unproven) = (None, None);
    for condition in conditions {
        match condition.check(&figures) {
            Ok(Some(held)) => {
                incomplete.iter().for_each(|sentence| note(sentence));
                return Ok(Outcome::Held(held));
            }
            Ok(None) if condition.is_about_completeness() => {}
            Ok(None) => unproven = Some(condition.source()),
            Err(sentence) => unknown = Some(sentence),
        }
    }
    match (unknown, unproven, incomplete) {
        (Some(sentence), _, incomplete) => {
            incomplete.iter().for_each(|sentence| note(sentence));
            Err(CliError::Failed(sentence))
        }
        // The condition may be about the part that is missing.
        (None, Some(condition), Some(sentence)) => Ok(Outcome::Incomplete(format!(
            "{sentence}; so '{condition}' cannot pass, though it does not hold so far"
        ))),
        (None, _, incomplete) => Ok(outcome(incomplete, allow_incomplete)),
    }
}

/// Reports that `selector` selects no row, and lists the existing rows, the most similar first.
fn no_such_row(selector: &Selector, figures: &Figures) -> String {
    const LISTED: usize = 10;
    let Selector { of, name, group } = selector;
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
