//! What `--at` and `--fail-if` understand: moments, and comparisons with a figure of the report.

use memledger::analysis::Report;
use memledger::dump::{json, text};
use serde_json::Value;
use std::fmt;
use std::str::FromStr;

const NS_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("", 1),
];

const BYTE_UNITS: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
    ("", 1),
];

/// `1.5s` with the units of time is 1 500 000 000, exactly; fractions of one unit are dropped.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let number = number.trim_end().replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || number.ends_with('.') {
        return None;
    }
    let fraction = &fraction[..fraction.len().min(18)];
    let parts = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
    let factor = u128::from(factor);
    let sum = u128::from(whole.parse::<u64>().ok()?) * factor
        + parts * factor / 10_u128.pow(fraction.len() as u32);
    u64::try_from(sum).ok()
}

/// A number of bytes: `64MiB`, `1.5GB`, or without a unit.
pub fn size(text: &str) -> Result<u64, String> {
    let size = scaled(text.trim(), BYTE_UNITS);
    size.ok_or_else(|| "a size is a number with KiB, MiB, GiB, TiB, KB, MB, GB, TB or B".to_owned())
}

/// A moment of the trace.
#[derive(Clone, Debug, PartialEq)]
pub enum At {
    Nanoseconds(u64),
    /// A fraction of the duration, in billionths.
    Share(u64),
    /// Where the program set the bookmark of this name.
    Bookmark(String),
    Peak,
    End,
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let at = match text {
            "start" => Some(Self::Nanoseconds(0)),
            "peak" => Some(Self::Peak),
            "end" => Some(Self::End),
            _ if text.starts_with("bookmark:") => {
                text.strip_prefix("bookmark:").map(|name| Self::Bookmark(name.to_owned()))
            }
            _ if text.ends_with('%') => scaled(text, &[("%", 10_000_000)])
                .filter(|share| *share <= 1_000_000_000)
                .map(Self::Share),
            _ => scaled(text, NS_UNITS).map(Self::Nanoseconds),
        };
        at.ok_or_else(|| {
            "a time is 1.5s, 200ms, nanoseconds without a unit, a share such as 50%, start, peak, \
             end or bookmark:NAME"
                .to_owned()
        })
    }
}

/// A condition on one figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expr {
    key: String,
    comparison: Comparison,
    value: u64,
    source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
}

const COMPARISONS: &[(&str, Comparison)] = &[
    (">=", Comparison::GreaterOrEqual),
    ("<=", Comparison::LessOrEqual),
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    (">", Comparison::Greater),
    ("<", Comparison::Less),
    ("=", Comparison::Equal),
];

impl FromStr for Expr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let example = "write it like 'peak_bytes > 64MiB'";
        let at =
            text.find(['<', '>', '=', '!']).ok_or(format!("there is no comparison; {example}"))?;
        let (key, rest) = text.split_at(at);
        let key = key.trim();
        let (sign, comparison) = COMPARISONS
            .iter()
            .find(|(sign, _)| rest.starts_with(sign))
            .ok_or(format!("there is no comparison; {example}"))?;
        let keys = figures(&Report::default());
        if !keys.iter().any(|(known, _)| known == key) {
            let keys: Vec<_> = keys.into_iter().map(|(key, _)| key).collect();
            return Err(format!("there is no figure '{key}'; there are {}", keys.join(", ")));
        }
        let value = rest[sign.len()..].trim();
        let units = if key.ends_with("_ns") {
            NS_UNITS
        } else if key.ends_with("_bytes") {
            BYTE_UNITS
        } else {
            &[("", 1)]
        };
        let value = scaled(value, units).ok_or_else(|| {
            let units: Vec<_> = units.iter().map(|u| u.0).filter(|unit| !unit.is_empty()).collect();
            if units.is_empty() {
                format!("'{value}' is no number")
            } else {
                format!("'{value}' is no number, with or without one of {}", units.join(", "))
            }
        })?;
        Ok(Self {
            key: key.to_owned(),
            comparison: *comparison,
            value,
            source: text.trim().to_owned(),
        })
    }
}

impl fmt::Display for Expr {
    /// The same condition in its shortest form, which reads back as it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = COMPARISONS.iter().find(|(_, comparison)| *comparison == self.comparison);
        write!(f, "{} {} {}", self.key, known.map_or("", |(sign, _)| sign), self.value)
    }
}

impl Expr {
    /// Whether it holds, as a sentence that says so. `Err` if the report does not know the figure.
    pub fn check(&self, report: &Report) -> Result<Option<String>, String> {
        let found = figures(report).into_iter().find(|(key, _)| *key == self.key);
        let Some(actual) = found.and_then(|(_, value)| value.as_u64()) else {
            return Err(format!(
                "'{}' cannot be checked: this trace does not tell {}",
                self.source, self.key
            ));
        };
        let holds = match self.comparison {
            Comparison::Greater => actual > self.value,
            Comparison::GreaterOrEqual => actual >= self.value,
            Comparison::Less => actual < self.value,
            Comparison::LessOrEqual => actual <= self.value,
            Comparison::Equal => actual == self.value,
            Comparison::NotEqual => actual != self.value,
        };
        let human = if self.key.ends_with("_bytes") && actual >= 1024 {
            format!(" ({})", text::bytes(actual))
        } else {
            String::new()
        };
        Ok(holds.then(|| format!("'{}' holds: {} is {actual}{human}", self.source, self.key)))
    }
}

/// The totals and losses of a report by their names in JSON.
fn figures(report: &Report) -> Vec<(String, Value)> {
    let mut document = Vec::new();
    // Writing to memory does not fail, and what was written is JSON.
    let _ = json::write(report, &mut document);
    let mut document = serde_json::from_slice::<Value>(&document).unwrap_or_default();
    let parts = ["totals", "losses"].map(|part| document[part].take());
    parts
        .into_iter()
        .filter_map(|part| match part {
            Value::Object(figures) => Some(figures),
            _ => None,
        })
        .flatten()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let cases = [
            ("1.5s", At::Nanoseconds(1_500_000_000)),
            ("200ms", At::Nanoseconds(200_000_000)),
            ("42", At::Nanoseconds(42)),
            ("0.000000001s", At::Nanoseconds(1)),
            ("2 min", At::Nanoseconds(120_000_000_000)),
            ("50%", At::Share(500_000_000)),
            ("12.5%", At::Share(125_000_000)),
            ("start", At::Nanoseconds(0)),
            ("peak", At::Peak),
            ("end", At::End),
        ];
        for (text, at) in cases {
            assert_eq!(text.parse(), Ok(at), "{text}");
        }
        for text in ["", "s", "1.5.2s", "-1s", "101%", "5 parsecs", "99999999999999999999", "1.s"] {
            assert!(text.parse::<At>().is_err(), "{text}");
        }
    }

    #[test]
    fn conditions() {
        let mut report = Report::default();
        report.totals.peak_bytes = 64 << 20;
        report.losses.lost_events = 3;
        let check = |text: &str| text.parse::<Expr>().expect("an expression").check(&report);
        for (text, holds) in [
            ("peak_bytes > 64MiB", false),
            ("peak_bytes >= 64MiB", true),
            ("peak_bytes>67108863", true),
            ("peak_bytes < 0.1GiB", true),
            ("lost_events != 0", true),
            ("lost_events == 3", true),
            ("live_blocks <= 0", true),
            ("peak_bytes_at_ns > 1.5ms", false),
        ] {
            assert_eq!(check(text).map(|held| held.is_some()), Ok(holds), "{text}");
        }
        assert_eq!(
            check("peak_bytes >= 64MiB"),
            Ok(Some("'peak_bytes >= 64MiB' holds: peak_bytes is 67108864 (64.0 MiB)".to_owned()))
        );
        assert!(check("overhead_bytes > 0").is_err(), "a figure that is not known cannot pass");
        for text in ["peak_bytes", "peak_bytes >", "peak > 1", "lost_events > 1KiB", "> 3", "a ! b"]
        {
            assert!(text.parse::<Expr>().is_err(), "{text}");
        }
    }
}
