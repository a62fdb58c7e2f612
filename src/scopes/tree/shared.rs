//! The log of the nodes that are added while a watcher shares memory with this process: the watcher announces
//! those that the process could not.

use super::{CAPACITY, COUNT, Node, Table};
use crate::trace::write::watch;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

const _: () = assert!(CAPACITY == watch::NODES);

/// In the child of a fork, whose memory is shared with another watcher: logs the nodes of the process that
/// has forked it.
pub(crate) fn share_all() {
    let Some(table) = Table::get() else { return };
    for number in 0..super::len() as u32 {
        if let Some(node) = table.node(number)
            && node.ready.load(Ordering::Acquire) != 0
        {
            add(number, node);
        }
    }
}

/// Logs a node that is written, but not yet ready.
pub(super) fn add(number: u32, node: &Node) {
    let Some(logs) = watch::watched_logs() else { return };
    let numbers = node.numbers().map(|number| number.load(Ordering::Relaxed).into());
    logs.nodes.add(number, numbers.into_iter().chain(logs.copy(node.text())));
}

/// In a watcher: adds the nodes of the process that has ended.
pub(crate) fn take_all() {
    let (Some(logs), Some(table)) = (watch::logs(), Table::get()) else { return };
    logs.nodes.visit(|number, [numbers @ .., name, size]| {
        let node = table.node(number).filter(|node| node.ready.load(Ordering::Relaxed) == 0);
        let Some(node) = node else { return };
        for (to, number) in node.numbers().into_iter().zip(numbers) {
            to.store(number as u32, Ordering::Relaxed);
        }
        node.name.store(ptr::with_exposed_provenance_mut(name as usize), Ordering::Relaxed);
        node.name_size.store(size as u32, Ordering::Relaxed);
        node.ready.store(1, Ordering::Release);
        COUNT.fetch_max(number + 1, Ordering::AcqRel);
    });
}

impl Node {
    fn numbers(&self) -> [&AtomicU32; 3] {
        [&self.kind, &self.parent, &self.owner]
    }
}
