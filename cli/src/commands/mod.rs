//! One file per command: its arguments, and a call of the library. Nine files are shared by several
//! commands: `address.rs`, `by.rs`, `input.rs`, `output.rs`, `completeness.rs`, `finding.rs`, `needs.rs`,
//! `observer_thread.rs`, `store.rs`.

mod address;
mod by;
mod completeness;
pub mod condition;
pub mod control;
pub mod diff;
pub mod events;
pub mod export;
pub mod fetch;
mod finding;
pub mod info;
mod input;
pub mod moment;
mod needs;
mod observer_thread;
mod output;
pub mod query;
pub mod report;
pub mod run;
pub mod serve;
mod store;
pub mod symbolize;
pub mod top;
pub mod traces;
pub mod view;

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Parses the name of one of these.
fn choice<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let names = all.iter().map(|&one| name(one));
    PossibleValuesParser::new(names).try_map(move |text| {
        let found = all.iter().copied().find(|&one| name(one) == text);
        found.ok_or_else(|| format!("there is no {text}"))
    })
}

/// How a command prints data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs; contains its schema's name
    Json,
}
