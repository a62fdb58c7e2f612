//! How a command ends: its outcome, or the reason why it could not do its work.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use memledger_export::text::{instead, instead_as};
use std::fmt;
use std::io;
use std::path::Path;

/// The outcome of a command that could do its work.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Done,
    /// The result is printed, but something is missing from it; the sentence says what.
    Incomplete(String),
    /// A `--fail-if` held; the sentence says which.
    Held(String),
    /// Another program's work is done; the exit status is its. On Windows it has 32 bits.
    Status(i32),
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

/// The trace has nothing of this kind with this name; what it has instead.
pub fn none_of(kind: &str, name: &str, all: &[String]) -> String {
    format!("the trace has no {kind} {name:?}; {}", instead_as(name, all, quoted))
}

/// A name of a trace, as sentences have it.
pub fn quoted(name: &str) -> String {
    format!("{name:?}")
}

/// What is wrong with the arguments of `command`, as one sentence.
pub fn usage_sentence(error: &clap::Error, command: &Command) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand => text(ContextKind::InvalidArg)
            .or(text(ContextKind::InvalidSubcommand))
            .and_then(|word| unknown_word(word, command)),
        ErrorKind::InvalidValue => {
            text(ContextKind::InvalidArg).and_then(|of| match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(known)) => {
                    let value = text(ContextKind::InvalidValue).unwrap_or_default();
                    Some(unknown_value(value, of, known))
                }
                _ => None,
            })
        }
        _ => None,
    }
    .unwrap_or_else(|| first_paragraph(error))
}

const NO_ATTACH: &str =
    "no running program can be attached to: memledger run -- PROGRAM starts one";

/// What other tools call it, and how it is had here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("attach", NO_ATTACH),
    ("--pid", NO_ATTACH),
    ("record", "memledger run --trace run.memledger -- PROGRAM records a program"),
    (
        "flamegraph",
        "memledger report TRACE -o run.html has one, and export --to folded the stacks for another",
    ),
    ("tree", "it is memledger report TRACE --by stack"),
    ("stats", "it is memledger report TRACE"),
    ("--live", "memledger run --top -- PROGRAM shows a program while it runs"),
    ("--leaks", "memledger leaks TRACE has what was not freed"),
    ("--json", "-o NAME.json writes JSON"),
];

/// An option or a command that there is not. `None` if `word` is neither.
fn unknown_word(word: &str, command: &Command) -> Option<String> {
    let is_program = word.contains('/') || Path::new(word).is_file();
    let elsewhere = match ELSEWHERE.iter().find(|(known, _)| *known == word) {
        Some((_, here)) => Some((*here).to_owned()),
        None if !word.starts_with('-') && is_program => {
            Some(format!("memledger run -- {word} records a program"))
        }
        None => None,
    };
    if let Some(here) = elsewhere {
        let kind = if word.starts_with('-') { "option" } else { "command" };
        return Some(format!("there is no {kind} {word}; {here}"));
    }
    if word.starts_with('-') {
        let options = command.get_arguments().filter(|option| !option.is_hide_set());
        let options: Vec<_> =
            options.filter_map(|option| Some(format!("--{}", option.get_long()?))).collect();
        let instead = instead(word, &options);
        return (!options.is_empty()).then(|| format!("there is no option {word}; {instead}"));
    }
    let commands = command.get_subcommands().map(Command::get_name);
    command
        .has_subcommands()
        .then(|| format!("'{word}' is not a command; {}", instead(word, commands)))
}

/// A value that an option, written as its usage has it, does not take.
fn unknown_value(value: &str, of: &str, known: &[String]) -> String {
    let option = of.split(' ').next().unwrap_or(of);
    match value {
        "" => format!("{option} needs a value; {}", instead("", known)),
        _ => format!("'{value}' is not a value of {option}; {}", instead(value, known)),
    }
}

/// What Clap says: the first paragraph is the sentence, the others are usage and hints.
fn first_paragraph(error: &clap::Error) -> String {
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
