//! The heap profile: what each callstack has allocated and freed so far, at each of several *dumps*.
//!
//! The reader's rules are not written anywhere, and most mistakes lose data without a word:
//!
//! - It stores the difference to the dump before, by callstack and not by heap. So each heap has a sequence
//!   of its own, and no two dumps have the same time.
//! - Sums never fall: a row that does is dropped.
//! - A dump counts when a packet of it has `continued = false`.
//! - The time of a dump is one of clock 4, which the first packet of the trace must relate to the others.

use super::START_NS;
use super::callsites::{Callsites, Interned};
use memledger_analysis::{BlockChange, BlockEvent};
use memledger_document::{Frames, Report};
use memledger_format::protobuf::Message;
use memledger_format::protobuf::perfetto::sequence::{Moment, Sequence};
use memledger_format::protobuf::perfetto::{
    heap_sample, packet, process_heap_samples, profile_packet,
};
use std::collections::BTreeMap;

/// The most samples of a packet: about 64 KiB.
const SAMPLES_OF_PACKET: usize = 2_048;

/// How often a block counts that counts once. In a sampled trace a block counts for several, and sums of
/// integers are exact: what is allocated and freed later leaves 0.
const ONE: i128 = 1 << 16;

/// Sums since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    allocated: i128,
    freed: i128,
    allocations: i128,
    frees: i128,
}

impl Sums {
    fn rounded(&self) -> [u64; 4] {
        [self.allocated, self.freed, self.allocations, self.frees]
            .map(|sum| u64::try_from((sum + ONE / 2) / ONE).unwrap_or(0))
    }
}

/// A callstack in a heap.
#[derive(Clone, Copy, Debug, Default)]
struct Site {
    sums: Sums,
    /// As in the last dump that has it.
    dumped: Option<[u64; 4]>,
    has_changed: bool,
}

/// The dumps of one heap: a sequence of packets, and what they have interned.
#[derive(Debug)]
pub(super) struct Heap {
    name: String,
    sequence: Sequence,
    interned: Interned,
    /// The number of packets.
    index: u64,
    /// The time of the last dump.
    dumped_ns: u64,
}

/// What each callstack of a heap has allocated.
#[derive(Debug)]
struct Sites {
    heap: Heap,
    sites: Vec<Site>,
    /// The sites that have changed since the last dump.
    changed: Vec<u32>,
}

/// The heaps of a program. The memory is that of one row for each callstack in each heap.
#[derive(Debug)]
pub(super) struct HeapProfile<'a> {
    report: &'a Report,
    pid: u32,
    callsites: Callsites,
    /// By bucket: its callstack; `None` if other blocks count for its blocks.
    of_bucket: Vec<Option<u32>>,
    heaps: BTreeMap<u8, Sites>,
    /// The sequences of heaps have the numbers from here on.
    first_sequence: u32,
    /// The time of the last dump of any heap.
    dumped_ns: u64,
}

impl<'a> HeapProfile<'a> {
    pub(super) fn new(report: &'a Report, frames: Frames, pid: u32, first_sequence: u32) -> Self {
        let mut callsites = Callsites::default();
        let of_bucket = callsites.add(report, &report.by_bucket, frames);
        let heaps = BTreeMap::new();
        Self { report, pid, callsites, of_bucket, heaps, first_sequence, dumped_ns: START_NS }
    }

    /// Counts what has happened to a block.
    pub(super) fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        let bytes = event.bytes;
        let allocated = |sums: &mut Sums, bytes: i128, one: i128| {
            sums.allocated += bytes * one;
            sums.allocations += one;
        };
        let freed = |sums: &mut Sums, bytes: i128, one: i128| {
            sums.freed += bytes * one;
            sums.frees += one;
        };
        match change {
            BlockChange::Allocated | BlockChange::Reallocated { .. } | BlockChange::Returned => {
                self.add(event, event.bucket, bytes, allocated);
            }
            BlockChange::Freed { .. } | BlockChange::ReallocBegun | BlockChange::Left => {
                self.add(event, event.bucket, bytes, freed);
            }
            // Both halves are taken back.
            BlockChange::ReallocFailed { .. } => {
                self.add(event, event.bucket, bytes, |sums, bytes, one| {
                    allocated(sums, bytes, -one);
                    freed(sums, bytes, -one);
                });
            }
            BlockChange::Corrected { bytes_before, is_live } => {
                let correct = |sums: &mut Sums, bytes: i128, one: i128| {
                    sums.allocated += bytes * one;
                    sums.freed += if is_live { 0 } else { bytes * one };
                };
                self.add(event, event.bucket, bytes, correct);
                self.add(event, event.bucket, bytes_before, |sums, bytes, one| {
                    correct(sums, bytes, -one);
                });
            }
            BlockChange::Moved { from } => {
                let site = |bucket: u32| self.of_bucket.get(bucket as usize);
                if site(from) != site(event.bucket) {
                    self.add(event, from, bytes, freed);
                    self.add(event, event.bucket, bytes, allocated);
                }
            }
        }
    }

    /// `count` is given the bytes, and how often the block counts.
    fn add(
        &mut self,
        event: &BlockEvent,
        bucket: u32,
        bytes: u64,
        count: impl FnOnce(&mut Sums, i128, i128),
    ) {
        let Some(&Some(site)) = self.of_bucket.get(bucket as usize) else { return };
        let one =
            match (self.report.stack_sampling_bytes, self.report.by_bucket.get(bucket as usize)) {
                (Some(_), Some(row)) => (row.weight(bytes) * ONE as f64).round() as i128,
                _ => ONE,
            };
        let next = self.first_sequence.saturating_add(self.heaps.len() as u32);
        let report = self.report;
        let heap = self.heaps.entry(event.heap).or_insert_with(|| Sites {
            heap: Heap::new(heap_name(report, event.heap), next, START_NS),
            sites: vec![Site::default(); self.callsites.len()],
            changed: Vec::new(),
        });
        let Some(found) = heap.sites.get_mut(site as usize) else { return };
        count(&mut found.sums, bytes.into(), one);
        if !std::mem::replace(&mut found.has_changed, true) {
            heap.changed.push(site);
        }
    }

    /// Writes a dump of each heap in which something has changed.
    pub(super) fn dump(&mut self, at_ns: u64, out: &mut Vec<u8>) {
        for heap in self.heaps.values_mut() {
            let mut changed = std::mem::take(&mut heap.changed);
            changed.sort_unstable();
            let mut samples = Vec::with_capacity(changed.len());
            for site in changed {
                let Some(found) = heap.sites.get_mut(site as usize) else { continue };
                found.has_changed = false;
                let mut sums = found.sums.rounded();
                let dumped = found.dumped.unwrap_or_default();
                // NOTE: a correction of what a dump has already can make a sum smaller.
                std::iter::zip(&mut sums, dumped).for_each(|(sum, was)| *sum = was.max(*sum));
                if found.dumped != Some(sums) {
                    found.dumped = Some(sums);
                    samples.push((site, sums));
                }
            }
            let at_ns = at_ns.max(self.dumped_ns.saturating_add(1));
            let at = Moment { at_ns, asleep_ns: 0 };
            let dump = Dump::new(self.report, self.pid, at, &samples);
            if heap.heap.dump(&dump, &self.callsites, out) {
                self.dumped_ns = at_ns;
            }
        }
    }
}

/// A dump: what some callstacks have allocated and freed, and how often, since the start.
pub(super) struct Dump<'a> {
    pid: u32,
    from_startup: bool,
    /// The mean number of bytes from one sample to the next.
    interval: u64,
    samples: &'a [(u32, [u64; 4])],
    /// Clock 4 is behind that of the sequence by the time that the system has slept.
    at: Moment,
}

impl<'a> Dump<'a> {
    pub(super) fn new(
        report: &Report,
        pid: u32,
        at: Moment,
        samples: &'a [(u32, [u64; 4])],
    ) -> Self {
        Self {
            pid,
            from_startup: report.trace.from_process_start == Some(true),
            interval: report.stack_sampling_bytes.unwrap_or(1),
            samples,
            at,
        }
    }
}

impl Heap {
    /// A heap whose first dump has what was allocated from this time on.
    pub(super) fn new(name: String, sequence: u32, from: u64) -> Self {
        Self {
            name,
            sequence: Sequence::new(sequence),
            interned: Interned::default(),
            index: 0,
            dumped_ns: from,
        }
    }

    /// Starts its sequence again: its next packet needs none of those before.
    pub(super) fn restart(&mut self) {
        self.sequence.restart();
        self.interned = Interned::default();
    }

    /// Writes a dump, unless it has no samples; returns whether it has.
    pub(super) fn dump(
        &mut self,
        dump: &Dump<'_>,
        callsites: &Callsites,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut parts = dump.samples.chunks(SAMPLES_OF_PACKET).peekable();
        while let Some(part) = parts.next() {
            let continued = parts.peek().is_some();
            self.write(dump, part, continued, callsites, out);
        }
        if !dump.samples.is_empty() {
            self.dumped_ns = dump.at.at_ns;
        }
        !dump.samples.is_empty()
    }

    /// Writes one packet of a dump.
    fn write(
        &mut self,
        dump: &Dump<'_>,
        samples: &[(u32, [u64; 4])],
        continued: bool,
        callsites: &Callsites,
        out: &mut Vec<u8>,
    ) {
        use process_heap_samples as field;
        let Self { name, sequence, interned, index, dumped_ns } = self;
        let mut data = Vec::new();
        let mut message = Message::new(&mut data);
        let samples: Vec<_> = samples
            .iter()
            .map(|(site, sums)| (interned.stack(callsites, *site, &mut message), *sums))
            .collect();
        sequence.packet(out, dump.at.at_ns, |packet| {
            if !data.is_empty() {
                packet.bytes(packet::INTERNED_DATA, &data);
            }
            packet.nested(packet::PROFILE_PACKET, |profile| {
                profile.uint(profile_packet::INDEX, *index);
                profile.flag(profile_packet::CONTINUED, continued);
                profile.nested(profile_packet::PROCESS_DUMPS, |message| {
                    message.uint(field::PID, dump.pid.into());
                    message.flag(field::FROM_STARTUP, dump.from_startup);
                    let Moment { at_ns, asleep_ns } = dump.at;
                    message.uint(field::TIMESTAMP, at_ns.saturating_sub(asleep_ns));
                    message.uint(field::START_TIMESTAMP, dumped_ns.saturating_sub(asleep_ns));
                    message.text(field::HEAP_NAME, name);
                    // NOTE: without the second, the reader has no counts.
                    message.uint(field::SAMPLING_INTERVAL_BYTES, dump.interval);
                    message.uint(field::ORIG_SAMPLING_INTERVAL_BYTES, dump.interval);
                    for &(stack, [allocated, freed, allocations, frees]) in &samples {
                        message.nested(field::SAMPLES, |sample| {
                            sample.uint(heap_sample::CALLSTACK_ID, stack);
                            sample.uint(heap_sample::SELF_ALLOCATED, allocated);
                            sample.uint(heap_sample::SELF_FREED, freed);
                            sample.uint(heap_sample::ALLOC_COUNT, allocations);
                            sample.uint(heap_sample::FREE_COUNT, frees);
                        });
                    }
                });
            });
        });
        *index += 1;
    }
}

/// The name of a root heap, as the report has it.
fn heap_name(report: &Report, number: u8) -> String {
    let row = report.by_heap.iter().find(|row| row.id == u32::from(number));
    row.map_or_else(|| format!("heap {number}"), |row| row.name.clone())
}
