//! What a session with memory writes besides track events. The ledger has it, because it is made from the
//! reports of the program's own analyzer.

use memledger_format::protobuf::perfetto::sequence::Moment;

/// Writes packets about memory, on the thread of a session.
pub(crate) trait MemoryWriter: Send {
    /// A thread has allocated in a context: bytes, and how often. The thread is its number, its id in the
    /// system, and its name.
    fn allocated(
        &mut self,
        thread: (u32, u32, &str),
        context: u32,
        sum: (i64, i64),
        out: &mut Vec<u8>,
    );

    /// All allocations up to `now` were passed on.
    fn sync(&mut self, now: Moment, out: &mut Vec<u8>);

    /// No later packet may need those before.
    fn restart(&mut self, now: Moment, out: &mut Vec<u8>);

    /// The session ends.
    fn finish(&mut self, now: Moment, out: &mut Vec<u8>);
}

/// What a thread has allocated in its context since that was last passed on.
#[derive(Default)]
pub(super) struct Allocated {
    /// The id of the context in the stream, 0 outside all scopes.
    pub(super) context: u32,
    bytes: i64,
    count: i64,
    /// The bytes of the last allocation.
    last: i64,
}

impl Allocated {
    /// An event of an allocation, whose fields are `fixed`.
    pub(super) fn add(&mut self, fixed: &[u8]) -> Option<()> {
        // Address, call stack, size >> 3, and the lower bits of the size.
        let size = u32::from_le_bytes(*fixed.get(12..16)?.first_chunk()?);
        self.last = i64::from(size) << 3 | i64::from(fixed.get(16)? & 7);
        self.bytes = self.bytes.wrapping_add(self.last);
        self.count += 1;
        Some(())
    }

    /// The last allocation has this size, which its event could not have.
    pub(super) fn enlarge(&mut self, fixed: &[u8]) -> Option<()> {
        let size = u64::from_le_bytes(*fixed.get(8..16)?.first_chunk()?) as i64;
        self.bytes = self.bytes.wrapping_add(size.wrapping_sub(self.last));
        self.last = size;
        Some(())
    }

    /// The last allocation was a reallocation that has failed.
    pub(super) fn take_back(&mut self) {
        self.bytes = self.bytes.wrapping_sub(self.last);
        self.count -= 1;
    }

    /// What was allocated, unless that is nothing.
    pub(super) fn take(&mut self) -> Option<(i64, i64)> {
        let sum = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.count));
        (sum != (0, 0)).then_some(sum)
    }
}
