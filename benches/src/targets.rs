//! What the figures are to be, and the tables at the end of each bench.

use crate::bursts::{Compared, named};
use crate::recording::folder;
use comfy_table::{CellAlignment, Table, presets};
use std::collections::BTreeMap;
use std::fs;
use std::time::SystemTime;

/// What a figure must not exceed, or not fall below.
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}
use Limit::{AtLeast, AtMost};

/// The name a figure is noted under, what it is, and what it is to be.
const TARGETS: &[(&str, &str, Limit)] = &[
    ("off/pair/ratio", "linked and off: pair, ratio", AtMost(1.03)),
    ("hook/pair/1", "hook cost: pair, 1 thread, ns an event", AtMost(2.0)),
    ("hook/churn/1", "hook cost: churn, 1 thread, ns an event", AtMost(2.0)),
    ("hook/pair/2", "hook cost: pair, 2 threads at once, ns an event", AtMost(7.0)),
    ("hook/churn/2", "hook cost: churn, 2 threads at once, ns an event", AtMost(7.0)),
    ("track/disabled", "disabled track event, ns", AtMost(0.5)),
    ("track/slice", "begin or end of a slice, ns", AtMost(16.0)),
    ("track/begin, 1 argument", "begin with one argument, ns", AtMost(18.0)),
    ("track/begin, 4 arguments", "begin with four arguments, ns", AtMost(24.0)),
    ("track/counter", "value of a registered counter, ns", AtMost(16.0)),
    ("track/named", "instant on a named track, ns", AtMost(18.0)),
    ("log/disabled", "disabled log site, ns", AtMost(0.5)),
    ("log/unordered", "NoSync event with two u64, ns", AtMost(4.0)),
    ("log/ordered", "synchronised event with two u64, 1 thread, ns", AtMost(6.0)),
    ("sustained/pair/compact file/wall", "pair, compact file: wall, ns an event", AtMost(15.0)),
    (
        "sustained/pair/compact file + report/wall",
        "pair, compact file + report: wall, ns an event",
        AtMost(45.0),
    ),
    ("sustained/churn/compact file/ratio", "churn, compact file: wall ratio", AtMost(1.15)),
    (
        "sustained/churn/compact file + report/ratio",
        "churn, compact file + report: wall ratio",
        AtMost(1.4),
    ),
    ("sustained/churn/compact file/cpu", "churn, compact file: CPU, ns an event", AtMost(16.0)),
    (
        "sustained/churn/compact file + report/cpu",
        "churn, compact file + report: CPU, ns an event",
        AtMost(50.0),
    ),
    ("sustained/churn/compact file/bytes", "churn, compact file: bytes an event", AtMost(6.5)),
    ("worker/report/churn", "ledger on the worker: churn, ns an event", AtMost(40.0)),
    ("ledger/bytes", "ledger: bytes of each live block", AtMost(40.0)),
    ("memory/8", "tracker with tracing only, 8 threads: MiB", AtMost(16.0)),
    ("analyze/speed", "report of a churn trace of 50 M events: M events/s", AtLeast(12.0)),
    ("analyze/memory", "the same: MiB of memory", AtMost(200.0)),
    ("overhead/json/compact file/wall", "JSON, compact file: wall ratio", AtMost(1.06)),
    ("overhead/json/compact file + report/wall", "JSON, both: wall ratio", AtMost(1.15)),
    ("overhead/json/compact file/cpu", "JSON, compact file: CPU ratio", AtMost(1.25)),
    ("overhead/json/compact file + report/cpu", "JSON, both: CPU ratio", AtMost(1.6)),
    ("overhead/json/compact file/bytes", "JSON, compact file: bytes an event", AtMost(5.0)),
    ("overhead/syn/compact file/wall", "syn, compact file: wall ratio", AtMost(1.06)),
    ("overhead/syn/compact file + report/wall", "syn, both: wall ratio", AtMost(1.15)),
    ("overhead/syn/compact file/cpu", "syn, compact file: CPU ratio", AtMost(1.25)),
    ("overhead/syn/compact file + report/cpu", "syn, both: CPU ratio", AtMost(1.6)),
];

/// A row: the figure's name, and its columns as printed.
type Row = (String, Vec<String>);

/// What a bench has measured.
#[derive(Default)]
pub struct Figures {
    noted: BTreeMap<String, (f64, u64)>,
    rows: Vec<Row>,
}

impl Figures {
    /// Notes a figure that has a target.
    pub fn note(&mut self, name: &str, value: f64) {
        assert!(
            TARGETS.iter().any(|(target, ..)| *target == name),
            "{name} has no target: a figure without one is a row of a table"
        );
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.noted.insert(name.to_owned(), (value, now.as_secs()));
    }

    /// A row of the bench's table.
    pub fn row(&mut self, name: &str, columns: impl IntoIterator<Item = String>) {
        self.rows.push((name.to_owned(), columns.into_iter().collect()));
    }

    /// The row of a load whose iteration is two events.
    pub fn compared(&mut self, load: &str, threads: usize, who: &str, times: Option<Compared>) {
        let Some(Compared { plain, ours }) = times else { return };
        self.row(
            &format!("{load}, {}, {who}", named(threads)),
            [
                format!("{plain:.1}"),
                format!("{ours:.1}"),
                format!("{:.3}", ours / plain),
                format!("{:+.2}", (ours - plain) / 2.0),
            ],
        );
    }

    /// Prints the table and keeps the figures for the last bench; empty ones leave no trace.
    pub fn finish(self, header: &[&str], is_test: bool) {
        if !self.rows.is_empty() {
            let mut table = new_table(header);
            for (name, columns) in self.rows {
                table.add_row(std::iter::once(name).chain(columns));
            }
            println!("\n{table}\n");
        }
        // What runs a few iterations to see whether it works has measured nothing.
        if !is_test && !self.noted.is_empty() {
            let mut all = kept();
            all.extend(self.noted);
            let text = serde_json::to_string_pretty(&all).expect("plain data");
            fs::write(folder().join("figures.json"), text).expect("the figures can be written");
        }
    }
}

/// The header of a table of [`Figures::compared`] rows.
pub const COMPARED: [&str; 5] = ["", "System, ns", "tracked, ns", "ratio", "ns an event"];

fn kept() -> BTreeMap<String, (f64, u64)> {
    let text = fs::read_to_string(folder().join("figures.json")).unwrap_or_default();
    // Those of another version are of no use.
    serde_json::from_str(&text).unwrap_or_default()
}

fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header.to_vec());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Every target beside what was measured last.
pub fn print() {
    let kept = kept();
    let mut table = new_table(&["", "target", "measured", "", "minutes ago"]);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    for (name, what, limit) in TARGETS {
        let figure = kept.get(*name);
        let (limit, met) = match limit {
            AtMost(limit) => (format!("at most {limit}"), figure.map(|figure| figure.0 <= *limit)),
            AtLeast(limit) => {
                (format!("at least {limit}"), figure.map(|figure| figure.0 >= *limit))
            }
        };
        table.add_row([
            (*what).to_owned(),
            limit,
            figure.map_or_else(|| "-".to_owned(), |figure| format!("{:.2}", figure.0)),
            met.map_or("", |met| if met { "met" } else { "missed" }).to_owned(),
            figure.map_or_else(String::new, |(_, when)| {
                (now.as_secs().saturating_sub(*when) / 60).to_string()
            }),
        ]);
    }
    println!("\n{table}");
}

/// Whether the program was only asked whether it works (`-- --test`).
pub fn is_test() -> bool {
    std::env::args().any(|arg| arg == "--test")
}

/// Whether a part that criterion does not know of is asked for.
pub fn is_selected(part: &str) -> bool {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let mut filters = args.iter().filter(|arg| !arg.starts_with('-')).peekable();
    !args.iter().any(|arg| arg == "--list")
        && (filters.peek().is_none() || filters.any(|filter| part.contains(filter.as_str())))
}
