//! A copy of the nodes that are added while a watcher shares memory with this process: the watcher announces those that the process
//! could not.
//!
//! NOTE: the names are copied, too. They can be in memory that the watcher does not have: of the allocator, or of a library that was
//! loaded later.

use super::{CAPACITY, COUNT, Node, Table};
use crate::trace::write::state;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

/// The bytes of all names. The nodes beyond are called `(other)`.
const TEXT_BYTES: usize = 32 << 20;

/// The nodes. Zeroed memory is valid.
#[repr(C)]
pub(crate) struct SharedNodes {
    /// One more than the largest number.
    end: AtomicU32,
    text_end: AtomicU32,
    records: [Record; CAPACITY],
    text: [AtomicU8; TEXT_BYTES],
}

/// One node.
#[repr(C)]
struct Record {
    ready: AtomicU32,
    kind: AtomicU32,
    parent: AtomicU32,
    owner: AtomicU32,
    text_start: AtomicU32,
    text_size: AtomicU32,
}

static SHARED: AtomicPtr<SharedNodes> = AtomicPtr::new(ptr::null_mut());

fn shared() -> Option<&'static SharedNodes> {
    // SAFETY: `share` has stored the start of such memory, which is never unmapped.
    unsafe { SHARED.load(Ordering::Acquire).as_ref() }
}

/// From now on, nodes are copied to `memory`.
///
/// # Safety
/// The memory is zeroed and shared, has the bytes and the alignment of [`SharedNodes`], and is never unmapped.
pub(crate) unsafe fn share(memory: NonNull<u8>) {
    SHARED.store(memory.as_ptr().cast(), Ordering::Release);
}

/// In the child of a fork, whose memory is shared with another watcher: copies the nodes of the process that has forked it.
pub(crate) fn share_all() {
    let Some(table) = Table::get() else { return };
    let numbered =
        (0..super::len() as u32).filter_map(|number| Some((number, table.node(number)?)));
    numbered
        .filter(|(_, node)| node.ready.load(Ordering::Acquire) != 0)
        .for_each(|(number, node)| add(number, node));
}

/// Copies a node that is written, but not yet ready.
pub(super) fn add(number: u32, node: &Node) {
    // NOTE: the child of a fork has other nodes.
    if !state::is_watched() {
        return;
    }
    let Some(shared) = shared() else { return };
    let Some(record) = shared.records.get(number as usize) else { return };
    let text = node.text().as_bytes();
    let start = shared.text_end.fetch_add(text.len() as u32, Ordering::Relaxed) as usize;
    if let Some(room) = shared.text.get(start..start + text.len()) {
        for (byte, to) in text.iter().zip(room) {
            to.store(*byte, Ordering::Relaxed);
        }
        record.text_start.store(start as u32, Ordering::Relaxed);
        record.text_size.store(text.len() as u32, Ordering::Relaxed);
    } else {
        shared.text_end.store(TEXT_BYTES as u32, Ordering::Relaxed);
        record.text_start.store(u32::MAX, Ordering::Relaxed);
    }
    for (to, from) in
        [(&record.kind, &node.kind), (&record.parent, &node.parent), (&record.owner, &node.owner)]
    {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    shared.end.fetch_max(number + 1, Ordering::Relaxed);
    record.ready.store(1, Ordering::Release);
}

/// In a watcher: adds the nodes of the process that has ended.
pub(crate) fn take_all() {
    let (Some(shared), Some(table)) = (shared(), Table::get()) else { return };
    let end = shared.end.load(Ordering::Acquire);
    for (number, record) in (0..end).zip(&shared.records) {
        let Some(node) = table.node(number) else { break };
        if record.ready.load(Ordering::Acquire) == 0 || node.ready.load(Ordering::Relaxed) != 0 {
            continue;
        }
        let start = record.text_start.load(Ordering::Relaxed) as usize;
        let size = record.text_size.load(Ordering::Relaxed) as usize;
        let text: &[AtomicU8] = shared.text.get(start..start + size).unwrap_or_default();
        let (start, size) = match start == u32::MAX as usize {
            true => ("(other)".as_ptr(), "(other)".len()),
            false => (text.as_ptr().cast::<u8>(), text.len()),
        };
        node.name.store(start.cast_mut(), Ordering::Relaxed);
        node.name_size.store(size as u32, Ordering::Relaxed);
        for (to, from) in [
            (&node.kind, &record.kind),
            (&node.parent, &record.parent),
            (&node.owner, &record.owner),
        ] {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        node.ready.store(1, Ordering::Release);
    }
    COUNT.fetch_max(end, Ordering::AcqRel);
}
