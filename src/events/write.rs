//! Writes an event from its log site to the stream.
//!
//! ```text
//! important ──► the cache of important events                                  important.rs
//! short     ──► the thread's buffer, by code that is inlined at the log site   put
//! others    ──► the thread's buffers, by one function for all types            trace/write/program.rs
//! ```

use super::important;
use super::wire::{Plain, WireEvent, bytes_of};
use crate::trace::write::declared::{Logged, NO_WIRE};
use crate::trace::write::loss;
use crate::trace::write::program::{self, EventRecord, MAX_SHORT_BYTES, OpenedScope, ScopeStart};
use memledger_format::encode::SYNCED_HEADER;
use memledger_format::schema::{IMPORTANT, NO_SYNC};

/// The constants of an event type.
trait EventConstants: WireEvent {
    const SYNCED: bool = Self::FLAGS & NO_SYNC == 0;
    const IMPORTANT: bool = Self::FLAGS & IMPORTANT != 0;
    const SIZE: usize = if Self::SYNCED { SYNCED_HEADER } else { 2 } + size_of::<Self::Fixed>();
    /// Whether the event fits into the space that `begin` ensures.
    const IS_SHORT: bool = !Self::HAS_AUX && Self::SIZE <= MAX_SHORT_BYTES;
}
impl<E: WireEvent> EventConstants for E {}

#[inline(always)]
pub(super) fn log<E: WireEvent>(logged: &'static Logged, event: E) {
    if E::IMPORTANT {
        return important(logged, event);
    }
    if E::IS_SHORT {
        let wire = logged.wire();
        if wire != NO_WIRE
            && let Some(slot) = program::begin(E::SYNCED)
        {
            let end = put(slot.cursor(), wire, slot.stamp(), event.fixed(), E::SYNCED);
            return program::end(slot, end);
        }
    }
    long(logged, event);
}

/// Writes a short event; returns the address after it.
///
/// PERF: a header with a serial is one store of 8 bytes. The fields overwrite the last three of
/// these bytes.
#[expect(unsafe_code, reason = "writes through a raw pointer")]
#[inline(always)]
fn put<F: Plain>(at: *mut u8, wire: u16, stamp: u64, fixed: F, synced: bool) -> *mut u8 {
    // SAFETY: `begin` has checked that there is room for a short event, which is at least 8 bytes.
    unsafe {
        let fields = if synced {
            at.cast::<u64>().write_unaligned(u64::from(wire) | stamp << 16);
            at.add(SYNCED_HEADER)
        } else {
            at.cast::<u16>().write_unaligned(wire);
            at.add(2)
        };
        fields.cast::<F>().write_unaligned(fixed);
        fields.add(size_of::<F>())
    }
}

#[cold]
#[inline(never)]
fn long<E: WireEvent>(logged: &'static Logged, event: E) {
    with_record(logged, event, program::record);
}

fn with_record<E: WireEvent, R: Default>(
    logged: &'static Logged,
    event: E,
    body: impl FnOnce(&EventRecord<'_>) -> R,
) -> R {
    let mut wire = logged.wire();
    if wire == NO_WIRE {
        wire = logged.register();
    }
    if wire == NO_WIRE {
        // The program has too many types.
        loss::event_without_slot();
        return R::default();
    }
    let fixed = [event.fixed()];
    event.with_aux(|aux| {
        let fixed = bytes_of(&fixed);
        body(&EventRecord { wire, synced: E::SYNCED, has_aux: E::HAS_AUX, fixed, aux })
    })
}

#[cold]
#[inline(never)]
fn important<E: WireEvent>(logged: &'static Logged, event: E) {
    let fixed = [event.fixed()];
    event.with_aux(|aux| important::add(logged, bytes_of(&fixed), aux));
}

#[inline(never)]
pub(super) fn enter<E: WireEvent>(
    logged: &'static Logged,
    event: E,
    timed: bool,
) -> Option<OpenedScope> {
    let scope = if timed { ScopeStart::Timed } else { ScopeStart::Plain };
    with_record(logged, event, |record| program::enter_scope(record, scope))
}
