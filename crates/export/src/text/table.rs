//! A table: one name on the left, figures on the right.
//!
//! Names are shown whole. If a line has no room for the name and all figures, the last columns are
//! left out first, and named below; a name that is still too long has lines of its own, above its figures.

use super::style::Style;
use crate::column::NONE;
use memledger_format::words::escape;
use std::io::{self, Write};
use unicode_width::UnicodeWidthStr;

/// The least number of columns for names, however wide the figures are.
const NARROWEST_NAME: usize = 12;
/// The least width of a line of words or a name, however narrow the terminal is.
const NARROWEST: usize = 20;

/// Rows of a name and some figures.
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) headers: Vec<&'static str>,
    /// How many columns are never left out.
    pub(crate) kept: usize,
    /// The least number of columns that names take if there is room.
    pub(crate) names: usize,
    pub(crate) rows: Vec<Row>,
    /// A last line, about the rows that are not shown.
    pub(crate) footer: Option<String>,
}

/// One row; the name is indented by two columns per level.
pub(crate) struct Row {
    pub(crate) level: usize,
    pub(crate) name: String,
    pub(crate) cells: Vec<String>,
}

/// How a table fits into its width.
struct Layout {
    /// Columns of a line.
    width: usize,
    /// Columns of the names.
    names: usize,
    /// Columns of each figure that is shown, with the space before it.
    figures: Vec<usize>,
}

impl Table {
    pub(crate) fn write(&self, style: Style, width: usize, out: &mut dyn Write) -> io::Result<()> {
        let width = width.max(NARROWEST);
        let indent = |row: &Row| (2 + 2 * row.level).min(width / 3);
        let names: Vec<_> = self.rows.iter().map(|row| (indent(row), escape(&row.name))).collect();
        let wanted: Vec<_> = names.iter().map(|(indent, name)| indent + name.width()).collect();
        let layout = self.layout(&wanted, width);
        writeln!(out)?;
        let head = layout.line(0, &self.title, &mut self.headers.iter().copied());
        writeln!(out, "{}", style.bold(&head))?;
        for ((indent, name), row) in names.iter().zip(&self.rows) {
            let mut cells = row.cells.iter().map(String::as_str);
            writeln!(out, "{}", layout.line(*indent, name, &mut cells))?;
        }
        let footers = self.footer.iter().cloned().chain(self.left_out(&layout));
        for row in footers.flat_map(|footer| wrapped(&footer, width - 2, width - 2)) {
            writeln!(out, "{}", style.dim(&format!("  {row}")))?;
        }
        Ok(())
    }

    /// A line about the columns that have figures and no room.
    fn left_out(&self, layout: &Layout) -> Option<String> {
        let has_figures = |column: &usize| {
            let mut cells = self.rows.iter().filter_map(|row| row.cells.get(*column));
            cells.any(|cell| !cell.is_empty() && cell != NONE)
        };
        let columns = (layout.figures.len()..self.headers.len()).filter(has_figures);
        let headers: Vec<_> = columns.map(|column| self.headers[column]).collect();
        (!headers.is_empty()).then(|| format!("a wider text also has: {}", headers.join(", ")))
    }

    /// Selects the figures that fit beside names of these widths.
    fn layout(&self, wanted: &[usize], width: usize) -> Layout {
        let figure = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(column));
            let widest = cells.map(|cell| cell.width()).max().unwrap_or(0);
            2 + widest.max(self.headers[column].width())
        };
        let mut figures: Vec<_> = (0..self.headers.len()).map(figure).collect();
        let room = |figures: &[usize]| width.saturating_sub(figures.iter().sum());
        // Keeps as many columns as leave room for at least half of the names.
        let fits = |figures: &[usize]| {
            let room = room(figures);
            let whole = wanted.iter().filter(|wanted| **wanted <= room).count();
            whole * 2 >= wanted.len() && self.title.width() <= room
        };
        while figures.len() > self.kept && !fits(&figures) {
            figures.pop();
        }
        while figures.len() > 1 && room(&figures) < NARROWEST_NAME {
            figures.pop();
        }
        let room = room(&figures).max(NARROWEST_NAME);
        let longest = wanted.iter().copied().filter(|wanted| *wanted <= room).max().unwrap_or(0);
        Layout { width, names: longest.max(self.title.width()).max(self.names).min(room), figures }
    }
}

impl Layout {
    /// A name and its figures, in one line if the name is not too long for that.
    fn line(&self, indent: usize, name: &str, cells: &mut dyn Iterator<Item = &str>) -> String {
        let mut text = " ".repeat(indent);
        if indent + name.width() <= self.names {
            text += name;
            text.extend(std::iter::repeat_n(' ', self.names - indent - name.width()));
        } else {
            let room = self.width - indent;
            text += &wrapped(name, room, room - 2).join(&format!("\n  {}", " ".repeat(indent)));
            text.push('\n');
            text.extend(std::iter::repeat_n(' ', self.names));
        }
        for (cell, width) in cells.zip(&self.figures) {
            text.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width())));
            text.push_str(cell);
        }
        text.truncate(text.trim_end().len());
        text
    }
}

/// Breaks `text` into lines: the first has at most `first` columns, the others have at most `rest`.
/// A line ends at a space, but not one between a figure and its unit, or within a word that is longer than a
/// line.
pub fn wrapped(text: &str, first: usize, rest: usize) -> Vec<String> {
    let (first, rest) = (first.max(NARROWEST_NAME), rest.max(NARROWEST_NAME));
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    let mut end = |line: &mut String| lines.push(std::mem::take(line));
    let mut room = first;
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        if !line.is_empty() {
            let unit = words
                .peek()
                .filter(|next| word.ends_with(|last: char| last.is_ascii_digit()) && is_unit(next));
            let width = word.width() + unit.map_or(0, |unit| 1 + unit.width());
            if line.width() + 1 + width > room {
                end(&mut line);
                room = rest;
            } else {
                line.push(' ');
            }
        }
        for char in word.chars() {
            // NOTE: the width of a character depends on those before it: some emoji join several.
            line.push(char);
            if line.width() > room {
                line.pop();
                end(&mut line);
                room = rest;
                line.push(char);
            }
        }
    }
    lines.push(line);
    lines
}

fn is_unit(word: &str) -> bool {
    let word = word.trim_end_matches([',', '.', ';', ':', ')']);
    matches!(
        word.strip_suffix("/s").unwrap_or(word),
        "%" | "B" | "KiB" | "MiB" | "GiB" | "TiB" | "ns" | "µs" | "ms" | "s" | "min" | "h"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::WIDE;

    #[test]
    fn a_wrapped_text_is_whole_and_never_wider_than_asked() {
        for text in WIDE {
            for width in NARROWEST_NAME..30 {
                let lines = wrapped(text, width + 3, width);
                assert!(lines[0].width() <= width + 3, "{lines:?}");
                assert!(lines[1..].iter().all(|line| line.width() <= width), "{lines:?}");
                let letters = |text: &str| text.replace(' ', "");
                assert_eq!(letters(&lines.concat()), letters(text));
            }
        }
        assert_eq!(wrapped("one two three four", 13, 12), ["one two three", "four"]);
        assert_eq!(wrapped("lived for 42 ms. All", 14, 12), ["lived for", "42 ms. All"]);
        assert_eq!(
            wrapped("peak of 16.9 MiB, 95 %, or", 12, 12),
            ["peak of", "16.9 MiB,", "95 %, or"]
        );
    }
}
