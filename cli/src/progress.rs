//! The progress of reading and of other long work, shown on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::convert::Infallible;
use std::io::{self, IsTerminal, Read};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Work that takes less time than this shows no progress.
const SHOW_AFTER: Duration = Duration::from_secs(1);
/// How often the line is drawn while nothing happens.
const INTERVAL: Duration = Duration::from_millis(200);

const BAR: &str = "{bytes} of {total_bytes} {bar:30} {bytes_per_sec}, {eta} left";
const SPINNER: &str = "{spinner} {bytes} read, {bytes_per_sec}";
const STEPS_BAR: &str = "{pos} of {len} {prefix} {bar:30} {eta} left {wide_msg}";
const STEPS_SPINNER: &str = "{spinner} {pos} {prefix} {wide_msg}";

/// Returns `source` unchanged, and shows the progress of reading it on stderr if that is a
/// terminal: a bar if the length is known, otherwise a spinner. Dropping the source removes the bar
/// or the spinner.
pub fn watch(source: Box<dyn Read>, length: Option<u64>) -> Box<dyn Read> {
    if !io::stderr().is_terminal() {
        return source;
    }
    let line = Line::new(bar(length, if length.is_some() { BAR } else { SPINNER }));
    Box::new(ProgressReader { source, line })
}

/// Counts the steps of long work, and shows them on stderr if that is a terminal. Dropping it
/// removes it from the terminal.
pub struct Steps {
    unit: &'static str,
    expected: Option<u64>,
    /// From the first step on.
    line: Option<Line>,
    is_terminal: bool,
}

impl Steps {
    /// Steps that are counted in `unit`, the plural of a noun.
    pub fn new(unit: &'static str) -> Self {
        Self { unit, expected: None, line: None, is_terminal: io::stderr().is_terminal() }
    }

    /// Sets the number of steps, so that there is a bar instead of a spinner.
    pub fn expect(&mut self, steps: u64) {
        self.expected = Some(steps);
    }

    /// A step begins, of a part of the work.
    pub fn step(&mut self, part: &str) {
        if !self.is_terminal {
            return;
        }
        let line = self.line.get_or_insert_with(|| {
            let template = if self.expected.is_some() { STEPS_BAR } else { STEPS_SPINNER };
            Line::new(bar(self.expected, template).with_prefix(self.unit))
        });
        if line.bar.message() != part {
            line.bar.set_message(part.to_owned());
        }
        line.bar.inc(1);
    }

    /// Calls `print` while the display is removed.
    pub fn hidden<T>(&self, print: impl FnOnce() -> T) -> T {
        match &self.line {
            Some(line) => line.bar.suspend(print),
            None => print(),
        }
    }
}

/// A line on the terminal, from [`SHOW_AFTER`] on until it is dropped.
struct Line {
    bar: ProgressBar,
    /// Draws the line, also while the work makes no step; ends when the sender is dropped.
    drawing: Option<(Sender<Infallible>, JoinHandle<()>)>,
}

impl Line {
    fn new(bar: ProgressBar) -> Self {
        let (sender, end) = mpsc::channel();
        let own = bar.clone();
        let draw = move || {
            let mut pause = SHOW_AFTER;
            while end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = INTERVAL;
                if is_over(own.position(), own.length()) {
                    continue;
                }
                if own.is_hidden() {
                    own.set_draw_target(ProgressDrawTarget::stderr());
                }
                own.tick();
            }
        };
        // Without the thread, there is no line.
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(draw);
        Self { bar, drawing: thread.ok().map(|thread| (sender, thread)) }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.drawing.take() {
            drop(sender);
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

/// Whether all was done: there is nothing to wait for.
fn is_over(position: u64, length: Option<u64>) -> bool {
    length.is_some_and(|length| position >= length)
}

/// A bar or a spinner, hidden at first.
fn bar(length: Option<u64>, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::hidden());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

struct ProgressReader {
    source: Box<dyn Read>,
    line: Line,
}

impl Read for ProgressReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.line.bar.inc(count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shows_at_the_end() {
        assert!(!is_over(10, Some(100)));
        assert!(is_over(100, Some(100)));
        assert!(!is_over(u64::MAX, None));
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
            let mut watched = ProgressReader { source, line: Line::new(bar(length, BAR)) };
            let mut text = String::new();
            watched.read_to_string(&mut text).expect("it reads");
            assert_eq!((text.as_str(), watched.line.bar.position()), ("all of it", 9));
        }
    }
}
