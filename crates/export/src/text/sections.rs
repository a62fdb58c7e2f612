//! The tables of the report, and their rows.

use super::calls;
use super::llm;
use super::rss;
use super::table::{Row, Table};
use super::tree::{Node, joined, pick};
use crate::column::{Cells, Column, in_none_of};
use crate::names::{fit, is_untagged, shown_heap, shown_scope, tag};
use crate::options::{By, Options, Sort};
use crate::units::{bytes, duration, percent};
#[cfg(feature = "query")]
use memledger_analysis::Answer;
use memledger_document::internal::{CallKind, Calls, GLOBAL_SCOPE, WHOLE_PROGRAM, by_key};
use memledger_document::{Figures, HeapRow, LiveBlock, Report, ResidentMapping, StaticVariable};
use memledger_format::words::escape;
use std::borrow::Cow;
use std::cmp::Reverse;

const AT_PEAK: Column = Column::Of(by_key("live_bytes_at_peak"));
const LIVE: Column = Column::Of(by_key("live_bytes"));
const ALLOCATED: Column = Column::Of(by_key("allocated_bytes"));
const COUNT: Column = Column::Of(by_key("allocations"));
const REALLOCATIONS: Column = Column::Of(by_key("reallocations"));

/// Columns of the first tables, without and with entries of scopes, the most important first.
const HELD: &[Column] = &[AT_PEAK, Column::Share, LIVE, ALLOCATED, COUNT];
const HELD_BY_ENTERED: &[Column] =
    &[AT_PEAK, Column::Share, LIVE, ALLOCATED, Column::Entries, Column::Each];
const MOST: &[Column] = &[ALLOCATED, COUNT, REALLOCATIONS, Column::ShortLived];
const LEFT: &[Column] = &[LIVE, Column::Of(by_key("live_blocks")), Column::Largest];
/// Columns of a table that was asked for. The report's columns that are in no other table follow
/// them.
const ALL: &[Column] = &[
    AT_PEAK,
    Column::Share,
    Column::Of(by_key("peak_bytes")),
    LIVE,
    ALLOCATED,
    COUNT,
    REALLOCATIONS,
];

/// The tables of the report, without empty ones.
pub(super) fn tables(report: &Report, options: &Options) -> Vec<Table> {
    let one = |by| one(report, options, by);
    let has_tags = report.by_name.iter().any(|row| !is_untagged(&row.group, &row.name));
    let has_scopes = report.by_scope.len() > 1;
    let mut all = Vec::new();
    if let Some(by) = options.by {
        all.push(one(by));
    } else {
        if options.verbose && report.by_heap.len() > 1 || has_heaps(report) {
            let heaps = heaps(report).collect();
            all.push(held(report, options, heaps, "Who held the peak, by heap"));
        }
        if has_scopes {
            all.push(held(report, options, scopes(report), "Who held the peak"));
        }
        if has_tags {
            all.push(held(report, options, names(report), "Who held the peak, by name"));
        }
        let has_stacks = !report.by_stack.is_empty();
        if !has_scopes && !has_tags && !has_stacks && report.by_thread.len() > 1 {
            let threads = threads(report).collect();
            all.push(held(report, options, threads, "Who held the peak, by thread"));
        }
        // Functions say more exactly than scopes which code allocates.
        if has_stacks {
            let top = if has_scopes { options.top.div_ceil(2) } else { options.top };
            let options = Options { top, ..options.clone() };
            all.push(calls::rows(report, &options, CallKind::Function));
        } else if has_scopes {
            all.push(allocates_most(report, options));
        }
        if has_scopes {
            all.push(still_live(report, options));
        }
        if options.verbose || are_notable(report) {
            all.push(static_variables(report, options));
        }
        if options.verbose {
            all.extend([one(By::Thread), one(By::Size)]);
            all.extend([
                rss::table(report, options),
                mapped_by(report, options),
                rss::allocators(report),
            ]);
        }
        all.push(llm::table(report, options));
        all.push(largest(report, options, options.largest()));
    }
    all.retain(|table| !table.rows.is_empty());
    all
}

/// Whether several heaps have more than next to nothing of the peak.
fn has_heaps(report: &Report) -> bool {
    let peak = report.totals.peak_bytes;
    let is_some = |row: &&HeapRow| row.figures.live_bytes_at_peak > peak / 100;
    report.by_heap.iter().filter(is_some).count() > 1
}

/// The table of all rows by `by`.
pub(super) fn one(report: &Report, options: &Options, by: By) -> Table {
    match by {
        By::Scope => whole(report, options, scopes(report), "By scope"),
        By::Group => whole(report, options, groups(report), "By group"),
        By::Name => whole(report, options, flat_names(report).collect(), "By name"),
        By::Thread => whole(report, options, threads(report).collect(), "By thread"),
        By::Heap => whole(report, options, heaps(report).collect(), "By heap"),
        By::Size => whole(report, options, sizes(report).collect(), "By size"),
        By::Lifetime => whole(report, options, Vec::new(), "By lifetime"),
        By::Stack => calls::tree(report, options),
        By::Function => calls::rows(report, options, CallKind::Function),
        By::Line => calls::rows(report, options, CallKind::Line),
        By::Crate => calls::rows(report, options, CallKind::Crate),
    }
}

/// The rows and columns that a table shows.
struct Shape<'a> {
    title: &'a str,
    columns: &'a [Column],
    /// How many columns are never left out.
    kept: usize,
    rows: usize,
    /// What the rows are sorted by.
    sort: Sort,
    /// Whether rows whose sort key is 0 are left out.
    only_with: bool,
}

/// One table of the first screen: of rows that held something.
fn held(report: &Report, options: &Options, nodes: Vec<Node<'_>>, title: &str) -> Table {
    let entered = nodes.iter().any(|node| node.entries.is_some());
    let columns = if entered { HELD_BY_ENTERED } else { HELD };
    let (sort, only_with) = (options.sort, options.sort == Sort::AtPeak);
    let shape = Shape { title, columns, kept: 3, rows: options.top, sort, only_with };
    table(report, options, &nodes, &shape)
}

/// A table that was asked for.
fn whole(report: &Report, options: &Options, mut nodes: Vec<Node<'_>>, title: &str) -> Table {
    let mut columns = options.columns.unwrap_or(ALL).to_vec();
    if options.columns.is_some() {
        nodes.retain(|node| node.inclusive != Figures::default());
    } else {
        columns.extend(in_none_of(&[HELD, HELD_BY_ENTERED, MOST, LEFT, ALL]));
        if nodes.iter().any(|node| node.entries.is_some()) {
            columns.extend([Column::Entries, Column::Each]);
        }
    }
    let has_inner = nodes.iter().any(|node| node.path.len() > 1);
    let title = match has_inner && !options.inclusive {
        true => format!("{title}, without inner ones"),
        false => title.to_owned(),
    };
    let (rows, sort) = (options.top, options.sort);
    let columns = &columns;
    let shape = Shape { title: &title, columns, kept: 4, rows, sort, only_with: false };
    table(report, options, &nodes, &shape)
}

fn allocates_most(report: &Report, options: &Options) -> Table {
    let (title, rows) = ("Allocates most itself", options.top.div_ceil(2));
    let sort = Sort::Allocated;
    let shape = Shape { title, columns: MOST, kept: 2, rows, sort, only_with: true };
    table(report, options, &flat_scopes(report), &shape)
}

fn still_live(report: &Report, options: &Options) -> Table {
    let nodes = flat_scopes(report);
    let title = match options.moment {
        Some(_) => "Live then, by scope",
        None => "Still live at the end, by scope",
    };
    let (rows, sort) = (options.top.div_ceil(2), Sort::Live);
    let shape = Shape { title, columns: LEFT, kept: 3, rows, sort, only_with: true };
    let mut table = table(report, options, &nodes, &shape);
    // The line `live at end` already says that all live blocks are outside the program's scopes.
    let outermost = report.by_scope.iter().find(|row| row.path.len() == 1);
    if outermost.is_some_and(|row| row.figures.live_blocks == report.totals.live_blocks) {
        table.rows.clear();
    }
    table
}

/// The rows of `nodes` that `shape` and `options` select.
fn table(report: &Report, options: &Options, nodes: &[Node<'_>], shape: &Shape<'_>) -> Table {
    let figures = |node: &Node<'_>| if options.inclusive { node.inclusive } else { node.own };
    let first = |figures: &Figures| shape.sort.of(figures);
    let key = |node: &Node<'_>| {
        let figures = figures(node);
        [first(&figures), figures.peak_bytes, figures.allocated_bytes]
    };
    let shows = |node: &Node<'_>| {
        let figures = figures(node);
        let counts = if shape.only_with {
            first(&figures) > 0
        } else {
            options.inclusive || figures != Figures::default()
        };
        counts && options.shows(&joined(&node.path, node.is_tag))
    };
    let own = nodes.iter().filter(|node| shows(node)).map(|node| first(&node.own));
    // Otherwise a row has what others have, too.
    let is_flat = nodes.iter().all(|node| node.own == node.inclusive);
    let top = if is_flat { enough(options, own, shape.rows) } else { shape.rows };
    let (picked, left) = pick(nodes, top, key, shows);
    let peak = report.totals.peak_bytes;
    let rows = picked.iter().map(|row| {
        let (entries, largest) = (row.node.entries, row.node.largest);
        let figures = &figures(row.node);
        let (inclusive, estimates) = (None, None);
        let cells = Cells { figures, peak, entries, largest, inclusive, estimates };
        Row {
            level: row.level,
            name: row.name.clone(),
            cells: shape.columns.iter().map(|column| column.cell(&cells)).collect(),
        }
    });
    let all: u64 = nodes.iter().map(|node| first(&node.own)).sum();
    let shown: u64 = picked.iter().map(|row| first(&row.node.own)).sum();
    Table {
        title: shape.title.to_owned(),
        headers: shape.columns.iter().map(|c| c.header(options.moment.is_some())).collect(),
        kept: shape.kept,
        names: 0,
        rows: rows.collect(),
        footer: more(options, shape.sort, left, all.saturating_sub(shown), all),
    }
}

/// Of a table that was not asked for: how many rows have 95 % of these figures, at least 3 and at most `top`.
pub(super) fn enough(options: &Options, of: impl Iterator<Item = u64>, top: usize) -> usize {
    if options.by.is_some() || options.verbose {
        return top;
    }
    let mut of: Vec<_> = of.collect();
    of.sort_unstable_by_key(|figure| Reverse(*figure));
    let all: u128 = of.iter().copied().map(u128::from).sum();
    let sums = of.iter().scan(0_u128, |sum, figure| {
        *sum += u128::from(*figure);
        Some(*sum)
    });
    let rows = (1 + sums.take_while(|sum| sum * 100 < all * 95).count()).max(3);
    // A line says how many are left, which is no shorter than one of them.
    if of.len() <= rows + 1 { top } else { rows.min(top) }
}

/// A last line, for `left` rows that are not shown; they have `rest` of `all`.
pub(super) fn more(
    options: &Options,
    sort: Sort,
    left: usize,
    rest: u64,
    all: u64,
) -> Option<String> {
    let whole = match sort {
        Sort::AtPeak if options.columns.is_some() => "of the bytes",
        Sort::Count if options.columns.is_some() => "of the blocks",
        Sort::AtPeak => "of the peak",
        Sort::Live => "of what is live",
        Sort::Allocated => "of what was allocated",
        Sort::Count => "of all allocations",
        // The peaks of different rows are at different times.
        Sort::Peak => "",
    };
    let share = if rest == 0 || whole.is_empty() {
        String::new()
    } else {
        format!(", with {} {whole}", percent(rest, all))
    };
    let flag = if options.flags && options.by.is_some() {
        format!(" (--top {})", options.top.saturating_add(left))
    } else {
        String::new()
    };
    (left > 0).then(|| format!("… and {left} more{share}{flag}"))
}

/// Whether one of the tables has functions in it.
pub(super) fn shows_functions(report: &Report, options: &Options) -> bool {
    options.by.is_none_or(By::is_of_calls) && report.has_names()
}

impl Options {
    /// How many of the largest live blocks are shown.
    fn largest(&self) -> usize {
        self.largest_live.unwrap_or(if self.verbose { self.top } else { 0 })
    }

    pub(crate) fn shows(&self, name: &str) -> bool {
        let Some(filter) = &self.filter else { return true };
        name.to_lowercase().contains(&filter.to_lowercase())
    }
}

fn node<'a>(path: Vec<Cow<'a, str>>, own: &Figures, inclusive: &Figures) -> Node<'a> {
    let (own, inclusive) = (*own, *inclusive);
    Node { path, own, inclusive, entries: None, largest: 0, is_tag: false }
}

fn texts(names: &[String]) -> Vec<Cow<'_, str>> {
    names.iter().map(|name| Cow::Borrowed(&**name)).collect()
}

fn scopes(report: &Report) -> Vec<Node<'_>> {
    let rows = report.by_scope.iter();
    rows.map(|row| Node {
        entries: row.entries,
        ..node(scope_names(&row.path), &row.figures, &row.inclusive)
    })
    .collect()
}

/// A scope stack as texts show it.
fn scope_names(path: &[String]) -> Vec<Cow<'_, str>> {
    let mut names = texts(path);
    if let Some(outermost) = names.first_mut().filter(|name| **name == GLOBAL_SCOPE) {
        *outermost = Cow::Borrowed(WHOLE_PROGRAM);
    }
    names
}

/// Scopes without those inside them, each with its path from the outermost scope, which is left
/// out.
fn flat_scopes(report: &Report) -> Vec<Node<'_>> {
    let rows = report.by_scope.iter().map(|row| {
        let name = vec![Cow::Owned(shown_scope(&row.path))];
        Node { largest: row.largest_live_bytes, ..node(name, &row.figures, &row.figures) }
    });
    rows.collect()
}

fn groups(report: &Report) -> Vec<Node<'_>> {
    let rows = report.by_group.iter();
    rows.map(|row| node(texts(&row.group), &row.figures, &row.inclusive)).collect()
}

/// Groups with the names in them; the names have all the figures.
fn names(report: &Report) -> Vec<Node<'_>> {
    let none = Figures::default();
    let groups = report.by_group.iter().map(|row| node(texts(&row.group), &none, &row.inclusive));
    let names = report.by_name.iter().map(|row| {
        let mut path = texts(&row.group);
        path.push(Cow::Borrowed(&row.name));
        Node { is_tag: true, ..node(path, &row.figures, &row.figures) }
    });
    groups.chain(names).collect()
}

fn flat_names(report: &Report) -> impl Iterator<Item = Node<'_>> {
    report.by_name.iter().map(|row| {
        let name = vec![Cow::Owned(tag(&row.group, &row.name))];
        node(name, &row.figures, &row.figures)
    })
}

fn threads(report: &Report) -> impl Iterator<Item = Node<'_>> {
    report.by_thread.iter().map(|row| {
        let (name, id) = (&row.name, row.id);
        let name = if name.is_empty() { format!("thread {id}") } else { format!("{name} ({id})") };
        node(vec![Cow::Owned(name)], &row.figures, &row.figures)
    })
}

fn heaps(report: &Report) -> impl Iterator<Item = Node<'_>> {
    let name = |name: &String| vec![Cow::Owned(shown_heap(name).to_owned())];
    report.by_heap.iter().map(move |row| node(name(&row.name), &row.figures, &row.figures))
}

fn sizes(report: &Report) -> impl Iterator<Item = Node<'_>> {
    report.by_size.iter().map(|row| {
        let min = row.min_bytes;
        let name = match row.max_bytes {
            Some(max) if max < 1024 => format!("{min} to {max} B"),
            Some(max) => format!("up to {}", bytes(max)),
            None => format!("above {}", bytes(min - 1)),
        };
        node(vec![Cow::Owned(name)], &row.figures, &row.figures)
    })
}

/// What single blocks are called: who allocated them.
struct BlockNames<'a>(Calls<'a>);

impl BlockNames<'_> {
    fn name(&self, block: &LiveBlock) -> String {
        let scope = shown_scope(&block.path);
        let name = match is_untagged(&block.group, &block.name) {
            true => scope,
            false => format!("{} in {scope}", tag(&block.group, &block.name)),
        };
        match block.stack.map(|stack| calls::briefly(&self.0, stack)) {
            Some(stack) if self.0.report.by_scope.len() > 1 => format!("{stack} in {name}"),
            Some(stack) => stack,
            None => name,
        }
    }
}

/// Size, address, time of allocation, thread.
fn block_cells(block: &LiveBlock) -> Vec<String> {
    let thread = match block.thread.as_str() {
        "" => format!("thread {}", block.thread_id),
        name => fit(&escape(name), 14),
    };
    let address = format!("{:#x}", block.address);
    vec![bytes(block.bytes), address, duration(block.allocated_at_ns), thread]
}

/// The single blocks that a query has found.
#[cfg(feature = "query")]
pub(super) fn block_table(answer: &Answer, options: &Options) -> Table {
    let report = answer.report();
    let names = BlockNames(Calls::of(report, options.frames));
    let any_freed = answer.blocks.iter().any(|found| found.single.freed().is_some());
    let rows = answer.blocks.iter().map(|found| {
        let mut cells = block_cells(&found.block);
        if any_freed {
            let freed = found.single.freed();
            cells.insert(3, freed.map_or("-".to_owned(), |(_, at_ns)| duration(at_ns)));
        }
        Row { level: 0, name: names.name(&found.block), cells }
    });
    let mut headers = vec!["size", "address", "allocated at", "thread"];
    if any_freed {
        headers.insert(3, "freed at");
    }
    Table {
        title: "Largest blocks".to_owned(),
        kept: headers.len(),
        headers,
        names: 0,
        rows: rows.filter(|row| options.shows(&row.name)).collect(),
        footer: None,
    }
}

/// Whether static variables have an eighth of the resident memory at the end.
fn are_notable(report: &Report) -> bool {
    let bytes: u64 = report.static_variables.iter().map(|of| of.bytes).fold(0, u64::saturating_add);
    report.rss.as_ref().is_some_and(|rss| bytes > rss.end_bytes / 8)
}

/// The static variables that are resident at the end.
fn static_variables(report: &Report, options: &Options) -> Table {
    let row = |of: &StaticVariable| {
        let module = report.modules.get(of.module).map_or("", |module| module.name());
        let (name, size) = match &of.name {
            Some(name) => (name.as_str(), bytes(of.size)),
            None => ("(other variables)", String::new()),
        };
        Row { level: 0, name: format!("{name} in {module}"), cells: vec![bytes(of.bytes), size] }
    };
    let all = report.rss.as_ref().map_or(0, |rss| rss.end_bytes);
    let rows = report.static_variables.iter().filter(|of| options.verbose || of.bytes > all / 100);
    Table {
        title: "Resident static variables".to_owned(),
        headers: vec!["at end", "size"],
        kept: 1,
        names: 0,
        rows: rows.take(options.top).map(row).collect(),
        footer: None,
    }
}

/// Who has mapped what is resident at the end, and is no block.
fn mapped_by(report: &Report, options: &Options) -> Table {
    let end = report.rss.as_ref().and_then(|rss| rss.end.as_ref());
    let calls = Calls::of(report, options.frames);
    let row = |of: &ResidentMapping| {
        let name = of.stack.map(|stack| calls::briefly(&calls, stack));
        let name = name.unwrap_or_else(|| "(not known)".to_owned());
        Row { level: 0, name, cells: vec![bytes(of.bytes)] }
    };
    Table {
        title: "Resident, mapped by".to_owned(),
        headers: vec!["at end"],
        kept: 1,
        names: 0,
        rows: end.map_or(&[][..], |end| &end.mapped_by).iter().take(options.top).map(row).collect(),
        footer: Some(
            "private pages of files and of MAP_NORESERVE, as they were written; they are no blocks"
                .into(),
        ),
    }
}

fn largest(report: &Report, options: &Options, count: usize) -> Table {
    let names = BlockNames(Calls::of(report, options.frames));
    let shown = |block: &&LiveBlock| options.shows(&names.name(block));
    let row =
        |block: &LiveBlock| Row { level: 0, name: names.name(block), cells: block_cells(block) };
    Table {
        title: "Largest live blocks".to_owned(),
        headers: vec!["size", "address", "allocated at", "thread"],
        kept: 4,
        names: 0,
        rows: report.largest_live.iter().filter(shown).take(count).map(row).collect(),
        footer: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_ends_where_its_rows_have_95_percent() {
        let options = Options::default();
        let of = |figures: &[u64]| enough(&options, figures.iter().copied(), 10);
        assert_eq!(of(&[1, 1, 1, 1, 96]), 3);
        let of_seven = |fourth| of(&[24, 24, 24, fourth, 98 - 72 - fourth, 1, 1]);
        assert_eq!([of_seven(23), of_seven(22)], [4, 5]);
        assert_eq!(of(&[96, 1, 1, 1]), 10);
        assert_eq!(of(&[1; 100]), 10);
        let asked = Options { by: Some(By::Function), ..Options::default() };
        assert_eq!(enough(&asked, [96, 1, 1, 1, 1].into_iter(), 10), 10);
    }
}
