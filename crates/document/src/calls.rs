//! The calls of stacks, and which of them are shown.
//!
//! A frame is one call, or several where functions were inlined. Calls of the standard library and of
//! allocation machinery, and those of libraries that have no name, are *folded*: not shown, unless all are
//! asked for. So are those of an interpreter in a stack that has its scripts. A row is named by the first
//! call of a stack that is shown, from the innermost one; a line, by the first one of the program's own code,
//! if there is one.

use crate::crates::{
    crate_of, crate_of_file, is_allocation_entry, is_folded, is_folded_in, is_last_part,
    of_all_generics, with_module,
};
use crate::findings::is_share;
use crate::own::Whose;
use crate::report::Report;
use crate::rows::Frame;
use crate::symbolizer::{Module, SourceFrame};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// How the files of the loader and of the C++ run-time begin, and what is said of the blocks that the second
/// allocates when the first starts it.
const LOADER: &str = "ld-";
const LIBSTDCXX: &str = "libstdc++.so";
const RESERVE: &str = "(libstdc++ reserve)";

/// What follows the names of calls that are a guess ([`Frame::is_guess`]).
pub const GUESS: &str = " [frame pointer]";

/// Which frames of call stacks are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Frames {
    /// Those of the standard library and of allocation machinery are folded into their callers.
    #[default]
    Folded,
    /// All.
    All,
}

/// What calls are summed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Functions.
    Function,
    /// Source lines.
    Line,
    /// Crates.
    Crate,
}

/// An interpreter has memory in pieces if this share of the peak is mapped, in percent.
const PIECES: u64 = 25;

/// What call stacks do not say of the program's own code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unnamed {
    /// Functions have names but no lines.
    pub lines: bool,
    /// Python runs functions that have no names here.
    pub scripts: bool,
    /// An interpreter or a collector has pieces of memory for its objects, which are no blocks.
    pub pieces: Option<Pieces>,
}

/// Whose objects are no blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pieces {
    /// Of Python.
    Python,
    /// Of PHP.
    Php,
    /// Of a garbage collector: Boehm's, Mono's or Java's.
    Collector,
}

/// How exported functions of garbage collectors begin.
const COLLECTORS: [&str; 3] = ["GC_", "mono_gc_", "JNI_CreateJavaVM"];

/// One call.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    /// Its function, as a report names it.
    pub function: Cow<'a, str>,
    /// What symbols say, if there are any.
    found: Option<&'a SourceFrame>,
    /// The crate, or the name of the module's file.
    owner: Cow<'a, str>,
    marks: Marks,
    is_guess: bool,
}

/// What folding asks of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Marks {
    pub(crate) folded: bool,
    pub(crate) whose: Whose,
    /// Whether all calls that it makes are the allocator's.
    pub(crate) is_entry: bool,
    /// Whether it is a function `main`, which the compiler makes where it calls the runtime of std.
    pub(crate) is_main: bool,
    pub(crate) is_in_std: bool,
    /// Whether it is of the part of std that calls a program's `main`.
    pub(crate) is_runtime: bool,
}

impl Marks {
    const OF_TEXT: Self = Self {
        folded: false,
        whose: Whose::Others,
        is_entry: false,
        is_main: false,
        is_in_std: false,
        is_runtime: false,
    };
}

impl<'a> Call<'a> {
    /// The call that symbols have found at a frame.
    fn of(report: &'a Report, frame: &Frame, found: &'a SourceFrame, frames: Frames) -> Self {
        let function = found.function.as_str();
        let owner = crate_of(function).or_else(|| crate_of_file(found.file.as_deref()?));
        let module = frame.module.and_then(|module| report.modules.get(module));
        let in_module = || module.is_some_and(|module| is_folded_in(module.name(), function));
        // A function of Rust is in a crate, also where its name does not say in which.
        let is_rust = is_last_part(function, found.file.as_deref()).then_some("");
        let name = with_module(function, found.file.as_deref());
        let is_entry = is_allocation_entry(function, found.file.as_deref());
        let folded = is_folded(owner.or(is_rust), function) || is_entry || in_module();
        let whose = match Whose::of(module, Some(found)) {
            // Without a file, the crate says that it is the standard library's.
            Whose::Own if folded && owner.is_some() => Whose::Others,
            whose => whose,
        };
        let name = match frames {
            Frames::Folded => of_all_generics(name),
            Frames::All => name,
        };
        let is_main = name == "main";
        Self {
            function: name,
            found: Some(found),
            owner: Cow::Borrowed(owner.unwrap_or_else(|| file_of(report, frame).unwrap_or("?"))),
            marks: Marks {
                folded,
                whose,
                is_entry,
                is_main,
                is_in_std: owner == Some("std"),
                is_runtime: function.starts_with("std::rt::"),
            },
            is_guess: false,
        }
    }

    /// The call of a frame for which there are no symbols.
    fn without_symbols(report: &'a Report, frame: &Frame) -> Self {
        let (file, offset) = (file_of(report, frame), frame.offset);
        let function = match file {
            Some(file) => format!("{file}+{offset:#x}"),
            None => format!("{offset:#x}"),
        };
        let (function, owner) = (Cow::Owned(function), Cow::Borrowed(file.unwrap_or("?")));
        // Who called the library says more.
        let module = frame.module.and_then(|module| report.modules.get(module));
        let folded = module.is_some_and(Module::is_library);
        let whose = Whose::of(module, None);
        let marks = Marks { folded, whose, ..Marks::OF_TEXT };
        Self { function, found: None, owner, marks, is_guess: false }
    }

    /// Marks it, if it is a guess.
    fn marked(mut self, is_guess: bool) -> Self {
        if is_guess {
            self.function.to_mut().push_str(GUESS);
            self.is_guess = true;
        }
        self
    }

    /// What stands for calls that are not known.
    fn text(text: &'static str) -> Self {
        let marks = Marks::OF_TEXT;
        Self { function: text.into(), found: None, owner: text.into(), marks, is_guess: false }
    }

    /// Its function, as a report names it.
    pub fn name_of_function(&self) -> &str {
        &self.function
    }

    /// Its crate, or the name of the module's file.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Gives it another name, from which its crate follows.
    pub fn rename(&mut self, function: String) {
        let owner = crate_of(&function).map(str::to_owned);
        self.marks.folded = is_folded(owner.as_deref(), &function);
        if let Some(owner) = owner {
            self.owner = Cow::Owned(owner);
        }
        self.function = Cow::Owned(function);
    }

    /// Its function, file and line as symbols have them.
    pub fn found(&self) -> Option<&SourceFrame> {
        self.found
    }

    /// Its file and line.
    pub fn source(&self) -> Option<(&str, u32)> {
        let found = self.found?;
        found.file.as_deref().zip(found.line)
    }

    /// What the call is summed by.
    pub fn name(&self, kind: CallKind) -> Cow<'_, str> {
        match (kind, self.source()) {
            (CallKind::Crate, _) => Cow::Borrowed(&self.owner),
            (CallKind::Line, Some((file, line))) => {
                let mark = if self.is_guess { GUESS } else { "" };
                Cow::Owned(format!("{file}:{line}{mark}"))
            }
            _ => Cow::Borrowed(&self.function),
        }
    }
}

/// What places ask of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnCall {
    /// The first of the different calls that has its function and file.
    pub(crate) function: u32,
    /// Whether it is of the program's own code, and has a name.
    pub(crate) is_named_own: bool,
    pub(crate) is_closure: bool,
}

/// The calls of all stacks of a report. Each has a number. A text such as `(no stack)` has one, too: it
/// stands for unknown calls.
#[expect(missing_debug_implementations, reason = "for our own crates only")]
pub struct Calls<'a> {
    /// The report that they are of.
    pub report: &'a Report,
    /// PERF: a function is called in many frames; what is made of its name is made once for each of these.
    different: Vec<Call<'a>>,
    /// PERF: those of the different calls once more, in so little memory that it stays in the cache.
    pub(crate) marks: Vec<Marks>,
    /// PERF: and what places ask of them, without a look at their names.
    own: Vec<OwnCall>,
    /// Whether a call of a script is among them.
    has_scripts: bool,
    /// By number: its call, an index of `different`.
    of_number: Vec<u32>,
    /// By frame: the numbers of its calls, innermost first.
    by_frame: Vec<Range<u32>>,
    /// The crate of `main`: of code without lines, that is the program's own.
    own_crate: Option<String>,
    /// The number of the first text: they follow the calls.
    texts: u32,
    pub(crate) frames: Frames,
}

impl<'a> Calls<'a> {
    /// The calls of `report`.
    pub fn of(report: &'a Report, frames: Frames) -> Self {
        let (mut different, mut of_number) = (Vec::<Call<'_>>::new(), Vec::new());
        let mut known = HashMap::new();
        let mut by_frame = Vec::with_capacity(report.frames.len());
        for frame in &report.frames {
            let start = of_number.len() as u32;
            of_number.extend(frame.functions.iter().map(|found| {
                *known.entry((frame.module, found, frame.is_guess)).or_insert_with(|| {
                    different.push(Call::of(report, frame, found, frames).marked(frame.is_guess));
                    different.len() as u32 - 1
                })
            }));
            if frame.functions.is_empty() {
                of_number.push(different.len() as u32);
                different.push(Call::without_symbols(report, frame).marked(frame.is_guess));
            }
            by_frame.push(start..of_number.len() as u32);
        }
        let mut calls = Self {
            report,
            different,
            marks: Vec::new(),
            own: Vec::new(),
            has_scripts: false,
            own_crate: None,
            texts: of_number.len() as u32,
            of_number,
            by_frame,
            frames,
        };
        calls.name_reserves();
        calls.marks = calls.different.iter().map(|call| call.marks).collect();
        calls.has_scripts = calls.marks.iter().any(|marks| marks.whose == Whose::Script);
        let main = calls.different.iter().find(|call| call.function.ends_with("::main"));
        calls.own_crate = main.map(|call| call.owner.clone().into_owned());
        calls.own = calls.own_calls();
        calls.add_texts();
        calls
    }

    /// Names what libstdc++ allocates when the loader starts it: memory for exceptions, which it keeps.
    fn name_reserves(&mut self) {
        let report = self.report;
        let with_name = |start: &str| {
            let modules = report.modules.iter().map(Module::name);
            modules.map(|name| name.starts_with(start)).collect::<Vec<_>>()
        };
        let (libraries, loaders) = (with_name(LIBSTDCXX), with_name(LOADER));
        if !libraries.contains(&true) {
            return;
        }
        let is_in = |frame: u32, modules: &[bool]| {
            let frame = report.frames.get(frame as usize);
            frame.and_then(|frame| modules.get(frame.module?)).is_some_and(|is| *is)
        };
        for row in 0..report.by_stack.len() {
            let mut frames = report.by_stack.frames(row);
            if let (Some(inner), Some(caller)) = (frames.next(), frames.next())
                && is_in(inner, &libraries)
                && is_in(caller, &loaders)
                && let Some(calls) = self.by_frame.get(inner as usize)
            {
                for number in calls.clone() {
                    let call = self.index(number);
                    self.different[call].function = Cow::Borrowed(RESERVE);
                    self.different[call].marks.folded = false;
                }
            }
        }
    }

    /// What of the program's own code has no names or lines.
    pub fn unnamed(&self) -> Unnamed {
        // Folded ones are the tracker's.
        let of = |whose: Whose| {
            let is = move |marks: &Marks| marks.whose == whose && !marks.folded;
            self.different.iter().filter(move |call| is(&call.marks))
        };
        let own = of(Whose::Own).filter_map(|call| call.found);
        let has_lines = own.clone().any(|found| found.line.is_some());
        let calls = |name| of(Whose::Interpreter).any(move |call| call.function.starts_with(name));
        let (is_interpreted, is_php) = (calls("_PyEval_"), calls("zend_"));
        let interpreter = is_interpreted.then_some(Pieces::Python);
        let interpreter = interpreter.or(is_php.then_some(Pieces::Php));
        let of_collector =
            |call: &Call<'_>| COLLECTORS.iter().any(|name| call.function.starts_with(name));
        let collects = || self.different.iter().any(of_collector);
        let owner = interpreter.or_else(|| collects().then_some(Pieces::Collector));
        // They map these pieces themselves.
        let mapped = self.report.by_heap.iter().filter(|heap| heap.name == "Mapped");
        let mapped = mapped.map(|heap| heap.figures.live_bytes_at_peak).sum();
        let is_much = is_share(mapped, self.report.totals.peak_bytes, PIECES);
        Unnamed {
            pieces: owner.filter(|_| is_much),
            lines: own.count() > 0 && !has_lines && !is_interpreted,
            scripts: is_interpreted && !self.has_scripts,
        }
    }

    /// All different calls: those with one number in [`index`](Self::index) are one.
    pub fn different(&self) -> &[Call<'a>] {
        &self.different
    }

    /// Applies `change` to each different call.
    pub fn change(&mut self, change: impl FnMut(&mut Call<'a>)) {
        self.different.iter_mut().for_each(change);
        for (marks, call) in self.marks.iter_mut().zip(&self.different) {
            *marks = call.marks;
        }
        self.own = self.own_calls();
    }

    /// The call with this number, as an index of [`different`](Self::different).
    pub fn index(&self, number: u32) -> usize {
        self.of_number[number as usize] as usize
    }

    /// The call with this number.
    pub fn get(&self, number: u32) -> &Call<'a> {
        &self.different[self.index(number)]
    }

    /// The function of the call with this number, or the text.
    pub fn function(&self, number: u32) -> &str {
        self.get(number).name_of_function()
    }

    /// The frame that a call is of: an index of [`Report::frames`].
    pub fn frame_of(&self, number: u32) -> Option<usize> {
        let frame = self.by_frame.partition_point(|calls| calls.end <= number);
        (frame < self.by_frame.len()).then_some(frame)
    }

    /// Adds the texts that stacks have in place of calls.
    fn add_texts(&mut self) {
        for row in 0..self.report.by_stack.len() {
            if let Some(text) = self.text(row)
                && self.number_of(text).is_none()
            {
                self.of_number.push(self.different.len() as u32);
                let call = Call::text(text);
                self.marks.push(call.marks);
                self.different.push(call);
            }
        }
    }

    /// The text that a stack has in place of calls.
    fn text(&self, row: usize) -> Option<&'static str> {
        self.report.by_stack.text(row, self.report)
    }

    /// The number of this text.
    pub(crate) fn text_of(&self, row: usize) -> Option<u32> {
        self.number_of(self.text(row)?)
    }

    fn number_of(&self, text: &str) -> Option<u32> {
        (self.texts..self.of_number.len() as u32).find(|&number| self.function(number) == text)
    }

    /// Whether this is the number of such a text.
    pub fn is_text(&self, number: u32) -> bool {
        number >= self.texts
    }

    /// All calls of a stack, innermost first, then the text in place of those that are not known: the number
    /// of each, and whether it is folded. If all would be: none from the innermost of std on, or none at all.
    /// `row` is an index of [`Report::by_stack`].
    pub fn of_stack(&self, row: usize) -> Vec<(u32, bool)> {
        let mut all = Vec::with_capacity(64);
        for frame in self.report.by_stack.frames(row) {
            all.extend(self.of_frame(frame).map(|number| (number, false)));
        }
        if self.frames == Frames::Folded {
            self.fold(&mut all);
        }
        all.extend(self.text_of(row).map(|number| (number, false)));
        all
    }

    /// The numbers of the calls of a frame, innermost first.
    pub(crate) fn of_frame(&self, frame: u32) -> Range<u32> {
        self.by_frame.get(frame as usize).cloned().unwrap_or_default()
    }

    fn fold(&self, all: &mut [(u32, bool)]) {
        let marks = |&(number, _): &(u32, bool)| self.marks[self.index(number)];
        let entry = all.iter().rposition(|call| marks(call).is_entry);
        let (inner, outer) = all.split_at_mut(entry.unwrap_or(0));
        inner.iter_mut().for_each(|(_, is_folded)| *is_folded = true);
        let is_script = |call: &(u32, bool)| marks(call).whose == Whose::Script;
        let has_script = self.has_scripts && outer.iter().any(is_script);
        let (mut calls_runtime, mut shows_any) = (false, false);
        for call in &mut *outer {
            let Marks { folded, whose, is_main, is_runtime, .. } = marks(call);
            let runs_script = has_script && whose == Whose::Interpreter;
            call.1 = folded || runs_script || is_main && calls_runtime;
            shows_any |= !call.1;
            calls_runtime = is_runtime;
        }
        if !shows_any {
            // What std does for itself says more than how it allocates.
            let by_std = outer.iter().position(|call| marks(call).is_in_std).unwrap_or(0);
            outer[by_std..].iter_mut().for_each(|(_, is_folded)| *is_folded = false);
        }
    }

    /// The calls of a stack that are shown, innermost first, then the text in place of those that are not
    /// known.
    pub fn shown(&self, row: usize) -> impl DoubleEndedIterator<Item = u32> + Clone {
        let all = self.of_stack(row).into_iter();
        all.filter(|(_, is_folded)| !is_folded).map(|(number, _)| number)
    }

    /// The same from the innermost call of the program's own code on, if there is one: a library allocates
    /// for its caller. All of them if all frames are wanted.
    pub fn shown_from_own(&self, row: usize) -> impl Iterator<Item = u32> {
        let shown = self.shown(row);
        let own = shown.clone().position(|number| self.is_own(number));
        shown.skip(own.filter(|_| self.frames == Frames::Folded).unwrap_or(0))
    }

    fn own_calls(&self) -> Vec<OwnCall> {
        let mut first = HashMap::new();
        let own = (0..).zip(&self.different).map(|(index, call)| {
            let (name, file) = (call.name_of_function(), call.source().map(|(file, _)| file));
            let is_in_crate =
                || self.own_crate.as_ref().is_none_or(|own| call.owner == own.as_str());
            let is_named = call.found.is_some() && (file.is_some() || is_in_crate());
            OwnCall {
                function: *first.entry((name, file)).or_insert(index),
                is_named_own: is_named && call.marks.whose != Whose::Others,
                is_closure: is_closure(name),
            }
        });
        own.collect()
    }

    /// What places ask of the call with this number, which is no text.
    pub(crate) fn own(&self, number: u32) -> OwnCall {
        self.own[self.index(number)]
    }

    /// Whether the call with this number is of the program's own code.
    pub fn is_own(&self, number: u32) -> bool {
        self.marks[self.index(number)].whose != Whose::Others
    }
}

/// Whether it is a closure, or the body of an `async` function.
fn is_closure(name: &str) -> bool {
    // The parameters of the function around it can follow.
    let name = name.rfind("}<").map_or(name, |end| &name[..=end]);
    name.ends_with('}') && name.rsplit("::").next().is_some_and(|last| last.starts_with('{'))
}

/// The name of the file of a frame's module.
fn file_of<'a>(report: &'a Report, frame: &Frame) -> Option<&'a str> {
    Some(report.modules.get(frame.module?)?.name())
}

impl Report {
    /// The functions of a stack, innermost first: `stack` is an index of
    /// [`by_stack`](Self::by_stack).
    pub fn functions_of(&self, stack: usize, frames: Frames) -> Vec<String> {
        let calls = Calls::of(self, frames);
        calls.shown(stack).map(|call| calls.function(call).to_owned()).collect()
    }
}
