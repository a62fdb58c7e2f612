//! Real programs, each the same whatever the allocator: what differs is the binary they are in.
//! `program_plain` has none of its own; the others declare one, and print its figures.
//!
//! They are compiled here, once, so that all binaries run the same instructions beside the
//! allocator's: nothing that a binary calls is generic.

mod json;
mod syn;
mod threads;

use serde::{Deserialize, Serialize};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A program, and its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Program {
    /// Parses 60 MB of JSON into a `serde_json::Value`, looks at it, drops it
    Json,
    /// Parses Rust sources with `syn`, one after the other
    Syn,
    /// Indexes the words of the same sources: threads allocate, another one frees
    Threads,
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Json, Self::Syn, Self::Threads];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Syn => "syn",
            Self::Threads => "threads",
        }
    }
}

/// What a program prints as its last line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Something that depends on all of its work: the same in every run.
    pub result: u64,
    /// What its allocator has to say.
    pub seen: Seen,
}

/// What an allocator saw of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Events recorded.
    pub events: Option<u64>,
    /// Events lost.
    pub lost: Option<u64>,
    /// Allocations, as far as it counts them.
    pub allocations: Option<u64>,
    /// Frees.
    pub frees: Option<u64>,
    /// Reallocations.
    pub reallocations: Option<u64>,
    /// Nanoseconds that a thread of its own has run.
    pub worker_ns: Option<u64>,
}

/// `main` of all of them: `PROGRAM INPUT`. `seen` is asked when the work is done.
pub fn main(seen: fn() -> Seen) -> ExitCode {
    let args = std::env::args_os().skip(1).collect::<Vec<_>>();
    let [program, input] = &args[..] else {
        eprintln!("usage: PROGRAM INPUT, as `overhead` calls it");
        return ExitCode::from(2);
    };
    let program = Program::ALL.into_iter().find(|known| program == known.name());
    let result = match program {
        Some(Program::Json) => json::run(Path::new(input)),
        Some(Program::Syn) => syn::run(Path::new(input)),
        Some(Program::Threads) => threads::run(Path::new(input)),
        None => Err("no such program".into()),
    };
    match result {
        Ok(result) => {
            let outcome = Outcome { result, seen: seen() };
            println!("{}", serde_json::to_string(&outcome).expect("plain data"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The files of a list, one a line.
fn listed(list: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    Ok(std::fs::read_to_string(list)?.lines().map(PathBuf::from).collect())
}
