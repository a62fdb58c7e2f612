//! The layouts of all event types that threads write, as the merge looks them up.

use memledger_format::encode::Declaration;
use memledger_format::handshake::PROTOCOL;
use memledger_format::layout::{
    ARRAYS_END, ByUid, ENTER_SCOPE, ENTER_SCOPE_AT, EventLayout, LEAVE_SCOPE, LEAVE_SCOPE_AT,
    StreamItem, first_item, split_item,
};
use std::hint::select_unpredictable;

/// The bit in a byte of [`Layouts::by_first_byte`] that marks an item with a serial.
const SYNCED: u8 = 0x80;

/// The layouts by uid, and tables that are faster to look up.
pub(super) struct Layouts {
    by_uid: ByUid<EventLayout>,
    /// Sizes of the items that their first byte identifies: scopes, ends of arrays, and the
    /// tracker's events without arrays; 0 for all others. PERF: one load instead of [`first_item`].
    by_first_byte: [u8; 256],
    /// Guesses the size of a synchronised event of the tracker: bit N is set if the events whose
    /// first byte has N in its lower 6 bits have the first of the two `sizes`.
    is_first: u64,
    /// The bytes of an allocation, and those of a free. The guess is wrong for `UpdateAlloc`, which
    /// is rare.
    sizes: [usize; 2],
}

/// The size of an item, and whether it has a serial.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Bytes up to the next item.
    pub(super) size: usize,
    pub(super) synced: bool,
}

impl Layouts {
    /// The layouts of the tracker's own types.
    pub(super) fn new<'a>(types: impl Iterator<Item = &'a &'static Declaration>) -> Self {
        let mut layouts =
            Self { by_uid: ByUid::default(), by_first_byte: [0; 256], is_first: 0, sizes: [0; 2] };
        for byte in [ENTER_SCOPE, LEAVE_SCOPE, ENTER_SCOPE_AT, LEAVE_SCOPE_AT, ARRAYS_END] {
            if let Some((_, size)) = first_item(&[byte], PROTOCOL, |_| None) {
                layouts.by_first_byte[usize::from(byte)] = size as u8;
            }
        }
        types.for_each(|declaration| layouts.add_own(declaration));
        layouts
    }

    fn add_own(&mut self, declaration: &Declaration) {
        let layout = declaration.layout();
        self.by_uid.insert(declaration.uid, layout);
        let (Ok(first), Ok(size)) = (u8::try_from(declaration.wire()), u8::try_from(layout.size()))
        else {
            return;
        };
        // Only the worker writes events of the tracker that have arrays.
        if layout.has_arrays || size >= SYNCED {
            return;
        }
        self.by_first_byte[usize::from(first)] = size | if layout.synced { SYNCED } else { 0 };
        // The types of the hook come first. The first two sizes among them are those of an
        // allocation and of a free.
        let size = usize::from(size);
        let index = self.sizes.iter().position(|&known| known == 0 || known == size);
        if let Some(index) = index.filter(|_| layout.synced && size >= 8) {
            self.sizes[index] = size;
            self.is_first |= u64::from(index == 0) << (first & 63);
        }
    }

    /// Adds a type of the program.
    pub(super) fn add(&mut self, uid: u16, layout: EventLayout) {
        self.by_uid.insert(uid, layout);
    }

    /// Splits `events` after their first item.
    pub(super) fn split<'a>(&self, events: &'a [u8]) -> Option<(StreamItem, &'a [u8], &'a [u8])> {
        split_item(events, PROTOCOL, |uid| self.by_uid.get(uid))
    }

    /// The span of the item that begins with these 8 bytes.
    #[inline(always)]
    pub(super) fn span(&self, head: u64) -> Span {
        let size = self.by_first_byte[usize::from(head as u8)];
        if size == 0 {
            return self.span_slow(head);
        }
        Span { size: usize::from(size & !SYNCED), synced: size & SYNCED != 0 }
    }

    /// The span of an event of the program, or of a piece of its arrays.
    #[inline(never)]
    fn span_slow(&self, head: u64) -> Span {
        match first_item(&head.to_le_bytes(), PROTOCOL, |uid| self.by_uid.get(uid)) {
            Some((StreamItem::Event(_, layout), size)) => Span { size, synced: layout.synced },
            Some((_, size)) => Span { size, synced: false },
            None => {
                debug_assert!(false, "threads write events of known types only");
                Span { size: usize::MAX >> 1, synced: false }
            }
        }
    }

    /// The end of the event at `at`, which begins with these 8 bytes, if it is an allocation, a
    /// free or half of a reallocation; for any other item, a guess that may be wrong.
    #[inline(always)]
    pub(super) fn guess_next(&self, head: u64, at: *mut u8) -> *mut u8 {
        let [first, second] = self.sizes;
        let is_first = self.is_first >> (head & 63) & 1 != 0;
        select_unpredictable(is_first, at.wrapping_add(first), at.wrapping_add(second))
    }

    /// Whether the item with this first byte is a synchronised event of `size` bytes.
    #[inline(always)]
    pub(super) fn is_synced_of(&self, first: u8, size: usize) -> bool {
        size == usize::from(self.by_first_byte[usize::from(first)]) ^ usize::from(SYNCED)
    }
}
