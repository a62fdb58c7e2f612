//! The heap profile: what each callstack has allocated and freed so far, at each of several *dumps*.
//!
//! The reader's rules are not written anywhere, and most mistakes lose data without a word:
//!
//! - It stores the difference to the dump before, by callstack and not by heap. So each heap has a sequence
//!   of its own, and no two dumps have the same time.
//! - Sums never fall: a row that does is dropped.
//! - A dump counts when a packet of it has `continued = false`.
//! - The time of a dump is one of clock 4, which the first packet of the trace must relate to the others.

use super::callsites::{Callsites, Interned};
use super::sequence::{START_NS, Sequence};
use crate::analysis::{BlockChange, BlockEvent, Report};
use crate::protobuf::Message;
use crate::protobuf::perfetto::{heap_sample, packet, process_heap_samples, profile_packet};
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

#[derive(Debug)]
struct Heap {
    sequence: Sequence,
    interned: Interned,
    sites: Vec<Site>,
    /// The sites that have changed since the last dump.
    changed: Vec<u32>,
    /// The number of packets.
    index: u64,
    dumped_ns: u64,
}

/// The heaps of a program. The memory is that of one row for each callstack in each heap.
#[derive(Debug)]
pub(super) struct HeapProfile<'a> {
    report: &'a Report,
    pid: u64,
    callsites: Callsites<'a>,
    heaps: BTreeMap<u8, Heap>,
    /// The sequences of heaps have the numbers from here on.
    first_sequence: u32,
    /// The time of the last dump of any heap.
    dumped_ns: u64,
}

impl<'a> HeapProfile<'a> {
    pub(super) fn new(report: &'a Report, all_frames: bool, pid: u64, first_sequence: u32) -> Self {
        let callsites = Callsites::of(report, all_frames);
        Self { report, pid, callsites, heaps: BTreeMap::new(), first_sequence, dumped_ns: START_NS }
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
                let site = |bucket: u32| self.callsites.of_bucket.get(bucket as usize);
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
        let Some(&Some(site)) = self.callsites.of_bucket.get(bucket as usize) else { return };
        let one =
            match (self.report.stack_sampling_bytes, self.report.by_bucket.get(bucket as usize)) {
                (Some(_), Some(row)) => (row.weight(bytes) * ONE as f64).round() as i128,
                _ => ONE,
            };
        let next = self.first_sequence.saturating_add(self.heaps.len() as u32);
        let heap = self.heaps.entry(event.heap).or_insert_with(|| Heap {
            sequence: Sequence::new(next),
            interned: Interned::default(),
            sites: vec![Site::default(); self.callsites.len()],
            changed: Vec::new(),
            index: 0,
            dumped_ns: START_NS,
        });
        let Some(found) = heap.sites.get_mut(site as usize) else { return };
        count(&mut found.sums, bytes.into(), one);
        if !std::mem::replace(&mut found.has_changed, true) {
            heap.changed.push(site);
        }
    }

    /// Writes a dump of each heap in which something has changed.
    pub(super) fn dump(&mut self, at_ns: u64, out: &mut Vec<u8>) {
        for (&number, heap) in &mut self.heaps {
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
            let at = START_NS.saturating_add(at_ns).max(self.dumped_ns.saturating_add(1));
            let mut parts = samples.chunks(SAMPLES_OF_PACKET).peekable();
            while let Some(part) = parts.next() {
                let dump = Dump {
                    report: self.report,
                    pid: self.pid,
                    heap: number,
                    samples: part,
                    continued: parts.peek().is_some(),
                    from: heap.dumped_ns,
                    at,
                };
                dump.write(heap, &self.callsites, out);
            }
            if !samples.is_empty() {
                (heap.dumped_ns, self.dumped_ns) = (at, at);
            }
        }
    }
}

/// One packet of a dump.
struct Dump<'a> {
    report: &'a Report,
    pid: u64,
    heap: u8,
    samples: &'a [(u32, [u64; 4])],
    continued: bool,
    from: u64,
    at: u64,
}

impl Dump<'_> {
    fn write(&self, heap: &mut Heap, callsites: &Callsites<'_>, out: &mut Vec<u8>) {
        let Heap { sequence, interned, index, .. } = heap;
        let mut data = Vec::new();
        let mut message = Message::new(&mut data);
        let samples = self.samples.iter();
        let samples: Vec<_> = samples
            .map(|(site, sums)| (interned.stack(callsites, *site, &mut message), *sums))
            .collect();
        sequence.packet(out, self.at - START_NS, |packet| {
            if !data.is_empty() {
                packet.bytes(packet::INTERNED_DATA, &data);
            }
            packet.nested(packet::PROFILE_PACKET, |profile| {
                profile.uint(profile_packet::INDEX, *index);
                profile.flag(profile_packet::CONTINUED, self.continued);
                profile.nested(profile_packet::PROCESS_DUMPS, |dump| self.samples(dump, &samples));
            });
        });
        *index += 1;
    }

    fn samples(&self, dump: &mut Message<'_>, samples: &[(u64, [u64; 4])]) {
        use process_heap_samples as field;
        dump.uint(field::PID, self.pid);
        dump.flag(field::FROM_STARTUP, self.report.trace.from_process_start == Some(true));
        dump.uint(field::TIMESTAMP, self.at);
        dump.uint(field::START_TIMESTAMP, self.from);
        dump.text(field::HEAP_NAME, &heap_name(self.heap));
        // NOTE: without the second, the reader has no counts.
        let interval = self.report.stack_sampling_bytes.unwrap_or(1);
        dump.uint(field::SAMPLING_INTERVAL_BYTES, interval);
        dump.uint(field::ORIG_SAMPLING_INTERVAL_BYTES, interval);
        for &(stack, [allocated, freed, allocations, frees]) in samples {
            dump.nested(field::SAMPLES, |sample| {
                sample.uint(heap_sample::CALLSTACK_ID, stack);
                sample.uint(heap_sample::SELF_ALLOCATED, allocated);
                sample.uint(heap_sample::SELF_FREED, freed);
                sample.uint(heap_sample::ALLOC_COUNT, allocations);
                sample.uint(heap_sample::FREE_COUNT, frees);
            });
        }
    }
}

/// The name of a root heap. The first two are Unreal's, which our writer uses as well.
fn heap_name(number: u8) -> String {
    match number {
        0 => "System memory".to_owned(),
        1 => "Video memory".to_owned(),
        _ => format!("Heap {number}"),
    }
}
