//! Numbers as people read them.

pub use memledger_format::words::count;
use std::fmt::{self, Display, Formatter};

/// `1.5 MiB`; below 1 KiB the exact number of bytes.
pub fn bytes(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// The same, which allocates nothing.
#[derive(Debug)]
pub struct Bytes(pub u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let bytes = self.0;
        if bytes < 1024 {
            return write!(f, "{bytes} B");
        }
        // Tenths of the unit, rounded. `u128`, because ten times `bytes` can exceed 64 bits.
        let mut unit = 0;
        let mut size = 1024_u128;
        let tenths = |size: u128| (u128::from(bytes) * 10 + size / 2) / size;
        while tenths(size) >= 10_240 && unit + 1 < UNITS.len() {
            unit += 1;
            size *= 1024;
        }
        let tenths = tenths(size);
        write!(f, "{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
    }
}

/// Three digits where that is enough: `1.5 MiB`, `102 KiB`.
pub fn bytes_briefly(size: u64) -> String {
    let text = bytes(size);
    match text.split_once('.') {
        Some((whole, tenths)) if whole.len() >= 3 => {
            let (tenth, unit) = tenths.split_once(' ').unwrap_or((tenths, ""));
            let whole = whole.parse::<u64>().unwrap_or(0) + u64::from(tenth >= "5");
            format!("{whole} {unit}")
        }
        _ => text,
    }
}

/// `12 %` of `whole`, without decimals; `<1 %` for less than half of one.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let whole = u128::from(whole.max(1));
    match (u128::from(part) * 100 + whole / 2) / whole {
        0 if part > 0 => "<1 %".to_owned(),
        percent => format!("{percent} %"),
    }
}

/// `1 block`, `2,000 blocks`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// `12.3 ms`, `4.56 s`, `1 h 02 min`.
pub fn duration(nanoseconds: u64) -> String {
    let scaled =
        |unit: u64, digits: usize| format!("{:.digits$}", nanoseconds as f64 / unit as f64);
    let seconds = nanoseconds / 1_000_000_000;
    match nanoseconds {
        0 => "0 s".to_owned(),
        1..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{} µs", scaled(1_000, 1)),
        1_000_000..1_000_000_000 => format!("{} ms", scaled(1_000_000, 1)),
        1_000_000_000..60_000_000_000 => format!("{} s", scaled(1_000_000_000, 2)),
        _ if seconds < 3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// A quantile of ages, which is known to an eighth, in nanoseconds: rounded up to two digits.
pub(crate) fn age(nanoseconds: u64) -> String {
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")];
    let Some((unit, name)) = units.into_iter().find(|(unit, _)| nanoseconds >= *unit) else {
        let is_zero = nanoseconds == 0;
        return if is_zero { "no measurable time".to_owned() } else { format!("{nanoseconds} ns") };
    };
    let tenths = nanoseconds.div_ceil(unit / 10);
    match tenths {
        0..100 => format!("{}.{} {name}", tenths / 10, tenths % 10),
        100..1_000 => format!("{} {name}", tenths.div_ceil(10)),
        _ if name == "s" => duration(nanoseconds),
        _ => format!("{} {name}", tenths.div_ceil(100) * 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_digits() {
        let cases = [
            (0, "no measurable time"),
            (999, "999 ns"),
            (1_001, "1.1 µs"),
            (9_999, "10 µs"),
            (201_000_000, "210 ms"),
            (15_000_000, "15 ms"),
            (2_000_000_000, "2.0 s"),
            (3_720_000_000_000, "1 h 02 min"),
        ];
        for (number, text) in cases {
            assert_eq!(age(number), text);
        }
    }

    #[test]
    fn bytes_have_one_decimal_from_a_kibibyte_on() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1_048_524, "1023.9 KiB"),
            (1_048_575, "1.0 MiB"),
            (1 << 30, "1.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (number, text) in cases {
            assert_eq!(bytes(number), text, "{number}");
        }
    }

    #[test]
    fn in_tables_three_digits_are_enough() {
        let cases = [
            (1023, "1023 B"),
            (10_240, "10.0 KiB"),
            (102_348, "99.9 KiB"),
            (104_755, "102 KiB"),
            (104_960, "103 KiB"),
            (1_048_524, "1024 KiB"),
            (24 << 30, "24.0 GiB"),
        ];
        for (number, text) in cases {
            assert_eq!(bytes_briefly(number), text, "{number}");
        }
        assert_eq!([percent(0, 0), percent(1, 201), percent(1, 200)], ["0 %", "<1 %", "1 %"]);
        assert_eq!([percent(199, 200), percent(u64::MAX, u64::MAX)], ["100 %", "100 %"]);
    }

    #[test]
    fn counts_have_commas() {
        assert_eq!(
            [count(0), count(999), count(1000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
    }

    #[test]
    fn durations_fit_their_size() {
        let cases = [
            (0, "0 s"),
            (999, "999 ns"),
            (1_500, "1.5 µs"),
            (12_340_000, "12.3 ms"),
            (4_560_000_000, "4.56 s"),
            (62_000_000_000, "1 min 02 s"),
            (3_720_000_000_000, "1 h 02 min"),
        ];
        for (number, text) in cases {
            assert_eq!(duration(number), text);
        }
    }
}
