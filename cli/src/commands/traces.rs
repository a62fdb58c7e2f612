//! `memledger traces`: what a store holds.

use super::Format;
use super::store::{StoreArgs, failed_store};
use crate::error::{CliError, Outcome};
use jiff::Timestamp;
use memledger_export::text::{self, escape};
use memledger_store::{Session, Status, StoredTrace};
use serde_json::{Value, json};
use std::io::{self, Write};

const EXAMPLES: &str = "\
Examples:
  memledger traces                             the store on this machine
  memledger traces --format json | jq '.traces[] | select(.live).id'
  memledger traces --store build-server --token-file token";

/// Arguments of `memledger traces`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TracesArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Asks the store and prints the list.
pub fn run(args: &TracesArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let mut store = args.store.connect()?;
    let list = store.status().and_then(|status| {
        let traces = store.traces()?;
        Ok((status, traces, store.sessions()?))
    });
    let (status, traces, sessions) = list.map_err(|error| failed_store(&error))?;
    match args.format {
        Format::Text => print(&traces, &sessions, out),
        Format::Json => print_json(&store.address().to_string(), &status, &traces, &sessions, out),
    }
    .map_err(CliError::output)?;
    Ok(Outcome::Done)
}

fn print(traces: &[StoredTrace], sessions: &[Session], out: &mut dyn Write) -> io::Result<()> {
    if traces.is_empty() {
        return writeln!(out, "there are no traces yet");
    }
    writeln!(out, "{:>10}  {:>10}  {:<19}  {:<24}  state", "id", "size", "last written", "name")?;
    for trace in traces {
        let (size, name) = (text::bytes(trace.size), escape(&trace.name));
        let modified = Timestamp::try_from(trace.modified).unwrap_or_default();
        let modified = modified.strftime("%Y-%m-%d %H:%M:%S");
        let state = match (trace.live, &trace.ended) {
            (true, _) => match sessions.iter().find(|session| session.trace_id == trace.id) {
                Some(session) => format!("recording {}", session.address),
                None => "recording".to_owned(),
            },
            (false, Some(reason)) => format!("cut: {}", escape(reason)),
            (false, None) => match trace.complete {
                Some(true) => "complete",
                Some(false) => "cut: the program was killed, or the connection broke",
                None => "ended",
            }
            .to_owned(),
        };
        let line = format!("{:>10}  {size:>10}  {modified}  {name:<24}  {state}", trace.id);
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn print_json(
    address: &str,
    status: &Status,
    traces: &[StoredTrace],
    sessions: &[Session],
    out: &mut dyn Write,
) -> io::Result<()> {
    let one = |trace: &StoredTrace| -> Value {
        let session = sessions.iter().find(|session| session.trace_id == trace.id);
        let modified = Timestamp::try_from(trace.modified).unwrap_or_default();
        json!({
            "id": trace.id,
            "name": trace.name,
            "bytes": trace.size,
            "modified": modified.to_string(),
            "live": trace.live,
            "ended": trace.ended,
            "complete": trace.complete,
            "address": session.map(|session| session.address.to_string()),
            "control_port": session.and_then(|session| session.control_port),
        })
    };
    let document = json!({
        "schema": "memledger.traces/1",
        "store": address,
        "directory": status.directory,
        "recorder_port": status.recorder_port,
        "traces": traces.iter().map(one).collect::<Vec<_>>(),
    });
    writeln!(out, "{document:#}")
}
