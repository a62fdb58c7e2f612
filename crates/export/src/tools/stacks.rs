//! The stacks of a report, as formats of other tools have them.
//!
//! A stack is a list of frames, outermost first. Stacks with the same frames are one stack, so a file has no
//! more of them than a flame graph has ends. A block without a call stack has its scopes as frames, then its
//! group and name: `GlobalScope`, `load level`, `Rendering / Mesh::positions`. If other blocks of the trace
//! have call stacks, the outermost frame is `(no stack)`.
//!
//! In a sampled trace, the figures are the estimates.

use crate::buckets::scope_frames;
use crate::interner::Interner;
use memledger_document::internal::{Calls, Weights};
use memledger_document::{BucketRow, Figures, Frames, Report, StackKind, StackRow};
use std::borrow::Cow;
use std::collections::HashMap;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct NamedFrame {
    pub(super) name: String,
    /// The source file and the line in it, if they are known and asked for.
    pub(super) source: Option<(String, u32)>,
}

/// One stack.
#[derive(Debug, Default)]
pub(super) struct Stack {
    /// Outermost first, at least one: indices of [`Stacks::frames`].
    pub(super) frames: Vec<u32>,
    /// Without a peak of its own: the stacks that are merged have theirs at different times.
    pub(super) figures: Figures,
    weights: Option<Box<Weights>>,
}

/// All stacks that have figures.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    pub(super) frames: Vec<NamedFrame>,
    /// Stacks that begin with the same frames are neighbours.
    pub(super) all: Vec<Stack>,
    /// By bucket: its stack, an index of `all`; `None` if other blocks count for its blocks.
    pub(super) of_bucket: Vec<Option<usize>>,
}

impl Stacks {
    /// The stacks of `report`. Calls from different lines of one function are different frames only
    /// with `lines`. In a report without [`Report::by_bucket`], blocks without a call stack have
    /// only their scopes.
    pub(super) fn of(report: &Report, frames: Frames, lines: bool) -> Self {
        let mut builder = Builder::new(report, frames, lines);
        if !report.by_bucket.is_empty() {
            for row in &report.by_bucket {
                let stack = builder.of_bucket(row);
                builder.stacks.of_bucket.push(stack);
                builder.add(stack, &row.figures, row.weights.as_deref());
            }
        } else if !report.by_stack.is_empty() {
            for (index, row) in report.by_stack.iter().enumerate() {
                let stack = builder.of_row(index, &row, None);
                builder.add(stack, &row.figures, row.weights.as_deref());
            }
        } else {
            for row in &report.by_scope {
                let scopes = row.path.iter().map(|name| Cow::Borrowed(name.as_str()));
                let stack = builder.of_context(None, scopes);
                builder.add(stack, &row.figures, None);
            }
        }
        builder.finish()
    }
}

struct Builder<'a> {
    report: &'a Report,
    calls: Calls<'a>,
    lines: bool,
    stacks: Stacks,
    frames: Interner<NamedFrame>,
    by_frames: HashMap<Vec<u32>, usize>,
    /// PERF: by call: its frame; by row of `by_stack`: its stack. A name is made once for each call.
    frame_of_call: Vec<Option<u32>>,
    stack_of_row: Vec<Option<usize>>,
}

impl<'a> Builder<'a> {
    fn new(report: &'a Report, frames: Frames, lines: bool) -> Self {
        let calls = Calls::of(report, frames);
        Self {
            report,
            lines,
            stacks: Stacks::default(),
            frames: Interner::default(),
            by_frames: HashMap::new(),
            frame_of_call: vec![None; calls.different().len()],
            stack_of_row: vec![None; report.by_stack.len()],
            calls,
        }
    }

    fn of_bucket(&mut self, bucket: &BucketRow) -> Option<usize> {
        if bucket.figures == Figures::default() {
            return None;
        }
        let by_stack = &self.report.by_stack;
        let row = bucket.stack.and_then(|index| Some((index, by_stack.get(index)?)));
        match row {
            Some((index, row)) => self.of_row(index, &row, Some(bucket)),
            None => self.of_context(None, scope_frames(self.report, bucket)),
        }
    }

    /// The stack of a row of `by_stack`, or of a bucket with this row; `None` if other blocks count
    /// for its blocks.
    fn of_row(
        &mut self,
        index: usize,
        row: &StackRow,
        bucket: Option<&BucketRow>,
    ) -> Option<usize> {
        // The blocks of the sample count for all others in the estimates.
        let sampled = self.report.stack_sampling_bytes.is_some();
        if sampled && row.kind == StackKind::NotTaken {
            return None;
        }
        let label = row.label(self.report);
        if let (Some(label), Some(bucket)) = (label, bucket) {
            return self.of_context(Some(label), scope_frames(self.report, bucket));
        }
        if self.stack_of_row[index].is_none() {
            let calls: Vec<_> = self.calls.shown(index).rev().collect();
            let frames = calls.into_iter().map(|call| self.of_call(call)).collect();
            self.stack_of_row[index] = Some(self.stack(frames));
        }
        self.stack_of_row[index]
    }

    /// The stack of these names.
    fn of_context<'n>(
        &mut self,
        label: Option<&'n str>,
        names: impl Iterator<Item = Cow<'n, str>>,
    ) -> Option<usize> {
        let names = label.map(Cow::Borrowed).into_iter().chain(names);
        let frame = |name: Cow<'_, str>| NamedFrame { name: name.into_owned(), source: None };
        let frames = names.map(|name| self.frames.number(frame(name))).collect();
        Some(self.stack(frames))
    }

    fn of_call(&mut self, call: u32) -> u32 {
        let (calls, frames) = (&self.calls, &mut self.frames);
        *self.frame_of_call[calls.index(call)].get_or_insert_with(|| {
            let call = calls.get(call);
            let source = call.source().filter(|_| self.lines);
            let source = source.map(|(file, line)| (file.to_owned(), line));
            frames.number(NamedFrame { name: call.name_of_function().to_owned(), source })
        })
    }

    fn stack(&mut self, frames: Vec<u32>) -> usize {
        let all = &mut self.stacks.all;
        *self.by_frames.entry(frames).or_insert_with_key(|frames| {
            all.push(Stack { frames: frames.clone(), ..Stack::default() });
            all.len() - 1
        })
    }

    fn add(&mut self, stack: Option<usize>, figures: &Figures, weights: Option<&Weights>) {
        let Some(stack) = stack else { return };
        let stack = &mut self.stacks.all[stack];
        match weights {
            Some(weights) => stack.weights.get_or_insert_default().add(weights),
            None => stack.figures.add(figures),
        }
    }

    fn finish(self) -> Stacks {
        let mut stacks = Stacks { frames: self.frames.all, ..self.stacks };
        for stack in &mut stacks.all {
            if let Some(weights) = &stack.weights {
                stack.figures.add(&weights.estimates().values());
            }
        }
        let mut order: Vec<_> = (0..stacks.all.len()).collect();
        order.sort_unstable_by(|&a, &b| stacks.all[a].frames.cmp(&stacks.all[b].frames));
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, &stack)| place[stack] = at);
        stacks.of_bucket.iter_mut().flatten().for_each(|stack| *stack = place[*stack]);
        stacks.all.sort_unstable_by(|a, b| a.frames.cmp(&b.frames));
        stacks
    }
}
