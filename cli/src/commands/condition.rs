//! The value of `--fail-if`: a comparison with a figure of the report.

pub mod figures;
mod grammar;
#[cfg(test)]
mod tests;

use super::by::By;
use super::completeness::{Lack, outcome};
use crate::error::{CliError, Outcome, quoted};
use crate::terminal::note;
use figures::{Figures, Selector, findings_of};
use memledger_analysis::{Report, Unit};
use memledger_export::text;
use std::collections::BTreeMap;
use std::fmt;

/// A condition on one figure of the whole report, or of rows of it:
///
/// ```text
/// condition  = figure [ "{" selector { "," selector } "}" ] [ change ] comparison value
/// selector   = ( "scope" | "group" | "name" | "thread" | "function" | "heap" ) "=" text
/// change     = "grew" | "shrank"
/// comparison = ">" | ">=" | "<" | "<=" | "=" | "==" | "!="
/// value      = number [ unit ] | number "%" | "true" | "false"
/// text       = the characters between two " or two ', with a \ before a quote or another \
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    key: String,
    unit: Unit,
    selector: Option<Selector>,
    /// If it compares two runs.
    change: Option<Change>,
    comparison: Comparison,
    value: u64,
    /// Whether the value is a share of the old figure, in units of 1 % / [`PERCENT`].
    is_percent: bool,
    source: String,
}

/// One percent.
const PERCENT: u64 = 1_000_000;

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Grew,
    Shrank,
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Self::Grew => "grew",
            Self::Shrank => "shrank",
        }
    }
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
        if let Some(change) = self.change {
            write!(f, " {}", change.name())?;
        }
        let sign = match self.comparison {
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Equal => "=",
            Comparison::NotEqual => "!=",
        };
        match self.unit {
            Unit::Flag => write!(f, " {sign} {}", self.value == 1),
            _ if self.is_percent => {
                write!(f, " {sign} {}.{:06}%", self.value / PERCENT, self.value % PERCENT)
            }
            _ => write!(f, " {sign} {}", self.value),
        }
    }
}

impl Condition {
    /// The condition as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Parses a condition that is not about a change.
    pub fn of_one_report(text: &str) -> Result<Self, String> {
        let condition = text.parse::<Self>()?;
        match condition.change {
            None => Ok(condition),
            Some(change) => {
                Err(format!("'{}' compares two traces; use it with memledger diff", change.name()))
            }
        }
    }

    /// Whether the condition is about functions, or about findings, whose places are functions.
    pub fn needs_symbols(&self) -> bool {
        let of_function = |selector: &Selector| selector.of == By::Function;
        self.selector.as_ref().map_or(self.needs_findings(), of_function)
    }

    /// Whether the condition is about findings.
    pub fn needs_findings(&self) -> bool {
        self.selector.is_none() && findings_of(&self.key).is_some()
    }

    /// Whether an incomplete trace can answer the condition.
    pub fn is_about_completeness(&self) -> bool {
        self.key == "complete"
    }

    /// Whether the condition holds, while the figures of all memory can be `unseen` bytes larger; of several
    /// rows, whether it holds for at least one. `Err` if the report has no such figure, or no such row.
    pub fn check(&self, figures: &Figures<'_>, unseen: u64) -> Result<Verdict, String> {
        let Self { key, source, .. } = self;
        let unknown = || format!("'{source}' cannot be checked: this trace does not have {key}");
        let margin = if counts_blocks(key) { figures.missed_at_start() } else { 0 };
        let Some(selector) = &self.selector else {
            let actual = figures.total(key).ok_or_else(unknown)?;
            let unseen = if has_all_memory(key) { unseen } else { 0 };
            return Ok(self.verdict(actual, margin, unseen));
        };
        let selected = figures.select(selector);
        if selected.is_empty() {
            return Err(format!(
                "'{source}' cannot be checked: {}",
                no_such_row(selector, figures)
            ));
        }
        for (label, row) in selected {
            let actual = row.figure(key).ok_or_else(unknown)?;
            if self.holds(actual.saturating_sub(margin), actual.saturating_add(margin)) {
                let figure = format!("{key} of {}", text::escape(&label));
                return Ok(Verdict::Holds(self.sentence(&figure, actual, margin)));
            }
        }
        Ok(Verdict::Fails)
    }

    /// Whether the condition holds for a figure of the whole report that can be `margin` more or less, and
    /// `unseen` more.
    fn verdict(&self, actual: u64, margin: u64, unseen: u64) -> Verdict {
        let (least, most) = (actual.saturating_sub(margin), actual.saturating_add(margin));
        let (holds, upper) = (self.holds(least, most), actual.saturating_add(unseen));
        let is_equality = matches!(self.comparison, Comparison::Equal | Comparison::NotEqual);
        let is_inside = is_equality && (least..=upper).contains(&self.value);
        if unseen == 0 || holds == self.holds(upper, upper) && !is_inside {
            return holds.then(|| self.sentence(&self.key, actual, margin)).into();
        }
        let [actual, upper] = [actual, upper].map(|figure| self.number(figure));
        Verdict::Open(format!(
            "'{}' cannot be judged: {} is at least {actual}, and {upper} with what is in no block; --allow-untracked \
             judges it on blocks alone",
            self.source, self.key
        ))
    }

    /// [`check`](Self::check) of the new figures, or of the change from the old ones. A row that one of
    /// the traces does not have is 0 there; rows of one name are summed.
    fn check_change(&self, old: &Figures<'_>, new: &Figures<'_>) -> Result<Verdict, String> {
        let Some(change) = self.change else { return self.check(new, 0) };
        let Self { key, source, .. } = self;
        let unknown = || format!("'{source}' cannot be checked: one trace does not have {key}");
        let Some(selector) = &self.selector else {
            let (old, new) = old.total(key).zip(new.total(key)).ok_or_else(unknown)?;
            return Ok(self.has_changed(change, old, new, key).into());
        };
        let mut rows = BTreeMap::<String, [u64; 2]>::new();
        for (at, figures) in [old, new].into_iter().enumerate() {
            for (label, row) in figures.select(selector) {
                let sum = &mut rows.entry(label).or_default()[at];
                *sum = sum.saturating_add(row.figure(key).ok_or_else(unknown)?);
            }
        }
        if rows.is_empty() {
            let none = no_such_row(selector, new);
            return Err(format!("'{source}' cannot be checked: {none}"));
        }
        let held = rows.into_iter().find_map(|(label, [old, new])| {
            let figure = format!("{key} of {}", text::escape(&label));
            self.has_changed(change, old, new, &figure)
        });
        Ok(held.into())
    }

    /// A sentence, if the figure has changed as the condition says.
    fn has_changed(&self, change: Change, old: u64, new: u64, figure: &str) -> Option<String> {
        let (from, to) = match change {
            Change::Grew => (old, new),
            Change::Shrank => (new, old),
        };
        let by = to.checked_sub(from).filter(|by| *by > 0)?;
        // NOTE: without rounding: both sides times the old figure.
        let (actual, limit) = if self.is_percent {
            let percent = u128::from(PERCENT) * 100;
            (u128::from(by) * percent, u128::from(old) * u128::from(self.value))
        } else {
            (u128::from(by), u128::from(self.value))
        };
        let holds =
            actual > limit || actual == limit && self.comparison == Comparison::GreaterOrEqual;
        holds.then(|| {
            let [old, new] = [old, new].map(|figure| self.number(figure));
            format!("'{}' holds: {figure} was {old} and is {new}", self.source)
        })
    }

    /// Whether the condition holds for a figure from `least` to `most`.
    fn holds(&self, least: u64, most: u64) -> bool {
        match self.comparison {
            Comparison::Greater => most > self.value,
            Comparison::GreaterOrEqual => most >= self.value,
            Comparison::Less => least < self.value,
            Comparison::LessOrEqual => least <= self.value,
            Comparison::Equal => (least..=most).contains(&self.value),
            Comparison::NotEqual => least != self.value || most != self.value,
        }
    }

    fn sentence(&self, figure: &str, actual: u64, margin: u64) -> String {
        let margin = match margin {
            0 => String::new(),
            _ => format!(", estimated to {}", text::counted(margin, "block", "blocks")),
        };
        format!("'{}' holds: {figure} is {}{margin}", self.source, self.number(actual))
    }

    /// A figure, as a sentence has it.
    fn number(&self, figure: u64) -> String {
        match self.unit {
            Unit::Flag => (figure == 1).to_string(),
            Unit::Bytes if figure >= 1024 => format!("{figure} ({})", text::bytes(figure)),
            _ => figure.to_string(),
        }
    }
}

/// Whether a condition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does, with this sentence.
    Holds(String),
    /// It does not.
    Fails,
    /// That depends on memory that is in no block.
    Open(String),
}

impl From<Option<String>> for Verdict {
    fn from(held: Option<String>) -> Self {
        held.map_or(Self::Fails, Self::Holds)
    }
}

/// Whether memory in no block can be added to a figure.
fn has_all_memory(key: &str) -> bool {
    matches!(key, "peak_bytes" | "live_bytes")
}

/// Whether a figure counts blocks, of which those at the start can be estimated.
fn counts_blocks(key: &str) -> bool {
    matches!(key, "allocations" | "frees") || key.contains("blocks")
}

/// Checks all conditions on a report, and returns the outcome of the command: [`Outcome::Held`] for the
/// first that holds. Where more is missing than a known number of bytes, no condition passes. Without
/// conditions incomplete figures are a success if `allow_incomplete`.
pub fn judge(
    conditions: &[Condition],
    report: &Report,
    lack: Lack,
    allow_incomplete: bool,
) -> Result<Outcome, CliError> {
    let figures = Figures::of(report);
    let is_judged = lack.is_bounded && !conditions.is_empty();
    let incomplete = lack.sentence.filter(|_| !is_judged);
    judge_by(conditions, incomplete, allow_incomplete, |condition| {
        condition.check(&figures, lack.unseen_bytes)
    })
}

/// [`judge`] for conditions on a new report and on the changes from an old one.
pub fn judge_change(
    conditions: &[Condition],
    old: &Report,
    new: &Report,
    incomplete: Option<String>,
    allow_incomplete: bool,
) -> Result<Outcome, CliError> {
    let figures = [old, new].map(Figures::of);
    judge_by(conditions, incomplete, allow_incomplete, |condition| {
        let [old, new] = &figures;
        condition.check_change(old, new)
    })
}

fn judge_by(
    conditions: &[Condition],
    incomplete: Option<String>,
    allow_incomplete: bool,
    check: impl Fn(&Condition) -> Result<Verdict, String>,
) -> Result<Outcome, CliError> {
    let (mut unknown, mut unproven, mut open) = (None, None, None);
    for condition in conditions {
        match check(condition) {
            Ok(Verdict::Holds(held)) => {
                incomplete.iter().for_each(|sentence| note(sentence));
                return Ok(Outcome::Held(held));
            }
            Ok(Verdict::Open(sentence)) => open = Some(sentence),
            Ok(Verdict::Fails) if condition.is_about_completeness() => {}
            Ok(Verdict::Fails) => unproven = Some(condition.source()),
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
        (None, _, incomplete) => Ok(match open {
            Some(sentence) => Outcome::Incomplete(sentence),
            None => outcome(incomplete, allow_incomplete),
        }),
    }
}

/// Reports that `selector` selects no row, and which row is likely meant or which there are.
fn no_such_row(selector: &Selector, figures: &Figures<'_>) -> String {
    let Selector { of, name, group } = selector;
    let what = of.name();
    let within = group.as_ref().map_or(String::new(), |group| format!(" in a group {group:?}"));
    let labels: Vec<_> = figures.rows(*of).into_iter().map(|(label, _)| label).collect();
    if labels.is_empty() && *of == By::Function {
        return format!(
            "the trace has no call stacks, so no {what} {name:?}: record it with --stacks"
        );
    }
    let separator = of.separator();
    let last = |label: &String| label.rsplit(separator).next().unwrap_or(label).to_owned();
    let names: Vec<_> = labels.iter().map(last).collect();
    let near = text::nearest(name, names.iter().map(String::as_str));
    let near = near.and_then(|near| names.iter().position(|name| name == near));
    let instead = match near {
        Some(place) => format!("{:?} is likely meant", labels[place]),
        None => text::instead_as(name, &labels, quoted),
    };
    format!("the trace has no {what} {name:?}{within}; {instead}")
}
