//! Sentences about memory that is in no event.

use super::text::{bytes, counted, escape};
use crate::{Report, UntrackedKind, UntrackedReason, Weighed};
use memledger_format::words::scopes_of_copy;

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
    let untracked = untracked(report).filter(|_| report.untracked.is_missing());
    let has_reason = odd.is_some() || untracked.is_some();
    let lacks_end = !report.trace.ended || !report.trace.complete && !has_reason;
    if loud.is_empty() && lacks_end {
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
    // The heap of `malloc`, through which programs have ways that others do not see.
    let reason = match report.by_heap.iter().any(|heap| heap.name == "C") {
        true => {
            "It may be an allocator in a stripped program, or in a library that was loaded later, or what the first \
             functions of a library have allocated that was opened with RTLD_DEEPBIND"
        }
        false => "It may be a block that one allocator has given and another one has taken back",
    };
    Some(format!("{}: the figures are wrong by what was not seen. {reason}", counts.join(" and ")))
}

/// How much memory is untracked, or that some is; `None` if none is known to be.
pub(super) fn untracked_briefly(report: &Report) -> Option<String> {
    let untracked = &report.untracked;
    if !untracked.is_known() {
        return None;
    }
    let is_why = |of: &Weighed| of.is_much() && !(untracked.is_beside && untracked.has_scopes());
    Some(match untracked.weighed.filter(is_why) {
        Some(weighed) => format!(
            "{} of {} resident are in no block seen",
            bytes(weighed.untracked_bytes),
            bytes(weighed.rss_bytes)
        ),
        None if untracked.has_scopes() => "not all scopes are recorded".to_owned(),
        None => "the program has memory that is in no block seen".to_owned(),
    })
}

/// The same, why, and what to do about it.
pub fn untracked(report: &Report) -> Option<String> {
    let briefly = untracked_briefly(report)?;
    let reasons = &report.untracked.reasons;
    let why = if !report.untracked.is_missing() {
        "the figures are those of Rust's allocator. What C functions and libraries allocate is recorded with \
         memledger::track_c_malloc!()"
            .to_owned()
    } else if reasons.is_empty() {
        by_program(report).to_owned()
    } else {
        reasons.iter().map(reason).collect::<Vec<_>>().join(". ")
    };
    Some(format!("{briefly}: {why}"))
}

fn reason(reason: &UntrackedReason) -> String {
    let UntrackedReason { kind, function, file } = reason;
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
    }
}

/// What the reason may be where none is known.
fn by_program(report: &Report) -> &'static str {
    let program = report.trace.program.as_deref().unwrap_or_default();
    match program.rsplit('/').next().unwrap_or_default() {
        "java" => {
            "objects of Java are in a heap of the virtual machine: jcmd PID GC.class_histogram shows them. The figures \
             are those of C code"
        }
        "node" | "nodejs" => {
            "objects of JavaScript are in V8's heap: node --heap-prof shows who allocates them. The figures are those \
             of C and C++ code"
        }
        _ => {
            "it may be an allocator that asks the system for memory without the C library, a copy of the C library \
             (dlmopen), or the heap of a language's runtime. A program in Rust can use memledger::TrackingAllocator"
        }
    }
}
