//! Who holds the most of what was measured, to the byte: the lines below a budget that was exceeded.

use super::Style;
use super::table::{Row, Table};
use super::units::count;
use crate::analysis::Holder;
use std::cmp::Reverse;

/// So many of each kind are shown.
const TOP: usize = 5;
/// Columns of a line.
const WIDTH: usize = 80;

/// A table of the first of `holders`, the largest by `key` first.
pub(crate) fn holders(
    title: &str,
    name: impl Fn(&[String]) -> String,
    mut holders: Vec<Holder>,
    key: impl Fn(&Holder) -> (u64, u64),
) -> String {
    holders.sort_by(|a, b| (Reverse(key(a)), &a.path).cmp(&(Reverse(key(b)), &b.path)));
    let more = holders.len().saturating_sub(TOP);
    let rows = holders.into_iter().take(TOP).map(|holder| Row {
        level: 0,
        name: name(&holder.path),
        cells: [holder.live_bytes, holder.live_blocks, holder.allocated_bytes, holder.allocations]
            .map(count)
            .into(),
    });
    let table = Table {
        title: title.to_owned(),
        headers: vec!["live bytes", "blocks", "allocated", "count"],
        kept: 4,
        names: WIDTH,
        rows: rows.collect(),
        footer: (more > 0).then(|| format!("{more} more")),
    };
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = table.write(Style { color: false }, WIDTH, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
