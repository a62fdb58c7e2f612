//! The tables: who holds the memory.

use super::table::{Row, Table};
use super::units::{bytes, count, duration};
use super::{By, Options, Sort};
use crate::analysis::{Figures, LiveBlock, Report};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The group and name of what carries no tag.
const UNTAGGED: (&str, &str) = ("Unknown", "Unnamed");

pub(super) fn tables(report: &Report, options: &Options) -> Vec<Table> {
    let table = |by| match by {
        By::Scope => scopes(report, options),
        By::Group => groups(report, options),
        By::Name => names(report, options),
        By::Thread => threads(report, options),
        By::Size => sizes(report, options),
    };
    if let Some(by) = options.by {
        return vec![table(by)];
    }
    let tagged = report.by_name.iter().any(|row| {
        row.group.first().map(String::as_str) != Some(UNTAGGED.0) || row.name != UNTAGGED.1
    });
    let mut all = vec![table(By::Scope)];
    if tagged {
        all.extend([table(By::Group), table(By::Name)]);
    }
    all.extend([table(By::Thread), largest(report, options)]);
    all.retain(|table| !table.rows.is_empty());
    all
}

impl Options {
    fn shows(&self, name: &str) -> bool {
        let Some(filter) = &self.filter else { return true };
        name.to_lowercase().contains(&filter.to_lowercase())
    }

    /// What the rows are sorted by.
    fn key(&self, figures: &Figures) -> u64 {
        match self.sort {
            Sort::Live => figures.live_bytes,
            Sort::Peak => figures.peak_bytes,
            Sort::Allocated => figures.allocated_bytes,
            Sort::Count => figures.allocations,
        }
    }

    /// The line below a table with `left` rows too many.
    fn footer(&self, left: usize) -> Option<String> {
        (left > 0).then(|| format!("… and {left} more (--top {})", self.top.saturating_add(left)))
    }
}

const COLUMNS: [&str; 4] = ["live", "peak", "allocated", "count"];

fn cells(figures: &Figures) -> Vec<String> {
    vec![
        size(figures.live_bytes),
        size(figures.peak_bytes),
        size(figures.allocated_bytes),
        if figures.allocations == 0 { NONE.to_owned() } else { count(figures.allocations) },
    ]
}

/// What stands for 0 in a table, so that the rows with something stand out.
const NONE: &str = "-";

fn size(size: u64) -> String {
    if size == 0 { NONE.to_owned() } else { bytes(size) }
}

fn scopes(report: &Report, options: &Options) -> Table {
    let rows = report.by_scope.iter();
    tree("By scope", rows.map(|row| (&row.path[..], &row.figures, &row.inclusive)), options)
}

fn groups(report: &Report, options: &Options) -> Table {
    let rows = report.by_group.iter();
    tree("By group", rows.map(|row| (&row.group[..], &row.figures, &row.inclusive)), options)
}

/// The largest rows and the rows around them, as a tree.
fn tree<'a>(
    title: &str,
    rows: impl Iterator<Item = (&'a [String], &'a Figures, &'a Figures)>,
    options: &Options,
) -> Table {
    let all: BTreeMap<&[String], (&Figures, &Figures)> =
        rows.map(|(path, own, inclusive)| (path, (own, inclusive))).collect();
    let key = |path: &[String]| {
        let (own, inclusive) = all[path];
        options.key(if options.inclusive { inclusive } else { own })
    };
    // Whether a row has figures of its own to show.
    let counts = |path: &[String]| options.inclusive || *all[path].0 != Figures::default();
    let mut chosen: Vec<&[String]> = all
        .keys()
        .copied()
        .filter(|path| counts(path) && options.shows(&path.join(" > ")))
        .collect();
    chosen.sort_by_key(|path| Reverse(key(path)));
    let left = chosen.len().saturating_sub(options.top);
    chosen.truncate(options.top);

    // With everything around them, in order of the tree: inner rows follow their outer one, the
    // largest inclusive first. Rows compare by that key at each level, then by name.
    let around = chosen.iter().flat_map(|path| (1..=path.len()).map(|n| &path[..n]));
    let shown: BTreeSet<&[String]> = around.filter(|path| all.contains_key(path)).collect();
    let mut shown: Vec<_> = shown.into_iter().collect();
    shown.sort_by_cached_key(|path| {
        let level = |n: usize| {
            (Reverse(all.get(&path[..n]).map_or(0, |row| options.key(row.1))), &path[n - 1])
        };
        (1..=path.len()).map(level).collect::<Vec<_>>()
    });
    let row = |path: &&[String]| {
        let (own, inclusive) = all[path];
        let mut cells = cells(if options.inclusive { inclusive } else { own });
        if !options.inclusive {
            cells.insert(1, size(inclusive.live_bytes));
        }
        Row { level: path.len() - 1, name: path.last().cloned().unwrap_or_default(), cells }
    };
    let mut headers = COLUMNS.to_vec();
    if !options.inclusive {
        headers.insert(1, "with inner");
    }
    let title = if options.inclusive { format!("{title}, with inner") } else { title.to_owned() };
    Table { title, headers, rows: shown.iter().map(row).collect(), footer: options.footer(left) }
}

/// A table without levels.
fn flat<'a>(
    title: &str,
    rows: impl Iterator<Item = (String, &'a Figures)>,
    options: &Options,
) -> Table {
    let mut rows: Vec<_> = rows.filter(|(name, _)| options.shows(name)).collect();
    rows.sort_by_key(|(_, figures)| Reverse(options.key(figures)));
    let left = rows.len().saturating_sub(options.top);
    rows.truncate(options.top);
    let row = |(name, figures): (String, &Figures)| Row { level: 0, name, cells: cells(figures) };
    Table {
        title: title.to_owned(),
        headers: COLUMNS.to_vec(),
        rows: rows.into_iter().map(row).collect(),
        footer: options.footer(left),
    }
}

fn names(report: &Report, options: &Options) -> Table {
    let rows = report.by_name.iter();
    flat("By name", rows.map(|row| (tag(&row.group, &row.name), &row.figures)), options)
}

fn threads(report: &Report, options: &Options) -> Table {
    let name = |name: &str, id| match name {
        "" => format!("thread {id}"),
        name => format!("{name} ({id})"),
    };
    let rows = report.by_thread.iter();
    flat("By thread", rows.map(|row| (name(&row.name, row.id), &row.figures)), options)
}

fn sizes(report: &Report, options: &Options) -> Table {
    let name = |min, max: Option<u64>| match max {
        Some(max) if max < 1024 => format!("{min} to {max} B"),
        Some(max) => format!("up to {}", bytes(max)),
        None => format!("above {}", bytes(min - 1)),
    };
    let rows = report.by_size.iter();
    flat("By size", rows.map(|row| (name(row.min_bytes, row.max_bytes), &row.figures)), options)
}

/// A name in its group, as all texts show it.
pub(crate) fn tag(group: &[String], name: &str) -> String {
    format!("{} / {name}", group.join(" > "))
}

fn largest(report: &Report, options: &Options) -> Table {
    let name = |block: &LiveBlock| {
        let untagged = block.group.first().map(String::as_str) == Some(UNTAGGED.0);
        let scope = block.path.join(" > ");
        if untagged { scope } else { format!("{} in {scope}", tag(&block.group, &block.name)) }
    };
    let shown = |block: &&LiveBlock| options.shows(&name(block));
    let row = |block: &LiveBlock| {
        let thread = match block.thread.as_str() {
            "" => format!("thread {}", block.thread_id),
            name => super::table::fit(&super::escape(name), 14),
        };
        let cells = vec![bytes(block.bytes), duration(block.allocated_at_ns), thread];
        Row { level: 0, name: name(block), cells }
    };
    Table {
        title: "Largest live blocks".to_owned(),
        headers: vec!["size", "allocated at", "thread"],
        rows: report.largest_live.iter().filter(shown).take(options.top).map(row).collect(),
        footer: None,
    }
}
