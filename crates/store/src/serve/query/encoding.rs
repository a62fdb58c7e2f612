//! Ids, times, addresses and GUIDs as Unreal's store encodes them.

use crate::{Message, UNIX_EPOCH_TICKS};
use std::net::{IpAddr, Ipv4Addr};
use std::time::SystemTime;

/// The id in `key`. Ids are unsigned 32-bit numbers; Unreal's client sends them signed.
pub fn id(request: &Message, key: &str) -> Option<u32> {
    let id = request.integer(key)?;
    let id = u32::try_from(id).ok().or_else(|| Some(i32::try_from(id).ok()?.cast_unsigned()));
    id.filter(|id| *id != 0)
}

/// A time in units of 100 ns since the start of year 1, as in Unreal.
pub fn ticks(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos() / 100)
        .map_or(i64::MAX, |ticks| ticks.saturating_add(UNIX_EPOCH_TICKS))
}

/// An IPv4 address as a number: 127.0.0.1 is 0x7f000001. 0 for other addresses.
pub fn ipv4(address: IpAddr) -> u32 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) if address.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => 0,
    }
}

/// The bytes of a GUID as a stream has them. Unreal prints its four 32-bit numbers in hexadecimal,
/// and a stream has each of them in little-endian order.
pub fn guid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|c| !matches!(c, '-' | '{' | '}')).collect();
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u128::from_str_radix(&digits, 16).ok().map(|number| {
        let mut bytes = number.to_be_bytes();
        bytes.chunks_exact_mut(4).for_each(<[u8]>::reverse);
        bytes
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ids_come_with_a_sign_and_without() {
        for (sent, expected) in [
            (5, Some(5)),
            (-1, Some(u32::MAX)),
            (i64::from(u32::MAX), Some(u32::MAX)),
            (i64::from(i32::MIN), Some(1 << 31)),
            (0, None),
            (1 << 32, None),
            (i64::MIN, None),
        ] {
            assert_eq!(id(&Message::default().with("id", sent), "id"), expected, "{sent}");
        }
        assert_eq!(id(&Message::default().with("id", "../../etc/passwd"), "id"), None);
    }

    #[test]
    fn guids_are_four_numbers() {
        let bytes = [4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9, 16, 15, 14, 13];
        assert_eq!(guid("0102030405060708090A0B0C0D0E0F10"), Some(bytes));
        assert_eq!(guid("{01020304-0506-0708-090a-0b0c0d0e0f10}"), Some(bytes));
        for text in ["", "0102", "0102030405060708090A0B0C0D0E0F1x", "ä".repeat(16).as_str()] {
            assert_eq!(guid(text), None);
        }
    }

    #[test]
    fn times_and_addresses_are_unreals() {
        assert_eq!(ticks(SystemTime::UNIX_EPOCH), UNIX_EPOCH_TICKS);
        let second = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        assert_eq!(ticks(second) - UNIX_EPOCH_TICKS, 10_000_000);
        assert_eq!(ipv4("127.0.0.1".parse().unwrap()), 0x7f00_0001);
        assert_eq!(ipv4("::ffff:10.1.2.3".parse().unwrap()), 0x0a01_0203);
        assert_eq!(ipv4("::1".parse().unwrap()), 0x7f00_0001);
        assert_eq!(ipv4("2001:db8::1".parse().unwrap()), 0);
    }
}
