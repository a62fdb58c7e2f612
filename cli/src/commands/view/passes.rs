//! Answers that need a pass over the trace.

use super::history::Entry;
use super::lives_file::By;
use super::picture::thread;
use crate::commands::input::{open, unreadable};
use crate::error::CliError;
use memledger::analysis::{
    Analyzer, BlockChange, BlockFinder, BlockHistory, BlockObserver, HistoryEntry, Position,
    QueryIndex, QueryIndexer, Rule, SingleBlock, Until,
};
use memledger::trace::read::Reader;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a pass is still wanted. Dropping the guard ends the pass.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

/// Ends a pass when it is dropped.
pub struct CancelOnDrop(Cancel);

impl Cancel {
    pub fn guard(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }

    /// An error if the answer is not wanted any more.
    pub fn check(&self) -> Result<(), CliError> {
        match self.0.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(CliError::Failed("the answer is not wanted any more".to_owned())),
        }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// Reads the trace until `is_over`, or until event `end`.
fn pass<O: BlockObserver>(
    trace: &Path,
    observer: O,
    end: &Position,
    cancel: &Cancel,
    is_over: impl Fn(&O) -> bool,
) -> Result<Analyzer<O>, CliError> {
    let mut analyzer = Analyzer::observing(observer).largest_live(0);
    if let Position::Event(end) = end {
        analyzer = analyzer.until(Until::Event(*end));
    }
    let mut reader = Reader::open(open(trace)?).map_err(|error| unreadable(trace, error))?;
    while !is_over(analyzer.observer()) && reader.packet(&mut analyzer) {
        cancel.check()?;
    }
    reader.finish(&mut analyzer);
    analyzer.flush();
    Ok(analyzer)
}

/// An index whose steps begin exactly at these positions, times and events.
pub fn index_at(
    trace: &Path,
    positions: &[Position],
    end: &Position,
    cancel: &Cancel,
) -> Result<QueryIndex, CliError> {
    let mut analyzer = pass(trace, QueryIndexer::at(positions), end, cancel, |_| false)?;
    Ok(analyzer.query_index(|indexer| indexer))
}

/// The largest blocks that a rule finds in some buckets, and whether some may be missing.
pub fn blocks(
    trace: &Path,
    rule: Rule,
    positions: &[Position],
    buckets: &[u32],
    most: usize,
    cancel: &Cancel,
) -> Result<(Vec<SingleBlock>, bool), CliError> {
    let finder = BlockFinder::new(rule, positions, buckets, most);
    let mut analyzer = pass(trace, finder, &Position::End, cancel, BlockFinder::is_over)?;
    let finder = analyzer.observer_mut();
    let blocks = finder.blocks().to_vec();
    Ok((blocks, finder.is_full()))
}

/// What has happened to the block that an event has changed, and who has done it.
pub fn history(
    trace: &Path,
    event: u64,
    end: &Position,
    cancel: &Cancel,
) -> Result<Vec<Entry>, CliError> {
    let history = BlockHistory::new(event);
    let analyzer = pass(trace, history, end, cancel, BlockHistory::is_over)?;
    let by = |entry: &HistoryEntry| {
        let (BlockChange::Freed { by, .. } | BlockChange::Reallocated { by, .. }) = entry.change
        else {
            return None;
        };
        let (id, name) = analyzer.thread_of(by);
        Some(By { thread: thread(name, id), path: analyzer.scope_path(by) })
    };
    Ok(analyzer.observer().entries().iter().map(|entry| Entry::of(entry, by(entry))).collect())
}
