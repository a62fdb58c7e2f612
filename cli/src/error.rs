//! How a command ends: its outcome, or the reason why it could not do its work.

use std::fmt;
use std::io;

/// The outcome of a command that could do its work.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Done,
    /// The result is printed, but something is missing from it; the sentence says what.
    Incomplete(String),
    /// A `--fail-if` held; the sentence says which.
    Held(String),
    /// Another program's work is done; the exit status is its.
    Status(u8),
}

/// Why a command could not do its work. Each is one sentence.
#[derive(Debug)]
pub enum CliError {
    /// The command line asks for something impossible.
    Usage(String),
    /// The input cannot be used, or something else went wrong.
    Failed(String),
    /// The result could not be written to standard output.
    Output(io::Error),
}

/// What is wrong with a command line, as one sentence.
pub fn usage_sentence(error: &clap::Error) -> String {
    // The first paragraph is the sentence, the others are usage and hints.
    let text = error.to_string();
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    let lines: Vec<_> = paragraph.lines().map(str::trim).collect();
    let sentence = lines.join(" ");
    sentence.strip_prefix("error: ").unwrap_or(&sentence).to_owned()
}

impl CliError {
    /// The result could not be written to standard output.
    pub fn output(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(sentence) | Self::Failed(sentence) => f.write_str(sentence),
            Self::Output(error) => write!(f, "writing to standard output failed: {error}"),
        }
    }
}

impl std::error::Error for CliError {}
