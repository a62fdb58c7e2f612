//! The state of a thread's stream in a session.

use super::types::TypeRole;
use crate::perfetto::tracker::memory::Allocated;
use crate::perfetto::tracker::sequence::Sequence;
use memledger_format::arrays::PIECE_HEAD;

/// A scope that is open on a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenScope {
    Slice,
    Memory,
    Other,
}

/// An event of which some arrays are missing. Its memory is used again for the next one.
pub(super) struct Pending {
    pub(super) role: TypeRole,
    pub(super) opens: bool,
    pub(super) fixed: Vec<u8>,
    pub(super) arrays: Vec<Vec<u8>>,
}

/// The state of one stream.
pub(super) struct Thread {
    pub(super) sequence: Sequence,
    pub(super) pending: Pending,
    /// A scope whose event comes next, and its time if it has one.
    pub(super) entering: Option<Option<u64>>,
    /// The open scopes, the outermost first.
    pub(super) open: Vec<OpenScope>,
    pub(super) allocated: Allocated,
}

impl Thread {
    pub(super) fn new(stream: u16) -> Self {
        let pending =
            Pending { role: TypeRole::Other, opens: false, fixed: Vec::new(), arrays: Vec::new() };
        Self {
            sequence: Sequence::new(stream.into()),
            pending,
            entering: None,
            open: Vec::new(),
            allocated: Allocated::default(),
        }
    }
}

impl Pending {
    pub(super) fn begin(&mut self, role: TypeRole, opens: bool, fixed: &[u8]) {
        (self.role, self.opens) = (role, opens);
        self.fixed.clear();
        self.fixed.extend_from_slice(fixed);
        self.arrays.iter_mut().for_each(Vec::clear);
    }

    /// Adds a piece of an array, unless the event is of no interest.
    pub(super) fn add(&mut self, piece: &[u8]) -> Option<()> {
        if matches!(self.role, TypeRole::Other) {
            return Some(());
        }
        let head = u32::from_le_bytes(*piece.first_chunk()?);
        let index = (head >> 8 & 0x1f) as usize;
        if self.arrays.len() <= index {
            self.arrays.resize_with(index + 1, Vec::new);
        }
        self.arrays.get_mut(index)?.extend_from_slice(piece.get(PIECE_HEAD..)?);
        Some(())
    }

    /// The bytes of the field with this number.
    pub(super) fn array(&self, index: usize) -> &[u8] {
        self.arrays.get(index).map(Vec::as_slice).unwrap_or_default()
    }
}

/// The time of the beginning or the end of a scope, on the clock of the stream.
pub(super) fn scope_time(item: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*item.get(1..9)?.first_chunk()?))
}
