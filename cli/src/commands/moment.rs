//! The value of `--at`: a moment of the trace.

use super::quantity::{NS_UNITS, scaled};
use std::str::FromStr;

/// A moment of the trace.
#[derive(Clone, Debug, PartialEq)]
pub enum Moment {
    Nanoseconds(u64),
    /// A fraction of the duration, in billionths.
    Share(u64),
    /// Where the program set the bookmark of this name.
    Bookmark(String),
    Peak,
    End,
}

impl FromStr for Moment {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let cases = [
            ("1.5s", Moment::Nanoseconds(1_500_000_000)),
            ("200ms", Moment::Nanoseconds(200_000_000)),
            ("42", Moment::Nanoseconds(42)),
            ("0.000000001s", Moment::Nanoseconds(1)),
            ("2 min", Moment::Nanoseconds(120_000_000_000)),
            ("50%", Moment::Share(500_000_000)),
            ("12.5%", Moment::Share(125_000_000)),
            ("start", Moment::Nanoseconds(0)),
            ("peak", Moment::Peak),
            ("end", Moment::End),
        ];
        for (text, at) in cases {
            assert_eq!(text.parse(), Ok(at), "{text}");
        }
        for text in ["", "s", "1.5.2s", "-1s", "101%", "5 parsecs", "99999999999999999999", "1.s"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }
}
