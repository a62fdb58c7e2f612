//! What the settings of a recording mean.

use crate::dump::{self, ReportTo};
use crate::error::{self, Error, ErrorKind};
use crate::events::channel::Names;
use crate::ledger::config::{Config, Stacks, Watch};
use crate::platform::os;
use crate::problems::{self, ProblemKind};
use crate::trace::write::buffer_pool;
use crate::{alloc, scopes, stacks};
use std::mem::take;
use std::ops::RangeInclusive;

impl Watch {
    /// Whether this process should have one.
    ///
    /// NOTE: what the first process of a container starts ends with it, before it could do anything. It would
    /// also be the parent of the watcher, as of all orphans.
    pub(crate) fn is_wanted(self) -> bool {
        let can_end_later = os::process_id() != 1;
        match self {
            Self::No => false,
            Self::IfPossible => can_end_later && os::has_one_thread(),
            Self::Yes => can_end_later,
        }
    }
}

impl Config {
    /// The channels to record: `memory,scope` if no others are set, and `callstack` if stacks are taken.
    pub(crate) fn channels(&self) -> Names {
        let default = || Names::default().with(&alloc::CHANNEL).with(&scopes::CHANNEL);
        let names = self.channels.clone().unwrap_or_else(default);
        if self.takes_stacks() { names.with(&stacks::CHANNEL) } else { names }
    }

    /// The bound on the memory of all event buffers, in bytes.
    pub(crate) fn buffer_limit(&self) -> usize {
        self.buffer_limit.unwrap_or(buffer_pool::DEFAULT_LIMIT)
    }

    /// Whether the setting turns on the channel of stacks.
    pub(crate) fn takes_stacks(&self) -> bool {
        !matches!(self.stacks, None | Some(Stacks::Off))
    }

    /// Refuses settings for stacks that are not allowed, or that this platform cannot fulfil.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidSetting`], [`ErrorKind::StacksUnsupported`].
    pub(crate) fn check_stacks(&self) -> Result<(), Error> {
        if self.stacks == Some(Stacks::Sampled { mean_bytes: 0 }) {
            let why = "a sample of stacks needs a mean of at least 1 byte, not 0";
            return Err(Error::new(ErrorKind::InvalidSetting, why));
        }
        if self.stack_bounds.frames == Some(0) {
            let why = "a call stack has 1 to 255 frames, not 0";
            return Err(Error::new(ErrorKind::InvalidSetting, why));
        }
        if let Some(bytes) = self.stack_bounds.memory
            && !STACK_MEMORY_RANGE.contains(&bytes)
        {
            let why = format!("call stacks may take 1 MiB to 64 MiB, not {bytes} bytes");
            return Err(Error::new(ErrorKind::InvalidSetting, why));
        }
        if !self.takes_stacks() || stacks::capture::SUPPORTED {
            return Ok(());
        }
        Err(error::stacks_unsupported())
    }

    /// Takes what this build does not have out of the settings of code, and says so.
    pub(crate) fn leave_out_unbuilt(&mut self) {
        let Some(not_built) = dump::NOT_BUILT else { return };
        // NOTE: in place of the report, there is the line at the end.
        let report = self.report.as_mut().map(|report| *report = ReportTo::stderr());
        let asked = [
            (report.is_some(), "there is no report"),
            (self.black_box.take().is_some(), "there is no black box"),
            (take(&mut self.analyze_in_process), "no events are analyzed in this process"),
        ];
        for (_, why) in asked.into_iter().filter(|(is_asked, _)| *is_asked) {
            problems::add(ProblemKind::Setting, format!("{why}: {not_built}"));
        }
    }

    /// Passes the settings for stacks to the hook.
    pub(crate) fn configure_stacks(&self) {
        let mean_bytes = match self.stacks {
            Some(Stacks::Sampled { mean_bytes }) => mean_bytes,
            _ => 0,
        };
        let frames = self.stack_bounds.frames.unwrap_or(stacks::state::MAX_FRAMES);
        let memory = self.stack_bounds.memory.unwrap_or(stacks::state::MAX_MEMORY);
        stacks::state::configure(mean_bytes, frames, memory);
    }
}

/// The bounds on the memory of stacks that are allowed, in bytes.
pub(crate) const STACK_MEMORY_RANGE: RangeInclusive<u64> = 1 << 20..=stacks::state::MAX_MEMORY;

/// Permissions for files, if the program itself can read and write such files.
///
/// # Errors
/// [`ErrorKind::InvalidSetting`].
pub(crate) fn file_mode(mode: u32) -> Result<u32, Error> {
    if mode & 0o600 == 0o600 && mode <= 0o777 {
        return Ok(mode);
    }
    Err(Error::new(
        ErrorKind::InvalidSetting,
        format!(
            "files cannot have the permissions 0o{mode:o}: from 0o600 to 0o777 are allowed, with which the owner can read and write"
        ),
    ))
}
