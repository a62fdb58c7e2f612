//! The largest live blocks.

use crate::apply::Model;
use memledger_document::{LiveBlock, made};
use std::cmp::Reverse;

/// The largest live blocks, and the size of the largest of each bucket.
#[derive(Default)]
pub(super) struct Largest {
    pub(super) blocks: Vec<LiveBlock>,
    pub(super) by_bucket: Vec<u64>,
}

impl Largest {
    /// The `count` largest live blocks: by size, then the older, then by address.
    /// `row_of` is the row of a stack.
    pub(super) fn of(model: &Model, count: usize, row_of: impl Fn(u32) -> Option<usize>) -> Self {
        let mut best = Vec::new();
        let mut by_bucket = vec![0; model.accounts().buckets().len()];
        for (heap, address, block) in model.heaps().iter() {
            let largest: &mut u64 = &mut by_bucket[block.bucket as usize];
            *largest = block.size().max(*largest);
            best.push((Reverse(block.size()), block.allocated_at, address, heap, block.bucket));
            // The list is cut back at twice the length, so that this is rare.
            if best.len() >= count.saturating_mul(2).max(64) {
                best.sort_unstable();
                best.truncate(count);
            }
        }
        best.sort_unstable();
        best.truncate(count);
        let block = |(Reverse(bytes), allocated_at_ns, address, _, bucket)| {
            let bucket = model.accounts().bucket(bucket);
            let thread = model.threads().get(bucket.thread);
            let contexts = model.contexts();
            let context = contexts.get(bucket.context);
            let name = &contexts.names()[context.name as usize];
            made!(LiveBlock {
                address,
                bytes,
                thread: thread.name.clone(),
                thread_id: thread.id,
                group: contexts.groups().path(name.group),
                name: name.text.to_string(),
                path: contexts.scopes().path(context.scope),
                allocated_at_ns,
                stack: row_of(bucket.stack),
            })
        };
        Self { blocks: best.into_iter().map(block).collect(), by_bucket }
    }
}
