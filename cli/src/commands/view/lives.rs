//! Answers about single blocks from the file of lives, without a pass over the trace.

use super::lives_file::{By, LivesFile, StoredBlock};
use super::passes::Cancel;
use crate::error::CliError;
use memledger_analysis::{
    BlockChange, IndexRow, LargestBlocks, Position, QueryIndex, Rule, SingleBlock,
};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

/// Blocks of one size are listed oldest first, until this many chunks were read. Then the list is not made
/// exact among blocks of its smallest size, because a program can have such blocks in every chunk.
const CHUNKS_OF_ONE_SIZE: usize = 256;

/// The blocks of a trace, and the index that says where they are.
pub struct Lives<'a> {
    file: &'a LivesFile,
    index: &'a QueryIndex,
    cancel: &'a Cancel,
}

/// One event of a block.
#[derive(Clone, Debug)]
pub struct Entry {
    pub what: &'static str,
    pub event: u64,
    pub at_ns: u64,
    pub address: u64,
    pub bytes: u64,
    /// Of a reallocation.
    pub bytes_before: Option<u64>,
    pub bucket: u32,
    /// Who has freed or reallocated it, which may be another thread, in another scope.
    pub by: Option<By>,
}

/// Whether chunks whose largest block has `bytes` need not be read, after `chunks` chunks.
fn is_full(found: &mut LargestBlocks, most: usize, bytes: u64, chunks: usize) -> bool {
    let blocks = found.blocks();
    let last = blocks.last().filter(|_| blocks.len() == most);
    most == 0
        || last.is_some_and(|last| {
            let last = last.life.bytes;
            last > bytes || last == bytes && chunks >= CHUNKS_OF_ONE_SIZE
        })
}

impl<'a> Lives<'a> {
    /// `None` if the file is not of this state of the trace.
    pub fn new(file: &'a LivesFile, index: &'a QueryIndex, cancel: &'a Cancel) -> Option<Self> {
        let last = index.steps.last().map_or(0, |step| step.before.event);
        (file.last_event() == last).then_some(Self { file, index, cancel })
    }

    fn events(&self, step: u32) -> RangeInclusive<u64> {
        let before =
            |step: usize| self.index.steps.get(step).map_or(u64::MAX, |at| at.before.event);
        before(step as usize).saturating_add(1)..=before(step as usize + 1)
    }

    fn blocks_of(&self, chunk: usize) -> Result<Vec<StoredBlock>, CliError> {
        self.cancel.check()?;
        self.file.blocks(chunk)
    }

    /// The largest blocks that a rule finds in some buckets (in all, if there are none) at these positions,
    /// which are events, as many as the rule has.
    ///
    /// Chunks are read in the order of the largest block that they can have, until no other can have a larger
    /// one: at most as many steps of the index as blocks are wanted.
    pub fn largest(
        &self,
        rule: Rule,
        positions: &[u64],
        buckets: &[u32],
        most: usize,
    ) -> Result<Vec<SingleBlock>, CliError> {
        let is_wanted = |bucket: u32| buckets.is_empty() || buckets.contains(&bucket);
        let events: Vec<_> = positions.iter().map(|&event| Position::Event(event)).collect();
        let rows = self.index.rows_of(rule, &events);
        let rows = rows.map_err(|why| CliError::Usage(why.to_string()))?;
        let mut steps = HashMap::<u32, u64>::new();
        for row in rows.filter(|row| is_wanted(row.bucket)) {
            let step = steps.entry(row.ended).or_default();
            *step = row.most.max(*step);
        }
        // The largest first; of steps with the same, the first.
        let mut steps: Vec<_> = steps.into_iter().collect();
        steps.sort_unstable_by_key(|&(step, largest)| (Reverse(largest), step));
        let mut found = LargestBlocks::new(most);
        let mut is_read = HashSet::new();
        for (step, largest) in steps {
            if is_full(&mut found, most, largest, is_read.len()) {
                break;
            }
            let mut chunks: Vec<_> = match step {
                IndexRow::NEVER => self.file.live().collect(),
                step => self.file.ended_in(self.events(step)).collect(),
            };
            chunks.sort_by_key(|&chunk| Reverse(self.file.chunk(chunk).most));
            for chunk in chunks {
                let bytes = self.file.chunk(chunk).most;
                if is_full(&mut found, most, bytes, is_read.len()) || !is_read.insert(chunk) {
                    continue;
                }
                let blocks = self.blocks_of(chunk)?;
                let singles = blocks.iter().filter_map(|kept| {
                    let single = kept.life.found_by(rule, positions)?;
                    is_wanted(single.life.bucket).then_some(single)
                });
                singles.for_each(|single| found.add(single));
            }
        }
        Ok(found.blocks().to_vec())
    }

    /// The life of a block since an event.
    fn since(&self, event: u64) -> Result<Option<StoredBlock>, CliError> {
        let step = self.index.step_of(event);
        let rows = self.index.rows.iter().filter(|row| row.since == step);
        let mut ended: Vec<u32> = rows.map(|row| row.ended).collect();
        ended.sort_unstable();
        ended.dedup();
        let mut is_read = HashSet::new();
        for step in ended {
            let chunks: Vec<_> = match step {
                IndexRow::NEVER => self.file.live().collect(),
                step => self.file.ended_in(self.events(step)).collect(),
            };
            for chunk in chunks.into_iter().filter(|&chunk| is_read.insert(chunk)) {
                let is_it = |kept: &StoredBlock| kept.life.since == event;
                if let Some(kept) = self.blocks_of(chunk)?.into_iter().find(is_it) {
                    return Ok(Some(kept));
                }
            }
        }
        Ok(None)
    }

    /// The block that an event has ended or changed, other than by another one in its place.
    fn ended_by(&self, event: u64) -> Result<Option<StoredBlock>, CliError> {
        let is_it = |kept: &StoredBlock| {
            kept.life.ended.is_some_and(|(by, _, how)| by == event && how != BlockChange::Left)
        };
        for chunk in self.file.ended_in(event..=event) {
            if let Some(kept) = self.blocks_of(chunk)?.into_iter().find(is_it) {
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }

    /// What has happened to the block that an event has changed, from its allocation on.
    pub fn history(&self, event: u64) -> Result<Vec<Entry>, CliError> {
        let changed = match self.since(event)? {
            None => self.ended_by(event)?,
            kept => kept,
        };
        let Some(kept) = changed else { return Ok(Vec::new()) };
        let mut lives = vec![kept];
        while let Some(kept) = lives.last()
            && let Some(before) = kept.before()
            && let Some(before) = self.ended_by(before)?
        {
            lives.push(before);
        }
        lives.reverse();
        while let Some(next) = lives.last().and_then(|last| last.life.next)
            && let Some(next) = self.since(next)?
        {
            lives.push(next);
        }
        let mut entries = Vec::new();
        for (number, kept) in lives.iter().enumerate() {
            let before = number.checked_sub(1).and_then(|number| lives.get(number));
            self.add_entries(kept, before.map(|before| before.life.bytes), &mut entries);
        }
        Ok(entries)
    }

    /// What happened to a block from when it became live until it ended.
    fn add_entries(&self, kept: &StoredBlock, bytes_before: Option<u64>, entries: &mut Vec<Entry>) {
        let life = &kept.life;
        let entry = |what, event: u64, at_ns, by| Entry {
            what,
            event,
            at_ns,
            address: life.address,
            bytes: life.bytes,
            bytes_before: None,
            bucket: life.bucket,
            by,
        };
        match entries.last_mut().filter(|last| last.event == life.since) {
            // One entry for an event that changes a block: as the block is after it.
            Some(last) => {
                (last.bytes, last.bucket, last.address) = (life.bytes, life.bucket, life.address);
            }
            None => {
                let what = match life.begun_by {
                    BlockChange::Returned => "returned",
                    _ if kept.realloc.is_some() => "reallocated",
                    _ => "allocated",
                };
                let by = kept.realloc.and_then(|_| self.file.made_by(kept).cloned());
                let bytes_before = kept.realloc.and(bytes_before);
                let begun = entry(what, life.begun, life.begun_at_ns, by);
                entries.push(Entry { bytes_before, ..begun });
            }
        }
        if let Some((event, at_ns, how)) = life.ended {
            let what = match how {
                BlockChange::Left => "left",
                BlockChange::ReallocBegun => "reallocation begun",
                BlockChange::Moved { .. } => "moved",
                BlockChange::Corrected { .. } => "corrected",
                BlockChange::ReallocFailed { .. } => "reallocation failed",
                _ => "freed",
            };
            entries.push(entry(what, event, at_ns, self.file.freed_by(kept).cloned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::view::kept::Identity;
    use crate::commands::view::{lives_file, passes};
    use memledger_analysis::read::read;
    use memledger_analysis::{Actor, Analyzer, BlockEvent, BlockObserver, Query, QueryIndexer};
    use std::fs::{self, File};
    use std::path::PathBuf;

    /// A copy of a sample with its index, and the file of its lives.
    fn kept(name: &str) -> (tempfile::TempDir, PathBuf, QueryIndex, LivesFile) {
        let sample = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/samples").join(name);
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("run.utrace");
        fs::copy(&sample, &trace).unwrap();
        let mut analyzer = Analyzer::observing(QueryIndexer::default());
        read(File::open(&trace).unwrap(), &mut analyzer).unwrap();
        let index = analyzer.query_index(|indexer| indexer);
        lives_file::build(&trace, &Identity::of(&trace).unwrap(), &|| false).unwrap();
        let file = LivesFile::load(&trace).unwrap();
        (folder, trace, index, file)
    }

    const SAMPLES: [&str; 3] =
        ["mem-2t-40k.utrace", "unreal4/p4-tid-trc2.utrace", "unreal4/p4-tid-ue426.utrace"];

    #[test]
    fn the_largest_blocks_are_those_that_a_pass_finds() {
        for name in SAMPLES {
            let (_folder, trace, index, file) = kept(name);
            let cancel = Cancel::default();
            let lives = Lives::new(&file, &index, &cancel).expect("of this trace");
            let steps = index.steps.len() - 1;
            let buckets: Vec<u32> = index.rows.iter().map(|row| row.bucket).collect();
            let some = [buckets[0], buckets[buckets.len() / 2]];
            let mut found = 0;
            for at in [[0, steps / 3, steps / 2, steps], [steps / 2, steps / 2 + 1, steps, steps]] {
                let events = at.map(|step| index.steps[step].before.event);
                for (&rule, (buckets, most)) in Rule::ALL.iter().flat_map(|rule| {
                    [(&[][..], 20), (&[], 10_000), (&some, 5)].map(|of| (rule, of))
                }) {
                    let count = rule.times() + usize::from(rule == Rule::AllocatedAfter);
                    let mut events = events[..count].to_vec();
                    if rule == Rule::AllocatedAfter {
                        events[1] = file.last_event();
                    }
                    let positions: Vec<_> = events.iter().copied().map(Position::Event).collect();
                    let query = Query::new(rule, positions).in_buckets(buckets).blocks(100_000);
                    let all = passes::answer(&trace, query, &cancel).unwrap().blocks;
                    let all: Vec<_> = all.iter().map(|found| found.single).collect();
                    let largest = lives.largest(rule, &events, buckets, most).unwrap();
                    let bytes = |single: &SingleBlock| single.life.bytes;
                    let naive: Vec<_> = all.iter().take(most).map(bytes).collect();
                    let name = format!("{name} {} {events:?}", rule.name());
                    assert_eq!(largest.iter().map(bytes).collect::<Vec<_>>(), naive, "{name}");
                    let key = |single: &SingleBlock| {
                        let life = single.life;
                        let of = (life.address, life.bytes, life.bucket, life.allocated_at_ns);
                        (life.begun, single.freed(), of, single.has_declined)
                    };
                    let all: HashSet<_> = all.iter().map(key).collect();
                    let keys: HashSet<_> = largest.iter().map(key).collect();
                    assert_eq!(keys.len(), largest.len(), "{name}");
                    assert!(keys.is_subset(&all), "{name}: {keys:?}");
                    found += keys.len();
                }
            }
            assert!(found > 300, "{name}: {found}");
        }
    }

    /// Keeps all that happens to blocks.
    #[derive(Default)]
    struct All(Vec<(BlockEvent, BlockChange)>);

    impl BlockObserver for All {
        fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
            self.0.push((*event, change));
        }
    }

    impl All {
        /// What has happened to the block that an event has changed, found by looking at every event.
        fn history(&self, event: u64) -> Vec<(BlockEvent, BlockChange)> {
            let is_it =
                |of: &(BlockEvent, BlockChange)| of.0.number == event && of.1 != BlockChange::Left;
            let Some(mut at) = self.0.iter().position(is_it) else { return Vec::new() };
            let is_at = |one: &BlockEvent, other: &BlockEvent| {
                (one.heap, one.address) == (other.heap, other.address)
            };
            // Back to the allocation, and then on until the end.
            while let (here, change) = self.0[at]
                && change != BlockChange::Allocated
            {
                let before = self.0[..at].iter().rposition(|(one, _)| match change {
                    BlockChange::Reallocated { begun, .. } => one.number == begun,
                    _ => is_at(one, &here),
                });
                at = before.expect("it was allocated");
            }
            let mut history = vec![self.0[at]];
            while let Some(&(here, change)) = history.last() {
                let next = self.0[at + 1..].iter().position(|(one, then)| match change {
                    BlockChange::ReallocBegun => {
                        matches!(then, BlockChange::Reallocated { begun, .. } if *begun == here.number)
                    }
                    BlockChange::Freed { .. } | BlockChange::Left => false,
                    _ => is_at(one, &here),
                });
                let Some(next) = next else { break };
                at += 1 + next;
                history.push(self.0[at]);
            }
            history
        }
    }

    #[test]
    fn a_history_is_the_one_that_a_look_at_every_event_finds() {
        let mut whats = HashSet::new();
        for name in SAMPLES {
            let (_folder, trace, index, file) = kept(name);
            let cancel = Cancel::default();
            let lives = Lives::new(&file, &index, &cancel).expect("of this trace");
            let mut analyzer = Analyzer::observing(All::default());
            read(File::open(&trace).unwrap(), &mut analyzer).unwrap();
            let temporary = LivesFile::up_to(&trace, file.last_event(), &|| false).unwrap();
            let of_temporary = Lives::new(&temporary, &index, &cancel).expect("of this trace");
            let by = |actor: Actor| {
                let (id, name) = analyzer.thread_of(actor);
                Some((crate::commands::view::picture::thread(name, id), analyzer.scope_path(actor)))
            };
            let some = (file.last_event() as usize / 80).max(1);
            for event in (1..file.last_event()).step_by(some) {
                let naive =
                    analyzer.observer().history(event).into_iter().map(|(block, change)| {
                        let (what, bytes_before, by) = match change {
                            BlockChange::Allocated => ("allocated", None, None),
                            BlockChange::Freed { by: actor, .. } => ("freed", None, by(actor)),
                            BlockChange::ReallocBegun => ("reallocation begun", None, None),
                            BlockChange::Reallocated { bytes_before, by: actor, .. } => {
                                ("reallocated", Some(bytes_before), by(actor))
                            }
                            change => panic!("{change:?}"),
                        };
                        let BlockEvent { number, at_ns, address, bytes, bucket, .. } = block;
                        (what, number, at_ns, address, (bytes, bytes_before), bucket, by)
                    });
                let key = |entry: Entry| {
                    let Entry { what, event, at_ns, address, bytes, bytes_before, bucket, by } =
                        entry;
                    let by = by.map(|by| (by.thread, by.path));
                    (what, event, at_ns, address, (bytes, bytes_before), bucket, by)
                };
                let naive: Vec<_> = naive.collect();
                for lives in [&lives, &of_temporary] {
                    let entries = lives.history(event).unwrap().into_iter();
                    assert_eq!(entries.map(key).collect::<Vec<_>>(), naive, "{name} {event}");
                }
                whats.extend(naive.iter().map(|entry| entry.0));
            }
        }
        for what in ["allocated", "reallocation begun", "reallocated", "freed"] {
            assert!(whats.contains(what), "{what}: {whats:?}");
        }
    }

    #[test]
    fn a_damaged_file_is_not_used() {
        let (_folder, trace, index, file) = kept(SAMPLES[1]);
        let path = trace.with_file_name("run.utrace.blocks");
        let bytes = fs::read(&path).unwrap();
        for length in [0, 10, 30, bytes.len() / 2, bytes.len() - 1] {
            fs::write(&path, &bytes[..length]).unwrap();
            assert!(LivesFile::load(&trace).is_none(), "{length}");
        }
        // The file that is open is damaged: a sentence, and then a pass.
        let chunk = bytes.len() / 4;
        let damaged = bytes.iter().enumerate();
        let damaged =
            damaged.map(|(at, byte)| if at < chunk { 0 } else { *byte }).collect::<Vec<_>>();
        fs::write(&path, damaged).unwrap();
        assert!(LivesFile::load(&trace).is_none());
        let cancel = Cancel::default();
        let lives = Lives::new(&file, &index, &cancel).unwrap();
        let last = file.last_event();
        let error = lives.largest(Rule::AllocatedAfter, &[0, last], &[], 100_000).unwrap_err();
        assert!(error.to_string().starts_with("the index of blocks is damaged: "), "{error}");
    }
}
