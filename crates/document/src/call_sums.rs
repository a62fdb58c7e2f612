//! The figures of functions, lines and crates.
//!
//! A depth-first walk over the tree of stacks keeps the calls from the outermost one to the node it is at.
//! The figures of a stack are added to the call that allocates, and each call passes its sum on to its caller
//! when the walk leaves it: so each node is looked at once, however many stacks go through it.
//!
//! ```text
//! main > read > parse      the walk is at a stack that ends in parse: its figures go to the sum of parse
//! main > read              parse is left: its sum goes to the row of parse, and to the sum of read
//! ```
//!
//! A call that is shown in one stack can be folded in another that goes through it, so there is a sum for
//! each [`Way`] in which the calls of a stack are folded. In one way, a call is shown in all stacks that go
//! through it and on to the same call, or in none.

use crate::calls::{CallKind, Calls, Frames, Marks};
use crate::estimate::Weights;
use crate::figures::{Estimates, Figures};
use crate::own::Whose;
use crate::report::Report;
use crate::rows::order;
use crate::sort;
use crate::stacks::StackRows;
use crate::tree::StackTree;
use std::collections::HashMap;

/// One function, line or crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallRow {
    /// The function, `file:line`, or the crate. Without symbols, and without a line, `module+0xoffset`;
    /// for a crate, the name of the module's file. `(no stack)`, `(other)` and `(unknown stack)` for
    /// blocks without a stack.
    pub name: String,
    /// The source file of a line.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// Blocks that this function, line or crate allocated itself, or by folded calls. NOTE: without
    /// the row's own peak, which the accounts do not have.
    pub figures: Figures,
    /// The same with all that it called. A stack counts once, however often it recurs in it.
    pub inclusive: Figures,
    weights: Option<Box<[Weights; 2]>>,
}

impl CallRow {
    /// Estimates for [`figures`](Self::figures) and for [`inclusive`](Self::inclusive), if the trace
    /// has only a sample of stacks.
    pub fn estimates(&self) -> Option<[Estimates; 2]> {
        self.weights.as_ref().map(|weights| weights.each_ref().map(Weights::estimates))
    }

    fn add_own(&mut self, figures: &Figures, weights: Option<&Weights>) {
        self.figures.add(figures);
        self.figures.add_moves(figures);
        if let Some(weights) = weights {
            self.weights.get_or_insert_default()[0].add(weights);
        }
    }

    fn add_inclusive(&mut self, figures: &Figures, weights: Option<&Weights>) {
        self.inclusive.add(figures);
        self.inclusive.add_moves(figures);
        if let Some(weights) = weights {
            self.weights.get_or_insert_default()[1].add(weights);
        }
    }
}

impl Report {
    /// By function; empty in a trace without stacks.
    pub fn by_function(&self, frames: Frames) -> Vec<CallRow> {
        self.by_call(CallKind::Function, frames)
    }

    /// By source line, as [`by_function`](Self::by_function). Each stack counts at the innermost line of the
    /// program's own code, or of any code if there is none, and the lines that it was called from.
    pub fn by_line(&self, frames: Frames) -> Vec<CallRow> {
        self.by_call(CallKind::Line, frames)
    }

    /// By crate, as [`by_function`](Self::by_function).
    pub fn by_crate(&self, frames: Frames) -> Vec<CallRow> {
        self.by_call(CallKind::Crate, frames)
    }

    #[doc(hidden)]
    pub fn by_call(&self, kind: CallKind, frames: Frames) -> Vec<CallRow> {
        Calls::of(self, frames).rows(kind)
    }
}

impl Calls<'_> {
    /// The rows of all stacks; of lines, from the innermost call of the program's own code on.
    pub fn rows(&self, kind: CallKind) -> Vec<CallRow> {
        let from_own = kind == CallKind::Line;
        let mut walk = Walk::new(self, kind, from_own);
        walk.walk(&self.report.by_stack);
        walk.finish()
    }
}

/// The ways in which the calls of a stack are folded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// By what each call is.
    Usual,
    /// So are those of an interpreter, since the stack has a script.
    Script,
    /// Not at all: nothing would be shown otherwise, or all is wanted.
    Whole,
}

impl Way {
    const ALL: [Self; 3] = [Self::Usual, Self::Script, Self::Whole];

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A call on the path from the outermost one to where the walk is. Positions are those of steps in the path.
#[derive(Clone, Copy)]
struct Step {
    /// An index of [`Calls::different`].
    call: usize,
    row: usize,
    /// The ways in which this is the outermost shown call of its row: in these, the row has its sum.
    counts: u8,
    /// Whether it is a `main` that is folded, since the next call is of std's runtime.
    is_hidden: bool,
    has_script: bool,
    /// From here outwards, in the first two ways: the innermost shown call, and that of the program's own
    /// code.
    shown: [Option<usize>; 2],
    shown_own: [Option<usize>; 2],
    /// The same of all calls: the innermost of std, and of the program's own code.
    in_std: Option<usize>,
    own: Option<usize>,
}

/// The sum of the stacks that go through a call, in one way.
#[derive(Default)]
struct Sum {
    any: bool,
    figures: Figures,
    weights: Option<Box<Weights>>,
}

impl Sum {
    fn add(&mut self, figures: &Figures, weights: Option<&Weights>) {
        self.any = true;
        self.figures.add(figures);
        self.figures.add_moves(figures);
        if let Some(weights) = weights {
            self.weights.get_or_insert_default().add(weights);
        }
    }
}

struct Walk<'a> {
    calls: &'a Calls<'a>,
    kind: CallKind,
    from_own: bool,
    path: Vec<Step>,
    /// By position in the path, and by way. PERF: not part of a step, so that these are not moved.
    sums: Vec<[Sum; 3]>,
    rows: Vec<CallRow>,
    by_name: HashMap<String, usize>,
    /// By call: its row. PERF: a name is made once for each call.
    row_of: Vec<Option<usize>>,
    /// By row: the ways in which a call on the path has its sum, and whether it has any figures.
    is_on_path: Vec<u8>,
    is_counted: Vec<bool>,
}

impl<'a> Walk<'a> {
    fn new(calls: &'a Calls<'a>, kind: CallKind, from_own: bool) -> Self {
        Self {
            calls,
            kind,
            from_own: from_own && calls.frames == Frames::Folded,
            path: Vec::new(),
            sums: Vec::new(),
            rows: Vec::new(),
            by_name: HashMap::new(),
            row_of: vec![None; calls.different().len()],
            is_on_path: Vec::new(),
            is_counted: Vec::new(),
        }
    }

    fn walk(&mut self, stacks: &StackRows) {
        let children = Children::of(stacks);
        for (row, node) in stacks.nodes().enumerate() {
            if StackTree::root(node).is_some() {
                self.add_text(stacks, row);
            }
        }
        // The nodes around the current one, each with the length of the path around it.
        let mut around = Vec::new();
        for root in 0..children.first.len().min(StackTree::ROOTS) as u32 {
            let mut next = children.first(root);
            loop {
                if let Some(node) = next {
                    around.push((node, self.path.len()));
                    let calls = self.calls.of_frame(stacks.frame(node));
                    calls.rev().for_each(|number| self.enter(self.calls.index(number)));
                    if let Some(row) = children.row(node) {
                        self.add(stacks, row);
                    }
                    next = children.first(node);
                } else if let Some((node, length)) = around.pop() {
                    (length..self.path.len()).for_each(|_| self.leave());
                    next = children.next(node);
                } else {
                    break;
                }
            }
        }
    }

    fn marks(&self, call: usize) -> &'a Marks {
        &self.calls.marks[call]
    }

    /// The next call, from the outermost one inwards.
    fn enter(&mut self, call: usize) {
        if self.calls.frames == Frames::Folded
            && let Some(&Step { call: caller, .. }) = self.path.last()
        {
            let Marks { is_entry, is_main, .. } = *self.marks(caller);
            if is_entry {
                // All that it calls is folded.
                return;
            }
            self.set_hidden(is_main && self.marks(call).is_runtime);
        }
        self.push(call, false);
    }

    /// Whether the innermost call is hidden by what it calls next.
    fn set_hidden(&mut self, is_hidden: bool) {
        if let Some(&Step { call, is_hidden: was_hidden, .. }) = self.path.last()
            && was_hidden != is_hidden
        {
            self.leave();
            self.push(call, is_hidden);
        }
    }

    fn push(&mut self, call: usize, is_hidden: bool) {
        let Marks { folded, whose, is_in_std, .. } = *self.marks(call);
        let (at, row, around) = (self.path.len(), self.row(call), self.path.last());
        let has_script = around.is_some_and(|step| step.has_script) || whose == Whose::Script;
        let mut shows = Way::Whole.bit();
        if !folded && !is_hidden {
            let runs_script = whose == Whose::Interpreter;
            shows |= Way::Usual.bit() | if runs_script { 0 } else { Way::Script.bit() };
        }
        let is_own = whose != Whose::Others;
        let of = |outer: Option<usize>, is_it: bool| if is_it { Some(at) } else { outer };
        let in_ways = |outer: [Option<usize>; 2], is_it: bool| {
            [Way::Usual, Way::Script]
                .map(|way| of(outer[way as usize], is_it && shows & way.bit() != 0))
        };
        let step = Step {
            call,
            row,
            counts: shows & !self.is_on_path[row],
            is_hidden,
            has_script,
            shown: in_ways(around.map_or([None; 2], |step| step.shown), true),
            shown_own: in_ways(around.map_or([None; 2], |step| step.shown_own), is_own),
            in_std: of(around.and_then(|step| step.in_std), is_in_std),
            own: of(around.and_then(|step| step.own), is_own),
        };
        self.is_on_path[row] |= step.counts;
        self.path.push(step);
        if self.sums.len() < self.path.len() {
            self.sums.push(Default::default());
        }
    }

    fn leave(&mut self) {
        let Some(step) = self.path.pop() else { return };
        self.is_on_path[step.row] &= !step.counts;
        let (around, sums) = self.sums.split_at_mut(self.path.len());
        for way in Way::ALL {
            let sum = &mut sums[0][way as usize];
            if !sum.any {
                continue;
            }
            if step.counts & way.bit() != 0 {
                self.rows[step.row].add_inclusive(&sum.figures, sum.weights.as_deref());
                self.is_counted[step.row] = true;
            }
            let sum = std::mem::take(sum);
            match around.last_mut().map(|sums| &mut sums[way as usize]) {
                Some(outer) if outer.any => outer.add(&sum.figures, sum.weights.as_deref()),
                Some(outer) => *outer = sum,
                None => {}
            }
        }
    }

    /// Adds the stack that ends here.
    fn add(&mut self, stacks: &StackRows, row: usize) {
        let Some(end) = self.path.len().checked_sub(1) else { return self.add_text(stacks, row) };
        self.set_hidden(false);
        let step = &self.path[end];
        let way = if step.has_script { Way::Script } else { Way::Usual };
        let is_all = self.calls.frames == Frames::All;
        let (way, at) = match step.shown[way as usize] {
            _ if is_all => (Way::Whole, end),
            Some(shown) => {
                let own = step.shown_own[way as usize].filter(|_| self.from_own);
                (way, own.unwrap_or(shown))
            }
            None => {
                // What std does for itself says more than how it allocates.
                let by_std = step.in_std.unwrap_or(end);
                let own = self.path[by_std].own.filter(|_| self.from_own);
                (Way::Whole, own.unwrap_or(by_std))
            }
        };
        let (figures, weights) = (stacks.figures(row), stacks.weights(row));
        let own = self.path[at].row;
        self.rows[own].add_own(&figures, weights);
        self.is_counted[own] = true;
        self.sums[at][way as usize].add(&figures, weights);
    }

    /// Adds a stack without calls: a text has a row only where there is no call.
    fn add_text(&mut self, stacks: &StackRows, row: usize) {
        let Some(number) = self.calls.text_of(row) else { return };
        let text = self.row(self.calls.index(number));
        let (figures, weights) = (stacks.figures(row), stacks.weights(row));
        self.rows[text].add_own(&figures, weights);
        self.rows[text].add_inclusive(&figures, weights);
        self.is_counted[text] = true;
    }

    /// The row of a call, new if need be.
    fn row(&mut self, call: usize) -> usize {
        if let Some(row) = self.row_of[call] {
            return row;
        }
        let of = &self.calls.different()[call];
        let (name, source) = (of.name(self.kind), of.source());
        let row = self.by_name.get(&*name).copied().unwrap_or_else(|| {
            let (file, line) = source.filter(|_| self.kind == CallKind::Line).unzip();
            let name = name.into_owned();
            self.by_name.insert(name.clone(), self.rows.len());
            let file = file.map(str::to_owned);
            self.rows.push(CallRow { name, file, line, ..CallRow::default() });
            self.is_on_path.push(0);
            self.is_counted.push(false);
            self.rows.len() - 1
        });
        self.row_of[call] = Some(row);
        row
    }

    fn finish(self) -> Vec<CallRow> {
        let rows = self.rows.into_iter().zip(self.is_counted);
        // Calls that are never shown have none.
        let mut rows: Vec<_> =
            rows.filter(|(_, is_counted)| *is_counted).map(|(row, _)| row).collect();
        sort::by(&mut rows, |a, b| order(&a.figures, &b.figures).then_with(|| a.name.cmp(&b.name)));
        rows
    }
}

/// The nodes below each node of the tree of stacks, without those below which no row is.
struct Children {
    /// By node: the first one below it, and the next one beside it.
    first: Vec<u32>,
    next: Vec<u32>,
    /// By node: its row.
    row: Vec<u32>,
}

/// In place of a node or a row.
const NONE: u32 = u32::MAX;

impl Children {
    fn of(stacks: &StackRows) -> Self {
        let tree = stacks.tree();
        let [mut first, mut next, mut row] = [(); 3].map(|()| vec![NONE; tree.len()]);
        for (number, node) in stacks.nodes().enumerate() {
            row[node as usize] = number as u32;
        }
        // A parent comes before its children, so what is below a node is known here.
        for node in (StackTree::ROOTS..tree.len()).rev() {
            if row[node] != NONE || first[node] != NONE {
                let parent = tree.parent(node as u32) as usize;
                next[node] = std::mem::replace(&mut first[parent], node as u32);
            }
        }
        Self { first, next, row }
    }

    fn at(list: &[u32], node: u32) -> Option<u32> {
        list.get(node as usize).copied().filter(|&at| at != NONE)
    }

    fn first(&self, node: u32) -> Option<u32> {
        Self::at(&self.first, node)
    }

    fn next(&self, node: u32) -> Option<u32> {
        Self::at(&self.next, node)
    }

    fn row(&self, node: u32) -> Option<usize> {
        Self::at(&self.row, node).map(|row| row as usize)
    }
}
