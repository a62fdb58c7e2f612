//! A table of 80 columns: one name on the left, numbers on the right.

use super::Style;
use std::io::{self, Write};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns of a terminal line.
pub(super) const WIDTH: usize = 80;

/// The least that is left for names, however wide the numbers are.
const NARROWEST_NAME: usize = 12;

/// Rows of a name and some numbers.
pub(super) struct Table {
    pub(super) title: String,
    pub(super) headers: Vec<&'static str>,
    pub(super) rows: Vec<Row>,
    /// A last line, for what is not shown.
    pub(super) footer: Option<String>,
}

/// One row; the name is indented by two columns per level.
pub(super) struct Row {
    pub(super) level: usize,
    pub(super) name: String,
    pub(super) cells: Vec<String>,
}

impl Table {
    pub(super) fn write(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.cells.get(column));
            let widest = cells.map(|cell| cell.width()).max().unwrap_or(0);
            widest.max(self.headers[column].width())
        };
        let widths: Vec<_> = (0..self.headers.len()).map(width).collect();
        let numbers: usize = widths.iter().map(|width| width + 2).sum();
        let names = WIDTH.saturating_sub(numbers).max(NARROWEST_NAME);
        let line = |name: &str, cells: &mut dyn Iterator<Item = &str>| {
            let mut line = fit(name, names);
            line.extend(std::iter::repeat_n(' ', names - line.width()));
            for (cell, width) in cells.zip(&widths) {
                line.extend(std::iter::repeat_n(' ', 2 + width.saturating_sub(cell.width())));
                line.push_str(cell);
            }
            line.truncate(line.trim_end().len());
            line
        };
        writeln!(out)?;
        let head = line(&self.title, &mut self.headers.iter().copied());
        writeln!(out, "{}", style.bold(&head))?;
        for row in &self.rows {
            let indent = " ".repeat((2 + 2 * row.level).min(names / 2));
            let name = format!("{indent}{}", super::escape(&row.name));
            writeln!(out, "{}", line(&name, &mut row.cells.iter().map(String::as_str)))?;
        }
        if let Some(footer) = &self.footer {
            writeln!(out, "{}", style.dim(&format!("  {}", fit(footer, WIDTH - 2))))?;
        }
        Ok(())
    }
}

/// `text` cut to `width` columns, with `…` for what is missing.
pub(super) fn fit(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut cut = String::new();
    let mut used = 1;
    for char in text.chars() {
        used += char.width().unwrap_or(0);
        if used > width {
            break;
        }
        cut.push(char);
    }
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_is_never_wider_than_asked() {
        for text in
            ["short", "exactly ten", "日本語の名前です", "e\u{301}e\u{301}e\u{301}e\u{301}", ""]
        {
            for width in 1..12 {
                let cut = fit(text, width);
                assert!(cut.width() <= width, "{cut:?} in {width}");
                assert!(cut == text || cut.ends_with('…'));
            }
        }
        assert_eq!(fit("exactly ten", 11), "exactly ten");
        assert_eq!(fit("exactly ten", 10), "exactly t…");
    }
}
