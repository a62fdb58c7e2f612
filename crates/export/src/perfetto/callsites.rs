//! The callstacks of a heap profile: of functions, or of scopes where a block has no stack.

use crate::buckets::{figures_of, scope_frames};
use crate::interner::Interner;
use memledger_document::internal::Calls;
use memledger_document::{BucketRow, CodeRange, Frames, Module, Report};
use memledger_format::protobuf::Message;
use memledger_format::protobuf::perfetto::sequence::intern;
use memledger_format::protobuf::perfetto::{callstack, frame, interned_data, mapping};

/// One frame. Its texts have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct InternedFrame {
    name: u32,
    /// The mapping and the address in its file; `None` if it is no code.
    code: Option<(u32, u64)>,
    source: Option<(u32, u32)>,
}

/// The callstacks of a program, each once.
#[derive(Debug, Default)]
pub(super) struct Callsites {
    /// The frames of each, outermost first.
    stacks: Interner<Box<[u32]>>,
    frames: Interner<InternedFrame>,
    functions: Interner<String>,
    files: Interner<String>,
    modules: Interner<Module>,
    /// Parts of modules with code.
    mappings: Interner<(u32, CodeRange)>,
}

impl Callsites {
    /// The callstack of each of `buckets`, which are of `report`; `None` if other blocks count for its
    /// blocks.
    pub(super) fn add(
        &mut self,
        report: &Report,
        buckets: &[BucketRow],
        frames: Frames,
    ) -> Vec<Option<u32>> {
        let calls = Calls::of(report, frames);
        let mappings = self.mappings(report);
        // PERF: many buckets can have the same stack.
        let mut of_row = vec![None; report.by_stack.len()];
        let stack_of = |bucket: &BucketRow| {
            figures_of(report, bucket).map(|_| {
                let row = bucket.stack.filter(|&row| row < of_row.len());
                match row.filter(|&row| report.by_stack.label(row, report).is_none()) {
                    Some(row) => *of_row[row].get_or_insert_with(|| {
                        let frames = self.calls(&calls, row, &mappings);
                        self.stacks.number(frames.into())
                    }),
                    None => {
                        let frames = self.scopes(report, bucket);
                        self.stacks.number(frames.into())
                    }
                }
            })
        };
        buckets.iter().map(stack_of).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.stacks.all.len()
    }

    /// The frames of a stack of functions, outermost first. An inlined function is a frame like any other.
    fn calls(
        &mut self,
        calls: &Calls<'_>,
        row: usize,
        mappings: &[(usize, CodeRange, u32)],
    ) -> Vec<u32> {
        let mut frames = Vec::new();
        for number in calls.shown(row).rev() {
            let call = calls.get(number);
            let name = self.functions.text(call.name_of_function());
            let source = call.source().map(|(file, line)| (self.files.text(file), line));
            let code = calls.frame_of(number).and_then(|of| code(calls.report, of, mappings));
            frames.push(self.frames.number(InternedFrame { name, code, source }));
        }
        if frames.is_empty() {
            frames.push(self.label("(no frames)"));
        }
        frames
    }

    /// The scopes of a bucket, and its group and name, as frames.
    fn scopes(&mut self, report: &Report, bucket: &BucketRow) -> Vec<u32> {
        let label = bucket.stack.and_then(|row| report.by_stack.label(row, report));
        let mut frames: Vec<_> = label.map(|label| self.label(label)).into_iter().collect();
        frames.extend(scope_frames(report, bucket).map(|scope| self.label(&scope)));
        if frames.is_empty() {
            frames.push(self.label("(no scope)"));
        }
        frames
    }

    fn label(&mut self, text: &str) -> u32 {
        let name = self.functions.text(text);
        self.frames.number(InternedFrame { name, code: None, source: None })
    }

    /// The parts of each module with code, or the module as a whole if its file is not known: the module,
    /// the part, and the number of its mapping.
    fn mappings(&mut self, report: &Report) -> Vec<(usize, CodeRange, u32)> {
        let mut mappings = Vec::new();
        for (number, module) in report.modules.iter().enumerate() {
            let known = self.modules.number(module.clone());
            let before = mappings.len();
            let mut add = |range| {
                mappings.push((number, range, self.mappings.number((known, range))));
            };
            report.code.iter().filter(|(of, _)| *of == number).for_each(|(_, range)| add(*range));
            if mappings.len() == before {
                let range = CodeRange::new(0, module.size, 0);
                mappings.push((number, range, self.mappings.number((known, range))));
            }
        }
        mappings
    }
}

/// The mapping and the address of a frame of a report.
fn code(report: &Report, frame: usize, mappings: &[(usize, CodeRange, u32)]) -> Option<(u32, u64)> {
    let frame = report.frames.get(frame)?;
    let module = frame.module?;
    let is_there = |(of, range, _): &&(usize, CodeRange, u32)| {
        *of == module && frame.offset.wrapping_sub(range.offset) < range.size
    };
    mappings.iter().find(is_there).map(|(.., number)| (*number, frame.offset))
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
    pub(super) fn stack(&mut self, of: &Callsites, stack: u32, data: &mut Message<'_>) -> u64 {
        if self.stacks.is_new(stack) {
            let frames = of.stacks.all.get(stack as usize).map_or(&[][..], |frames| frames);
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

    fn frame(&mut self, of: &Callsites, number: u32, data: &mut Message<'_>) {
        let Some(&InternedFrame { name, code, source }) = of.frames.all.get(number as usize) else {
            return;
        };
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

    fn mapping(&mut self, of: &Callsites, number: u32, data: &mut Message<'_>) {
        let Some(&(module_number, range)) = of.mappings.all.get(number as usize) else { return };
        let Some(module) = of.modules.all.get(module_number as usize) else { return };
        if !self.mappings.is_new(number) {
            return;
        }
        let module_iid = iid(module_number);
        if self.modules.is_new(module_number) {
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

fn text(
    sent: &mut Sent,
    texts: &Interner<String>,
    number: u32,
    field: u32,
    data: &mut Message<'_>,
) {
    if sent.is_new(number) {
        let text = texts.all.get(number as usize).map_or("", String::as_str);
        intern(data, field, iid(number), text.as_bytes());
    }
}
