//! Live bytes over time, as bars of eighths of a character.

use super::history::place;
use super::model::Model;
use super::theme::{Meaning, Theme};
use memledger_export::text::{bytes_briefly, duration};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// Columns of the figures beside the bars.
const SCALE: u16 = 11;
const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// Draws the bars, and the times below them.
pub fn draw(model: &Model, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let Some(now) = model.now() else { return };
    let points = u16::try_from(model.history.points(now.at_ns)).unwrap_or(u16::MAX);
    let bars = Rect {
        x: area.x + SCALE,
        y: area.y,
        // At first one column for each figure, so that the bars grow from the left.
        width: area.width.saturating_sub(SCALE + 1).min(points),
        height: area.height.saturating_sub(1),
    };
    let shown = model.history.resampled(now.at_ns, bars.width.into());
    let top = shown.iter().copied().max().unwrap_or(0);
    let faint = theme.style(Meaning::Faint);
    let scale = |text: &str, y: u16, buffer: &mut Buffer| {
        buffer.set_string(
            area.x,
            y,
            format!("{text:>width$}", width = usize::from(SCALE) - 1),
            faint,
        );
    };
    if bars.height == 0 || top == 0 {
        return;
    }
    scale(&bytes_briefly(top), bars.y, buffer);
    scale("0", bars.bottom() - 1, buffer);
    let peak = shown.iter().position(|&live| live == top);
    for (at, &live) in shown.iter().enumerate() {
        // The peak of the bars is marked; that of the program can lie between two figures.
        let meaning = if peak == Some(at) { Meaning::Peak } else { Meaning::Live };
        let eighths = eighths(live, top, bars.height);
        for row in 0..bars.height {
            let filled = eighths.saturating_sub(u32::from(row) * 8).min(8);
            let symbol = EIGHTHS[filled as usize];
            let (x, y) = (bars.x + at as u16, bars.bottom() - 1 - row);
            buffer.set_string(x, y, symbol, theme.style(meaning));
        }
    }
    times(model, theme, Rect { y: bars.bottom(), height: 1, ..bars }, area.right(), buffer);
}

/// The times below the bars, and the mark. A time is left out where the mark is.
fn times(model: &Model, theme: Theme, bars: Rect, right: u16, buffer: &mut Buffer) {
    let Some((at_ns, (first, last))) =
        model.now().and_then(|now| Some((now.at_ns, model.history.span(now.at_ns)?)))
    else {
        return;
    };
    let mut texts = Vec::new();
    if let Some(mark) = model.mark() {
        let at = bars.x + place(first, last, mark.at_ns, bars.width.into()) as u16;
        // To the left of its place where there is no room on the right.
        let (text, x) = match at + 6 < right {
            true => ("▲ mark", at),
            false => ("mark ▲", at.saturating_sub(5)),
        };
        texts.push((x, text.to_owned(), theme.bold(Meaning::Plain)));
    }
    let faint = theme.style(Meaning::Faint);
    let (start, end) = (duration(first), duration(last));
    // Beside the first time, if the bars have not grown that far.
    let end_at = bars.right().saturating_sub(width(&end)).max(bars.x + width(&start) + 2);
    texts.push((bars.x, start, faint));
    if model.history.points(at_ns) > 1 {
        texts.push((end_at, end, faint));
    }
    let mut taken: Vec<(u16, u16)> = Vec::new();
    for (x, text, style) in texts {
        let end = x + width(&text);
        if taken.iter().all(|&(from, to)| end < from || to < x) {
            buffer.set_string(x, bars.y, &text, style);
            taken.push((x, end));
        }
    }
}

fn width(text: &str) -> u16 {
    text.chars().count() as u16
}

/// The height of a bar in eighths of a character. What is more than nothing is seen.
fn eighths(live: u64, top: u64, height: u16) -> u32 {
    let most = u128::from(height) * 8;
    let share = (u128::from(live) * most + u128::from(top) / 2) / u128::from(top.max(1));
    u32::try_from(share.min(most)).unwrap_or(0).max(u32::from(live > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion_and_anything_is_seen() {
        assert_eq!([0, 1, 50, 100].map(|live| eighths(live, 100, 2)), [0, 1, 8, 16]);
        assert_eq!(eighths(u64::MAX, u64::MAX, u16::MAX), u32::from(u16::MAX) * 8);
        assert_eq!(eighths(0, 0, 3), 0);
    }
}
