//! The patterns of `memledger events --filter`, with `*` and `?`, and lists of channels. A line
//! feed separates the pattern from the name.

use memledger::fuzzing::channels;
use memledger_analysis::convert::ChannelList;
use wildmatch::WildMatch;

/// Whether `name` matches, by a direct implementation of the rule.
fn fits(pattern: &[char], name: &[char]) -> bool {
    // `reached[i]`: the pattern so far matches the first `i` characters of the name.
    let mut reached = vec![false; name.len() + 1];
    reached[0] = true;
    for &wanted in pattern {
        let mut next = vec![false; name.len() + 1];
        for end in 0..=name.len() {
            next[end] = match wanted {
                '*' => reached[end] || end > 0 && next[end - 1],
                _ => end > 0 && reached[end - 1] && (wanted == '?' || wanted == name[end - 1]),
            };
        }
        reached = next;
    }
    reached[name.len()]
}

/// Matches the name in `data` against its pattern, and parses `data` as a list of channels.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (pattern, name) = text.split_once('\n').unwrap_or((text, "Memory.Alloc"));
    let chars = |text: &str| text.chars().collect::<Vec<_>>();
    assert_eq!(
        WildMatch::new(pattern).matches(name),
        fits(&chars(pattern), &chars(name)),
        "{pattern:?} {name:?}"
    );
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let (mut all_named, mut count) = (true, 0);
    for word in words {
        all_named &= channels(word).is_ok();
        count += 1;
    }
    let named = channels(text);
    assert_eq!(named.is_ok(), all_named, "{text:?}");
    let chosen = ChannelList::parse(text).map_err(|error| error.to_string());
    assert!(chosen.is_ok() <= (count > 0) && (named.is_err() || count == 0) >= chosen.is_err());
    for reason in named.err().into_iter().chain(chosen.err()) {
        assert!(!reason.contains(char::is_control), "{reason:?}");
    }
}

/// Patterns and lists.
pub fn seeds() -> Vec<Vec<u8>> {
    ["Memory.*", "*.TagSpe?\nMemory.TagSpec", "*a*b*\naab", "memory,scope,-cpu", "-memory, gpu ", "??"]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
}
