//! The progress of reading and of other long work, shown on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Read};
use std::time::{Duration, Instant};

/// A read that takes less time than this shows no progress.
const SHOW_AFTER: Duration = Duration::from_secs(1);

const BAR: &str = "{bytes} of {total_bytes} {bar:30} {bytes_per_sec}, {eta} left";
const SPINNER: &str = "{spinner} {bytes} read, {bytes_per_sec}";

/// Returns `source` unchanged, and shows the progress of reading it on stderr if that is a
/// terminal: a bar if the length is known, otherwise a spinner. Dropping the source removes the bar
/// or the spinner.
pub fn watch(source: Box<dyn Read>, length: Option<u64>) -> Box<dyn Read> {
    if !io::stderr().is_terminal() {
        return source;
    }
    Box::new(ProgressReader { source, bar: bar(length), start: Instant::now() })
}

const STEPS_BAR: &str = "{pos} of {len} {msg} {bar:30} {per_sec}, {eta} left";
const STEPS_SPINNER: &str = "{spinner} {pos} {msg}, {per_sec}";

/// Counts the steps of long work, and shows them on stderr if that is a terminal. Dropping it
/// removes it from the terminal.
pub struct Steps {
    bar: ProgressBar,
    start: Option<Instant>,
    is_terminal: bool,
}

impl Steps {
    /// Steps that are counted in `unit`, the plural of a noun.
    pub fn new(unit: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let bar = match ProgressStyle::with_template(STEPS_SPINNER) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        bar.set_message(unit);
        Self { bar, start: None, is_terminal: io::stderr().is_terminal() }
    }

    /// Sets the number of steps, so that a bar replaces the spinner.
    pub fn expect(&mut self, steps: u64) {
        self.bar.set_length(steps);
        if let Ok(style) = ProgressStyle::with_template(STEPS_BAR) {
            self.bar.set_style(style);
        }
    }

    /// Counts one step.
    pub fn step(&mut self) {
        if !self.is_terminal {
            return;
        }
        let start = *self.start.get_or_insert_with(Instant::now);
        self.bar.inc(1);
        if self.bar.is_hidden() && is_due(start.elapsed(), self.bar.position(), self.bar.length()) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Calls `print` while the display is removed.
    pub fn hidden<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

struct ProgressReader {
    source: Box<dyn Read>,
    /// Hidden for the first second.
    bar: ProgressBar,
    start: Instant,
}

/// Whether to show progress now.
fn is_due(elapsed: Duration, bytes: u64, length: Option<u64>) -> bool {
    elapsed >= SHOW_AFTER && length.is_none_or(|length| bytes < length)
}

/// A bar or a spinner, hidden at first.
fn bar(length: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden());
    match ProgressStyle::with_template(if length.is_some() { BAR } else { SPINNER }) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

impl Read for ProgressReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        let Self { bar, start, .. } = self;
        bar.inc(count as u64);
        if bar.is_hidden() && is_due(start.elapsed(), bar.position(), bar.length()) {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        Ok(count)
    }
}

impl Drop for ProgressReader {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shows_within_a_second_nor_at_the_end() {
        let second = Duration::from_secs(1);
        assert!(!is_due(second - Duration::from_nanos(1), 10, Some(100)));
        assert!(is_due(second, 10, Some(100)));
        assert!(!is_due(second, 100, Some(100)), "it is over");
        assert!(is_due(second, 0, None));
    }

    #[test]
    fn the_templates_are_understood() {
        for template in [BAR, SPINNER, STEPS_BAR, STEPS_SPINNER] {
            ProgressStyle::with_template(template).expect("a template");
        }
    }

    #[test]
    fn what_is_read_is_counted_and_stays_what_it_is() {
        for length in [Some(20), None] {
            let source = Box::new(&b"all of it"[..]);
            let mut watched = ProgressReader { source, bar: bar(length), start: Instant::now() };
            let mut text = String::new();
            watched.read_to_string(&mut text).expect("it reads");
            assert_eq!((text.as_str(), watched.bar.position()), ("all of it", 9));
            assert!(watched.bar.is_hidden(), "it took no second");
        }
    }
}
