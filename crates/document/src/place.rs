//! Where the blocks of a set are allocated: the functions of the program's own code that nearly all of them
//! have in common; and who has most of the peak.

use crate::calls::{Calls, Frames};
use crate::figures::Figures;
use crate::findings::{Caller, PeakBy, Place, SourceLines, is_share, millionths};
use crate::report::Report;
use crate::sort;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// All of a set is at a function that has at least this share of it, in percent.
const NEARLY_ALL: u64 = 95;
/// A set beside that with most of the peak is said from this share of the peak on, in millionths.
const NEXT: u64 = 250_000;
/// No more callers, and no more functions with a share each, are named than this.
const NAMES: usize = 3;
/// No more lines of one function.
const LINES: usize = 2;

/// A function: the first of the different calls that has its name and file.
pub type Function = u32;
/// One call of it: a file and a line.
type Line<'a> = Option<(&'a str, u32)>;

impl Calls<'_> {
    /// The name of a function, and the file that it is in.
    pub fn name_and_file(&self, function: Function) -> (&str, Option<&str>) {
        let call = &self.different()[function as usize];
        (call.name_of_function(), call.source().map(|(file, _)| file))
    }

    /// The functions of the program's own code in a stack, innermost first, each once, with the line of its
    /// innermost call. All if none has a name. A closure counts as the function around it.
    pub fn own_functions(&self, stack: usize) -> Vec<(Function, Line<'_>)> {
        let all = self.shown(stack).filter(|&call| !self.is_text(call));
        let has_own = all.clone().any(|call| self.own(call).is_named_own);
        let mut functions = Vec::<(Function, Line<'_>)>::new();
        // The closure further in: with its line, if the function around it is in its file.
        let (mut inner, mut closure) = (None, None);
        for call in all {
            let own = self.own(call);
            if has_own && !own.is_named_own {
                continue;
            }
            let line = self.get(call).source();
            if own.is_closure {
                closure = closure.or(Some((own.function, line)));
                inner = inner.or(line);
                continue;
            }
            let of_function = line.map(|(file, _)| file);
            let inner_line = inner.take().filter(|(file, _)| Some(*file) == of_function);
            closure = None;
            // Functions that call one another recur.
            if functions.iter().all(|(other, _)| *other != own.function) {
                functions.push((own.function, inner_line.or(line)));
            }
        }
        functions.extend(closure);
        functions
    }

    /// The first of them.
    pub fn own_function(&self, stack: usize) -> Option<Function> {
        // PERF: most stacks have it among their innermost calls.
        let mut own =
            self.shown(stack).filter(|&call| !self.is_text(call)).map(|call| self.own(call));
        let own = own.find(|own| own.is_named_own && !own.is_closure);
        own.map(|own| own.function).or_else(|| Some(self.own_functions(stack).first()?.0))
    }

    /// The place of a set: stacks, each with what it has of what the set is about. `None` if no stack has a
    /// function.
    pub fn place_of(&self, set: &[(usize, u64)]) -> Option<Place> {
        let sums = Sums::of(self, set);
        let is_nearly_all = |(function, _): &&(Function, Line<'_>)| {
            let sum = sums.all.get(function).map_or(0, |of| of.sum);
            is_share(sum, sums.whole, NEARLY_ALL)
        };
        let mut common = sums.largest.iter().filter(is_nearly_all).map(|(function, _)| *function);
        let is_main = |function: Function| is_main(self.name_and_file(function).0);
        let is_place = |of: &Function| !is_main(*of) || sums.has_all(*of);
        let Some(function) = common.next().filter(is_place) else {
            return self.shares(&sums);
        };
        let (mains, others): (Vec<_>, Vec<_>) = common.partition(|of| is_main(*of));
        let callers = if others.is_empty() { mains } else { others };
        let name = |of: Function| self.name_and_file(of).0.to_owned();
        let caller = |of: Function| made!(Caller { function: name(of), source: sums.source(of) });
        Some(made!(Place {
            function: Some(name(function)),
            source: sums.source(function),
            callers: callers.into_iter().take(NAMES).map(caller).collect()
        }))
    }

    /// The place of a set that no function has nearly all of.
    fn shares(&self, sums: &Sums<'_>) -> Option<Place> {
        let mut parts: Vec<_> = sums.all.iter().filter(|(_, of)| of.own > 0).collect();
        sort::by_key(&mut parts, |(function, of)| {
            (Reverse(of.own), self.name_and_file(**function))
        });
        let name = |function: Function| self.name_and_file(function).0.to_owned();
        let share = |(function, of): &(&Function, &Sum<'_>)| {
            (name(**function), millionths(of.own, sums.whole))
        };
        let (function, _) = parts.first()?;
        Some(made!(Place {
            function: Some(name(**function)),
            source: sums.source(**function),
            shares: parts.iter().take(NAMES).map(share).collect()
        }))
    }
}

/// What functions have of a set.
#[derive(Default)]
struct Sums<'a> {
    whole: u64,
    all: HashMap<Function, Sum<'a>>,
    /// The functions of the stack with most.
    largest: Vec<(Function, Line<'a>)>,
}

/// What one function has.
#[derive(Default)]
struct Sum<'a> {
    /// Below it.
    sum: u64,
    /// Where it is the innermost one.
    own: u64,
    lines: Vec<((&'a str, u32), u64)>,
}

impl<'a> Sums<'a> {
    fn of(calls: &'a Calls<'_>, set: &[(usize, u64)]) -> Self {
        let mut sums = Self::default();
        let mut most = 0;
        for &(stack, weight) in set {
            let functions = calls.own_functions(stack);
            sums.whole = sums.whole.saturating_add(weight);
            for (depth, (function, line)) in functions.iter().enumerate() {
                let of = sums.all.entry(*function).or_default();
                of.sum = of.sum.saturating_add(weight);
                of.own = of.own.saturating_add(if depth == 0 { weight } else { 0 });
                let Some(line) = line else { continue };
                match of.lines.iter_mut().find(|(of, _)| of == line) {
                    Some((_, sum)) => *sum = sum.saturating_add(weight),
                    None => of.lines.push((*line, weight)),
                }
            }
            if weight >= most && !functions.is_empty() {
                (most, sums.largest) = (weight, functions);
            }
        }
        sums
    }

    /// Whether a function is the innermost one of nearly all.
    fn has_all(&self, function: Function) -> bool {
        self.all.get(&function).is_some_and(|of| is_share(of.own, self.whole, NEARLY_ALL))
    }

    fn source(&self, function: Function) -> SourceLines {
        self.all.get(&function).map_or_else(SourceLines::default, |of| source_of(&of.lines))
    }
}

/// The lines with most, of those in the file of the first.
fn source_of(lines: &[((&str, u32), u64)]) -> SourceLines {
    let mut lines = lines.to_vec();
    sort::by_key(&mut lines, |(line, weight)| (Reverse(*weight), *line));
    let Some(((file, _), _)) = lines.first() else { return SourceLines::default() };
    let of_file = lines.iter().map(|(line, _)| line).filter(|(of, _)| of == file);
    let lines = of_file.map(|(_, line)| *line).take(LINES).collect();
    made!(SourceLines { file: Some((*file).to_owned()), lines })
}

/// Whether it is where a program or one of its threads begins.
pub fn is_main(name: &str) -> bool {
    matches!(name, "main" | "_start" | "<module>")
        || name.ends_with("::main")
        || name.ends_with(".<module>")
}

/// A function or a scope, with the blocks below it.
#[derive(Default)]
struct Candidate {
    set: PeakBy,
    /// What it has itself.
    own: u64,
    /// It says nothing: where the program begins.
    is_main: bool,
}

impl Report {
    /// The set of blocks with most of the peak: all below the innermost function of the program's code that
    /// has half of it, otherwise those of the function that has most; of scopes in a trace without stacks.
    /// `None` if nothing has a name, or if only a sample of blocks has a stack. What `Analyzer::find` has put
    /// into [`peak_by`](Self::peak_by), if it was asked.
    pub fn find_peak_by(&self) -> Option<PeakBy> {
        self.peak_by.clone().or_else(|| Calls::of(self, Frames::Folded).peak_by())
    }

    /// Each scope with all inside it, apart from these; without their rows but its own.
    fn scopes(&self, without: &[PeakBy]) -> Vec<Candidate> {
        let rows = self.by_scope.iter().enumerate();
        let is_rest = |path: &[String]| {
            let mut scopes = without.iter().map(|set| &set.place.scope);
            scopes.all(|scope| !path.starts_with(scope) && !scope.starts_with(path))
        };
        let of = rows.filter(|(_, row)| row.inclusive.live_bytes_at_peak > 0 && is_rest(&row.path));
        of.map(|(number, row)| {
            let mut one = Candidate { is_main: row.path.len() <= 1, ..Candidate::default() };
            one.add(number, &row.inclusive, false);
            one.own = if one.is_main { 0 } else { row.figures.live_bytes_at_peak };
            one
        })
        .collect()
    }
}

impl Calls<'_> {
    /// See [`Report::find_peak_by`].
    pub fn peak_by(&self) -> Option<PeakBy> {
        if self.report.stack_sampling_bytes.is_some() {
            return None;
        }
        let held = self.held_at_peak();
        let mut sets = vec![self.peak_without(&[], &held)?];
        while let Some(next) = self.peak_without(&sets, &held).filter(|it| it.weight >= NEXT) {
            sets.push(next);
        }
        let set = sets.remove(0);
        Some(made!(PeakBy { next: sets, ..set }))
    }

    /// The set with most of what is in none of these.
    fn peak_without(&self, sets: &[PeakBy], held: &[Held]) -> Option<PeakBy> {
        let report = self.report;
        let whole = report.totals.peak_bytes;
        let others: u64 = sets.iter().map(|set| set.bytes).sum();
        let half = whole.saturating_sub(others).div_ceil(2).max(1);
        // Beside the first: at least what is said, and half of the rest if a function has that.
        let said = if sets.is_empty() { half } else { whole.div_ceil(4).max(1) };
        let enough = [half.max(said), said];
        if report.by_stack.is_empty() {
            let set = self.most_of(report.scopes(sets), enough)?;
            let scope = report.by_scope[*set.rows.first()?].path.clone();
            let is_inside = |row: &usize| report.by_scope[*row].path.starts_with(&scope);
            let rows = (0..report.by_scope.len()).filter(is_inside).collect();
            return Some(made!(PeakBy { place: made!(Place { scope }), rows, ..set }));
        }
        let set = self.most_of(self.candidates(sets, held), enough)?;
        let weight = |&stack: &usize| (stack, report.by_stack.figures(stack).live_bytes_at_peak);
        let weights: Vec<_> = set.rows.iter().map(weight).collect();
        Some(made!(PeakBy { place: self.place_of(&weights)?, ..set }))
    }

    /// The innermost one that has enough, or otherwise that with most of its own.
    fn most_of(&self, all: Vec<Candidate>, enough: [u64; 2]) -> Option<PeakBy> {
        // Of functions that have as much, the innermost one comes first.
        let innermost = |enough: &u64| {
            let of = all.iter().filter(|one| one.set.bytes >= *enough && !one.is_main);
            of.min_by_key(|one| one.set.bytes)
        };
        let of_most = || all.iter().rev().max_by_key(|one| one.own).filter(|one| one.own > 0);
        let set = enough.iter().find_map(innermost).or_else(of_most)?.set.clone();
        let weight = millionths(set.bytes, self.report.totals.peak_bytes);
        Some(made!(PeakBy { weight, ..set }))
    }

    /// What has blocks at the peak.
    ///
    /// PERF: once for all sets.
    fn held_at_peak(&self) -> Vec<Held> {
        let stacks = self.report.by_stack.all_figures().enumerate();
        let held = stacks.filter(|(_, figures)| figures.live_bytes_at_peak > 0);
        let functions = |stack| self.own_functions(stack).into_iter().map(|(of, _)| of).collect();
        held.map(|(stack, figures)| Held { stack, figures, functions: functions(stack) }).collect()
    }

    /// Each function with all below it that is in none of these.
    fn candidates(&self, without: &[PeakBy], held: &[Held]) -> Vec<Candidate> {
        let mut all = Vec::<Candidate>::new();
        let mut by_function = HashMap::<Function, usize>::new();
        let without: HashSet<_> = without.iter().flat_map(|set| &set.rows).collect();
        for Held { stack, figures, functions } in
            held.iter().filter(|it| !without.contains(&it.stack))
        {
            for (depth, &function) in functions.iter().enumerate() {
                let number = *by_function.entry(function).or_insert(all.len());
                if number == all.len() {
                    let is_main = is_main(self.name_and_file(function).0);
                    all.push(Candidate { is_main, ..Candidate::default() });
                }
                all[number].add(*stack, figures, depth == 0);
            }
        }
        all
    }
}

/// A stack with blocks at the peak.
struct Held {
    stack: usize,
    figures: Figures,
    /// Those of the program's own code, innermost first.
    functions: Vec<Function>,
}

impl Candidate {
    fn add(&mut self, row: usize, figures: &Figures, is_own: bool) {
        let set = &mut self.set;
        set.bytes = set.bytes.saturating_add(figures.live_bytes_at_peak);
        set.blocks = set.blocks.saturating_add(figures.live_blocks_at_peak);
        set.rows.push(row);
        self.own += if is_own { figures.live_bytes_at_peak } else { 0 };
    }
}
