//! How live bytes went, in a line.

use crate::units::duration;
use memledger_document::{Report, TimePoint};

/// Parts that the time is divided into, each with the most bytes that were live in it.
const PARTS: usize = 24;
/// With fewer different times the parts would say nothing.
const MIN_TIMES: usize = 8;
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The line; `None` without enough times in the trace.
pub(super) fn line(report: &Report) -> Option<String> {
    let points = &report.timeline.points;
    let mut times: Vec<_> = points.iter().map(|point| point.at_ns).collect();
    times.dedup();
    if times.len() < MIN_TIMES {
        return None;
    }
    let (first, last) = (points.first()?, points.last()?);
    let most = largest_of_parts(points, first.at_ns, last.at_ns);
    let top = most.iter().copied().max().filter(|&top| top > 0)?;
    let bars: String = most.iter().map(|&bytes| bar(bytes, top)).collect();
    let from = if first.at_ns == 0 { "0".to_owned() } else { duration(first.at_ns) };
    Some(format!("{bars}  {from} to {}", duration(last.at_ns)))
}

/// Of each part of the time: the most bytes that were live in it.
fn largest_of_parts(points: &[TimePoint], first_ns: u64, last_ns: u64) -> [u64; PARTS] {
    let span = u128::from(last_ns - first_ns).max(1);
    let part = |at_ns: u64| {
        let offset = u128::from(at_ns - first_ns) * PARTS as u128 / span;
        usize::try_from(offset).map_or(PARTS - 1, |part| part.min(PARTS - 1))
    };
    let mut most = [None; PARTS];
    let mut live_after = [None; PARTS];
    for point in points {
        let part = part(point.at_ns);
        let bytes = point.peak_bytes.max(point.live_bytes);
        most[part] = most[part].max(Some(bytes));
        live_after[part] = Some(point.live_bytes);
    }
    // A part without a point has what was live before it.
    let mut before = 0;
    std::array::from_fn(|part| {
        let bytes = most[part].unwrap_or(before);
        before = live_after[part].unwrap_or(before);
        bytes
    })
}

/// What is more than nothing is seen.
fn bar(bytes: u64, top: u64) -> char {
    let eighths = (u128::from(bytes) * 8).div_ceil(u128::from(top.max(1)));
    BARS[usize::try_from(eighths).map_or(8, |eighths| eighths.min(8))]
}

pub(super) fn argument(text: &str) -> String {
    let is_plain = |char: char| char.is_alphanumeric() || "-_./%+:,@=".contains(char);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", memledger_format::words::escape(text).replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use memledger_document::made;

    #[test]
    fn live_bytes_over_time_are_a_line() {
        let of = |count: u64, live: fn(u64) -> u64| {
            let mut report = Report::default();
            let points = (0..count).map(|at| (at * 50_000_000, live(at)));
            let points = points.map(|(at_ns, live_bytes)| {
                made!(TimePoint { at_ns, live_bytes, peak_bytes: live_bytes })
            });
            report.timeline.points = points.collect();
            line(&report)
        };
        assert_eq!(
            of(101, |at| at * 1000).as_deref(),
            Some("▁▁▁▂▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇▇▇███  0 to 5.00 s")
        );
        let fallen = |at| if at > 80 { 1 } else { at * 1000 };
        assert_eq!(of(101, fallen).as_deref(), Some("▁▁▂▂▂▃▃▄▄▅▅▅▆▆▇▇▇███▁▁▁▁  0 to 5.00 s"));
        // A part without a time has what was live before it.
        assert_eq!(of(9, |at| at / 4).as_deref(), Some("            ▄▄▄▄▄▄▄▄▄▄▄█  0 to 400.0 ms"));
        assert_eq!([of(101, |_| 0), of(7, |at| at), of(0, |at| at)], [None, None, None]);
    }
}
