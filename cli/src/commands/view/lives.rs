//! Answers about single blocks from the file of lives, without a pass over the trace.

use super::history::Entry;
use super::lives_file::{Kept, LivesFile};
use super::passes::Cancel;
use crate::error::CliError;
use memledger::analysis::{BlockChange, IndexRow, Position, QueryIndex, Rule, SingleBlock};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

/// Blocks of one size are listed oldest first, until this many chunks were read. Then the list is not made exact among
/// blocks of its smallest size, because a program can have such blocks in every chunk.
const CHUNKS_OF_ONE_SIZE: usize = 256;

/// The blocks of a trace, and the index that says where they are.
pub struct Lives<'a> {
    file: &'a LivesFile,
    index: &'a QueryIndex,
    cancel: &'a Cancel,
}

/// The largest blocks so far.
struct Largest {
    most: usize,
    blocks: Vec<SingleBlock>,
}

impl Largest {
    fn cut(&mut self) {
        self.blocks.sort_unstable_by_key(|single| {
            let block = &single.block;
            (Reverse(block.bytes), block.allocated_at_ns, block.address, block.number)
        });
        self.blocks.truncate(self.most);
    }

    fn add(&mut self, single: SingleBlock) {
        self.blocks.push(single);
        if self.blocks.len() >= self.most.saturating_mul(2).max(1024) {
            self.cut();
        }
    }

    /// Whether chunks whose largest block has `bytes` need not be read, after `chunks` chunks.
    fn is_full(&mut self, bytes: u64, chunks: usize) -> bool {
        self.cut();
        let last = self.blocks.last().filter(|_| self.blocks.len() == self.most);
        self.most == 0
            || last.is_some_and(|last| {
                let last = last.block.bytes;
                last > bytes || last == bytes && chunks >= CHUNKS_OF_ONE_SIZE
            })
    }
}

impl<'a> Lives<'a> {
    /// `None` if the file does not say all, or not of this state of the trace.
    pub fn new(file: &'a LivesFile, index: &'a QueryIndex, cancel: &'a Cancel) -> Option<Self> {
        let last = index.steps.last().map_or(0, |step| step.before.event);
        let says_all = file.is_whole() && file.last_event() == last;
        says_all.then_some(Self { file, index, cancel })
    }

    /// The events of a step.
    fn events(&self, step: u32) -> RangeInclusive<u64> {
        let before =
            |step: usize| self.index.steps.get(step).map_or(u64::MAX, |at| at.before.event);
        before(step as usize).saturating_add(1)..=before(step as usize + 1)
    }

    fn blocks_of(&self, chunk: usize) -> Result<Vec<Kept>, CliError> {
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
        let moves = self.file.moves();
        // A block that was moved is in the row of its last bucket, whichever it was in before.
        let moved: HashSet<u32> = moves.begun().map(|begun| self.index.step_of(begun)).collect();
        let events: Vec<_> = positions.iter().map(|&event| Position::Event(event)).collect();
        let rows = self.index.rows_of(rule, &events);
        let rows = rows.map_err(|why| CliError::Usage(why.to_string()))?;
        let mut steps = HashMap::<u32, u64>::new();
        for row in rows.filter(|row| is_wanted(row.bucket) || moved.contains(&row.begun)) {
            let step = steps.entry(row.ended).or_default();
            *step = row.most.max(*step);
        }
        // The largest first; of steps with the same, the first.
        let mut steps: Vec<_> = steps.into_iter().collect();
        steps.sort_unstable_by_key(|&(step, largest)| (Reverse(largest), step));
        let mut found = Largest { most, blocks: Vec::new() };
        let mut is_read = HashSet::new();
        for (step, largest) in steps {
            if found.is_full(largest, is_read.len()) {
                break;
            }
            let mut chunks: Vec<_> = match step {
                IndexRow::NEVER => self.file.live().collect(),
                step => self.file.ended_in(self.events(step)).collect(),
            };
            chunks.sort_by_key(|&chunk| Reverse(self.file.chunk(chunk).most));
            for chunk in chunks {
                let most = self.file.chunk(chunk).most;
                if found.is_full(most, is_read.len()) || !is_read.insert(chunk) {
                    continue;
                }
                let blocks = self.blocks_of(chunk)?;
                let singles = blocks.iter().filter_map(|kept| {
                    let single = kept.life.found_by(rule, positions, moves)?;
                    is_wanted(single.block.bucket).then_some(single)
                });
                singles.for_each(|single| found.add(single));
            }
        }
        found.cut();
        Ok(found.blocks)
    }

    /// A block that events of some steps have made live.
    fn begun_in(&self, step: u32, is_it: impl Fn(&Kept) -> bool) -> Result<Option<Kept>, CliError> {
        let rows = self.index.rows.iter().filter(|row| row.begun == step);
        let mut ended: Vec<u32> = rows.map(|row| row.ended).collect();
        ended.sort_unstable();
        ended.dedup();
        let mut is_read = HashSet::new();
        for step in ended {
            let chunks = match step {
                IndexRow::NEVER => self.file.live(),
                step => self.file.ended_in(self.events(step)),
            };
            for chunk in chunks.filter(|&chunk| is_read.insert(chunk)) {
                if let Some(kept) = self.blocks_of(chunk)?.into_iter().find(&is_it) {
                    return Ok(Some(kept));
                }
            }
        }
        Ok(None)
    }

    /// The block that an event has ended, other than by another one in its place.
    fn ended_by(&self, event: u64) -> Result<Option<Kept>, CliError> {
        let is_it = |kept: &Kept| {
            kept.life.ended.is_some_and(|(by, _, how)| by == event && how != BlockChange::Left)
        };
        for chunk in self.file.ended_in(event..=event) {
            if let Some(kept) = self.blocks_of(chunk)?.into_iter().find(is_it) {
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }

    /// The block that an event has changed.
    fn changed_by(&self, event: u64) -> Result<Option<Kept>, CliError> {
        let begun = self.file.moves().moved_by(event).unwrap_or(event);
        let kept = self.begun_in(self.index.step_of(begun), |kept| kept.life.begun == begun)?;
        match kept {
            None => self.ended_by(event),
            kept => Ok(kept),
        }
    }

    /// The second half of a reallocation.
    fn reallocated(&self, first_half: u64) -> Result<Option<Kept>, CliError> {
        if self.file.is_open(first_half) {
            return Ok(None);
        }
        // It is in the same step, or in one of the next.
        for step in self.index.step_of(first_half)..self.index.steps.len() as u32 {
            let found = self.begun_in(step, |kept| kept.realloc == Some(first_half))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// What has happened to the block that an event has changed, from its allocation on.
    pub fn history(&self, event: u64) -> Result<Vec<Entry>, CliError> {
        let Some(kept) = self.changed_by(event)? else { return Ok(Vec::new()) };
        let mut lives = vec![kept];
        while let Some(kept) = lives.last()
            && let Some(realloc) = kept.realloc
            && let Some(before) = self.ended_by(realloc)?
        {
            lives.push(before);
        }
        lives.reverse();
        while let Some((by, _, BlockChange::ReallocBegun)) =
            lives.last().and_then(|last| last.life.ended)
            && let Some(next) = self.reallocated(by)?
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
    fn add_entries(&self, kept: &Kept, bytes_before: Option<u64>, entries: &mut Vec<Entry>) {
        let life = &kept.life;
        let moves = self.file.moves().of(life.begun);
        let entry = |what, event: u64, at_ns, bucket| Entry {
            what,
            event: Some(event),
            at_ns,
            address: life.address,
            bytes: life.bytes,
            bytes_before: None,
            bucket,
            by: None,
        };
        let what = match life.begun_by {
            BlockChange::Returned => "returned",
            _ if kept.realloc.is_some() => "reallocated",
            _ => "allocated",
        };
        let first = moves.first().map_or(life.bucket, |one| one.from);
        let mut begun = entry(what, life.begun, life.begun_at_ns, first);
        if kept.realloc.is_some() {
            (begun.bytes_before, begun.by) = (bytes_before, self.file.made_by(kept).cloned());
        }
        entries.push(begun);
        entries.extend(moves.iter().map(|one| entry("moved", one.event, one.at_ns, one.to)));
        if let Some((event, at_ns, how)) = life.ended {
            let what = match how {
                BlockChange::Left => "left",
                BlockChange::ReallocBegun => "reallocation begun",
                _ => "freed",
            };
            let by = self.file.freed_by(kept).cloned();
            entries.push(Entry { by, ..entry(what, event, at_ns, life.bucket) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::view::kept::Identity;
    use crate::commands::view::{lives_file, passes};
    use memledger::analysis::{Analyzer, QueryIndexer};
    use memledger::trace::read::read;
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
            let lives = Lives::new(&file, &index, &cancel).expect("the trace has no odd event");
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
                    let all = passes::blocks(&trace, rule, &positions, buckets, 100_000, &cancel);
                    let all = all.unwrap().0;
                    let largest = lives.largest(rule, &events, buckets, most).unwrap();
                    let bytes = |single: &SingleBlock| single.block.bytes;
                    let naive: Vec<_> = all.iter().take(most).map(bytes).collect();
                    let name = format!("{name} {} {events:?}", rule.name());
                    assert_eq!(largest.iter().map(bytes).collect::<Vec<_>>(), naive, "{name}");
                    let key = |single: &SingleBlock| {
                        let block = single.block;
                        let ended = single.has_ended.then_some((block.number, block.at_ns));
                        let of = (block.address, block.bytes, block.bucket, block.allocated_at_ns);
                        (single.begun_by, ended, of, single.has_declined)
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

    #[test]
    fn a_history_is_the_one_that_a_pass_finds() {
        let mut whats = HashSet::new();
        for name in SAMPLES {
            let (_folder, trace, index, file) = kept(name);
            let cancel = Cancel::default();
            let lives = Lives::new(&file, &index, &cancel).expect("the trace has no odd event");
            let end = Position::Event(file.last_event());
            let some = (file.last_event() as usize / 80).max(1);
            for event in (1..file.last_event()).step_by(some) {
                let passed = passes::history(&trace, event, &end, &cancel).unwrap();
                let entries = lives.history(event).unwrap();
                // A pass does not know the allocation of a block that was not reallocated before.
                let known = entries.len() - passed.len();
                assert!(known <= 1 && entries[..known].iter().all(|of| of.what == "allocated"));
                let entries = &entries[known..];
                for (entry, passed) in entries.iter().zip(&passed) {
                    // A pass does not know all of the first allocation.
                    let event = passed.event.or(entry.event);
                    whats.insert(entry.what);
                    let bytes_before = passed.bytes_before;
                    assert_eq!((entry.event, entry.bytes_before), (event, bytes_before));
                    let key = |entry: &Entry| {
                        let by = entry.by.as_ref().map(|by| (by.thread.clone(), by.path.clone()));
                        (entry.what, entry.at_ns, entry.address, entry.bytes, entry.bucket, by)
                    };
                    assert_eq!(key(entry), key(passed), "{name} {entries:?} {passed:?}");
                }
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
