//! One screen as text, for scripts and for what is no terminal.

use super::draw::screen;
use super::model::{Model, Status};
use super::screen::take;
use super::source::{Message, Source};
use super::theme::Theme;
use crate::error::{CliError, Outcome};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::io::Write;

/// The most rows of the list, and at least as many rows as the rest of the screen has.
const MAX_ROWS: usize = 1000;
const AROUND: usize = 24;
/// Columns if there is no terminal.
const WIDTH: u16 = 80;

/// Waits for the second figures, so that there are rates, and prints them.
pub fn print(
    width: Option<u16>,
    model: &mut Model,
    source: &Source,
    out: &mut dyn Write,
) -> Result<Outcome, CliError> {
    while let Ok(message) = source.messages.recv() {
        let is_last = matches!(message, Message::Sample { .. } | Message::Interrupted(_));
        take(model, message);
        if is_last {
            break;
        }
    }
    if let (None, Status::Ended(sentence)) = (model.now(), &model.status) {
        return Err(CliError::Failed(sentence.clone()));
    }
    let terminal = || terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| width.0);
    let width = width.or_else(terminal).unwrap_or(WIDTH);
    let height = model.list.lines.len().min(MAX_ROWS) + AROUND;
    let area = Rect::new(0, 0, width, height as u16);
    let mut buffer = Buffer::empty(area);
    screen(model, Theme::Plain, area, &mut buffer);
    let mut lines = text(&buffer);
    // The last line is about keys.
    lines.pop();
    let used = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    lines.truncate(used);
    lines.dedup_by(|one, other| one.is_empty() && other.is_empty());
    for line in &lines {
        writeln!(out, "{line}").map_err(CliError::output)?;
    }
    Ok(Outcome::Done)
}

/// The lines of a screen, without the spaces at their ends.
pub fn text(buffer: &Buffer) -> Vec<String> {
    let area = buffer.area;
    let line = |y| {
        let mut line = String::new();
        let mut covered = 0;
        for x in area.left()..area.right() {
            let symbol = buffer[(x, y)].symbol();
            // A wide character covers the cell after its own.
            if covered == 0 {
                line += symbol;
                covered = ratatui::text::Span::raw(symbol).width();
            }
            covered = covered.saturating_sub(1);
        }
        line.truncate(line.trim_end().len());
        line
    };
    (area.top()..area.bottom()).map(line).collect()
}
