//! What figures lack that no event tells of, in sentences.

use super::text::counted;
use crate::analysis::Report;

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
            "It may be a library that was opened with RTLD_DEEPBIND, an allocator that calls malloc itself, \
             or an operator new that is not the C++ library's"
        }
        false => "It may be a block that one allocator has given and another one has taken back",
    };
    Some(format!("{}: the figures are wrong by what was not seen. {reason}", counts.join(" and ")))
}
