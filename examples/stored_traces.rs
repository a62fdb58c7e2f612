//! The memory of many programs at once, from a recorder's store.
//!
//! Asks a store (`memledger serve`, or Unreal's trace server) for its traces and makes the report
//! of each: one line, the largest peak first. A program that is still running is followed on a
//! thread of its own, so its line comes when it ends.
//!
//! ```text
//! memledger serve --folder traces &
//! MEMLEDGER_HOST=127.0.0.1 ./program &
//! cargo run --release --example stored_traces --features store [-- ADDR [TOKEN_FILE]]
//! ```

use memledger_analysis::read;
use memledger_analysis::{Analyzer, Report};
use memledger_export::text;
use memledger_store::{Store, StoredTrace};
use std::error::Error;
use std::thread;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1".to_owned());
    let token = arguments.next().map(std::fs::read_to_string).transpose()?;
    let connect = || match &token {
        None => Store::connect(&address),
        Some(token) => Store::connect(&address)?.with_token(token.trim_end()),
    };
    let mut store = connect()?;
    let traces = store.traces()?;
    println!("{} has {}", store.address(), text::counted(traces.len() as u64, "trace", "traces"));

    let (live, done): (Vec<_>, Vec<_>) = traces.into_iter().partition(|trace| trace.live);
    let mut reports = Vec::new();
    for trace in done {
        match analyze(&mut store, &trace) {
            Ok(report) => reports.push((trace, report)),
            Err(error) => eprintln!("{}: {error:#}", trace.name),
        }
    }
    reports.sort_by_key(|(_, report)| std::cmp::Reverse(report.totals.peak_bytes));
    for (trace, report) in &reports {
        println!("{}", line(trace, report));
    }

    thread::scope(|scope| {
        for trace in live {
            let connect = &connect;
            scope.spawn(move || {
                let report = connect().map_err(Failure::from);
                match report.and_then(|mut store| analyze(&mut store, &trace)) {
                    Ok(report) => println!("{} (has just ended)", line(&trace, &report)),
                    Err(error) => eprintln!("{}: {error:#}", trace.name),
                }
            });
        }
    });
    Ok(())
}

/// Reads the trace to its end.
fn analyze(store: &mut Store, trace: &StoredTrace) -> Result<Report, Failure> {
    let mut analyzer = Analyzer::new();
    read::read(store.read(trace.id)?, &mut analyzer)?;
    Ok(analyzer.report())
}

fn line(trace: &StoredTrace, report: &Report) -> String {
    format!(
        "{}  {}: peak {}, live {}, {}",
        trace.name,
        report.trace.program.as_deref().unwrap_or("unknown program"),
        text::bytes(report.totals.peak_bytes),
        text::bytes(report.totals.live_bytes),
        text::counted(report.totals.allocations, "allocation", "allocations"),
    )
}
