//! `memledger view`: the trace in a browser on this machine.
//!
//! | file | what |
//! |---|---|
//! | `reading.rs` | one thread reads the trace, and follows it while it grows |
//! | `picture.rs` | what is shown and asked of a trace that was read |
//! | `kept.rs` | files that are kept beside a trace |
//! | `index_file.rs` | the picture in such a file |
//! | `lives_file.rs` | every single block in such a file |
//! | `server.rs` | HTTP: who may ask, and what |
//! | `answers.rs` | the answers of the analyzer |
//! | `lives.rs` | answers about single blocks from their file |
//! | `passes.rs` | answers that need a pass over the trace |

mod answers;
mod index_file;
mod kept;
mod lives;
mod lives_file;
mod passes;
mod picture;
mod reading;
mod server;

use super::input::is_stdin;
use crate::cache::trace_arg;
use crate::error::{CliError, Outcome};
use crate::stop_signal::stop_signal;
use crate::symbols::SymbolArgs;
use crate::terminal::note;
use reading::Reading;
use std::future::Future;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  memledger view run.utrace               print an address for the browser
  memledger view run.utrace --open        also open the browser
  memledger view run.utrace --port 8000   listen at this port
  memledger run --view -- ./program       view the trace while the program runs

Only programs on this machine that know the address can connect. Ctrl-C ends the command. Its \
index of the trace is kept beside it (run.utrace.index), or in ~/.cache/memledger if that folder \
is read-only.";

/// Arguments of `memledger view`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ViewArgs {
    /// The trace; it may still grow
    #[arg(value_parser = trace_arg())]
    trace: PathBuf,
    /// Listen at this port [default: any free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
    /// Neither write nor read an index file
    #[arg(long)]
    no_index: bool,
    #[command(flatten)]
    symbols: SymbolArgs,
}

/// Serves the page until Ctrl-C.
pub fn run(args: &ViewArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    if is_stdin(&args.trace) {
        return Err(CliError::Usage(
            "view reads the trace more than once, which standard input does not allow; give a file"
                .to_owned(),
        ));
    }
    let runtime = runtime()?;
    let _entered = runtime.enter();
    let stop = stop_signal()?;
    let viewer = Viewer { port: args.port, opens: args.open, keeps_index: !args.no_index };
    viewer.view(&runtime, &args.trace, &args.symbols, stop, out)?;
    Ok(Outcome::Done)
}

/// The runtime that the server and its signals need.
pub fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| CliError::Failed(format!("the server cannot start: {error}")))
}

/// How a trace is viewed.
pub struct Viewer {
    pub port: u16,
    pub opens: bool,
    pub keeps_index: bool,
}

impl Viewer {
    /// Serves the page of a trace until `stop`.
    pub fn view(
        &self,
        runtime: &tokio::runtime::Runtime,
        trace: &Path,
        symbols: &SymbolArgs,
        stop: impl Future<Output = ()>,
        out: &mut dyn Write,
    ) -> Result<(), CliError> {
        // What cannot be read at all ends the command; all else is said by the page.
        reading::check(trace)?;
        let listener = runtime.block_on(self.listen())?;
        let address = listener.local_addr().map_err(|error| self.not_listening(&error))?;
        let token = token()?;
        let reading = Reading::start(trace, symbols, self.keeps_index)?;
        let url = format!("http://{address}/?token={token}");
        writeln!(out, "{url}").and_then(|()| out.flush()).map_err(CliError::output)?;
        if self.opens
            && let Err(error) = open::that_detached(&url)
        {
            note(&format!("the browser cannot be opened: {error}"));
        }
        let server = server::serve(listener, address, &token, reading.status());
        runtime.block_on(async {
            tokio::select! {
                () = stop => {}
                () = server => {}
            }
        });
        reading.stop();
        Ok(())
    }

    async fn listen(&self) -> Result<tokio::net::TcpListener, CliError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let listener = tokio::net::TcpListener::bind(address).await;
        listener.map_err(|error| self.not_listening(&error))
    }

    fn not_listening(&self, error: &std::io::Error) -> CliError {
        let why = match error.kind() {
            std::io::ErrorKind::AddrInUse => "another program uses it".to_owned(),
            _ => error.to_string(),
        };
        CliError::Failed(format!("cannot listen at 127.0.0.1:{}: {why}", self.port))
    }
}

/// 128 random bits, in hexadecimal.
fn token() -> Result<String, CliError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| CliError::Failed(format!("the system gives no random token: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
