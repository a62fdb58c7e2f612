//! The names of channels, and their ids in a stream.

/// Whether a channel can have this name, so that settings can name it.
pub const fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let mut index = 0;
    // NOTE: in a list, a leading - excludes a channel.
    if !bytes.is_empty() && bytes[0] == b'-' {
        return false;
    }
    while index < bytes.len() {
        if !(bytes[index].is_ascii_alphanumeric() || matches!(bytes[index], b'_' | b'.' | b'-')) {
            return false;
        }
        index += 1;
    }
    1 <= index && index < 256
}

/// The sentence for a text that no channel can have as its name.
pub fn no_name(name: &str) -> String {
    format!(
        "no channel can be called {name:?}: a name is 1 to 255 ASCII letters, digits, _ . or -, the last not at its start"
    )
}

/// The id of a channel in Unreal's streams: FNV-1a over the name in lower case, without the suffix
/// `Channel`, which Unreal's sources have, and without an `s` at its end.
pub const fn id(name: &str) -> u32 {
    let bytes = without_suffix(name.as_bytes());
    let plural = matches!(bytes, [.., b's' | b'S']);
    let (mut hash, mut at) = (0x811c_9dc5_u32, 0);
    while at < bytes.len() - plural as usize {
        hash = (hash ^ (bytes[at] | 0x20) as u32).wrapping_mul(0x0100_0193);
        at += 1;
    }
    hash
}

/// `ItvChannel` is `Itv`; the name `Channel` is not changed.
const fn without_suffix(name: &[u8]) -> &[u8] {
    match name.split_last_chunk::<7>() {
        Some((rest, suffix)) if !rest.is_empty() && suffix.eq_ignore_ascii_case(b"channel") => rest,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unreals() {
        // From a trace of Unreal's own runtime (tests/samples).
        assert_eq!(id("MemAlloc"), 1_182_219_647);
        assert_eq!(id("Cpu"), 4_182_440_329);
        assert_eq!(id("Modules"), id("module"));
        for spelling in ["MemAllocChannel", "memallocCHANNEL", "MemAllocsChannel"] {
            assert_eq!(id(spelling), id("MemAlloc"), "{spelling}");
        }
        let others = ["Channel", "MemAllocChanne", "MemAllocChannels", "ChannelMemAlloc"];
        assert!(others.iter().all(|name| id(name) != id("MemAlloc") && id(name) != id("")));
    }
}
