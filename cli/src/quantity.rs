//! Numbers with a unit of time or of bytes, as the command line takes them.

pub const NS_UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("", 1),
];

pub const BYTE_UNITS: &[(&str, u64)] = &[
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

/// A number with a unit, in the smallest of `units`, exactly: `1.5s` is 1 500 000 000 with the
/// units of time. Fractions of the smallest unit are dropped, and are none without a unit.
pub fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (number, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    let number = number.trim_end().replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || number.ends_with('.') {
        return None;
    }
    // A part of one nanosecond, or of one byte, is a unit that was forgotten.
    if !fraction.is_empty() && text.ends_with(|last: char| last.is_ascii_digit()) {
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
