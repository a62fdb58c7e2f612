//! What a trace lacks, in sentences, and the outcome of a command that has read it.

use super::input::display_name;
use crate::error::Outcome;
use crate::terminal::note;
use memledger_analysis::read::Summary;
use memledger_analysis::{CoverageWord, Report};
use memledger_export::text;
use std::path::Path;

/// The outcome of a command. `incomplete` is the reason why its figures are incomplete, if they
/// are. If `allow`, incomplete figures are a success too.
pub fn outcome(incomplete: Option<String>, allow: bool) -> Outcome {
    match incomplete {
        None => Outcome::Done,
        Some(sentence) if allow => {
            note(&sentence);
            Outcome::Done
        }
        Some(sentence) => Outcome::Incomplete(sentence),
    }
}

/// What a report lacks, for conditions on its figures.
#[derive(Clone, Debug, Default)]
pub struct Lack {
    /// Why its figures are incomplete, if they are.
    pub sentence: Option<String>,
    /// Whether only `unseen_bytes` are missing: then rows and counts are exact.
    pub is_bounded: bool,
    /// How much the figures of all memory can be larger, in bytes.
    pub unseen_bytes: u64,
}

impl Lack {
    /// `allow_untracked`: memory that is in no block is no reason, and is in no figure.
    pub fn of(allow_untracked: bool, path: &Path, report: &Report, summary: &Summary) -> Self {
        let coverage = &report.trace.coverage;
        if allow_untracked && coverage.is_memory_only() {
            return Self { sentence: missing(path, summary), ..Self::default() };
        }
        Self {
            sentence: incomplete(path, report, summary),
            is_bounded: coverage.is_bounded() && missing(path, summary).is_none(),
            unseen_bytes: if allow_untracked { 0 } else { coverage.unseen_bytes() },
        }
    }
}

/// Why the figures of a report are incomplete, if they are.
pub fn incomplete(path: &Path, report: &Report, summary: &Summary) -> Option<String> {
    let lost = report.losses.lost_events;
    let missed = report.trace.missed_at_start;
    let coverage = &report.trace.coverage;
    missing(path, summary).or_else(|| match (coverage.word == CoverageWord::Incomplete, lost) {
        (false, _) => None,
        (true, 0) if missed > 0 => Some(format!(
            "the blocks live at the start of {} are an estimate: threads of its parent allocated or freed {} while it forked",
            display_name(path),
            text::counted(missed, "block", "blocks"),
        )),
        (true, 0) => match (text::contradictions(report), text::untracked(report)) {
            (Some(sentence), _) => Some(format!("{} has {sentence}", display_name(path))),
            (None, Some(sentence)) => Some(format!("of {}: {sentence}", display_name(path))),
            (None, None) => Some(without_end(path)),
        },
        (true, _) => Some(format!(
            "{} lacks {} that the program could not record; the result covers only the rest",
            display_name(path),
            text::counted(lost, "event", "events"),
        )),
    })
}

/// What is missing from figures, as one sentence; `None` if nothing is.
pub fn missing(path: &Path, summary: &Summary) -> Option<String> {
    damaged(path, summary).or_else(|| (!summary.is_complete()).then(|| without_end(path)))
}

/// What could not be read of a trace, as one sentence; `None` if all of it could.
pub fn damaged(path: &Path, summary: &Summary) -> Option<String> {
    let counts = &summary.counts;
    let mut parts = Vec::new();
    if let Some(error) = &summary.error {
        parts.push(format!("reading it failed after {} bytes ({error})", summary.input_bytes));
    }
    if counts.damages > 0 {
        let unread = summary.skipped_bytes + summary.truncated_bytes;
        parts.push(format!(
            "{} could not be read ({unread} bytes)",
            text::counted(counts.damages, "place", "places")
        ));
    }
    if counts.holes > 0 {
        parts.push(format!(
            "{} missing in {}",
            match counts.missing_unknown {
                true => "an unknown number of events is".to_owned(),
                false => text::counted(counts.missing, "event is", "events are"),
            },
            text::counted(counts.holes, "place", "places")
        ));
    }
    (!parts.is_empty()).then(|| {
        let parts = parts.join(", and ");
        format!("{} is damaged: {parts}; the result covers only the rest", display_name(path))
    })
}

/// The sentence for a trace without its end.
pub fn without_end(path: &Path) -> String {
    format!(
        "{} has no end: the program was killed or is still running, or the trace was cut; the result covers only the part that exists",
        display_name(path)
    )
}
