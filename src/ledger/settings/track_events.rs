//! What a session has, in a line, as a setting and a command say it.
//!
//! ```text
//! categories=game*,-net ring=4MiB duration=10s memory=1s
//! ```
//! The categories are names and patterns, a disabled one with `-` before it; all are enabled if none is
//! named, or disabled ones only.

use super::{bytes, duration};
use crate::error::{Error, ErrorKind};
use crate::ledger::config::Config;
use crate::perfetto::{TrackEventConfig, TrackEvents};
use std::ffi::OsStr;
use std::ops::RangeInclusive;

const RING_BYTES: RangeInclusive<u64> = 64 << 10..=1 << 30;

/// The setting of a file of track events, of all categories.
pub(super) fn file(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let file = Some(value.into());
    let all = TrackEventConfig::all();
    config.track_events = Some(TrackEvents { config: all, file, ..TrackEvents::default() });
    Ok(())
}

/// The setting of their configuration.
pub(super) fn config(value: &OsStr, config: &mut Config) -> Result<(), String> {
    let Some(set) = &mut config.track_events else { return Ok(()) };
    let configured = parse(&value.to_string_lossy())
        .map_err(|error| format!("{error:#}; all categories of track events are enabled"))?;
    *set = TrackEvents { file: set.file.take(), ..configured };
    Ok(())
}

/// Reads such a line.
///
/// # Errors
/// [`ErrorKind::InvalidSession`], with the word that is wrong, and what is allowed.
pub(crate) fn parse(line: &str) -> Result<TrackEvents, Error> {
    let mut events = TrackEvents::default();
    for word in line.split_ascii_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let allowed = match key {
            "categories" => {
                events.config = value.split(',').fold(events.config, enable);
                continue;
            }
            "ring" => {
                let ring = bytes(value).filter(|bytes| RING_BYTES.contains(bytes));
                events.ring = ring.map(|bytes| bytes as usize);
                (ring.is_none()).then_some("only 64KiB to 1GiB are allowed")
            }
            "duration" | "memory" => {
                let time = duration(value);
                *(if key == "memory" { &mut events.memory } else { &mut events.duration }) = time;
                (time.is_none()).then_some("only times are allowed, such as 100ms or 2s")
            }
            _ => Some("only categories=, ring=, duration= and memory= are allowed"),
        };
        if let Some(allowed) = allowed {
            let sentence = format!("the configuration has {word:?}, but {allowed}");
            return Err(Error::new(ErrorKind::InvalidSession, sentence));
        }
    }
    if events.config.enabled_categories.is_empty() {
        events.config = events.config.enable("*");
    }
    events.config.check()?;
    Ok(events)
}

fn enable(config: TrackEventConfig, pattern: &str) -> TrackEventConfig {
    match pattern.strip_prefix('-') {
        Some(pattern) => config.disable(pattern),
        None if pattern.is_empty() => config,
        None => config.enable(pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_line_says_what_a_session_has() {
        let events = parse(" categories=game*,network,-*  ring=4MiB duration=10s memory=250ms ");
        let config = TrackEventConfig::default().enable("game*").enable("network").disable("*");
        let expected = TrackEvents { config, ..TrackEvents::default() }
            .ring(4 << 20)
            .duration(Duration::from_secs(10))
            .memory(Duration::from_millis(250));
        assert_eq!(events.unwrap(), expected);
        let all = TrackEvents { config: TrackEventConfig::all(), ..TrackEvents::default() };
        assert_eq!(parse("").unwrap(), all);
        assert_eq!(parse("categories=,").unwrap(), all);
        let without = parse("categories=-net").unwrap().config;
        assert!(without.enables_name("game", &[]) && !without.enables_name("net", &[]));
    }

    #[test]
    fn what_is_wrong_gets_a_sentence_with_the_word() {
        const ALLOWED: [(&str, &str); 8] = [
            ("ring=many", "only 64KiB to 1GiB are allowed"),
            ("ring=2GiB", "only 64KiB to 1GiB are allowed"),
            ("ring", "only 64KiB to 1GiB are allowed"),
            ("duration=0s", "only times are allowed, such as 100ms or 2s"),
            ("memory=5", "only times are allowed, such as 100ms or 2s"),
            ("config.txt", "only categories=, ring=, duration= and memory= are allowed"),
            ("buffers", "only categories=, ring=, duration= and memory= are allowed"),
            ("size=1", "only categories=, ring=, duration= and memory= are allowed"),
        ];
        for (word, allowed) in ALLOWED {
            let sentence = parse(&format!("categories=a {word}")).unwrap_err().to_string();
            assert_eq!(sentence, format!("the configuration has {word:?}, but {allowed}"));
        }
        let many = format!("categories={}", "x,".repeat(8000));
        assert!(parse(&many).unwrap_err().to_string().contains("it has 8000 patterns"));
    }
}
