//! The black box: who holds the memory, written to stderr at a limit, and when the program's allocator has no
//! more.
//!
//! The program may end a moment later, because there is no memory. So nothing here allocates then: the memory
//! for the rows and the text is set aside before.

use crate::platform::os::{self, BlockedSignals};
use crate::trace::write::shortage::{self, Null};
use memledger_analysis::in_process::{GUESS, HeldBy, TopHolder, TopLive, write_plain};
use memledger_analysis::{Analyzer, Module};
use memledger_export::parts::Bytes;
use std::fmt::{self, Write};

/// At most this many rows of scopes, of threads and of stacks.
const MAX_ROWS: [(HeldBy, &str, usize); 3] =
    [(HeldBy::Scope, "scope", 12), (HeldBy::Thread, "thread", 8), (HeldBy::Stack, "stack", 5)];

/// At most this many frames of a stack, and files of which the build id is written.
const MAX_FRAMES: usize = 24;
const MAX_FILES: usize = 64;

/// The text ends after this many bytes, with a whole line: they fit into an empty pipe.
const MAX_BYTES: usize = 60 << 10;

/// It is written again only after the live bytes have fallen by this part of what they were: not for each
/// allocation of a program that is at its limit.
const FALL: u64 = 8;

/// The limit of one recording, and the memory that is set aside.
pub(crate) struct BlackBox {
    /// In bytes.
    limit: u64,
    /// The live bytes when it was last written at the limit, and at a null.
    reached_at: Option<u64>,
    null_at: Option<u64>,
    /// The largest live bytes at the last collection.
    peak: u64,
    top: TopLive,
    /// The numbers of the files in the text.
    files: Vec<u32>,
    text: Bounded,
}

enum Reason {
    Limit { limit: u64, peak: u64 },
    Null(Null),
}

impl BlackBox {
    pub(crate) fn new(limit: u64) -> Self {
        shortage::arm();
        Self {
            limit,
            reached_at: None,
            null_at: None,
            peak: 0,
            top: TopLive::default(),
            files: Vec::with_capacity(MAX_FILES),
            text: Bounded(String::with_capacity(MAX_BYTES)),
        }
    }

    /// Called after each collection.
    pub(crate) fn check(&mut self, analyzer: &Analyzer) {
        let (live, peak) = analyzer.live_and_peak_bytes();
        let has_fallen = |at: u64| live < at - at / FALL;
        if self.reached_at.is_some_and(has_fallen) {
            self.reached_at = None;
        }
        if self.null_at.is_some_and(has_fallen) {
            self.null_at = None;
            shortage::arm();
        }
        if let Some(null) = shortage::requested() {
            self.null_at = Some(live);
            self.write(analyzer, live, false, &Reason::Null(null));
        }
        // Between two collections, there can have been more than now.
        let has_peaked = peak > self.peak && peak >= self.limit;
        if self.reached_at.is_none() && (live >= self.limit || has_peaked) {
            self.reached_at = Some(live.max(self.limit));
            let reason = Reason::Limit { limit: self.limit, peak };
            self.write(analyzer, live, live < self.limit, &reason);
        }
        self.peak = peak;
        analyzer.reserve_top_live(&mut self.top);
    }

    /// Writes it: the figures of the peak, or those of now.
    fn write(&mut self, analyzer: &Analyzer, live: u64, at_peak: bool, reason: &Reason) {
        self.text.0.clear();
        self.files.clear();
        if self.append(analyzer, live, at_peak, reason).is_err() {
            self.text.cut_to_lines();
        }
        let _signals = BlockedSignals::new();
        let _ = os::write_to_stderr(self.text.0.as_bytes());
    }

    fn append(
        &mut self,
        analyzer: &Analyzer,
        live: u64,
        at_peak: bool,
        reason: &Reason,
    ) -> fmt::Result {
        let Self { text, top, files, .. } = self;
        let seconds = analyzer.duration_ns() / 1_000_000;
        write!(text, "memledger: black box of process {}", os::process_id())?;
        writeln!(text, ", {}.{:03} s after the start", seconds / 1000, seconds % 1000)?;
        let of = match *reason {
            Reason::Limit { limit, peak } if at_peak => {
                writeln!(
                    text,
                    "  {} ({peak} bytes) were live: the limit is {}. Now, {} are",
                    Bytes(peak),
                    Bytes(limit),
                    Bytes(live)
                )?;
                peak
            }
            Reason::Limit { limit, .. } => {
                writeln!(
                    text,
                    "  {} ({live} bytes) are live: the limit is {}",
                    Bytes(live),
                    Bytes(limit)
                )?;
                live
            }
            Reason::Null(Null { bytes, thread }) => {
                writeln!(
                    text,
                    "  the allocator has no memory for {} ({bytes} bytes) on thread {thread}: {} ({live} bytes) are live",
                    Bytes(bytes),
                    Bytes(live)
                )?;
                live
            }
        };
        for (by, name, most) in MAX_ROWS {
            let mut is_first = true;
            let mut row = |bytes: u64, blocks: u64, holder: &TopHolder<'_>| {
                if std::mem::take(&mut is_first) {
                    writeln!(text, "  by {name}")?;
                }
                let percent = u128::from(bytes) * 100 / u128::from(of.max(1));
                let noun = if blocks == 1 { "block" } else { "blocks" };
                writeln!(text, "    {} ({percent} %), {blocks} {noun}{holder}", Bytes(bytes))?;
                write_frames(holder, files, text)
            };
            if !analyzer.visit_top_live(top, (by, at_peak), most, &mut row)? {
                writeln!(text, "  by {name}: not shown, no memory was set aside for so many")?;
            }
        }
        Ok(())
    }
}

/// Writes one line for each frame of a stack, the innermost first: the file and the bytes from its base, as
/// `memledger symbolize` and `addr2line` take them; the first of each file with its build id.
fn write_frames(stack: &TopHolder<'_>, files: &mut Vec<u32>, text: &mut Bounded) -> fmt::Result {
    for (number, (file, offset, is_guess)) in stack.frames().enumerate() {
        text.write_str("        ")?;
        if number == MAX_FRAMES {
            return text.write_str("...\n");
        }
        let module = stack.file(file);
        if let Some(Module { path, .. }) = module {
            write_plain(path, text)?;
            text.write_char('+')?;
        }
        write!(text, "{offset:#x}{}", if is_guess { GUESS } else { "" })?;
        let is_new = files.len() < MAX_FILES && !files.contains(&file);
        if let Some(Module { build_id, .. }) = module.filter(|it| is_new && !it.build_id.is_empty())
        {
            files.push(file);
            text.write_str(" build id ")?;
            build_id.iter().try_for_each(|byte| write!(text, "{byte:02x}"))?;
        }
        text.write_char('\n')?;
    }
    Ok(())
}

impl Drop for BlackBox {
    fn drop(&mut self) {
        shortage::disarm();
    }
}

/// A text that never grows beyond its memory.
struct Bounded(String);

impl Bounded {
    /// Leaves out what follows the last whole line.
    fn cut_to_lines(&mut self) {
        let whole = self.0.rfind('\n').map_or(0, |end| end + 1);
        self.0.truncate(whole);
    }
}

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > self.0.capacity() {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_ends_with_a_whole_line() {
        let mut text = Bounded(String::with_capacity(12));
        assert!(text.write_str("a\nbc\nde").is_ok() && text.write_str("and more").is_err());
        text.cut_to_lines();
        assert_eq!(text.0, "a\nbc\n");
    }
}
