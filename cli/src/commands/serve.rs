//! `memledger serve`: records the traces that programs send, and serves them to readers.

use super::Format;
use crate::commands::view::runtime;
use crate::error::{CliError, Outcome};
use crate::quantity;
use crate::stop_signal::stop_signal;
use crate::terminal::note;
use crate::token::read_token;
use memledger_export::text;
use memledger_store::serve::{
    Access, InProcess, Listening, Settings, default_path, raise_file_limit,
};
use memledger_store::{Error, ErrorKind, check_token};
use serde_json::json;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The port that programs of Unreal Engine 4 send to. memledger tries it first.
const FIRST_PORT: u16 = 1980;
/// The port that programs of Unreal Engine 5 send to. memledger tries it if the first one refuses.
const SECOND_PORT: u16 = 1981;
/// The smallest limit of a trace, in bytes: the start of every trace must fit.
const MIN_LIMIT: u64 = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  memledger serve                       store in ~/.local/share/memledger/traces
  memledger serve --folder traces --max-trace 1GiB --max-store 20GiB
  MEMLEDGER_HOST=127.0.0.1 ./program    run a program that sends its trace here
  memledger serve --recorder-port off   serve recorded traces only
  nc -N 127.0.0.1 1981 < run.utrace     send a trace file
  memledger traces                      list the stored traces
  memledger serve --listen 0.0.0.0 --token-file token   accept other machines

By default, only programs on this machine can connect; other machines (--listen) must send the \
token. Each trace is one file, readable while it grows and after a crash. Ctrl-C ends the \
command.";

/// Arguments of `memledger serve`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Store traces in this folder [default: ~/.local/share/memledger/traces]
    // NOTE: in all other commands --store is the address of a store. Existing scripts use it here,
    // too.
    #[arg(long, alias = "store", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Receive traces at these ports; 0 for any free one, off for none [default: 1980, and 1981 if free]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = recorder_port)]
    recorder_port: Vec<RecorderPort>,
    /// Serve recorded traces at this port; 0 for any free one
    #[arg(long, value_name = "N", default_value_t = memledger_store::PORT)]
    store_port: u16,
    /// Listen at this address
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    listen: IpAddr,
    /// File with the token that other machines must send: 16 to 256 characters, mode 600
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Maximum size of one trace; it ends there, after a complete packet
    #[arg(long, value_name = "SIZE", default_value = "8GiB", value_parser = quantity::size)]
    max_trace: u64,
    /// Maximum size of all traces in the folder
    #[arg(long, value_name = "SIZE", default_value = "64GiB", value_parser = quantity::size)]
    max_store: u64,
    /// Maximum number of programs that send at once; each costs 64 KiB of memory
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_programs: u32,
    /// Maximum number of clients that query, and of clients that read a trace, at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_readers: u32,
    /// Disconnect a program that has sent nothing for this long; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    idle_timeout: u32,
    /// Output format of the addresses it listens at
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// A value of `--recorder-port`: a port that programs send to, or no port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecorderPort {
    Off,
    Number(u16),
}

fn recorder_port(text: &str) -> Result<RecorderPort, String> {
    match text {
        "off" => Ok(RecorderPort::Off),
        _ => text.parse().map(RecorderPort::Number).map_err(|_| "write a port or off".to_owned()),
    }
}

/// The ports that must be free, and a port that is also used if it is free.
fn recorder_ports(asked: &[RecorderPort]) -> Result<(Vec<u16>, Option<u16>), CliError> {
    let number = |port: &RecorderPort| match port {
        RecorderPort::Off => None,
        RecorderPort::Number(number) => Some(*number),
    };
    match asked {
        [] => Ok((vec![FIRST_PORT], Some(SECOND_PORT))),
        [RecorderPort::Off] => Ok((Vec::new(), None)),
        ports => {
            ports.iter().map(number).collect::<Option<_>>().map(|ports| (ports, None)).ok_or_else(
                || CliError::Usage("--recorder-port takes either off or ports, not both".into()),
            )
        }
    }
}

/// Serves until Ctrl-C.
pub fn run(args: &ServeArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    for (flag, size) in [("--max-trace", args.max_trace), ("--max-store", args.max_store)] {
        if size < MIN_LIMIT {
            let (size, least) = (text::bytes(size), text::bytes(MIN_LIMIT));
            return Err(CliError::Usage(format!("{flag} must be at least {least}, not {size}")));
        }
    }
    let token = args.token_file.as_deref().map(|path| read_token(path, check_token)).transpose()?;
    let failed = |error| failed(error, args);
    let access = Access::new(args.listen, token).map_err(failed)?;
    let path = match &args.folder {
        Some(path) => path.clone(),
        None => default_path().map_err(|error| {
            CliError::Failed(format!("{error}; choose a folder with --folder DIR"))
        })?,
    };
    let (recorder_ports, second_port) = recorder_ports(&args.recorder_port)?;
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut settings = Settings::in_folder(&path).map_err(failed)?;
    (settings.access, settings.address) = (access, args.listen);
    (settings.recorder_ports, settings.second_port) = (recorder_ports, second_port);
    settings.store_port = args.store_port;
    (settings.limits.trace, settings.limits.store) = (args.max_trace, args.max_store);
    settings.clients.programs = args.max_programs as usize;
    settings.clients.readers = args.max_readers as usize;
    settings.silence =
        (args.idle_timeout > 0).then(|| Duration::from_secs(args.idle_timeout.into()));
    (settings.threads, settings.note) = (cores.min(4), note);
    raise_file_limit(settings.clients, note);
    // Signals are received before there is any output, so that a Ctrl-C after its first line stops
    // the server in order.
    let runtime = runtime()?;
    let _entered = runtime.enter();
    let stop = stop_signal()?;
    let server = InProcess::start(settings).map_err(failed)?;
    let printed = match args.format {
        Format::Text => print(server.listening(), out),
        Format::Json => print_json(server.listening(), out),
    };
    // Flushed, because output to a pipe would otherwise wait for the end of the command.
    printed.and_then(|()| out.flush()).map_err(CliError::output)?;
    runtime.block_on(stop);
    server.stop().map_err(failed)?;
    Ok(Outcome::Done)
}

/// Why there is no server, with the option that helps.
fn failed(error: Error, args: &ServeArgs) -> CliError {
    match error.kind() {
        ErrorKind::TokenRequired => CliError::Usage(format!(
            "--listen {} accepts other machines, which need a token; add --token-file FILE",
            args.listen
        )),
        ErrorKind::PortInUse => {
            CliError::Failed(format!("{error} with --recorder-port or --store-port"))
        }
        _ => CliError::Failed(format!("{error:#}")),
    }
}

fn print(ready: &Listening, out: &mut dyn Write) -> io::Result<()> {
    let recorder: Vec<_> = ready.recorder.iter().map(SocketAddr::to_string).collect();
    let traces = text::counted(ready.totals.traces as u64, "trace", "traces");
    let bytes = text::bytes(ready.totals.bytes);
    match &recorder[..] {
        [] => writeln!(out, "recording     off")?,
        recorder => writeln!(out, "recording at  {}", recorder.join(", "))?,
    }
    writeln!(out, "store at      {}", ready.store)?;
    writeln!(out, "traces in     {} ({traces}, {bytes})", ready.directory.display())
}

fn print_json(ready: &Listening, out: &mut dyn Write) -> io::Result<()> {
    let document = json!({
        "schema": "memledger.serve/1",
        "recorder": ready.recorder.iter().map(SocketAddr::to_string).collect::<Vec<_>>(),
        "store": ready.store.to_string(),
        "directory": ready.directory.to_string_lossy(),
        "traces": ready.totals.traces,
        "bytes": ready.totals.bytes,
    });
    writeln!(out, "{document}")
}
