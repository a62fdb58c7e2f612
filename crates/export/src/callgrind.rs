//! The file of valgrind's callgrind, for KCachegrind and `callgrind_annotate`: what each function
//! allocated at each of its lines, and which function called which, with all that the call allocated.
//!
//! A function that is on a stack twice has two entries there, as in callgrind with
//! `--separate-recs=2`: `f` for the outermost of its calls, and `f'2` for those within. So what `f`
//! allocated with all that it called is exact. One entry has called all others.

use memledger_analysis::dump::ReportFormat;
use memledger_analysis::dump::text::Options;
use memledger_analysis::format::words::escape;
use memledger_analysis::internal::{Calls, Sealed, figures_of, scope_frames};
use memledger_analysis::{Figures, Report, StackKind};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

/// As costs of functions and calls.
pub(super) struct Format;

/// An event of callgrind: its name, what it is, and the figure.
type Event = (&'static str, &'static str, fn(&Figures) -> u64);

/// The first is what readers sort by. A reallocation is a block as well: its new size counts.
const EVENTS: [Event; 6] = [
    ("PeakBytes", "Bytes live at the peak of the program", |row| row.live_bytes_at_peak),
    ("PeakBlocks", "Blocks live at the peak of the program", |row| row.live_blocks_at_peak),
    ("LiveBytes", "Bytes live at the end", |row| row.live_bytes),
    ("LiveBlocks", "Blocks live at the end", |row| row.live_blocks),
    ("AllocatedBytes", "All bytes ever allocated", |row| row.allocated_bytes),
    ("AllocatedBlocks", "Allocations and reallocations", |row| {
        row.allocations.wrapping_add(row.reallocations)
    }),
];

/// The number of the event that counts calls.
const ALLOCATED_BLOCKS: usize = 5;

/// The figures of a line or a call, in the order of the events.
type Costs = [u64; EVENTS.len()];

/// The entry that has called all others, so that each of these has a caller. Readers take the costs
/// of an entry with all that it called from the calls of its callers.
const ROOT: &str = "(all stacks)";

/// What is not known, as valgrind calls it.
const UNKNOWN: &str = "???";

impl Sealed for Format {}
impl ReportFormat for Format {
    fn name(&self) -> &'static str {
        "callgrind"
    }

    fn about(&self) -> &'static str {
        "Allocations by function and call, for KCachegrind and callgrind_annotate"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["callgrind"]
    }

    fn needs_buckets(&self) -> bool {
        true
    }

    fn write(&self, report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        let mut graph = Graph::new();
        let calls = Calls::of(report, options.frames);
        graph.add_stacks(report, &calls);
        graph.add_scopes(report);
        header(report, graph.totals, out)?;
        graph.write(out)
    }
}

/// What is known of the program and of the figures.
fn header(report: &Report, totals: Costs, out: &mut dyn Write) -> io::Result<()> {
    let trace = &report.trace;
    writeln!(out, "# callgrind format\nversion: 1")?;
    writeln!(out, "creator: memledger {}", env!("CARGO_PKG_VERSION"))?;
    if let Some(pid) = trace.pid {
        writeln!(out, "pid: {pid}")?;
    }
    writeln!(out, "cmd: {}", escape(trace.program.as_deref().unwrap_or(UNKNOWN)))?;
    for note in memledger_analysis::internal::notes(report, false) {
        writeln!(out, "desc: Note: {}", escape(&note))?;
    }
    writeln!(out, "positions: line")?;
    for (name, about, _) in EVENTS {
        writeln!(out, "event: {name} : {about}")?;
    }
    let names = EVENTS.map(|(name, ..)| name).join(" ");
    writeln!(out, "events: {names}\nsummary:{}", numbers(&totals))
}

/// The costs, with a space before each.
fn numbers(costs: &Costs) -> String {
    costs.iter().map(|cost| format!(" {cost}")).collect()
}

/// A function of a program or library. Its code can be from several files, because of macros.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Function<'a> {
    object: &'a str,
    name: Cow<'a, str>,
}

/// One call on a stack.
struct CallSite<'a> {
    function: Function<'a>,
    file: &'a str,
    line: u32,
}

/// A function, in one of its two entries.
struct Entry<'a> {
    function: Function<'a>,
    /// The file of the first call that was met. Lines of other files count as line 0: a function with
    /// two files would be two functions to readers, and what both called would count twice.
    file: &'a str,
    is_within_itself: bool,
    /// By line.
    own: BTreeMap<u32, Costs>,
    /// By the entry that is called, and the line of the call.
    calls: BTreeMap<(usize, u32), Call>,
}

/// The calls of one entry by another, at one line.
#[derive(Default)]
struct Call {
    costs: Costs,
    /// The last stack that was counted: a stack counts once, however often the call recurs in it.
    counted: usize,
}

/// All entries; the first is the root.
struct Graph<'a> {
    entries: Vec<Entry<'a>>,
    numbers: HashMap<(Function<'a>, bool), usize>,
    totals: Costs,
    stacks: usize,
}

impl<'a> Graph<'a> {
    fn new() -> Self {
        let mut graph = Self {
            entries: Vec::new(),
            numbers: HashMap::new(),
            totals: Costs::default(),
            stacks: 0,
        };
        graph.entry(&label_place(ROOT), false);
        graph
    }

    fn entry(&mut self, place: &CallSite<'a>, is_within_itself: bool) -> usize {
        let next = self.entries.len();
        let key = (place.function.clone(), is_within_itself);
        if let Some(&number) = self.numbers.get(&key) {
            return number;
        }
        let (function, file) = (key.0.clone(), place.file);
        let (own, calls) = (BTreeMap::new(), BTreeMap::new());
        self.entries.push(Entry { function, file, is_within_itself, own, calls });
        self.numbers.insert(key, next);
        next
    }

    fn add_stacks(&mut self, report: &'a Report, calls: &'a Calls<'a>) {
        for (row, stack) in report.by_stack.iter().enumerate() {
            if stack.kind == StackKind::NotTaken {
                continue;
            }
            let figures = stack.estimates().map_or(stack.figures, |estimates| estimates.values());
            let called = calls.shown(row).rev().map(|number| {
                let call = calls.get(number);
                let (file, line) = call.source().unwrap_or((UNKNOWN, 0));
                let module = calls
                    .frame_of(number)
                    .and_then(|frame| report.modules.get(report.frames.get(frame)?.module?));
                let object = module.map_or(UNKNOWN, |module| &module.path);
                let name = Cow::Borrowed(call.name_of_function());
                CallSite { function: Function { object, name }, file, line }
            });
            self.add(called, &figures);
        }
    }

    /// Adds what has no call stack, by scope and name.
    fn add_scopes(&mut self, report: &'a Report) {
        for bucket in &report.by_bucket {
            let kind = bucket.stack.and_then(|stack| report.by_stack.kind(stack));
            if kind.is_none_or(|kind| kind == StackKind::NotTaken)
                && let Some(figures) = figures_of(report, bucket)
            {
                let places = scope_frames(report, bucket).map(label_place);
                self.add(places, &figures);
            }
        }
    }

    /// Adds a stack, from the outermost call inwards.
    fn add(&mut self, stack: impl Iterator<Item = CallSite<'a>>, figures: &Figures) {
        let costs = EVENTS.map(|(.., of)| of(figures));
        if costs == Costs::default() {
            return;
        }
        self.stacks += 1;
        add(&mut self.totals, &costs);
        let (mut caller, mut line) = (0, 0);
        let mut path = Vec::<usize>::new();
        for place in stack {
            let outermost = self.entry(&place, false);
            let is_first = !path.contains(&outermost);
            let called = if is_first { outermost } else { self.entry(&place, true) };
            if is_first {
                path.push(outermost);
            }
            let call = self.entries[caller].calls.entry((called, line)).or_default();
            if std::mem::replace(&mut call.counted, self.stacks) != self.stacks {
                add(&mut call.costs, &costs);
            }
            (caller, line) =
                (called, if self.entries[called].file == place.file { place.line } else { 0 });
        }
        add(self.entries[caller].own.entry(line).or_default(), &costs);
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let (mut objects, mut files, mut functions) =
            (Names::default(), Names::default(), Names::default());
        let name_of = |entry: &Entry<'_>| {
            let suffix = if entry.is_within_itself { "'2" } else { "" };
            format!("{}{suffix}", entry.function.name)
        };
        for entry in &self.entries {
            writeln!(out, "\nob={}", objects.reference(entry.function.object))?;
            writeln!(out, "fl={}", files.reference(entry.file))?;
            writeln!(out, "fn={}", functions.reference(&name_of(entry)))?;
            for (line, costs) in &entry.own {
                writeln!(out, "{line}{}", numbers(costs))?;
            }
            for (&(called, line), Call { costs, .. }) in &entry.calls {
                let called = &self.entries[called];
                writeln!(out, "cob={}", objects.reference(called.function.object))?;
                writeln!(out, "cfi={}", files.reference(called.file))?;
                writeln!(out, "cfn={}", functions.reference(&name_of(called)))?;
                // NOTE: a reader takes the costs of 0 calls for the caller's own.
                let count = costs[ALLOCATED_BLOCKS].max(1);
                writeln!(out, "calls={count} 0\n{line}{}", numbers(costs))?;
            }
        }
        writeln!(out, "\ntotals:{}", numbers(&self.totals))
    }
}

/// The place of a name that is no function.
fn label_place<'a>(name: impl Into<Cow<'a, str>>) -> CallSite<'a> {
    let function = Function { object: UNKNOWN, name: name.into() };
    CallSite { function, file: UNKNOWN, line: 0 }
}

fn add(sums: &mut Costs, costs: &Costs) {
    sums.iter_mut().zip(costs).for_each(|(sum, cost)| *sum = sum.wrapping_add(*cost));
}

/// The numbers of names: a name is written once, and its number later.
#[derive(Default)]
struct Names(HashMap<String, usize>);

impl Names {
    fn reference(&mut self, name: &str) -> String {
        let next = self.0.len() + 1;
        if let Some(number) = self.0.get(name) {
            return format!("({number})");
        }
        self.0.insert(name.to_owned(), next);
        format!("({next}) {}", escape(name))
    }
}
