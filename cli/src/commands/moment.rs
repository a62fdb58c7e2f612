//! The value of `--at`: a moment of the trace.

use super::input::{is_stdin, open_watched, unreadable};
use crate::error::{CliError, none_of};
use crate::quantity::{NS_UNITS, scaled};
use memledger_analysis::read::read;
use memledger_analysis::{Analyzer, Position, Unanswered};
use std::path::Path;
use std::str::FromStr;

/// A moment of the trace.
#[derive(Clone, Debug, PartialEq)]
pub enum TimeSpec {
    Nanoseconds(u64),
    /// A fraction of the duration, in billionths.
    Share(u64),
    /// Where the program set the bookmark of this name.
    Bookmark(String),
    Peak,
    End,
}

/// A moment, together with how it was written.
pub type TimeArg = (String, TimeSpec);

/// Reads a moment of the command line.
pub fn time_arg(text: &str) -> Result<TimeArg, String> {
    Ok((text.to_owned(), text.parse()?))
}

/// Where the moments are in a trace. The peak and a share of the duration are known at its end only: they
/// need a first pass.
pub fn positions(trace: &Path, moments: &[TimeArg]) -> Result<Vec<Position>, CliError> {
    let needs_pass = |moment: &TimeSpec| matches!(moment, TimeSpec::Peak | TimeSpec::Share(_));
    let (peak, duration) = match moments.iter().find(|(_, moment)| needs_pass(moment)) {
        None => (0, 0),
        Some((text, _)) if is_stdin(trace) => {
            return Err(CliError::Usage(format!(
                "{text} needs to read the trace twice, which standard input does not allow; give a \
                 file, a bookmark, or a time such as 1.5s"
            )));
        }
        Some(_) => {
            let mut analyzer = Analyzer::new().largest_live(0);
            read(open_watched(trace)?, &mut analyzer).map_err(|error| unreadable(trace, error))?;
            (analyzer.peak_event(), analyzer.duration_ns())
        }
    };
    Ok(moments.iter().map(|(_, moment)| moment.position(peak, duration)).collect())
}

/// Why there is no answer.
pub fn unanswered(why: Unanswered, asked: &[String]) -> CliError {
    CliError::Failed(match why {
        Unanswered::NoBookmark { name, set } => none_of("bookmark", &name, &set),
        Unanswered::NoScope { name, scopes } => {
            none_of("scope in which something was allocated", &name, &scopes)
        }
        Unanswered::Disordered { position } => {
            let flag =
                |number: usize| ["--a", "--b", "--c", "--d"].get(number).copied().unwrap_or("?");
            let text = |number: usize| asked.get(number).map_or("end", String::as_str);
            let before = position.saturating_sub(1);
            format!(
                "{} {} is before {} {} in this trace; times must be in order",
                flag(position),
                text(position),
                flag(before),
                text(before)
            )
        }
        why => why.to_string(),
    })
}

impl TimeSpec {
    /// Where this is, in a trace of this duration whose event `peak` reached the peak.
    pub fn position(&self, peak: u64, duration: u64) -> Position {
        match self {
            Self::Nanoseconds(time) => Position::Time(*time),
            Self::Share(billionths) => {
                let time = u128::from(duration) * u128::from(*billionths) / 1_000_000_000;
                Position::Time(u64::try_from(time).unwrap_or(u64::MAX))
            }
            Self::Bookmark(name) => Position::Bookmark(name.clone()),
            Self::Peak => Position::Event(peak),
            Self::End => Position::End,
        }
    }
}

impl FromStr for TimeSpec {
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
            ("1.5s", TimeSpec::Nanoseconds(1_500_000_000)),
            ("200ms", TimeSpec::Nanoseconds(200_000_000)),
            ("42", TimeSpec::Nanoseconds(42)),
            ("0.000000001s", TimeSpec::Nanoseconds(1)),
            ("2 min", TimeSpec::Nanoseconds(120_000_000_000)),
            ("50%", TimeSpec::Share(500_000_000)),
            ("12.5%", TimeSpec::Share(125_000_000)),
            ("start", TimeSpec::Nanoseconds(0)),
            ("peak", TimeSpec::Peak),
            ("end", TimeSpec::End),
        ];
        for (text, at) in cases {
            assert_eq!(text.parse(), Ok(at), "{text}");
        }
        for text in ["", "s", "1.5.2s", "-1s", "101%", "5 parsecs", "99999999999999999999", "1.s"] {
            assert!(text.parse::<TimeSpec>().is_err(), "{text}");
        }
    }
}
