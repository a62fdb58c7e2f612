//! Sentences for the user, on standard error, and what a text looks like on a terminal.

use memledger_export::text;
use std::io::{self, IsTerminal, Write};
#[cfg(unix)]
use std::os::fd::AsFd as Stream;
#[cfg(windows)]
use std::os::windows::io::AsHandle as Stream;

/// Writes a sentence to stderr, with quoted text escaped for the terminal. A failed write is
/// ignored.
pub fn note(sentence: &str) {
    let _ = writeln!(io::stderr(), "memledger: {}", text::escape(sentence));
}

/// Whether a terminal shows the escape codes of colours. A console of Windows has to be asked to.
#[cfg(windows)]
use ratatui::crossterm::ansi_support::supports_ansi as shows_colors;

#[cfg(not(windows))]
fn shows_colors() -> bool {
    true
}

/// What a text to this stream has: colours if that is a terminal and `NO_COLOR` is not set, and `width`
/// columns, or as many as the terminal has, or `otherwise`.
pub fn look(width: Option<usize>, otherwise: usize, to: impl IsTerminal + Stream) -> (bool, usize) {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let has_colors = to.is_terminal() && !no_color && shows_colors();
    let terminal = || terminal_size::terminal_size_of(to).map(|(width, _)| width.0.into());
    (has_colors, width.or_else(terminal).unwrap_or(otherwise))
}
