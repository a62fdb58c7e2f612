//! `memledger control`: steers a running program.

use super::Format;
use super::output::{unwritable, write_to};
use crate::error::{CliError, Outcome};
use crate::token::read_token;
use memledger::dump::text::escape;
use memledger::remote::control::{Client, Command};
use std::io::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  memledger control 1985 status
  memledger control 127.0.0.1:1985 send-to 127.0.0.1:1980
  memledger control 1985 write-to late.utrace
  memledger control 1985 write-to game.utrace --channels game
  memledger control 1985 channels game,net on
  memledger control build-server:1985 --token-file token stop
  memledger control 1985 stop --all
  memledger control 1985 start
  memledger control 1985 profile -o heap.pb.gz     for go tool pprof

The program listens where MEMLEDGER_CONTROL=1985 is set, or LedgerBuilder::control called.
A trace that starts late begins with the live blocks. Files go into the folder that the program
has chosen, and traces to this machine of its own or to hosts that it allows.";

/// Arguments of `memledger control`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ControlArgs {
    /// Where the program listens: HOST:PORT, a host, or a port of this machine
    #[arg(value_name = "ADDR")]
    address: String,
    /// The first line of this file is the token that the program wants
    #[arg(long, value_name = "PATH", global = true)]
    token_file: Option<PathBuf>,
    /// How to print the answer
    #[arg(long, value_enum, default_value = "text", global = true)]
    format: Format,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// What is recorded, where it goes, what was lost
    Status,
    /// Turn channels on or off
    Channels {
        /// Names with commas between them
        names: String,
        /// Whether to turn them on or off
        state: State,
    },
    /// Send the trace to a recorder as well
    SendTo {
        /// HOST or HOST:PORT; without a port 1980, and 1981 where that refuses
        host: String,
        /// The channels it gets, with commas between them; -NAME is all but that
        #[arg(long, value_name = "NAMES", allow_hyphen_values = true)]
        channels: Option<String>,
    },
    /// Write the trace to one more file, in the folder that the program has chosen
    WriteTo {
        /// A plain name, such as late.utrace
        name: String,
        /// The channels it gets, with commas between them; -NAME is all but that
        #[arg(long, value_name = "NAMES", allow_hyphen_values = true)]
        channels: Option<String>,
    },
    /// End all destinations but the first file
    Stop {
        /// The first file, too
        #[arg(long)]
        all: bool,
    },
    /// Get a heap profile in pprof's format, as of now
    Profile {
        /// The file to write, such as heap.pb.gz; - for standard output
        #[arg(short, long, value_name = "OUT")]
        output: PathBuf,
    },
    /// Start the first file, under a new name, and the host again, if they have ended
    Start,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum State {
    On,
    Off,
}

/// Runs the command.
pub fn run(args: &ControlArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let command = match &args.action {
        Action::Status => Command::Status,
        Action::Channels { names, state } => {
            Command::channels(names.split(','), matches!(state, State::On))
        }
        Action::SendTo { host, channels } => {
            Command::SendTo { host: host.clone(), channels: channels.clone() }
        }
        Action::WriteTo { name, channels } => {
            Command::WriteTo { name: name.clone(), channels: channels.clone() }
        }
        Action::Stop { all: false } => Command::Stop,
        Action::Stop { all: true } => Command::StopAll,
        Action::Start => Command::Start,
        Action::Profile { .. } => Command::Profile,
    };
    // A command that does not parse back would reach the server as several lines, or as no command.
    if Command::parse(command.to_string().as_bytes()).as_ref() != Ok(&command) {
        return Err(CliError::Usage(format!(
            "{:?} cannot be sent: names and hosts have no spaces and no control characters",
            command.to_string()
        )));
    }
    let token = args.token_file.as_deref().map(|path| read_token(path, check_token)).transpose()?;
    let failed = |error: memledger::Error| CliError::Failed(error.to_string());
    let mut client = Client::connect(&args.address).map_err(failed)?;
    if let Some(token) = token {
        client.send(&Command::Token(token)).map_err(failed)?;
    }
    if let Action::Profile { output } = &args.action {
        let profile = client.profile().map_err(failed)?;
        write_to(output, out, |out| {
            out.write_all(&profile).map_err(|error| unwritable(output, error))
        })?;
        return Ok(Outcome::Done);
    }
    let lines = client.send(&command).map_err(failed)?;
    match args.format {
        Format::Text => lines.iter().try_for_each(|line| writeln!(out, "{}", escape(line))),
        Format::Json => {
            let answer = lines.iter().map(|line| {
                let (name, value) = line.split_once(' ').unwrap_or((line, ""));
                serde_json::json!({ "name": name, "value": value })
            });
            let document = serde_json::json!({
                "schema": "memledger.control/1",
                "address": args.address,
                "answer": answer.collect::<Vec<_>>(),
            });
            writeln!(out, "{document:#}")
        }
    }
    .map_err(CliError::output)?;
    Ok(Outcome::Done)
}

fn check_token(token: &str) -> Result<(), String> {
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err(format!("its first line must be one word, and has {} bytes", token.len()));
    }
    Ok(())
}
