//! How far reading has come, for whoever watches a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Read};
use std::time::{Duration, Instant};

/// What takes no longer shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

const BAR: &str = "{bytes} of {total_bytes} {bar:30} {bytes_per_sec}, {eta} left";
const SPINNER: &str = "{spinner} {bytes} read, {bytes_per_sec}";

/// `source` as it is, with its progress on stderr if that is a terminal: a bar where the length is
/// known, a spinner otherwise. Gone when the source is dropped.
pub fn watch(source: Box<dyn Read>, length: Option<u64>) -> Box<dyn Read> {
    if !io::stderr().is_terminal() {
        return source;
    }
    Box::new(Watched { source, length, bytes: 0, start: Instant::now(), bar: None })
}

struct Watched {
    source: Box<dyn Read>,
    length: Option<u64>,
    bytes: u64,
    start: Instant,
    bar: Option<ProgressBar>,
}

/// Whether there is something to show.
fn is_due(elapsed: Duration, bytes: u64, length: Option<u64>) -> bool {
    elapsed >= PATIENCE && length.is_none_or(|length| bytes < length)
}

/// A bar, or a spinner, that stands at `bytes`.
fn bar(length: Option<u64>, bytes: u64, elapsed: Duration) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    let style = match length {
        Some(_) => ProgressStyle::with_template(BAR),
        None => ProgressStyle::with_template(SPINNER),
    };
    let bar = bar.with_position(bytes).with_elapsed(elapsed);
    if let Ok(style) = style { bar.with_style(style) } else { bar }
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.bytes += count as u64;
        match &self.bar {
            Some(bar) => bar.set_position(self.bytes),
            None if is_due(self.start.elapsed(), self.bytes, self.length) => {
                self.bar = Some(bar(self.length, self.bytes, self.start.elapsed()));
            }
            None => {}
        }
        Ok(count)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
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
    fn both_templates_are_understood_and_stand_where_reading_does() {
        for template in [BAR, SPINNER] {
            ProgressStyle::with_template(template).expect("a template");
        }
        assert_eq!(bar(Some(100), 40, PATIENCE).position(), 40);
        assert_eq!(
            (bar(Some(100), 40, PATIENCE).length(), bar(None, 1, PATIENCE).length()),
            (Some(100), None)
        );
    }

    #[test]
    fn what_is_read_stays_what_it_is() {
        let source = Box::new(&b"all of it"[..]);
        let start = Instant::now() - 2 * PATIENCE;
        let mut watched = Watched { source, length: Some(20), bytes: 0, start, bar: None };
        let mut text = String::new();
        watched.read_to_string(&mut text).expect("it reads");
        assert_eq!((text.as_str(), watched.bytes), ("all of it", 9));
        assert_eq!(watched.bar.as_ref().map(ProgressBar::position), Some(9));
    }
}
