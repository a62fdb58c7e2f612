//! The screen, drawn from the model.
//!
//! ```text
//! memledger top: server (process 4242)                                     12.3 s
//! live 7.1 MiB in 12,345 blocks    peak 9.0 MiB    since mark +1.2 MiB
//! allocated 1.2 GiB, 3.4 MiB/s     count 123,456, 1,234/s
//!  9.0 MiB ▂▃▅▇█▇▅▃                       chart.rs
//!        0 ████████
//! [1 scope] 2 group 3 name 4 function 5 thread 6 heap              sorted by live
//! name                                            live      peak      rate
//! ▾ (whole program)                            7.1 MiB   9.0 MiB   3.4 MiB/s      table.rs
//! ? help  q quit  ...                                    or what is wrong, or the filter
//! ```

use super::chart;
use super::columns::{bytes_rate, signed};
use super::keys::HELP;
use super::lines::{Change, Rate};
use super::model::{Model, Status};
use super::table;
use super::theme::{Meaning, Theme};
use crate::commands::by::By;
use memledger_export::text::{bytes_briefly, count, counted, duration, escape, fit};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget, Wrap};

/// The smallest screen.
const MIN_WIDTH: u16 = 40;
const MIN_HEIGHT: u16 = 10;

/// Draws the whole screen.
pub fn draw(model: &mut Model, theme: Theme, frame: &mut Frame<'_>) {
    let area = frame.area();
    screen(model, theme, area, frame.buffer_mut());
    if model.typing.is_some() && area.width >= MIN_WIDTH && area.height >= MIN_HEIGHT {
        let typed = Span::raw(format!(" filter: {}", escape(&model.filter))).width() as u16;
        frame.set_cursor_position(Position::new(typed.min(area.width - 1), area.height - 1));
    }
}

/// Draws the whole screen into a buffer.
pub fn screen(model: &mut Model, theme: Theme, area: Rect, buffer: &mut Buffer) {
    if area.width < MIN_WIDTH || area.height < MIN_HEIGHT {
        let sentence = format!(
            "memledger top needs {MIN_WIDTH} x {MIN_HEIGHT} characters; this terminal has {} x {}. \
             q quits",
            area.width, area.height
        );
        return Paragraph::new(sentence).wrap(Wrap { trim: true }).render(area, buffer);
    }
    let mut rest = Rows { area };
    let last = rest.take_bottom(1);
    if model.help {
        title(model, theme, rest.take_top(1), buffer);
        help(theme, rest.area, buffer);
        return keys(model, theme, last, buffer);
    }
    title(model, theme, rest.take_top(1), buffer);
    if let Some(sentence) = sentence(model) {
        // Lines end at words, so that some room is left.
        let lines = Span::raw(&sentence).width().div_ceil(usize::from(area.width) - 10).clamp(1, 3);
        let style = theme.style(Meaning::Problem);
        let text = Paragraph::new(sentence).wrap(Wrap { trim: true }).style(style);
        text.render(rest.take_bottom(lines as u16), buffer);
    }
    figures(model, theme, rest.take_top(2), buffer);
    let height = match area.height {
        34.. => 8,
        24.. => 5,
        18.. => 3,
        _ => 0,
    };
    if height > 0 {
        chart::draw(model, theme, rest.take_top(height), buffer);
    }
    views(model, theme, rest.take_top(1), buffer);
    table::draw(model, theme, rest.area, buffer);
    keys(model, theme, last, buffer);
}

/// What is left of the screen.
struct Rows {
    area: Rect,
}

impl Rows {
    fn take_top(&mut self, height: u16) -> Rect {
        let height = height.min(self.area.height);
        let taken = Rect { height, ..self.area };
        self.area.y += height;
        self.area.height -= height;
        taken
    }

    fn take_bottom(&mut self, height: u16) -> Rect {
        let height = height.min(self.area.height);
        self.area.height -= height;
        Rect { y: self.area.y + self.area.height, height, ..self.area }
    }
}

/// Writes a text on the left and one on the right, which is whole.
fn ends(left: &Line<'_>, right: &Line<'_>, area: Rect, buffer: &mut Buffer) {
    let width = (right.width() as u16).min(area.width);
    let room = area.width.saturating_sub(width + 1);
    buffer.set_line(area.x, area.y, left, room);
    buffer.set_line(area.x + area.width - width, area.y, right, width);
}

fn title(model: &Model, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let now = model.now();
    let program = now.and_then(|now| now.sample.program.clone());
    let program = program.unwrap_or_else(|| model.title.clone());
    let process = now.and_then(|now| now.sample.pid).map(|pid| format!(" (process {pid})"));
    let name = format!("{}{}", escape(&program), process.unwrap_or_default());
    let left = Line::from(vec![
        Span::styled("memledger top ", theme.style(Meaning::Faint)),
        Span::styled(name, theme.bold(Meaning::Plain)),
    ]);
    let state = match &model.status {
        _ if model.paused => "paused".to_owned(),
        Status::Waiting => "waiting".to_owned(),
        Status::Live => "live".to_owned(),
        Status::Interrupted(_) => "no answer".to_owned(),
        Status::Ended(_) => "ended".to_owned(),
    };
    let is_plain = matches!(model.status, Status::Live | Status::Waiting) && !model.paused;
    let meaning = if is_plain { Meaning::Plain } else { Meaning::Problem };
    let time = now.map_or(String::new(), |now| duration(now.at_ns));
    let right =
        Line::from(vec![Span::styled(state, theme.style(meaning)), Span::raw(format!("  {time}"))]);
    ends(&left, &right, area, buffer);
}

/// What is wrong, or why no more figures come.
fn sentence(model: &Model) -> Option<String> {
    let lost =
        model.now().and_then(|now| match (now.sample.lost_events, now.sample.lost_unknown) {
            (_, true) => {
                Some("some events are missing; the figures cover only the rest".to_owned())
            }
            (0, _) => None,
            (lost, _) => Some(format!(
                "{} are missing; the figures cover only the rest",
                counted(lost, "event", "events")
            )),
        });
    let status = match &model.status {
        Status::Interrupted(sentence) | Status::Ended(sentence) => Some(sentence.clone()),
        _ => None,
    };
    let all: Vec<_> = [status, model.problem.clone(), lost].into_iter().flatten().collect();
    (!all.is_empty()).then(|| escape(&all.join(". ")))
}

fn figures(model: &Model, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let Some(now) = model.now() else {
        buffer.set_string(area.x, area.y, "no figures yet", theme.style(Meaning::Faint));
        return;
    };
    let total = &now.sample.total;
    let figure = |name: &'static str, text: String, meaning| {
        [Span::raw(format!("{name} ")), Span::styled(text, theme.bold(meaning))]
    };
    let live = bytes_briefly(total.live);
    let mut first: Vec<_> = figure("live", format!("{live:>9}"), Meaning::Live).into();
    first.push(Span::raw(format!(" in {}", counted(total.blocks, "block", "blocks"))));
    let mut second: Vec<_> = Vec::new();
    let peak = bytes_briefly(total.peak);
    second.extend(figure("peak", format!("{peak:>9}"), Meaning::Peak));
    let allocated = bytes_briefly(total.allocated);
    second.extend(figure("   allocated", allocated, Meaning::Allocated));
    let rate = model.before().and_then(|before| {
        let elapsed = now.at_ns.saturating_sub(before.at_ns);
        Rate::between(Some(&before.sample.total), total, elapsed)
    });
    let rate_text = |text: String| if text.is_empty() { text } else { format!(", {text}") };
    second.push(Span::raw(rate_text(bytes_rate(rate.filter(|rate| rate.bytes > 0)))));
    second.extend(figure("   count", count(total.count), Meaning::Plain));
    let per_second =
        rate.filter(|rate| rate.count > 0).map(|rate| format!("{}/s", count(rate.count)));
    second.push(Span::raw(rate_text(per_second.unwrap_or_default())));
    if let Some(mark) = model.mark() {
        let change = Change::between(Some(&mark.sample.total), total);
        let (text, meaning) = match change.live {
            0 => ("no change".to_owned(), Meaning::Plain),
            live => signed(live),
        };
        let ago = duration(now.at_ns.saturating_sub(mark.at_ns));
        first.push(Span::raw("   since the mark "));
        first.push(Span::styled(text, theme.bold(meaning)));
        first.push(Span::raw(format!(" in {ago}")));
    }
    buffer.set_line(area.x, area.y, &Line::from(first), area.width);
    buffer.set_line(area.x, area.y + 1, &Line::from(second), area.width);
}

fn views(model: &Model, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let mut left = Vec::new();
    for (number, by) in By::ALL.into_iter().enumerate() {
        let text = format!(" {} {} ", number + 1, by.name());
        let style = match by == model.by {
            true => Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
            false => Style::new(),
        };
        left.push(Span::styled(text, style));
    }
    let each = match (model.by.has_inclusive(), model.is_inclusive()) {
        (false, _) => "",
        (true, false) => "own only  ",
        (true, true) if model.by.is_tree() => "",
        (true, true) => "with callees  ",
    };
    let filter = match model.filter.as_str() {
        "" => String::new(),
        filter => format!("filter {}  ", fit(&escape(filter), 20)),
    };
    let right = Line::from(Span::styled(format!("{filter}{each}"), theme.bold(Meaning::Plain)));
    ends(&Line::from(left), &right, area, buffer);
}

/// The last line: the filter, or the keys.
fn keys(model: &Model, theme: Theme, area: Rect, buffer: &mut Buffer) {
    if model.typing.is_some() {
        let text = format!(" filter: {}", escape(&model.filter));
        buffer.set_stringn(area.x, area.y, text, area.width.into(), Style::new());
        return;
    }
    let mark = if model.mark().is_some() { ("u", "unmark") } else { ("m", "mark") };
    let pause = ("space", if model.paused { "go on" } else { "pause" });
    let all = [
        ("?", "help"),
        ("q", "quit"),
        mark,
        ("s", "sort"),
        ("/", "filter"),
        pause,
        ("tab", "view"),
        ("← →", "close, open"),
        ("i", "own"),
    ];
    let mut text = Vec::new();
    let mut room = usize::from(area.width);
    for (key, what) in all {
        let key = Span::styled(format!(" {key}"), theme.bold(Meaning::Plain));
        let what = Span::styled(format!(" {what} "), theme.style(Meaning::Faint));
        let width = key.width() + what.width();
        if width > room {
            break;
        }
        room -= width;
        text.extend([key, what]);
    }
    buffer.set_line(area.x, area.y, &Line::from(text), area.width);
}

fn help(theme: Theme, area: Rect, buffer: &mut Buffer) {
    let row = |(keys, what): &(&'static str, &'static str)| {
        Line::from(vec![
            Span::styled(format!("  {keys:<28} "), theme.bold(Meaning::Plain)),
            Span::raw(*what),
        ])
    };
    let mut lines = vec![Line::default()];
    lines.extend(HELP.iter().map(row));
    lines.push(Line::default());
    let meanings = [
        (Meaning::Live, "live"),
        (Meaning::Peak, "peak"),
        (Meaning::Allocated, "allocated"),
        (Meaning::Grew, "+ grew"),
        (Meaning::Shrank, "- shrank"),
    ];
    let mut colours = vec![Span::raw("  ")];
    for (meaning, text) in meanings {
        colours.push(Span::styled(text, theme.bold(meaning)));
        colours.push(Span::raw("   "));
    }
    lines.push(Line::from(colours));
    for (line, y) in lines.iter().zip(area.y..area.y + area.height) {
        buffer.set_line(area.x, y, line, area.width);
    }
}

#[cfg(test)]
mod tests;
