//! The threads of the program.
//!
//! A stream id is used again after its thread has ended; a thread id is never used again. Our
//! writer says with `Memledger.ThreadStart` which thread a stream belongs to from there on; in
//! other traces each stream is a thread of its own.

use crate::accounts::Accounts;
use crate::live_set::Block;
use std::collections::HashMap;

/// A root heap and an address.
pub(crate) type HeapAddress = (u8, u64);

/// An address where no block can be.
const NOWHERE: HeapAddress = (0, 0);

/// One thread of the program.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) id: u32,
    pub(crate) system_id: Option<u32>,
    pub(crate) name: String,
    /// The number of its peak tracker.
    pub(crate) peak: u32,
    /// The number of its allocations, modulo 2^32.
    allocations: u32,
    /// The address of the block of its last allocation: where the block is, or where it was when it
    /// left the live set.
    newest: HeapAddress,
}

impl Thread {
    /// The address of the block of its last allocation: where the block is, or where it was when it
    /// left the live set.
    #[inline]
    pub(crate) fn newest(&self) -> HeapAddress {
        self.newest
    }

    /// The thread made `count` more allocations, the last of them at `newest`.
    #[inline]
    pub(crate) fn allocated(&mut self, count: u32, newest: HeapAddress) {
        self.allocations = self.allocations.wrapping_add(count);
        self.newest = newest;
    }

    /// A block of this thread leaves the live set and may return.
    pub(crate) fn detach(&self, address: HeapAddress, block: Block) -> DetachedBlock {
        let older = u32::from(self.newest != address);
        DetachedBlock { block, age_stamp: self.allocations.wrapping_sub(older) }
    }

    /// A detached block returns to the live set, at `address`.
    pub(crate) fn reattach(&mut self, address: HeapAddress, detached: &DetachedBlock) {
        if detached.age_stamp == self.allocations {
            self.newest = address;
        } else if self.newest == address {
            self.newest = NOWHERE;
        }
    }
}

/// A block outside of the live set, which may return.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DetachedBlock {
    pub(crate) block: Block,
    /// If the block was its thread's last allocation when it left, the number of that thread's
    /// allocations then; otherwise another number.
    age_stamp: u32,
}

/// The key of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The id in a `ThreadStart`.
    Id(u32),
    /// The id of a stream without a `ThreadStart`.
    Stream(u32),
}

/// All threads seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threads {
    all: Vec<Thread>,
    by_key: HashMap<Key, u32>,
}

impl Threads {
    /// All threads, by their numbers.
    pub(crate) fn all(&self) -> &[Thread] {
        &self.all
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> &Thread {
        &self.all[number as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Thread {
        &mut self.all[number as usize]
    }

    /// The number of the thread with this id, which is added if there is none.
    pub(crate) fn by_id(&mut self, id: u32, accounts: &mut Accounts) -> u32 {
        self.by_key(Key::Id(id), id, accounts)
    }

    /// The number of the thread of a stream without a `ThreadStart`. The thread is added if there
    /// is none.
    pub(crate) fn by_stream(&mut self, stream: u32, accounts: &mut Accounts) -> u32 {
        self.by_key(Key::Stream(stream), stream, accounts)
    }

    fn by_key(&mut self, key: Key, id: u32, accounts: &mut Accounts) -> u32 {
        let all = &mut self.all;
        *self.by_key.entry(key).or_insert_with(|| {
            let peak = accounts.add_peak();
            let (name, newest) = (String::new(), NOWHERE);
            all.push(Thread { id, system_id: None, name, peak, allocations: 0, newest });
            all.len() as u32 - 1
        })
    }

    /// Sets the system's id and the name of a thread. An empty name does not replace one.
    pub(crate) fn describe(&mut self, number: u32, system_id: u32, name: &str) {
        let thread = self.get_mut(number);
        thread.system_id = Some(system_id);
        if !name.is_empty() {
            thread.name = name.to_owned();
        }
    }
}
