//! The rows: names on the left, figures on the right.

use super::columns::Column;
use super::lines::Line;
use super::model::{Model, Sort};
use super::theme::{Meaning, Theme};
use crate::commands::by::By;
use memledger_export::text::{count, counted, escape, fit, fit_ends};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

/// Columns that names have at least, if there is room for one figure.
const MIN_NAME: usize = 22;
/// ... and the part of the width that they have on a wide terminal.
const NAME_PART: usize = 3;
/// Columns between two figures.
const GAP: usize = 2;

/// Draws the header and as many rows as there is room for.
pub fn draw(model: &mut Model, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let Some(header) = area.rows().next() else { return };
    let columns = fitting(model, area.width.into());
    let figures: usize = columns.iter().map(|(_, width)| width + GAP).sum();
    let names = usize::from(area.width).saturating_sub(figures);
    heading(model, &columns, theme, header, names, buffer);
    if model.list.lines.is_empty() {
        let text = nothing(model);
        let y = area.y + 1;
        if area.height > 1 {
            buffer.set_stringn(
                area.x,
                y,
                format!("  {text}"),
                area.width.into(),
                theme.style(Meaning::Faint),
            );
        }
        return;
    }
    let page = usize::from(area.height - 1);
    let first = model.list.scroll(page);
    let cursor = model.list.cursor();
    for (at, y) in (first..first + page).zip(area.y + 1..) {
        let Some(line) = model.list.lines.get(at) else { break };
        let row = Rect { y, height: 1, ..area };
        write(line, &columns, theme, row, names, buffer);
        if at == cursor {
            // Reversed, each colour would be a background of its own, and what is faint could not be read.
            let selected = Style::new().fg(Color::Reset).add_modifier(Modifier::REVERSED);
            buffer.set_style(row, selected.remove_modifier(Modifier::DIM));
        }
    }
}

/// Why there are no rows.
fn nothing(model: &Model) -> &'static str {
    let Some(now) = model.now() else { return "" };
    match model.by {
        _ if !now.sample.rows(model.by).is_empty() => "no row has this text in its name",
        By::Function if !now.sample.has_functions => "the functions are being found",
        By::Function => {
            "no call stacks are recorded; MEMLEDGER_STACKS=on in the program's environment records them"
        }
        _ => "no rows",
    }
}

/// The columns that leave room for names, and their widths. The one that rows are sorted by is there.
///
/// PERF: no count of a row has more digits than that of all rows.
fn fitting(model: &Model, width: usize) -> Vec<(Column, usize)> {
    let total = model.now().map_or(0, |now| now.sample.total.count.max(now.sample.total.blocks));
    let digits = count(total).len() + 1;
    let widest = |column: Column| match column {
        Column::Count | Column::CountSince | Column::Blocks => column.width().max(digits),
        _ => column.width(),
    };
    let mut columns: Vec<_> =
        Column::all(model).into_iter().map(|column| (column, widest(column))).collect();
    let is_key = |column: &Column| column.sort() == Some(model.sort);
    while columns.len() > 1
        && columns.iter().map(|(_, width)| width + GAP).sum::<usize>()
            + MIN_NAME.max(width / NAME_PART)
            > width
    {
        let last = columns.iter().rposition(|(column, _)| !is_key(column));
        columns.remove(last.unwrap_or(columns.len() - 1));
    }
    columns
}

fn heading(
    model: &Model,
    columns: &[(Column, usize)],
    theme: Theme,
    area: Rect,
    names: usize,
    buffer: &mut Buffer,
) {
    let style = theme.bold(Meaning::Plain).add_modifier(Modifier::UNDERLINED);
    buffer.set_style(area, style);
    let rows = match model.list.lines.len() {
        0 => String::new(),
        rows => format!(", {}", counted(rows as u64, "row", "rows")),
    };
    let estimates =
        model.by == By::Function && model.now().is_some_and(|now| now.sample.is_sampled);
    let estimates = if estimates { ", estimates" } else { "" };
    let name = fit(&format!("{}{rows}{estimates}", model.by.name()), names.saturating_sub(1));
    buffer.set_string(area.x, area.y, name, style);
    let mut x = area.x + names as u16;
    for (column, width) in columns {
        let arrow = if model.reverse { "▲" } else { "▼" };
        let is_key = column.sort() == Some(model.sort)
            && (model.sort != Sort::Change || model.mark().is_some());
        let text = format!("{}{}", column.header(), if is_key { arrow } else { "" });
        buffer.set_string(x, area.y, format!("{text:>width$}", width = width + GAP), style);
        x += (width + GAP) as u16;
    }
}

fn write(
    line: &Line,
    columns: &[(Column, usize)],
    theme: Theme,
    area: Rect,
    names: usize,
    buffer: &mut Buffer,
) {
    let sign = match line.is_expanded {
        Some(true) => "▾ ",
        Some(false) => "▸ ",
        None => "  ",
    };
    // A deep row keeps room for its name.
    let indent = (2 * line.level).min(names / 2);
    let room = names.saturating_sub(indent + 2);
    let meaning = if line.is_around { Meaning::Faint } else { Meaning::Plain };
    let style = theme.style(meaning);
    let x = area.x + indent as u16;
    buffer.set_string(x, area.y, sign, theme.style(Meaning::Faint));
    buffer.set_string(x + 2, area.y, fit_ends(&escape(&line.name), room), style);
    let mut x = area.x + names as u16;
    for &(column, width) in columns {
        let (text, meaning) = column.cell(line);
        let is_nothing = text == "-" || line.is_around;
        let span =
            Span::styled(text, theme.style(if is_nothing { Meaning::Faint } else { meaning }));
        let at = x + (width + GAP).saturating_sub(span.width()) as u16;
        buffer.set_span(at, area.y, &span, span.width() as u16);
        x += (width + GAP) as u16;
    }
}
