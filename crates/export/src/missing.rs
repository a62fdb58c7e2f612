//! Sentences about memory that is in no event.

use crate::units::{bytes, counted, duration};
use memledger_document::{
    CoverageKind, CoverageWord, Report, UntrackedKind, UntrackedReason, Weighed,
};
use memledger_format::words::{escape, scopes_of_copy};

/// What makes the figures incomplete, in sentences, each with its title in the text report: `LOSSES`, `ODD`,
/// `UNTRACKED`. Empty if nothing does.
pub fn lacks(report: &Report) -> Vec<(&'static str, String)> {
    let losses = &report.losses;
    let mut loud = Vec::new();
    if losses.lost_events > 0 || losses.lost_unknown {
        let holes = match losses.serial_holes {
            0 => String::new(),
            holes => format!(" in {}", counted(holes, "hole", "holes")),
        };
        let events = match losses.lost_unknown {
            true => "an unknown number of events is".to_owned(),
            false => counted(losses.lost_events, "event is", "events are"),
        };
        loud.push(format!("{events} missing{holes}: the figures are wrong by what they held"));
    }
    if losses.truncated_bytes > 0 {
        let bytes = counted(losses.truncated_bytes, "byte", "bytes");
        loud.push(format!("{bytes} of the trace could not be read"));
    }
    if report.trace.missed_at_start > 0 {
        let blocks = counted(report.trace.missed_at_start, "block", "blocks");
        loud.push(format!(
            "what was live at the start is estimated, to {blocks}: threads of the parent allocated or freed while it forked"
        ));
    }
    let odd = contradictions(report);
    let is_incomplete = report.trace.coverage.word == CoverageWord::Incomplete;
    let untracked = untracked(report).filter(|_| is_incomplete);
    let is_cut = is_incomplete && odd.is_none() && untracked.is_none();
    if loud.is_empty() && (!report.trace.ended || is_cut) {
        loud.push(
            "the trace has no end: the program was killed or is still running, or the trace was \
             cut. What came later is not in the figures"
                .to_owned(),
        );
    }
    let loud = loud.into_iter().map(|sentence| ("LOSSES", sentence));
    let odd = odd.map(|sentence| ("ODD", sentence));
    let untracked = untracked.map(|sentence| ("UNTRACKED", sentence));
    loud.chain(odd).chain(untracked).collect()
}

/// The figures contradict one another: which do, and what may be the reason. `None` if none does.
pub fn contradictions(report: &Report) -> Option<String> {
    let losses = &report.losses;
    let counts = [
        (
            losses.unmatched_frees,
            "free of a block never allocated",
            "frees of blocks never allocated",
        ),
        (
            losses.duplicate_allocations,
            "allocation where a block was still live",
            "allocations where a block was still live",
        ),
    ];
    let counts = counts.iter().filter(|(number, ..)| *number > 0);
    let counts: Vec<_> = counts.map(|(number, one, many)| counted(*number, one, many)).collect();
    if counts.is_empty() {
        return None;
    }
    Some(format!("{}: the figures are wrong by what was not seen", counts.join(" and ")))
}

/// The word for how complete the figures are, with the gravest reason that has no sentence of its own.
pub(crate) fn word(report: &Report) -> String {
    let coverage = &report.trace.coverage;
    match coverage.word {
        CoverageWord::Complete => "complete, nothing lost".to_owned(),
        CoverageWord::Incomplete => match untracked_briefly(report) {
            Some(sentence) => format!("INCOMPLETE, {sentence}"),
            None => "INCOMPLETE".to_owned(),
        },
        CoverageWord::CompleteFor => match (coverage.unseen_bytes(), untracked_briefly(report)) {
            (0, sentence) => format!("complete for malloc; {}", sentence.unwrap_or_default()),
            (unseen, _) => {
                format!("complete but for at least {} that are in no block", bytes(unseen))
            }
        },
    }
}

/// The gravest reason why memory is missing; `None` if there is none.
fn untracked_briefly(report: &Report) -> Option<String> {
    let (trace, untracked) = (&report.trace, &report.untracked);
    let has = |kind| trace.coverage.reasons.iter().find(move |reason| reason.kind == kind);
    let of = |part: &Option<Weighed>| part.unwrap_or_default();
    let (weighed, peak) = (of(&untracked.weighed), of(&untracked.unseen_peak));
    let unseen = |weighed: Weighed, what: &str| {
        let [unseen, rss] = [weighed.untracked_bytes, weighed.rss_bytes].map(bytes);
        format!("at least {unseen} of {rss} {what} are in no block seen")
    };
    let program = untracked.reasons.iter().find_map(unrecorded_program);
    let sentence = if let Some(program) = program {
        program
    } else if has(CoverageKind::UnseenPeak).is_some() {
        unseen(peak, "resident at most")
    } else if has(CoverageKind::Unseen).is_some() {
        unseen(weighed, "resident")
    } else if has(CoverageKind::Allocator).is_some() {
        "the program has memory that is in no block seen".to_owned()
    } else if has(CoverageKind::Scopes).is_some() {
        "not all scopes are recorded".to_owned()
    } else if trace.coverage.word == CoverageWord::Incomplete && !untracked.is_beside {
        // What was not weighed is the least of it.
        return None;
    } else if let Some(reason) = has(CoverageKind::WeighedBeforeEnd) {
        let before = trace.duration_ns.saturating_sub(reason.from_ns.unwrap_or_default());
        format!("other memory was last weighed {} before the end", duration(before))
    } else if has(CoverageKind::NotWeighed).is_some() {
        "other memory was not weighed".to_owned()
    } else if untracked.is_beside && untracked.is_known() {
        unseen(weighed, "resident")
    } else {
        return None;
    };
    Some(sentence)
}

/// Which program has no trace, if that is the reason.
fn unrecorded_program(reason: &UntrackedReason) -> Option<String> {
    let UntrackedReason { kind, function, file, .. } = reason;
    let (function, file) = (escape(function), escape(file));
    match kind {
        UntrackedKind::Replaced => {
            Some(format!("replaced by {file} at {}", duration(function.parse().unwrap_or(0))))
        }
        UntrackedKind::Child if function.is_empty() => Some(format!("{file} has no trace")),
        UntrackedKind::Child => Some(format!("{file} (process {function}) has no trace")),
        _ => None,
    }
}

/// The same, why, and what to do about it; `None` if no memory is known to be missing.
pub fn untracked(report: &Report) -> Option<String> {
    let untracked = &report.untracked;
    if let Some(program) = untracked.reasons.iter().find_map(unrecorded_program) {
        let why = untracked.reasons.iter().map(reason).collect::<Vec<_>>().join(". ");
        return Some(format!("{program}: {why}"));
    }
    let is_missing = report.trace.coverage.reasons.iter().any(|reason| {
        use CoverageKind::{Allocator, Scopes, Unseen, UnseenPeak};
        [Allocator, Scopes, Unseen, UnseenPeak].contains(&reason.kind)
    });
    if !(is_missing || untracked.is_beside && untracked.is_known()) {
        return None;
    }
    let briefly = untracked_briefly(report)?;
    let why = if !is_missing {
        "the figures are those of Rust's allocator. What C functions and libraries allocate is recorded with \
         memledger::track_c_malloc!()"
            .to_owned()
    } else if untracked.reasons.is_empty() {
        NOT_KNOWN.to_owned()
    } else {
        untracked.reasons.iter().map(reason).collect::<Vec<_>>().join(". ")
    };
    Some(format!("{briefly}: {why}"))
}

/// Where nothing is known of memory in no block.
const NOT_KNOWN: &str = "no function that memledger records has given it. A guess: the program, or the runtime of \
                         its language, asks the system for memory without the C library";

fn reason(reason: &UntrackedReason) -> String {
    let UntrackedReason { kind, function, file, .. } = reason;
    let (function, file) = (escape(function), escape(file));
    let file = if file.is_empty() { "another file" } else { &*file };
    match kind {
        UntrackedKind::Malloc => format!(
            "the program has an allocator of its own, {function} in {file}. A Rust program can use \
             memledger::TrackingAllocator above it; another one can be linked with the C library's malloc"
        ),
        UntrackedKind::New => format!(
            "{function} is that of {file}, which does not call malloc. Without that library, it is the C++ library's, \
             which does"
        ),
        UntrackedKind::Allocator => format!(
            "{file} uses an allocator of its own, {function}. A Rust program can use memledger::TrackingAllocator \
             above it; another one can be linked with the C library's malloc"
        ),
        UntrackedKind::Go => format!(
            "{file} is a program of Go, whose heap is its runtime's: package runtime/pprof shows what is in it. The \
             figures are those of its C code"
        ),
        UntrackedKind::Scopes => scopes_of_copy(&function, file),
        UntrackedKind::Child if function.is_empty() => format!(
            "what {file} allocated is not recorded: system or popen has started it with the environment of the \
             program, which no longer has the library in it"
        ),
        UntrackedKind::Replaced | UntrackedKind::Child => format!(
            "what {file} allocated is not recorded, for it has left no trace: a static program cannot load the library, \
             and another user or another root may reach neither that nor the trace's folder"
        ),
        UntrackedKind::Unreadable => {
            format!(
                "{file} could not be read by the program: an allocator in it would not be found"
            )
        }
        UntrackedKind::Handle => format!(
            "the program has asked dlsym for {function} of {file}, whose calls are not recorded: dlsym(RTLD_DEFAULT, \
             \"{function}\") finds the one that is"
        ),
    }
}
