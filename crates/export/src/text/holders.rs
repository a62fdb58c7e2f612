//! Who holds the most of what was measured, to the byte: the lines below a budget that was
//! exceeded.

use super::calls::briefly;
use super::style::Style;
use super::table::{Row, Table};
use crate::units::count;
use memledger_document::internal::{Calls, sort};
use memledger_document::{Figures, Frames, Report};
use std::cmp::Reverse;

/// How many of each kind are shown.
const TOP: usize = 5;
/// Columns of a line.
const WIDTH: usize = 80;

/// A column: its header, and what it shows.
pub type HolderColumn = (&'static str, fn(&Figures) -> u64);

/// The innermost functions of each stack of a report.
pub fn functions(stacks: &Report) -> Vec<String> {
    let calls = Calls::of(stacks, Frames::Folded);
    (0..stacks.by_stack.len()).map(|stack| briefly(&calls, stack)).collect()
}

/// A table of the largest of `holders` by `key`; an empty text if the first key of every row is 0.
pub fn holders(
    title: &str,
    name: impl Fn(&[String]) -> String,
    mut holders: Vec<(Vec<String>, Figures)>,
    columns: &[HolderColumn],
    key: impl Fn(&Figures) -> (u64, u64),
) -> String {
    if holders.iter().all(|(_, figures)| key(figures).0 == 0) {
        return String::new();
    }
    sort::by(&mut holders, |(a, of_a), (b, of_b)| {
        (Reverse(key(of_a)), a).cmp(&(Reverse(key(of_b)), b))
    });
    let more = holders.len().saturating_sub(TOP);
    let rows = holders.into_iter().take(TOP).map(|(path, figures)| Row {
        level: 0,
        name: name(&path),
        cells: columns.iter().map(|(_, column)| count(column(&figures))).collect(),
    });
    let table = Table {
        title: title.to_owned(),
        headers: columns.iter().map(|(header, _)| *header).collect(),
        kept: columns.len(),
        names: WIDTH,
        rows: rows.collect(),
        footer: (more > 0).then(|| format!("{more} more")),
    };
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = table.write(Style { color: false }, WIDTH, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
