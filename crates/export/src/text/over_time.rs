//! How live bytes went, in a line, and the command that shows who made them more.

use crate::options::Options;
use crate::units::duration;
use memledger_document::{Report, TimePoint};

/// Parts that the time is divided into, each with the most bytes that were live in it.
const PARTS: usize = 24;
/// A jump takes no more of these parts.
const JUMP_PARTS: u64 = 4;
/// With fewer different times the parts would say nothing.
const MIN_TIMES: usize = 8;
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What live bytes did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// They rose to the end.
    Rising,
    /// They rose to the peak, and have fallen since.
    RisingToPeak,
    /// They at least doubled, to nearly the peak, in a short part of the run.
    Jumping {
        from_ns: u64,
        to_ns: u64,
    },
    Other,
}

/// The line, and the command that compares two moments of a rise: `None` if live bytes did not rise, or the
/// report does not say who allocated. Without enough times in the trace, there is no line.
pub(super) fn lines(report: &Report, options: &Options) -> Option<(String, Option<String>)> {
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
    let peak_ns = report.peak.to_ns.unwrap_or(report.peak.from_ns).min(last.at_ns);
    let shape = shape(points, peak_ns, report.totals.peak_bytes);
    let words = match shape {
        Shape::Rising if options.moment.is_some() => ", still rising then".to_owned(),
        Shape::Rising => ", still rising at the end".to_owned(),
        Shape::RisingToPeak => format!(", rising until {}", duration(peak_ns)),
        Shape::Jumping { from_ns, to_ns } => match (duration(from_ns), duration(to_ns)) {
            (from, to) if from == to => format!(", jumped at {to}"),
            (from, to) => format!(", jumped from {from} to {to}"),
        },
        Shape::Other => String::new(),
    };
    let from = if first.at_ns == 0 { "0".to_owned() } else { duration(first.at_ns) };
    let line = format!("{bars}  {from} to {}{words}", duration(last.at_ns));
    let end = || options.moment.clone().unwrap_or_else(|| "end".to_owned());
    let half = |until_ns: u64| time(first.at_ns + (until_ns - first.at_ns) / 2);
    let rise = match shape {
        Shape::Rising => Some((half(last.at_ns), end())),
        Shape::RisingToPeak => Some((half(peak_ns), "peak".to_owned())),
        // Times are cut off, so the second is one later.
        Shape::Jumping { from_ns, to_ns } => {
            Some((time(from_ns), time(to_ns.saturating_add(10_000_000))))
        }
        Shape::Other => None,
    };
    let says_by_whom =
        report.by_stack.any_taken() || report.by_scope.len() > 1 || report.by_name.len() > 1;
    let rise = rise.filter(|_| says_by_whom).map(|(from, to)| match &options.trace {
        Some(trace) => format!("memledger diff {} --at {from} --at {to}", argument(trace)),
        None => format!("memledger diff RUN --at {from} --at {to} (RUN: a trace of it)"),
    });
    Some((line, rise))
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

fn shape(points: &[TimePoint], peak_ns: u64, peak_bytes: u64) -> Shape {
    let end = points.last().copied().unwrap_or_default();
    if u128::from(end.live_bytes) * 10 >= u128::from(peak_bytes) * 9
        && rises(points, end.at_ns, end.live_bytes)
    {
        return Shape::Rising;
    }
    if rises(points, peak_ns, peak_bytes) {
        return Shape::RisingToPeak;
    }
    jump(points, peak_bytes).unwrap_or(Shape::Other)
}

/// A jump leads from the last moment with at most half of the peak to the first one with nine tenths of it.
/// It is none at the start or at the end of the run, nor if it takes long.
fn jump(points: &[TimePoint], peak_bytes: u64) -> Option<Shape> {
    let percent = |bytes: u64| u128::from(bytes) * 100 / u128::from(peak_bytes.max(1));
    let to = points.iter().position(|point| percent(point.live_bytes) >= 90)?;
    let from = points[..to].iter().rposition(|point| percent(point.live_bytes) <= 50)?;
    let (from_ns, to_ns) = (points[from].at_ns, points[to].at_ns);
    let (first_ns, last_ns) = (points.first()?.at_ns, points.last()?.at_ns);
    let part = last_ns.saturating_sub(first_ns) / PARTS as u64;
    let is_within = from_ns.saturating_sub(first_ns) > part && last_ns.saturating_sub(to_ns) > part;
    let is_soon = to_ns.saturating_sub(from_ns) <= part * JUMP_PARTS;
    (is_within && is_soon).then_some(Shape::Jumping { from_ns, to_ns })
}

/// Whether live bytes were more at each quarter of the time from the first point to `until_ns`, and at the
/// half of it at most 90 % of the `last` ones.
fn rises(points: &[TimePoint], until_ns: u64, last: u64) -> bool {
    let Some(first) = points.first().map(|point| point.at_ns).filter(|&first| first < until_ns)
    else {
        return false;
    };
    let live_at = |quarter: u64| {
        let at_ns = first + (until_ns - first) / 4 * quarter;
        let after = points.partition_point(|point| point.at_ns <= at_ns);
        after.checked_sub(1).map_or(0, |before| points[before].live_bytes)
    };
    let [one, half, three] = [1, 2, 3].map(live_at);
    one < half && half < three && three < last && u128::from(half) * 10 <= u128::from(last) * 9
}

/// What is more than nothing is seen.
fn bar(bytes: u64, top: u64) -> char {
    let eighths = (u128::from(bytes) * 8).div_ceil(u128::from(top.max(1)));
    BARS[usize::try_from(eighths).map_or(8, |eighths| eighths.min(8))]
}

/// A time as an option takes it: `2.53s`, `250ms`.
fn time(ns: u64) -> String {
    match ns {
        0..10_000_000 => format!("{ns}"),
        10_000_000..1_000_000_000 => format!("{}ms", ns / 1_000_000),
        _ => format!("{}.{:02}s", ns / 1_000_000_000, ns / 10_000_000 % 100),
    }
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

    fn report(live: impl Fn(u64) -> u64) -> Report {
        let mut report = Report::default();
        let points = (0..=100).map(|at| {
            made!(TimePoint { at_ns: at * 50_000_000, live_bytes: live(at), peak_bytes: live(at) })
        });
        report.timeline.points = points.collect();
        let peak = report.timeline.points.iter().rev().max_by_key(|point| point.live_bytes);
        let (at_ns, bytes) = peak.map_or((0, 0), |peak| (peak.at_ns, peak.live_bytes));
        report.totals.peak_bytes = bytes;
        (report.peak.from_ns, report.peak.to_ns) = (at_ns, Some(at_ns));
        report.by_name = vec![Default::default(), Default::default()];
        report
    }

    #[test]
    fn a_rise_is_said_with_the_command_that_shows_by_whom() {
        let options = Options { trace: Some("a b.utrace".to_owned()), ..Options::default() };
        let of = |live: &dyn Fn(u64) -> u64| lines(&report(live), &options);
        assert_eq!(
            of(&|at| at * 1000),
            Some((
                "▁▁▁▂▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇▇▇███  0 to 5.00 s, still rising at the end".to_owned(),
                Some("memledger diff 'a b.utrace' --at 2.50s --at end".to_owned()),
            ))
        );
        assert_eq!(
            of(&|at| if at > 80 { 1 } else { at * 1000 }),
            Some((
                "▁▁▂▂▂▃▃▄▄▅▅▅▆▆▇▇▇███▁▁▁▁  0 to 5.00 s, rising until 4.00 s".to_owned(),
                Some("memledger diff 'a b.utrace' --at 2.00s --at peak".to_owned()),
            ))
        );
        assert_eq!(
            of(&|at| 1000 + at % 2),
            Some(("████████████████████████  0 to 5.00 s".to_owned(), None))
        );
        assert_eq!(
            of(&|at| if at < 30 { 100 } else { 1000 + at % 2 }),
            Some((
                "▁▁▁▁▁▁▁█████████████████  0 to 5.00 s, jumped from 1.45 s to 1.50 s".to_owned(),
                Some("memledger diff 'a b.utrace' --at 1.45s --at 1.51s".to_owned()),
            ))
        );
        // What is there from the start on is no jump.
        let (line, command) = of(&|at| 10 + at.min(1) * 990).unwrap_or_default();
        assert!(line.ends_with("0 to 5.00 s") && command.is_none(), "{line}");
        assert_eq!(of(&|_| 0), None);
        let mut few = report(|at| at);
        few.timeline.points.truncate(MIN_TIMES - 1);
        assert_eq!(lines(&few, &options), None);
        assert_eq!(lines(&Report::default(), &options), None);
    }

    #[test]
    fn times_are_as_options_take_them() {
        let times = [0, 999, 250_000_000, 5_890_000_000, u64::MAX].map(time);
        assert_eq!(times, ["0", "999", "250ms", "5.89s", "18446744073.70s"]);
    }
}
