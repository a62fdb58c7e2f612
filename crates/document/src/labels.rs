//! The texts in place of frames that a stack does not have.

use crate::report::Report;
use crate::rows::{StackKind, StackRow};
use crate::stacks::StackRows;
use crate::tree::StackEnd;

impl StackRow {
    /// The text in place of the calls of a stack that has none, such as `(no stack)`.
    pub fn label(&self, report: &Report) -> Option<&'static str> {
        label(self.kind, self.frames.is_empty(), self.end, report.stack_sampling_bytes.is_some())
    }

    /// The text in place of the frames that are missing above the outermost one, such as
    /// `(above the frame limit)`.
    pub fn missing(&self) -> Option<&'static str> {
        missing(self.end)
    }
}

impl StackRows {
    /// [`StackRow::label`] of the stack with this number, at less cost than the [row](Self::get). `report` is
    /// the one that has these stacks.
    pub fn label(&self, row: usize, report: &Report) -> Option<&'static str> {
        let (kind, is_empty, end) = self.key(row)?;
        label(kind, is_empty, end, report.stack_sampling_bytes.is_some())
    }

    /// The text of a stack in place of frames: its label, or what says that the outer ones are missing.
    pub(crate) fn text(&self, row: usize, report: &Report) -> Option<&'static str> {
        self.label(row, report).or_else(|| missing(self.key(row)?.2))
    }
}

/// The text in place of the calls of a stack that has none.
fn label(kind: StackKind, is_empty: bool, end: StackEnd, is_sampled: bool) -> Option<&'static str> {
    match kind {
        // One that ends before its first frame is called by its end.
        StackKind::Known if is_empty => missing(end),
        StackKind::Known => None,
        StackKind::NotTaken if is_sampled => Some("(not in the sample)"),
        StackKind::NotTaken => Some("(no stack)"),
        StackKind::Other => Some("(other)"),
        StackKind::Unknown => Some("(unknown stack)"),
    }
}

/// The text in place of the frames that are missing above the outermost one.
fn missing(end: StackEnd) -> Option<&'static str> {
    match end {
        StackEnd::Complete => None,
        StackEnd::FrameLimit => Some("(above the frame limit)"),
        StackEnd::NoUnwindInformation => Some("(no unwind information)"),
        StackEnd::UnreadableMemory => Some("(unreadable memory)"),
        StackEnd::LibraryChanged => Some("(a library that came or went)"),
        StackEnd::Lost => Some("(missing in the trace)"),
    }
}
