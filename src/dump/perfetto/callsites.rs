//! The callstacks of a heap profile: of functions, or of scopes where a block has no stack.

use super::sequence::intern;
use crate::analysis::{BucketRow, CallKind, Calls, CodeRange, Report};
use crate::dump::buckets::{figures_of, scope_frames};
use crate::protobuf::Message;
use crate::protobuf::perfetto::{callstack, frame, interned_data, mapping};
use std::collections::HashMap;

/// One frame. Its texts are numbers of [`Texts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Frame {
    name: u32,
    /// The mapping and the address in its file; `None` if it is no code.
    code: Option<(u32, u64)>,
    source: Option<(u32, u32)>,
}

/// Texts by number.
#[derive(Debug, Default)]
struct Texts {
    numbers: HashMap<String, u32>,
    all: Vec<String>,
}

impl Texts {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.all.len() as u32;
        self.numbers.insert(text.to_owned(), number);
        self.all.push(text.to_owned());
        number
    }
}

/// All callstacks of a report, each once.
#[derive(Debug)]
pub(super) struct Callsites<'a> {
    report: &'a Report,
    /// By bucket: its callstack; `None` if other blocks count for its blocks.
    pub(super) of_bucket: Vec<Option<u32>>,
    /// The frames of each, outermost first.
    stacks: Vec<Box<[u32]>>,
    frames: Vec<Frame>,
    functions: Texts,
    files: Texts,
    /// The modules and their parts with code.
    mappings: Vec<(usize, CodeRange)>,
}

impl<'a> Callsites<'a> {
    pub(super) fn of(report: &'a Report, all_frames: bool) -> Self {
        let mut found = Self {
            report,
            of_bucket: Vec::with_capacity(report.by_bucket.len()),
            stacks: Vec::new(),
            frames: Vec::new(),
            functions: Texts::default(),
            files: Texts::default(),
            mappings: mappings(report),
        };
        let calls = Calls::of(report, all_frames);
        let mut numbers = Numbers::default();
        // PERF: many buckets can have the same stack.
        let mut of_row = vec![None; report.by_stack.len()];
        for bucket in &report.by_bucket {
            let number = figures_of(report, bucket).map(|_| {
                let row = bucket.stack.filter(|&row| row < of_row.len());
                match row.filter(|&row| report.by_stack[row].label(report).is_none()) {
                    Some(row) => *of_row[row].get_or_insert_with(|| {
                        let frames = found.calls(&calls, row, &mut numbers);
                        found.stack(frames, &mut numbers)
                    }),
                    None => {
                        let frames = found.scopes(bucket, &mut numbers);
                        found.stack(frames, &mut numbers)
                    }
                }
            });
            found.of_bucket.push(number);
        }
        found
    }

    pub(super) fn len(&self) -> usize {
        self.stacks.len()
    }

    /// The frames of a stack of functions, outermost first. An inlined function is a frame like any other.
    fn calls(&mut self, calls: &Calls<'_>, row: usize, numbers: &mut Numbers) -> Vec<u32> {
        let row = &self.report.by_stack[row];
        let mut shown = Vec::new();
        calls.shown(row, &mut shown);
        let mut frames = Vec::with_capacity(shown.len() + 1);
        frames.extend(row.missing().map(|label| self.label(label, numbers)));
        for &number in shown.iter().rev() {
            let call = calls.get(number);
            let name = self.functions.number(&call.name(CallKind::Function));
            let source = call.source().map(|(file, line)| (self.files.number(file), line));
            let code = calls.frame_of(number).and_then(|frame| self.code(frame));
            frames.push(numbers.frame(Frame { name, code, source }, &mut self.frames));
        }
        if frames.is_empty() {
            frames.push(self.label("(no frames)", numbers));
        }
        frames
    }

    /// The scopes of a bucket, and its group and name, as frames.
    fn scopes(&mut self, bucket: &BucketRow, numbers: &mut Numbers) -> Vec<u32> {
        let row = bucket.stack.and_then(|row| self.report.by_stack.get(row));
        let label = row.and_then(|row| row.label(self.report));
        let mut frames: Vec<_> =
            label.map(|label| self.label(label, numbers)).into_iter().collect();
        let scopes = scope_frames(self.report, bucket);
        frames.extend(scopes.map(|scope| self.label(&scope, numbers)));
        if frames.is_empty() {
            frames.push(self.label("(no scope)", numbers));
        }
        frames
    }

    fn label(&mut self, text: &str, numbers: &mut Numbers) -> u32 {
        let name = self.functions.number(text);
        numbers.frame(Frame { name, code: None, source: None }, &mut self.frames)
    }

    /// The mapping and the address of a frame of the report.
    fn code(&self, frame: usize) -> Option<(u32, u64)> {
        let frame = self.report.frames.get(frame)?;
        let module = frame.module?;
        let is_there = |(of, range): &(usize, CodeRange)| {
            *of == module && frame.offset.wrapping_sub(range.offset) < range.size
        };
        let mapping = self.mappings.iter().position(is_there)?;
        Some((mapping as u32, frame.offset))
    }

    fn stack(&mut self, frames: Vec<u32>, numbers: &mut Numbers) -> u32 {
        let stacks = &mut self.stacks;
        *numbers.stacks.entry(frames.into()).or_insert_with_key(|frames| {
            stacks.push(frames.clone());
            stacks.len() as u32 - 1
        })
    }
}

#[derive(Debug, Default)]
struct Numbers {
    frames: HashMap<Frame, u32>,
    stacks: HashMap<Box<[u32]>, u32>,
}

impl Numbers {
    fn frame(&mut self, frame: Frame, all: &mut Vec<Frame>) -> u32 {
        *self.frames.entry(frame).or_insert_with(|| {
            all.push(frame);
            all.len() as u32 - 1
        })
    }
}

/// The parts of each module with code, or the module as a whole if its file is not known.
fn mappings(report: &Report) -> Vec<(usize, CodeRange)> {
    let mut mappings = Vec::new();
    for (number, module) in report.modules.iter().enumerate() {
        let before = mappings.len();
        mappings.extend(report.code.iter().filter(|(of, _)| *of == number));
        if mappings.len() == before {
            let whole = CodeRange { offset: 0, size: module.size, file_offset: 0 };
            mappings.push((number, whole));
        }
    }
    mappings
}

/// The number of an interned entry. 0 is none.
fn iid(number: u32) -> u64 {
    u64::from(number) + 1
}

/// What a sequence has interned of the callstacks.
#[derive(Debug, Default)]
pub(super) struct Interned {
    stacks: Sent,
    frames: Sent,
    functions: Sent,
    files: Sent,
    mappings: Sent,
    modules: Sent,
}

/// Whether the entry of a number has been written.
#[derive(Debug, Default)]
struct Sent(Vec<bool>);

impl Sent {
    /// Whether it is not written yet; from now on it is.
    fn is_new(&mut self, number: u32) -> bool {
        let number = number as usize;
        if self.0.len() <= number {
            self.0.resize(number + 1, false);
        }
        self.0.get_mut(number).is_some_and(|sent| !std::mem::replace(sent, true))
    }
}

impl Interned {
    /// The number of a callstack. If it is new, it is added to `data`, after all that it refers to.
    pub(super) fn stack(&mut self, of: &Callsites<'_>, stack: u32, data: &mut Message<'_>) -> u64 {
        if self.stacks.is_new(stack) {
            let frames = of.stacks.get(stack as usize).map_or(&[][..], |frames| frames);
            for &frame in frames {
                self.frame(of, frame, data);
            }
            data.nested(interned_data::CALLSTACKS, |message| {
                message.uint(callstack::IID, iid(stack));
                for &frame in frames {
                    message.uint(callstack::FRAME_IDS, iid(frame));
                }
            });
        }
        iid(stack)
    }

    fn frame(&mut self, of: &Callsites<'_>, number: u32, data: &mut Message<'_>) {
        let Some(&Frame { name, code, source }) = of.frames.get(number as usize) else { return };
        if !self.frames.is_new(number) {
            return;
        }
        text(&mut self.functions, &of.functions, name, interned_data::FUNCTION_NAMES, data);
        if let Some((mapping, _)) = code {
            self.mapping(of, mapping, data);
        }
        if let Some((file, _)) = source {
            text(&mut self.files, &of.files, file, interned_data::SOURCE_PATHS, data);
        }
        data.nested(interned_data::FRAMES, |message| {
            message.uint(frame::IID, iid(number));
            message.uint(frame::FUNCTION_NAME_ID, iid(name));
            if let Some((mapping, address)) = code {
                message.uint(frame::MAPPING_ID, iid(mapping));
                message.uint(frame::REL_PC, address);
            }
            if let Some((file, line)) = source {
                message.uint(frame::SOURCE_PATH_IID, iid(file));
                message.uint(frame::LINE_NUMBER, line.into());
            }
        });
    }

    fn mapping(&mut self, of: &Callsites<'_>, number: u32, data: &mut Message<'_>) {
        let Some(&(module_number, range)) = of.mappings.get(number as usize) else { return };
        let Some(module) = of.report.modules.get(module_number) else { return };
        if !self.mappings.is_new(number) {
            return;
        }
        let module_iid = iid(module_number as u32);
        if self.modules.is_new(module_number as u32) {
            let path = module.path.as_bytes();
            intern(data, interned_data::MAPPING_PATHS, module_iid, path);
            intern(data, interned_data::BUILD_IDS, module_iid, &module.build_id);
        }
        let start = module.base.saturating_add(range.offset);
        data.nested(interned_data::MAPPINGS, |message| {
            message.uint(mapping::IID, iid(number));
            message.uint(mapping::BUILD_ID, module_iid);
            message.uint(mapping::EXACT_OFFSET, range.file_offset);
            message.uint(mapping::START_OFFSET, range.file_offset);
            message.uint(mapping::START, start);
            message.uint(mapping::END, start.saturating_add(range.size));
            message.uint(mapping::LOAD_BIAS, range.offset.saturating_sub(range.file_offset));
            message.uint(mapping::PATH_STRING_IDS, module_iid);
        });
    }
}

fn text(sent: &mut Sent, texts: &Texts, number: u32, field: u32, data: &mut Message<'_>) {
    if sent.is_new(number) {
        let text = texts.all.get(number as usize).map_or("", String::as_str);
        intern(data, field, iid(number), text.as_bytes());
    }
}
