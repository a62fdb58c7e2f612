//! `memledger top`: a running program, live in a terminal.
//!
//! ```text
//! source.rs     the thread that gets figures: source/control.rs asks a program
//! document.rs   the figures that a program sends, as a report
//! functions.rs  the functions of call stacks, found once each
//! sample.rs     the figures of one moment
//! history.rs    live bytes over time
//! model.rs      what the screen shows: the moments, the mark, the filter, the selected row
//! lines.rs      the rows: sorted, filtered, as a tree, with rates and changes
//! keys.rs       what each key does
//! draw.rs, chart.rs, table.rs, columns.rs, theme.rs    the screen, drawn from the model
//! screen.rs     the terminal, and the loop
//! once.rs       one screen as text
//! ```
//! The model knows neither the terminal nor where figures come from, and drawing changes no figure.

mod chart;
mod columns;
mod document;
mod draw;
mod functions;
mod history;
mod keys;
mod lines;
pub(super) mod model;
mod once;
mod sample;
#[doc(hidden)]
pub mod screen;
pub(super) mod source;
mod table;
mod theme;

use super::address::address_of;
use super::by::By;
use super::choice;
use super::control::control_token;
use crate::cache;
use crate::error::{CliError, Outcome};
use model::{Model, Sort, Status};
use source::control::{Program, State, follow};
use source::{Source, Wishes};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  memledger top 1985               a program started with MEMLEDGER_CONTROL=1985
  memledger top $(pidof server)    the same, by its process id
  memledger top build-server:1985 --token-file token
  memledger top 1985 --by function   needs MEMLEDGER_STACKS=on in the program
  memledger top 1985 --once        print one screen as text, for scripts
  memledger run --top -- ./program   start the program as well

Keys: ? lists them all; m marks this moment and shows changes since then; 1 to 6 choose the \
list; s sorts; / filters; space pauses; q quits. NO_COLOR=1 turns colors off.";

/// The shortest time from one refresh to the next, in seconds.
const SHORTEST: f64 = 0.1;

/// Arguments of `memledger top`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TopArgs {
    /// The program: HOST:PORT, a host, a port on this machine, or a process id
    #[arg(value_name = "ADDR")]
    of: String,
    /// Group rows by [default: function if the program has call stacks but no scopes, else scope]
    #[arg(long, value_parser = choice(&By::ALL, By::name))]
    by: Option<By>,
    /// Sort rows by this column
    #[arg(long, value_enum, default_value = "live")]
    sort: Sort,
    /// Only rows whose name contains this text
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Seconds between refreshes
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// Print one screen as text, with all rows, and exit
    #[arg(long)]
    once: bool,
    /// With --once: line width in columns [default: the terminal's, or 80]
    #[arg(long, value_name = "COLUMNS", requires = "once")]
    width: Option<u16>,
    /// File whose first line is the token that the program requires
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
    /// Search this folder for binaries and debug information; repeatable
    #[arg(long = "symbols", value_name = "DIR")]
    symbols: Vec<PathBuf>,
}

/// Seconds between refreshes.
fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 =
        text.trim_end_matches('s').parse().map_err(|_| "it is not a number of seconds")?;
    if !(SHORTEST..=3600.0).contains(&seconds) {
        return Err(format!("it is not between {SHORTEST} and 3600 seconds"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Shows the program.
pub fn run(args: &TopArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let of = &args.of;
    if is_trace(Path::new(of)) {
        return Err(CliError::Usage(format!(
            "top shows a running program, but {of} is a trace; memledger view {of} shows it, even while it grows"
        )));
    }
    let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    if !args.once && !is_terminal {
        return Err(CliError::Usage(
            "memledger top needs a terminal for its screen and its keys; --once prints one screen as \
             text"
            .to_owned(),
        ));
    }
    let mut model = Model::new(args.of.clone(), args.by, args.sort);
    model.filter = args.filter.clone().unwrap_or_default();
    let wishes = Arc::new(Wishes::new(args.interval));
    wishes.set_functions(model.wants_functions());
    let source = start(args, &mut model, wishes)?;
    if args.once {
        return once::print(args.width, &mut model, &source, out);
    }
    let failed = |error| CliError::Failed(format!("cannot wait for signals: {error}"));
    let ends = screen::ending_signals().map_err(failed)?;
    screen::show(&mut model, &source, &ends)?;
    Ok(Outcome::Done)
}

fn start(args: &TopArgs, model: &mut Model, wishes: Arc<Wishes>) -> Result<Source, CliError> {
    let token = args.token_file.as_deref().map(control_token).transpose()?;
    let address = address_of(&args.of)?;
    let program = Program { address, token };
    // NOTE: before the screen is there, so that what is wrong is said where the user looks afterwards.
    let first = program.first().map_err(CliError::Failed)?;
    model.add(first, None);
    model.status = Status::Live;
    let folders = args.symbols.clone();
    let source = Source::start(wishes, move |wishes, to| {
        wishes.wait(wishes.interval());
        follow(|| State::Listening(program.clone()), &folders, wishes, to);
    });
    source.map_err(|error| CliError::Failed(format!("no thread can be started: {error}")))
}

/// The screen of a program that `memledger run` has started.
pub(super) struct OfProgram {
    pub(super) program: String,
    /// Finds what it does now.
    pub(super) find: Box<dyn Fn() -> State + Send>,
    pub(super) symbols: Vec<PathBuf>,
}

impl OfProgram {
    /// Starts to ask the program. What the result has of [`Wishes`] is for the end of the program.
    pub(super) fn start(self) -> io::Result<(Model, Source)> {
        let model = Model::new(self.program, None, Sort::default());
        let wishes = Arc::new(Wishes::new(Duration::from_secs(1)));
        wishes.set_functions(model.wants_functions());
        let (find, folders) = (self.find, self.symbols);
        let source = Source::start(wishes, move |wishes, to| follow(find, &folders, wishes, to));
        Ok((model, source?))
    }
}

/// Whether this is the name of a trace, and no address.
fn is_trace(path: &Path) -> bool {
    let is_port = path.to_str().is_some_and(|text| text.parse::<u16>().is_ok());
    let has_ending =
        path.extension().is_some_and(|ending| ending == "memledger" || ending == "utrace");
    !is_port
        && (cache::is_kept_run(path)
            || path.is_file()
            || has_ending
            || path.components().count() > 1)
}
