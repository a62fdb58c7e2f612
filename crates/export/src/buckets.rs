//! What formats by stack make of the buckets of a report.

use crate::missing::{contradictions, untracked, word};
use crate::names::{is_untagged, tag};
use memledger_document::{BucketRow, CoverageWord, Figures, Report, StackKind};
use std::borrow::Cow;

/// The figures of a bucket, in a sampled trace their estimates; `None` if the blocks of the sample
/// represent those of the bucket.
pub fn figures_of(report: &Report, bucket: &BucketRow) -> Option<Figures> {
    let kind = bucket.stack.and_then(|stack| report.by_stack.kind(stack));
    let is_sampled = report.stack_sampling_bytes.is_some();
    if is_sampled && kind.is_none_or(|kind| kind == StackKind::NotTaken) {
        return None;
    }
    Some(bucket.estimates().map_or(bucket.figures, |estimates| estimates.values()))
}

/// In place of a stack: the scopes of a bucket from the outermost one inwards, then its group and name
/// if it has a tag.
pub fn scope_frames<'a>(
    report: &'a Report,
    bucket: &BucketRow,
) -> impl DoubleEndedIterator<Item = Cow<'a, str>> + use<'a> {
    let name = report.by_name.get(bucket.name).filter(|row| !is_untagged(&row.group, &row.name));
    let name = name.map(|row| Cow::Owned(tag(&row.group, &row.name)));
    let scopes = report.by_scope.get(bucket.scope).into_iter().flat_map(|row| &row.path);
    scopes.map(|scope| Cow::Borrowed(scope.as_str())).chain(name)
}

/// What a reader should know of the figures, one sentence each. `is_running`: the program still
/// runs, so its trace has no end yet.
pub fn notes(report: &Report, is_running: bool) -> Vec<String> {
    let (trace, totals, losses) = (&report.trace, &report.totals, &report.losses);
    let mut notes = Vec::new();
    if let Some(mean) = report.stack_sampling_bytes {
        notes.push(format!(
            "sampled: the figures are estimates, from a stack for each {mean} bytes on average; \
             exact are {} live bytes in {} blocks, and {} allocated bytes in {} allocations and \
             {} reallocations",
            totals.live_bytes,
            totals.live_blocks,
            totals.allocated_bytes,
            totals.allocations,
            totals.reallocations
        ));
    }
    let untracked = untracked(report);
    let is_incomplete = trace.coverage.word == CoverageWord::Incomplete;
    if losses.lost_unknown {
        notes.push("not whole: an unknown number of events is missing".to_owned());
    } else if losses.lost_events > 0 {
        notes.push(format!("not whole: {} events are missing", losses.lost_events));
    } else if let Some(sentence) = contradictions(report) {
        notes.push(format!("not whole: {sentence}"));
    } else if !is_incomplete || untracked.is_some() {
        // What is missing has its own sentence, which follows.
    } else if !is_running {
        notes.push(
            "not whole: the trace is damaged or has no end; the figures are of what there is"
                .to_owned(),
        );
    }
    if let Some(sentence) = untracked {
        let whole = if is_incomplete { "not whole: " } else { "" };
        notes.push(format!("{whole}{sentence}"));
    } else if trace.coverage.word == CoverageWord::CompleteFor {
        notes.push(word(report));
    }
    if trace.from_process_start == Some(false) && trace.initial_live_blocks.is_none() {
        notes.push("recording began after the process: earlier blocks are missing".to_owned());
    }
    notes
}
