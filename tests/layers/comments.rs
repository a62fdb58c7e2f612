//! Comments are at most 110 columns wide, so that they can be read beside each other; rustfmt does not wrap
//! them.

use super::sources::every;

const MAX_COLUMNS: usize = 110;

/// The folders with Rust files, and the files beside them.
const FOLDERS: [&str; 10] = [
    "benches", "cli", "crates", "examples", "fuzz", "models", "preload", "redirect", "src", "tests",
];

/// Whether a line is a comment that can be wrapped: rows of tables cannot.
fn can_be_wrapped(line: &str) -> bool {
    let text = line.trim_start();
    let comment = text.trim_start_matches(['/', '!']).trim_start();
    text.starts_with("//") && !comment.starts_with('|')
}

#[test]
fn comments_are_at_most_110_columns_wide() {
    let files = FOLDERS.into_iter().flat_map(every).filter(|(file, _)| !file.contains("/target/"));
    let mut wide = Vec::new();
    for (file, text) in
        files.chain([("build.rs".to_owned(), include_str!("../../build.rs").to_owned())])
    {
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > MAX_COLUMNS && can_be_wrapped(line) {
                wide.push(format!("{file}:{}: {columns} columns", number + 1));
            }
        }
    }
    assert!(wide.is_empty(), "\n{}", wide.join("\n"));
}
