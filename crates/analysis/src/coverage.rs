//! How much of the program's memory a report has: decided here, for every output.
//!
//! It is a pure function of what the trace has, so the report in the process, the one from the file and the
//! exit status of a command agree.

use memledger_document::{
    Coverage, CoverageKind, CoverageReason, CoverageWord, Report, Untracked, UntrackedKind, made,
};

/// Judges a report, all of whose other fields are there. `is_damaged`: a part of the trace could not be
/// read. `is_running`: the program has no end yet.
pub(super) fn judge(report: &Report, is_damaged: bool, is_running: bool) -> Coverage {
    let Report { losses, trace, untracked, .. } = report;
    let lost = losses.lost_events > 0 || losses.lost_unknown || losses.serial_holes > 0;
    let facts = [
        (lost, CoverageKind::LostEvents),
        (is_damaged, CoverageKind::Damage),
        (!trace.ended && !is_running, CoverageKind::NoEnd),
        (losses.contradictions() > 0, CoverageKind::Contradiction),
        (trace.missed_at_start > 0, CoverageKind::EstimatedStart),
        (untracked.has(UntrackedKind::Replaced), CoverageKind::Replaced),
        (untracked.has(UntrackedKind::Child), CoverageKind::Child),
        (has_allocators(untracked) && !untracked.is_beside, CoverageKind::Allocator),
        (untracked.has_scopes(), CoverageKind::Scopes),
    ];
    let facts = facts.into_iter().filter(|(is, _)| *is);
    let mut found: Vec<_> =
        facts.map(|(_, kind)| (CoverageWord::Incomplete, CoverageReason::of(kind))).collect();
    if !untracked.is_beside {
        found.extend(unseen(untracked));
        let not_weighed = not_weighed(untracked, trace.ended, trace.duration_ns);
        found.extend(not_weighed.filter(|_| !is_running));
    }
    let word = found.iter().map(|(word, _)| *word).max();
    let mut reasons: Vec<_> = found.into_iter().map(|(_, reason)| reason).collect();
    // What is known of an allocator is why its memory is in no block.
    reasons.sort_by_key(|reason| {
        matches!(reason.kind, CoverageKind::Unseen | CoverageKind::UnseenPeak)
    });
    made!(Coverage { word: word.unwrap_or(CoverageWord::Complete), reasons })
}

type Found = (CoverageWord, CoverageReason);

/// What was weighed and is in no block, and the maximum that nothing explains, each if it is enough to
/// be said.
fn unseen(untracked: &Untracked) -> impl Iterator<Item = Found> {
    let all = [
        (CoverageKind::Unseen, untracked.weighed.as_ref()),
        (CoverageKind::Unseen, untracked.largest.as_ref()),
        (CoverageKind::UnseenPeak, untracked.unseen_peak.as_ref()),
    ];
    let all = all.into_iter().filter_map(|(kind, weighed)| Some((kind, weighed?)));
    all.map(|(kind, weighed)| {
        let (bytes, at_ns) = (weighed.untracked_bytes, weighed.at_ns);
        let mut reason = CoverageReason::of(kind);
        (reason.bytes, reason.to_ns) = (bytes, Some(at_ns));
        (weighed.word(), reason)
    })
    .filter(|(word, _)| *word > CoverageWord::Complete)
}

/// That memory was not weighed, or not to the end.
fn not_weighed(untracked: &Untracked, is_ended: bool, end_ns: u64) -> Option<Found> {
    let (kind, from_ns) = match (untracked.can_be_weighed, untracked.last_weighed_ns) {
        (false, _) => return None,
        (true, None) => (CoverageKind::NotWeighed, None),
        (true, Some(_)) if untracked.is_weighed_at_end || !is_ended => return None,
        (true, last) => (CoverageKind::WeighedBeforeEnd, last),
    };
    let mut reason = CoverageReason::of(kind);
    (reason.from_ns, reason.to_ns) = (from_ns, Some(end_ns));
    Some((CoverageWord::CompleteFor, reason))
}

/// Whether there is an allocator that is known not to be recorded.
fn has_allocators(untracked: &Untracked) -> bool {
    use UntrackedKind::{Child, Replaced, Scopes};
    untracked.reasons.iter().any(|reason| ![Scopes, Replaced, Child].contains(&reason.kind))
}
