//! Sentences for the user, on standard error.

use memledger::dump::text;
use std::io::{self, Write};

/// Writes a sentence to stderr, with quoted text escaped for the terminal. A failed write is
/// ignored.
pub fn note(sentence: &str) {
    let _ = writeln!(io::stderr(), "memledger: {}", text::escape(sentence));
}
