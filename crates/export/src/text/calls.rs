//! Tables of functions, lines and crates, and the tree of stacks.
//!
//! The tree has a node for each way from the outermost function inwards or, bottom up, from the
//! function that allocates to its callers. As in the tree of scopes, a node without figures of its own
//! and with one node below it shares a row with that: `main > … > parse`.

use super::sections::{enough, more};
use super::table::{Row, Table};
use crate::column::{Cells, Column};
use crate::interner::Interner;
use crate::names;
use crate::options::{Options, Sort};
use memledger_document::internal::{CallKind, Calls, Pieces, Unnamed, Weights, by_key, sort};
use memledger_document::{CallRow, Estimates, Figures, Frames, Report, short_path};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

const AT_PEAK: Column = Column::Of(by_key("live_bytes_at_peak"));
const LIVE: Column = Column::Of(by_key("live_bytes"));
const ALLOCATED: Column = Column::Of(by_key("allocated_bytes"));
const COUNT: Column = Column::Of(by_key("allocations"));

/// The columns of a function, line or crate.
const ROWS: &[Column] = &[
    AT_PEAK,
    Column::Share,
    LIVE,
    ALLOCATED,
    COUNT,
    Column::Inclusive(by_key("live_bytes_at_peak")),
    Column::ShortLived,
];
/// The columns of a node of the tree.
const TREE: &[Column] = &[AT_PEAK, Column::Share, LIVE, ALLOCATED, COUNT, Column::ShortLived];

/// The order of rows. A sum over stacks has no peak of its own.
fn sort(options: &Options) -> Sort {
    if options.sort == Sort::Peak { Sort::AtPeak } else { options.sort }
}

fn headers(columns: &[Column], options: &Options) -> Vec<&'static str> {
    columns.iter().map(|column| column.header(options.moment.is_some())).collect()
}

/// A table of functions, lines or crates, each with what it allocated itself.
pub(super) fn rows(report: &Report, options: &Options, kind: CallKind) -> Table {
    let with_callees =
        |columns: &[Column]| [columns, &[Column::Inclusive(by_key("live_bytes_at_peak"))]].concat();
    let columns = &options.columns.map_or_else(|| ROWS.to_vec(), with_callees);
    let title = match kind {
        CallKind::Function => "By function",
        CallKind::Line => "By line",
        CallKind::Crate => "By crate",
    };
    let sort = sort(options);
    let rows = report.by_call(kind, options.frames);
    let rows = rows.iter().map(|row| {
        let estimates = row.estimates();
        let figures = match &estimates {
            Some([own, inclusive]) => [own.values(), inclusive.values()],
            None => [row.figures, row.inclusive],
        };
        (row, figures, estimates)
    });
    let mut rows: Vec<_> = rows.filter(|(row, ..)| options.shows(&row.name)).collect();
    // What is not in the sample counts in the estimates.
    if report.stack_sampling_bytes.is_some() {
        rows.retain(|(row, _, estimates)| estimates.is_some() || row.name != NOT_IN_SAMPLE);
    }
    let key = |[own, inclusive]: &[Figures; 2]| {
        let key = |figures: &Figures| (sort.of(figures), figures.allocated_bytes);
        Reverse((key(own), key(inclusive)))
    };
    sort::by(&mut rows, |(a, by_a, _), (b, by_b, _)| {
        key(by_a).cmp(&key(by_b)).then_with(|| a.name.cmp(&b.name))
    });
    let all: u64 = rows.iter().map(|(_, [own, _], _)| sort.of(own)).sum();
    // Callers that allocate nothing themselves are in the way of those that do.
    let own = rows.iter().filter(|(_, [own, _], _)| *own != Figures::default()).count();
    let top = enough(options, rows.iter().map(|(_, [own, _], _)| sort.of(own)), options.top);
    let further = rows.split_off(top.min(own));
    let left = further.iter().filter(|(_, [own, _], _)| *own != Figures::default());
    let (rest, left) = (left.clone().map(|(_, [own, _], _)| sort.of(own)).sum(), left.count());
    let whole = rows.iter().map(|(row, ..)| &*row.name);
    let mut in_table = names::InTable::default();
    let names: Vec<_> = match kind {
        _ if options.verbose => whole.map(str::to_owned).collect(),
        CallKind::Function => names::apart(whole),
        CallKind::Line => lines(rows.iter().map(|(row, ..)| *row)),
        CallKind::Crate => whole.map(|name| in_table.name(name)).collect(),
    };
    let rows = rows.iter().zip(names);
    let shown = rows.map(|((_, [figures, inclusive], estimates), name)| {
        let estimates = estimates.as_ref().map(|[own, _]| own);
        Row { level: 0, name, cells: cells(report, columns, figures, inclusive, estimates) }
    });
    Table {
        title: title.to_owned(),
        headers: headers(columns, options),
        kept: 3,
        names: 0,
        rows: shown.collect(),
        footer: more(options, sort, left, rest, all),
    }
}

/// What is shown of lines: short paths, but whole ones where two files have one short path.
fn lines<'a>(rows: impl Iterator<Item = &'a CallRow> + Clone) -> Vec<String> {
    let mut in_table = names::InTable::default();
    let mut files = HashMap::<&str, HashSet<&str>>::new();
    for file in rows.clone().filter_map(|row| row.file.as_deref()) {
        files.entry(short_path(file)).or_default().insert(file);
    }
    let shown = rows.map(|row| match (&row.file, row.line) {
        (Some(file), Some(line)) if files[short_path(file)].len() == 1 => {
            format!("{}:{line}", short_path(file))
        }
        _ => in_table.name(&row.name),
    });
    shown.collect()
}

/// What call stacks do not say of the program's own code, and how it can be had: a word, and a sentence.
pub(crate) fn unnamed(report: &Report) -> impl Iterator<Item = (&'static str, &'static str)> {
    let Unnamed { lines, scripts, pieces } = Calls::of(report, Frames::Folded).unnamed();
    let lines = lines.then_some((
        "no lines",
        "build with [profile.release] debug = \"line-tables-only\" (C, C++: -g)",
    ));
    let scripts = scripts.then_some((
        "not named",
        "Python's own functions: python3 -X perf names them (Python 3.12 and later)",
    ));
    let pieces = pieces.map(|of| match of {
        Pieces::Python => "Python's small objects: PYTHONMALLOC=malloc makes each a block",
        Pieces::Php => "PHP's values: USE_ZEND_ALLOC=0 makes each a block",
        Pieces::Collector => {
            "a garbage collector's objects: they lie in memory that it maps, and are no blocks"
        }
    });
    let pieces = pieces.map(|sentence| ("in pieces", sentence));
    [scripts, pieces, lines].into_iter().flatten()
}

/// The name of the row of blocks that are not in the sample.
const NOT_IN_SAMPLE: &str = "(not in the sample)";

fn cells(
    report: &Report,
    columns: &[Column],
    figures: &Figures,
    inclusive: &Figures,
    estimates: Option<&Estimates>,
) -> Vec<String> {
    let peak = report.totals.peak_bytes;
    let inclusive = Some(inclusive);
    let cells = Cells { figures, peak, entries: None, largest: 0, inclusive, estimates };
    columns.iter().map(|column| column.cell(&cells)).collect()
}

/// The innermost functions of a stack: `parse < read < main`.
pub(super) fn briefly(calls: &Calls<'_>, stack: usize) -> String {
    /// How many.
    const FUNCTIONS: usize = 3;
    let mut names = calls.shown(stack).map(|call| names::short(calls.function(call)));
    let mut text = names.by_ref().take(FUNCTIONS).collect::<Vec<_>>().join(" < ");
    if names.next().is_some() {
        text.push_str(" < …");
    }
    text
}

/// One node of the tree of stacks.
struct Node {
    parent: usize,
    /// The number of its name.
    name: u32,
    /// How many nodes are below it, and one of them.
    children: usize,
    /// Whether it has figures of its own.
    has_own: bool,
    inclusive: Figures,
    /// PERF: most traces have none, and there can be a million nodes.
    weights: Option<Box<Weights>>,
}

impl Node {
    fn estimates(&self) -> Estimates {
        self.weights.as_deref().copied().unwrap_or_default().estimates()
    }
}

/// The tree of stacks; the first node is above all stacks.
struct Tree {
    nodes: Vec<Node>,
    names: Interner<String>,
}

const ROOT: usize = 0;

impl Tree {
    fn of(report: &Report, options: &Options) -> Self {
        let calls = Calls::of(report, options.frames);
        let mut tree = Self { nodes: Vec::new(), names: Interner::default() };
        tree.add(ROOT, 0);
        // PERF: by call: its name, which is made once.
        let mut by_call = vec![None; calls.different().len()];
        let mut children = HashMap::<(usize, u32), usize>::new();
        for (number, row) in report.by_stack.iter().enumerate() {
            if row.label(report) == Some(NOT_IN_SAMPLE) && report.stack_sampling_bytes.is_some() {
                continue;
            }
            let mut path: Vec<_> = calls.shown(number).collect();
            if !options.bottom_up {
                path.reverse();
            }
            let mut at = ROOT;
            for call in path {
                let name = *by_call[calls.index(call)]
                    .get_or_insert_with(|| tree.names.text(calls.function(call)));
                at = *children.entry((at, name)).or_insert_with(|| tree.add(at, name));
            }
            let node = &mut tree.nodes[at];
            let before = node.inclusive;
            node.inclusive.add(&row.figures);
            node.has_own |= node.inclusive != before;
            if let Some(weights) = row.weights.as_deref() {
                node.weights.get_or_insert_default().add(weights);
            }
        }
        tree.sum(report.stack_sampling_bytes.is_some());
        tree
    }

    fn add(&mut self, parent: usize, name: u32) -> usize {
        if let Some(parent) = self.nodes.get_mut(parent) {
            parent.children += 1;
        }
        let inclusive = Figures::default();
        let (children, has_own, weights) = (0, false, None);
        self.nodes.push(Node { parent, name, children, has_own, inclusive, weights });
        self.nodes.len() - 1
    }

    /// Sums the figures of each node with those below it, which are behind it in the list.
    fn sum(&mut self, is_sampled: bool) {
        for node in (0..self.nodes.len()).rev() {
            let (before, of) = self.nodes.split_at_mut(node);
            let of = &mut of[0];
            if let Some(parent) = before.get_mut(of.parent) {
                parent.inclusive.add(&of.inclusive);
                if let Some(weights) = &of.weights {
                    parent.weights.get_or_insert_default().add(weights);
                }
            }
            if is_sampled {
                of.inclusive = of.estimates().values();
            }
        }
    }

    /// Whether a node shares a row with the one below it.
    fn is_merged(&self, node: usize) -> bool {
        self.nodes[node].children == 1 && !self.nodes[node].has_own
    }

    /// The nodes of a row, outermost first, and the first row around it.
    fn row(&self, node: usize) -> (Vec<usize>, usize) {
        let mut nodes = vec![node];
        let mut at = self.nodes[node].parent;
        while at != ROOT && self.is_merged(at) {
            nodes.push(at);
            at = self.nodes[at].parent;
        }
        nodes.reverse();
        (nodes, at)
    }

    fn name_of(&self, node: usize) -> &str {
        &self.names.all[self.nodes[node].name as usize]
    }

    /// The names of a row, out of `names`; of many, the first and the last.
    fn name(&self, nodes: &[usize], names: &[String]) -> String {
        let text = |node: &usize| names[self.nodes[*node].name as usize].as_str();
        match nodes {
            [] => String::new(),
            [one] => text(one).to_owned(),
            [one, two] => format!("{} > {}", text(one), text(two)),
            [one, two, three] => format!("{} > {} > {}", text(one), text(two), text(three)),
            [first, .., before, last] => {
                let more = nodes.len() - 3;
                format!("{} > … {more} more … > {} > {}", text(first), text(before), text(last))
            }
        }
    }
}

/// The tree of stacks: its largest nodes and the nodes around them.
pub(super) fn tree(report: &Report, options: &Options) -> Table {
    let tree = Tree::of(report, options);
    let columns = options.columns.unwrap_or(TREE);
    let sort = sort(options);
    let key = |node: usize| {
        let figures = &tree.nodes[node].inclusive;
        (sort.of(figures), figures.allocated_bytes)
    };
    let shows = |node: &usize| {
        !tree.is_merged(*node) && key(*node) != (0, 0) && {
            let (nodes, _) = tree.row(*node);
            nodes.iter().any(|node| options.shows(tree.name_of(*node)))
        }
    };
    let mut chosen: Vec<usize> = (1..tree.nodes.len()).filter(shows).collect();
    // NOTE: a stable sort: of equal nodes the outer one comes first.
    sort::by_key(&mut chosen, |&node| Reverse(key(node)));
    let further = chosen.split_off(options.top.min(chosen.len()));
    // By node: the rows below it that are shown.
    let mut below = HashMap::<usize, Vec<usize>>::new();
    let mut is_shown = vec![false; tree.nodes.len()];
    for mut node in chosen {
        while node != ROOT && !std::mem::replace(&mut is_shown[node], true) {
            let (_, around) = tree.row(node);
            below.entry(around).or_default().push(node);
            node = around;
        }
    }
    let mut in_table = names::InTable::default();
    let name = |name: &String| if options.verbose { name.clone() } else { in_table.name(name) };
    let names: Vec<_> = tree.names.all.iter().map(name).collect();
    let mut rows = Vec::new();
    let mut open = vec![(ROOT, 0)];
    while let Some((node, level)) = open.pop() {
        if node != ROOT {
            let of = &tree.nodes[node];
            let estimates = report.stack_sampling_bytes.map(|_| of.estimates());
            let name = tree.name(&tree.row(node).0, &names);
            let cells = cells(report, columns, &of.inclusive, &of.inclusive, estimates.as_ref());
            rows.push(Row { level: level - 1, name, cells });
        }
        let mut inner = below.remove(&node).unwrap_or_default();
        sort::by_key(&mut inner, |&node| (key(node), Reverse(node)));
        open.extend(inner.into_iter().map(|inner| (inner, level + 1)));
    }
    let left = further.iter().filter(|&&node| !is_shown[node]).count();
    let title = if options.bottom_up { "By stack, bottom up" } else { "By stack" };
    Table {
        title: title.to_owned(),
        headers: headers(columns, options),
        kept: 3,
        names: 0,
        rows,
        footer: more(options, sort, left, 0, 0),
    }
}
