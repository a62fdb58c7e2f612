//! What a reader of the page should know of its figures.

use crate::buckets;
use crate::text::page::unnamed;
use crate::text::{count, counted, duration, llm};
use memledger_document::Report;

/// The sentences, the most important first.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let (trace, totals, losses) = (&report.trace, &report.totals, &report.losses);
    let mut notes = buckets::notes(report, false);
    if losses.truncated_bytes > 0 {
        notes.push(format!(
            "damaged: {} bytes of the trace could not be read",
            count(losses.truncated_bytes)
        ));
    }
    if let (Some(since @ 1..), Some(blocks)) = (trace.recording_since_ns, trace.initial_live_blocks)
    {
        notes.push(format!(
            "the recording began at {}, with {} live then, which count as allocations",
            duration(since),
            counted(blocks, "block", "blocks"),
        ));
    }
    if let Some(scope) = &report.stacks_in_scope {
        notes.push(format!(
            "call stacks and findings are only of scopes with \"{scope}\" in their path: what was allocated \
             elsewhere is \"(no stack)\"; scopes, names and threads are of the whole program"
        ));
    }
    if let Some(sentence) = llm::without_blocks(report) {
        notes.push(format!("{sentence}. The largest at the end: {}", llm::largest(report)));
    } else if totals.allocations + totals.reallocations + totals.frees == 0 {
        notes.push(match trace.memory_recorded {
            Some(false) => {
                "allocations and frees were not recorded: the channel memory is off".to_owned()
            }
            _ => "no event: nothing was allocated while it was recorded".to_owned(),
        });
    } else if report.by_stack.is_empty() {
        notes.push(
            "without call stacks, the graphs are of scopes and names; MEMLEDGER_STACKS=on records \
             call stacks"
                .to_owned(),
        );
    }
    notes.extend(unnamed(report).map(|(word, sentence)| format!("{word}: {sentence}")));
    if !trace.scopes_off.is_empty() {
        notes.push(
            "the channel scope was off for a while: allocations made then count in the outermost \
             scope"
                .to_owned(),
        );
    }
    notes
}
