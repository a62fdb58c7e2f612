//! What memledger costs whole programs: real ones, plain and under each mode, as child processes in
//! rotation, so that what disturbs one disturbs all. `benches/overhead.md` is its output.
//!
//! ```text
//! cargo run --release -p memledger-benches --bin overhead -- --help
//! ```

mod input;
mod modes;
mod output;
mod run;
mod summary;

use clap::{Parser, ValueEnum};
use memledger_benches::{analyze, recording};
use programs::Program;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Runs real programs plain and tracked, and prints what tracking costs them
#[derive(Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    /// How often each program is run in each mode
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Only these programs (may be given several times)
    #[arg(long, value_name = "PROGRAM")]
    only: Vec<Program>,

    /// Only these modes, and `plain` (may be given several times)
    #[arg(long, value_name = "MODE")]
    mode: Vec<String>,

    /// Small inputs and one round: does it work?
    #[arg(long)]
    quick: bool,

    /// Other trackers too, dhat and tracking-allocator, and an allocator with idle instructions
    #[arg(long)]
    peers: bool,

    /// Folders with the Rust sources for `syn` and `threads` [default: the packages of Cargo.lock]
    #[arg(long, value_name = "FOLDER")]
    sources: Vec<PathBuf>,

    /// How to print: `markdown` is the whole of benches/overhead.md
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Markdown,
    Json,
}

fn main() -> ExitCode {
    analyze::if_asked();
    match measure(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        // What was refused is said in the output.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("overhead: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether nothing that was measured had to be refused.
fn measure(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let modes = modes::named(&modes::all(arguments.peers), &arguments.mode)?;
    let binaries = build()?;
    let folder = recording::folder().canonicalize()?.join("overhead");
    std::fs::create_dir_all(&folder)?;
    let megabytes = |full: u64| (if arguments.quick { full / 10 } else { full }) * 1_000_000;
    let rounds = if arguments.quick { 1 } else { arguments.rounds };
    let mut summaries = Vec::new();
    for program in Program::ALL {
        if !arguments.only.is_empty() && !arguments.only.contains(&program) {
            continue;
        }
        let input = match program {
            Program::Json => input::json(&folder, megabytes(60))?,
            Program::Syn | Program::Threads => {
                input::sources(&folder, &arguments.sources, megabytes(30))?
            }
        };
        let runner = run::Runner { binaries: &binaries, folder: &folder, program, input: &input };
        let runs = runner.rotate(&modes, rounds)?;
        summaries.push(summary::of(program, &input, &modes, &runs));
    }
    let refused = summaries.iter().flat_map(|program| &program.modes).any(|mode| {
        // A mode that this memledger does not offer is not a mode that failed.
        mode.problem.as_ref().is_some_and(|problem| problem != run::NOT_OFFERED)
    });
    if !arguments.quick {
        summary::note_targets(&summaries);
    }
    match arguments.format {
        Format::Text => output::text(&summaries),
        Format::Markdown => output::markdown(&summaries, &modes, rounds),
        Format::Json => println!("{}", output::json(&summaries)?),
    }
    Ok(!refused)
}

/// The folder of the programs. `cargo run --release` of this one does not build them, so they are built here;
/// in another profile they are beside it already.
fn build() -> Result<PathBuf, Box<dyn Error>> {
    let own = std::env::current_exe()?;
    let folder = own.parent().ok_or("a program is in a folder")?.to_owned();
    if cfg!(debug_assertions) {
        eprintln!("overhead: without --release, the figures mean nothing");
        if !folder.join("program_plain").exists() {
            return Err("the programs are not built; add --release, or: cargo build -p memledger-benches --bins".into());
        }
        return Ok(folder);
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--bins", "--release", "--manifest-path"]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    if !command.status()?.success() {
        return Err("the programs cannot be built".into());
    }
    Ok(folder)
}
