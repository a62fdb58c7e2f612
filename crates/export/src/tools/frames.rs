//! Call stacks of buckets, as exports write them: functions in frames, outermost last.

use memledger_document::internal::GUESS;
pub use memledger_document::internal::{Call, Calls};
use memledger_document::{BucketRow, Frame, Report, SourceFrame, StackKind};

/// What takes the place of one frame.
#[derive(Debug)]
pub enum ShownFrame<'a> {
    /// Code in the program.
    Frame(&'a Frame),
    /// A scope, a group and name, or a label.
    Text(String),
}

/// The frames of a bucket, innermost first. A bucket without a stack has its scopes, and its group and name,
/// as frames. So does every bucket if `with_scopes`: outside of the frames of its stack.
pub fn shown<'a>(report: &'a Report, bucket: &BucketRow, with_scopes: bool) -> Vec<ShownFrame<'a>> {
    let stack = bucket.stack.and_then(|stack| report.by_stack.get(stack));
    let stack = stack.filter(|stack| stack.kind != StackKind::NotTaken);
    let mut all = Vec::new();
    if let Some(stack) = stack {
        let frames = stack.frames.iter().filter_map(|&frame| report.frames.get(frame as usize));
        all.extend(frames.map(ShownFrame::Frame));
        let label = stack.label(report).or(stack.missing());
        all.extend(label.map(|label| ShownFrame::Text(label.to_owned())));
    }
    if with_scopes || all.is_empty() {
        let name = &report.by_name[bucket.name];
        if (name.group.len(), name.group.first().map(String::as_str), &*name.name)
            != (1, Some("Unknown"), "Unnamed")
        {
            all.push(ShownFrame::Text(format!("{} / {}", path(&name.group), name.name)));
        }
        let scopes = report.by_scope[bucket.scope].path.iter().rev();
        all.extend(scopes.map(|scope| ShownFrame::Text(scope.clone())));
    }
    all
}

/// Names from the outermost inwards, as one.
pub fn path(names: &[String]) -> String {
    names.join(" > ")
}

/// The path of the file that a frame's code is in.
pub fn module<'a>(report: &'a Report, frame: &Frame) -> Option<&'a str> {
    frame.module.and_then(|module| report.modules.get(module)).map(|module| module.path.as_str())
}

/// The functions of a frame, innermost first; one in their place if none is known.
pub fn functions<'a>(report: &Report, frame: &'a Frame) -> std::borrow::Cow<'a, [SourceFrame]> {
    if !frame.functions.is_empty() && !frame.is_guess {
        return frame.functions.as_slice().into();
    }
    let offset = frame.offset;
    let mut functions = frame.functions.clone();
    if functions.is_empty() {
        let function = match module(report, frame) {
            Some(path) => format!("{}+{offset:#x}", path.rsplit('/').next().unwrap_or(path)),
            None => format!("{offset:#x}"),
        };
        functions.push(SourceFrame::new(function, None, None));
    }
    if frame.is_guess {
        functions.iter_mut().for_each(|found| found.function.push_str(GUESS));
    }
    functions.into()
}
