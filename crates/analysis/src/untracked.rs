//! What of the program's memory is in no block: known reasons, and what is resident against where blocks have
//! been.

use super::facts::Facts;
use super::live_set::Windows;
use super::report::{MAX_REASONS, Untracked, UntrackedReason, Weighed};

/// What the trace says of memory that is in no block.
#[derive(Clone, Debug, Default)]
pub(super) struct UntrackedMemory {
    reasons: Vec<UntrackedReason>,
    started: Vec<(u32, String)>,
    weighed: Option<Weighed>,
    /// The last reading, and whether it was at the end.
    last: Option<(u64, bool)>,
    /// The most that was resident in no window in which a block has been, in a reading.
    beside: u64,
    /// The last time at which the kernel's maximum of RSS was another one than before.
    most: Option<Most>,
    /// Whether an allocator is recorded that has tables of its own.
    has_tables: bool,
}

/// The kernel's maximum of RSS when it was first seen, and all that the program had mapped in no block until
/// then.
#[derive(Clone, Copy, Debug)]
struct Most {
    at_ns: u64,
    bytes: u64,
    mapped: u64,
}

/// What the tables of an allocator take beside its blocks, in a small program: 1.6 MiB in tcmalloc 2.10, 4
/// MiB in mimalloc 3. In a large one, they are below the 5 % that are not said.
const TABLES: u64 = 6 << 20;

impl UntrackedMemory {
    pub(super) fn note_tables(&mut self) {
        self.has_tables = true;
    }

    /// How much may be in tables of an allocator.
    pub(super) fn table_bytes(&self) -> u64 {
        if self.has_tables { TABLES } else { 0 }
    }

    pub(super) fn add_reason(&mut self, reason: UntrackedReason) {
        if self.reasons.len() < MAX_REASONS && !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    /// A program was started, or could not be if it has no name.
    pub(super) fn add_started(&mut self, process: u32, program: String) {
        match program.is_empty() {
            false => self.started.push((process, program)),
            true => {
                let last = self.started.iter().rposition(|(other, _)| *other == process);
                last.map(|last| self.started.remove(last));
            }
        }
    }

    /// It was weighed once more: what most is untracked of counts. So much was resident `beside` the windows
    /// in which blocks have been.
    pub(super) fn weigh(&mut self, weighed: Weighed, beside: u64, is_last: bool) {
        self.last = Some((weighed.at_ns, is_last));
        self.beside = self.beside.max(beside);
        if self.weighed.is_none_or(|before| weighed.untracked_bytes >= before.untracked_bytes) {
            self.weighed = Some(weighed);
        }
    }

    /// RSS was looked at: the kernel's maximum, and all that the program has mapped so far and that is in no
    /// block.
    pub(super) fn look(&mut self, at_ns: u64, bytes: u64, mapped: u64) {
        match &mut self.most {
            Some(most) if most.bytes == bytes => {}
            most => *most = Some(Most { at_ns, bytes, mapped }),
        }
    }

    /// What no reading explains of the kernel's maximum of RSS, if that is more than was weighed: more was
    /// resident than in the reading with the most, all places in which a block has been, and all mappings.
    fn unseen_peak(&self, windows: &Windows) -> Option<Weighed> {
        let Most { at_ns, bytes, mapped } = self.most?;
        self.last?;
        let explained = [self.beside, windows.bytes(), mapped, self.table_bytes()];
        let explained = explained.into_iter().fold(0, u64::saturating_add);
        let untracked_bytes = bytes.saturating_sub(explained);
        let weighed = self.weighed.map_or(0, |weighed| weighed.untracked_bytes);
        let peak = Weighed { at_ns, rss_bytes: bytes, untracked_bytes };
        (!windows.is_full() && untracked_bytes > weighed).then_some(peak)
    }

    pub(super) fn report(&self, facts: &Facts, windows: &Windows) -> Untracked {
        Untracked {
            reasons: self.reasons.clone(),
            weighed: self.weighed,
            unseen_peak: self.unseen_peak(windows).filter(|_| facts.has_all_blocks()),
            last_weighed_ns: self.last.map(|(at_ns, _)| at_ns),
            is_weighed_at_end: self.last.is_some_and(|(_, is_last)| is_last),
            can_be_weighed: facts.knows_all_blocks() && !windows.is_full(),
            is_beside: false,
            started: self.started.clone(),
        }
    }
}
