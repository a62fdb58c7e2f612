//! `memledger control`: steers a running program.

use super::Format;
use super::address::address_of;
use super::output::{unwritable, write_to};
use crate::error::{CliError, Outcome};
use crate::token::read_token;
use memledger::control::{Client, Command};
use memledger_export::text::escape;
use std::io::Write;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  memledger control 1985 status
  memledger control 127.0.0.1:1985 send-to 127.0.0.1:1980
  memledger control 1985 write-to late.utrace
  memledger control 1985 channels game,net on
  memledger control 1985 perfetto start run.pftrace --config config.txt
  memledger control 1985 perfetto dump run.pftrace now.pftrace
  memledger control build-server:1985 --token-file token stop
  memledger control 1985 stop --all
  memledger control 1985 start
  memledger control 1985 profile -o heap.pb.gz   for go tool pprof

A program listens if MEMLEDGER_CONTROL=1985 is set, or if it calls LedgerBuilder::control. \
write-to and perfetto create files only in the folder that the program has chosen \
(MEMLEDGER_CONTROL_FOLDER); without one they are refused. send-to sends to this machine, or to \
hosts that the program allows (MEMLEDGER_CONTROL_HOSTS). start restarts the file and the host \
that the program began with; it is refused if there were none. A trace that starts late begins \
with the live blocks.";

/// Arguments of `memledger control`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ControlArgs {
    /// The program: HOST:PORT, a host, a port on this machine, or a process id
    #[arg(value_name = "ADDR")]
    address: String,
    /// File whose first line is the token that the program requires
    #[arg(long, value_name = "PATH", global = true)]
    token_file: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text", global = true)]
    format: Format,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Print what is recorded, where to, and what was lost
    Status,
    /// Turn channels on or off
    Channels {
        /// Comma-separated names
        names: String,
        /// The new state
        state: State,
    },
    /// Also send the trace to a recorder
    SendTo {
        /// HOST or HOST:PORT; without a port, 1980, then 1981
        host: String,
    },
    /// Also write the trace to a new file in the program's control folder
    WriteTo {
        /// File name without a folder, such as late.utrace
        name: String,
    },
    /// Start, stop, flush or dump a session of track events for Perfetto
    Perfetto {
        #[command(subcommand)]
        action: SessionAction,
    },
    /// End all destinations except the first file
    Stop {
        /// Also end the first file
        #[arg(long)]
        all: bool,
    },
    /// Save a heap profile of this moment in pprof's format
    Profile {
        /// Write this file, such as heap.pb.gz; - for standard output
        #[arg(short, long, value_name = "OUT")]
        output: PathBuf,
    },
    /// Restart the file and the connection if they have ended
    Start,
}

#[derive(Debug, clap::Subcommand)]
enum SessionAction {
    /// Start a session that writes to a new file in the program's control folder
    Start {
        /// File name without a folder, such as run.pftrace; it also names the session
        name: String,
        /// Such as 'categories=game*,-net ring=4MiB duration=10s memory=1s' [default: all categories]
        #[arg(long, value_name = "TEXT")]
        config: Option<String>,
    },
    /// End a session; a ring buffer is written to its file now
    Stop {
        /// The session's name
        name: String,
    },
    /// Write everything that a session has buffered
    Flush {
        /// The session's name
        name: String,
    },
    /// Write a session's ring buffer to another new file
    Dump {
        /// The session's name
        name: String,
        /// File name without a folder, such as now.pftrace
        file: String,
    },
}

impl SessionAction {
    fn command(&self) -> Command {
        match self {
            Self::Start { name, config } => {
                Command::StartSession { name: name.clone(), config: config.clone() }
            }
            Self::Stop { name } => Command::StopSession(name.clone()),
            Self::Flush { name } => Command::FlushSession(name.clone()),
            Self::Dump { name, file } => {
                Command::DumpSession { name: name.clone(), file: file.clone() }
            }
        }
    }
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
        Action::SendTo { host } => Command::send_to(host),
        Action::WriteTo { name } => Command::write_to(name),
        Action::Perfetto { action } => action.command(),
        Action::Stop { all: false } => Command::Stop,
        Action::Stop { all: true } => Command::StopAll,
        Action::Start => Command::Start,
        Action::Profile { .. } => Command::Profile,
    };
    // A command that does not parse back would reach the server as several lines, or as no command.
    let parsed = Command::parse(command.to_string().as_bytes());
    if let (Err(reason), Action::Perfetto { .. }) = (&parsed, &args.action) {
        return Err(CliError::Usage(format!("the command cannot be sent: {reason}")));
    }
    if parsed.as_ref() != Ok(&command) {
        return Err(CliError::Usage(format!(
            "{:?} cannot be sent: names and hosts have no spaces and no control characters",
            command.to_string()
        )));
    }
    let token = args.token_file.as_deref().map(control_token).transpose()?;
    let failed = |error: memledger::Error| CliError::Failed(format!("{error:#}"));
    let mut client = Client::connect(&address_of(&args.address)?).map_err(failed)?;
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

/// The token of a control server in the first line of a file.
pub(super) fn control_token(path: &Path) -> Result<String, CliError> {
    read_token(path, |token| {
        if token.is_empty() || token.contains(char::is_whitespace) {
            return Err(format!("its first line must be one word; it has {} bytes", token.len()));
        }
        Ok(())
    })
}
