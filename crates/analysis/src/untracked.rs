//! What of the program's memory is in no block: known reasons, and what is resident against where blocks have
//! been.

use super::facts::Facts;
use super::live_set::Windows;
use super::rss::Ranges;
use memledger_document::internal::MAX_REASONS;
use memledger_document::{Untracked, UntrackedReason, Weighed, made};

/// What the trace says of memory that is in no block.
#[derive(Clone, Debug, Default)]
pub(super) struct UntrackedMemory {
    reasons: Vec<UntrackedReason>,
    started: Vec<(u32, String)>,
    not_followed: Vec<String>,
    /// The gravest reading, and the one of which most is untracked.
    weighed: Option<Weighed>,
    largest: Option<Weighed>,
    /// An allocator is recorded of which it is not known what it maps.
    has_tables: bool,
    /// The last reading, if no event of resident memory has come after it.
    unjudged: Option<Unjudged>,
    /// The time of the last reading, and whether it was at the end.
    last: Option<(u64, bool)>,
    /// The most that was resident in no window in which a block has been, in a reading, without mapped files.
    beside: u64,
    /// The most that was resident of these.
    files: u64,
    /// The kernel's maximum of RSS when it was last looked at.
    most: Option<Most>,
    /// The first one, and the windows of the blocks that were there before.
    first: Option<(u64, u64)>,
    /// Of those since the last reading, the one of which the blocks and mappings of its time explain least.
    least_explained: Option<Most>,
    /// What no reading explains of a maximum.
    unseen_peak: Option<Weighed>,
}

/// A reading of what the resident memory is.
///
/// NOTE: blocks that were there can come in events after it. So it is judged by the windows at the next event
/// of resident memory.
#[derive(Clone, Debug)]
pub(super) struct Unjudged {
    pub(super) at_ns: u64,
    pub(super) rss_bytes: u64,
    /// All anonymous memory.
    pub(super) ranges: Ranges,
    /// What no allocator has mapped of it, and shared memory.
    pub(super) unknown: [Ranges; 2],
    /// Reserved addresses and mappings of files, as they were.
    pub(super) reserved: Reserved,
    /// Files that are no programs and libraries.
    pub(super) files: u64,
    /// The tracker's own blocks, and tables of an allocator.
    pub(super) of_tracker: u64,
    /// At most so much of anonymous memory is in no block.
    pub(super) at_most: u64,
    /// It was read at the end of the program.
    pub(super) is_last: bool,
}

/// Reserved addresses, in their order.
type Reserved = Vec<(u64, u64, Option<u32>)>;

/// A maximum of RSS that the kernel has counted, when it was first seen.
#[derive(Clone, Copy, Debug)]
struct Most {
    at_ns: u64,
    bytes: u64,
    /// All that the program had mapped in no block until then.
    mapped: u64,
    /// The windows in which blocks had been, from the next look on.
    windows: Option<u64>,
}

impl Most {
    /// What is neither in the windows nor mapped, and not resident beside both.
    fn unexplained(&self, beside: u64, files: u64) -> u64 {
        let explained = [self.windows.unwrap_or(0), self.mapped.max(files), beside];
        self.bytes.saturating_sub(explained.into_iter().fold(0, u64::saturating_add))
    }
}

impl Unjudged {
    /// How much of it is in no block, and how much is beside all windows and files.
    fn judge(&self, windows: &Windows, reserved: &[(u64, u64, Option<u32>)]) -> (Weighed, u64) {
        let covered = |start, end| windows.covered(start, end);
        let outside = |ranges: &Ranges| ranges.outside(covered, &[]);
        let [_, shared] = &self.unknown;
        let others = [self.ranges.resident(), shared.resident(), self.files];
        let beside = others.into_iter().fold(self.rss_bytes, u64::saturating_sub);
        let beside =
            [outside(&self.ranges), outside(shared)].into_iter().fold(beside, u64::saturating_add);
        let unexplained = |ranges: &Ranges| {
            ranges.outside(covered, &self.reserved).min(ranges.outside(covered, reserved))
        };
        let [anonymous, shared] = self.unknown.each_ref().map(unexplained);
        let anonymous = anonymous.min(self.at_most).saturating_sub(self.of_tracker);
        let weighed = made!(Weighed {
            at_ns: self.at_ns,
            rss_bytes: self.rss_bytes,
            untracked_bytes: anonymous.saturating_add(shared),
        });
        (weighed, beside)
    }
}

/// What the tables of such an allocator take beside its blocks, in a small program: up to 5.6 MiB in
/// tcmalloc 2.10. In a large one, they are below the 5 % that are not said.
const TABLES: u64 = 6 << 20;

impl UntrackedMemory {
    pub(super) fn note_tables(&mut self) {
        self.has_tables = true;
    }

    fn table_bytes(&self) -> u64 {
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

    /// A program was started, or the process was forked, and children are not followed.
    pub(super) fn add_not_followed(&mut self, program: String) {
        if self.not_followed.len() < MAX_REASONS && !self.not_followed.contains(&program) {
            self.not_followed.push(program);
        }
    }

    /// It was weighed once more.
    pub(super) fn weigh(&mut self, mut reading: Unjudged) {
        reading.of_tracker = reading.of_tracker.saturating_add(self.table_bytes());
        self.last = Some((reading.at_ns, reading.is_last));
        self.unjudged = Some(reading);
    }

    /// RSS was looked at: the kernel's maximum, and all that the program has mapped so far and that is in no
    /// block.
    pub(super) fn look(&mut self, at_ns: u64, bytes: u64, mapped: u64, windows: &Windows) {
        self.first.get_or_insert_with(|| (bytes, windows.bytes()));
        match &mut self.most {
            Some(most) if most.bytes == bytes => {}
            most => {
                *most = Some(Most { at_ns, bytes, mapped, windows: None });
            }
        }
    }

    /// All blocks have come that were there at the last maximum.
    pub(super) fn settle_most(&mut self, windows: &Windows) {
        let Some(most) = self.most.as_mut().filter(|most| most.windows.is_none()) else { return };
        most.windows = Some(windows.bytes());
        let is_less = |least: Most| most.unexplained(0, 0) > least.unexplained(0, 0);
        if self.least_explained.is_none_or(is_less) {
            self.least_explained = Some(*most);
        }
    }

    /// Judges the last reading, and the maximum before it. Of a forked child counts what that has risen by
    /// since, because the trace does not have where its parent's blocks have been.
    pub(super) fn settle(
        &mut self,
        windows: &Windows,
        reserved: impl FnOnce() -> Reserved,
        is_forked: bool,
    ) {
        let Some(reading) = self.unjudged.take().filter(|_| !windows.is_full()) else { return };
        let (weighed, beside) = reading.judge(windows, &reserved());
        self.beside = self.beside.max(beside);
        self.files = self.files.max(reading.files);
        let gravity = |of: Weighed| (of.word(), of.untracked_bytes);
        self.weighed = Some(weighed).into_iter().chain(self.weighed).max_by_key(|of| gravity(*of));
        let all = Some(weighed).into_iter().chain(self.largest);
        self.largest = all.max_by_key(|of| of.untracked_bytes);
        if let Some(most) = self.least_explained.take_if(|most| most.at_ns <= weighed.at_ns) {
            let (bytes, windows) = self.first.filter(|_| is_forked).unwrap_or_default();
            let before = bytes.saturating_sub(windows);
            let untracked_bytes = most
                .unexplained(self.beside, self.files)
                .saturating_sub(before)
                .saturating_sub(self.table_bytes());
            let peak = made!(Weighed { at_ns: most.at_ns, rss_bytes: most.bytes, untracked_bytes });
            self.unseen_peak =
                Some(peak).into_iter().chain(self.unseen_peak).max_by_key(|of| gravity(*of));
        }
    }

    pub(super) fn report(
        &self,
        facts: &Facts,
        windows: &Windows,
        reserved: impl FnOnce() -> Reserved,
    ) -> Untracked {
        let mut settled = self.clone();
        settled.settle_most(windows);
        settled.settle(windows, reserved, !facts.has_all_blocks());
        let weighed = settled.weighed.unwrap_or_default();
        let is_more = |of: &Weighed| of.untracked_bytes > weighed.untracked_bytes;
        let is_graver = |of: &Weighed| of.word() > weighed.word();
        let can_be_weighed = facts.knows_all_blocks() && !windows.is_full();
        made!(Untracked {
            unseen_peak: settled.unseen_peak.filter(|of| is_more(of) || is_graver(of)),
            largest: settled.largest.filter(is_more),
            reasons: settled.reasons,
            weighed: settled.weighed,
            last_weighed_ns: self.last.map(|(at_ns, _)| at_ns),
            is_weighed_at_end: self.last.is_some_and(|(_, is_last)| is_last),
            can_be_weighed,
            is_beside: false,
            started: settled.started,
            not_followed: settled.not_followed,
        })
    }
}
