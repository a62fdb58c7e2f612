//! Text from a trace in a limited number of columns.

use memledger_export::text::escape;

/// Text from the trace, escaped, and cut to `columns` characters.
pub fn shown(text: &str, columns: usize) -> String {
    let text = escape(text);
    match text.char_indices().nth(columns) {
        None => text,
        Some(_) => text.chars().take(columns.saturating_sub(3)).chain("...".chars()).collect(),
    }
}

/// Rows of at most `columns` characters, broken at spaces where there are some.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in text.split(' ') {
        let mut word = word.chars().collect::<Vec<_>>();
        while !word.is_empty() {
            let Some(row) = rows.last_mut() else { break };
            let used = row.chars().count();
            if used > 0 && used + 1 + word.len() > columns {
                rows.push(String::new());
                continue;
            }
            if used > 0 {
                row.push(' ');
            }
            let rest = word.split_off(word.len().min(columns));
            row.extend(word);
            word = rest;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_hostile_text_is_cut_and_escaped() {
        assert_eq!(shown("abcdef\u{1b}", 20), "abcdef\\u{1b}");
        assert_eq!(shown("abcdefgh", 6), "abc...");
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
