//! The nodes of measurements in the tree of contexts.
//!
//! A node is reused when no block can be in it any more: its context was never captured, and all
//! its blocks are freed. So a measurement that is repeated forever takes one node.

use crate::dump::InProcessAnalyzer;
use crate::scopes::current;
use crate::scopes::tree::{self, NodeKind};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The stack around a measurement, and its name.
type Key = (u32, &'static str);

/// The node of a measurement in the tree of contexts.
#[derive(Clone, Copy)]
pub(super) struct Node {
    key: Key,
    number: u32,
}

/// A node that can be used again: at once, or when its blocks are freed.
struct Idle {
    number: u32,
    /// The recording in which some of its blocks were live.
    live_in: Option<u64>,
}

/// The nodes that no running measurement uses. Locked only while the recording is locked, so that
/// this lock is free at a fork.
static IDLE: Mutex<BTreeMap<Key, Vec<Idle>>> = Mutex::new(BTreeMap::new());
/// The number of the latest node of a measurement.
static LATEST: AtomicU32 = AtomicU32::new(0);

/// The maximum number of idle nodes with live blocks that are checked before a new node is taken.
const MAX_CHECKS: usize = 16;

impl Node {
    pub(super) fn number(self) -> u32 {
        self.number
    }

    pub(super) fn id(self) -> i32 {
        tree::wire_id(self.number) as i32
    }

    /// A node for a measurement of this thread alone. `None` if the tree has no node left.
    pub(super) fn take(
        name: &'static str,
        generation: u64,
        analyzer: &InProcessAnalyzer,
    ) -> Option<Self> {
        let key = (current::stack(), name);
        let reused = idle().get_mut(&key).and_then(|nodes| {
            let is_free = |idle: &Idle| {
                // NOTE: the events of an idle node that are not collected yet can only be frees and
                // reallocations of blocks that are still live here.
                idle.live_in != Some(generation)
                    || !analyzer.with_analyzer(|analyzer| {
                        analyzer.is_measurement_live(tree::wire_id(idle.number) as i32)
                    })
            };
            let checks = MAX_CHECKS.min(nodes.len());
            let found = nodes.iter().take(checks).position(is_free);
            if found.is_none() {
                nodes.rotate_left(checks);
            }
            found.map(|index| nodes.swap_remove(index).number)
        });
        let new = || {
            let latest = LATEST.fetch_add(1, Ordering::Relaxed) + 1;
            tree::find_or_add(NodeKind::Scope, key.0, latest, name)
        };
        Some(Self { key, number: reused.or_else(new)? })
    }

    /// Makes it available to the next measurement of its name: at once, or when the blocks that are
    /// live in recording `live_in` are freed.
    pub(super) fn give_back(self, live_in: Option<u64>) {
        let idle_node = Idle { number: self.number, live_in };
        idle().entry(self.key).or_default().push(idle_node);
    }
}

fn idle() -> MutexGuard<'static, BTreeMap<Key, Vec<Idle>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}
