//! Writes the same events as the [hook](super::record), for a stream that joins late: they describe
//! the blocks that are live at that point.

use super::events::{
    ALLOC, ALLOC_IN_HEAP, LARGE_SIZE, MAPPED, MAPPING, REALLOC_FREE, REALLOC_FREE_IN_HEAP, RUST,
    SIZE_SHIFT, UPDATE,
};
use super::record::MAX_SIZE;
use memledger_format::schema::mapping;

/// Appends the allocation of a live block in a root heap, which was made with this call stack. Its alignment
/// is not known any more, so the event has an alignment of 1.
pub(crate) fn append_alloc(
    serial: u64,
    address: u64,
    stack: u32,
    size: u64,
    heap: u8,
    out: &mut Vec<u8>,
) {
    if heap == MAPPED {
        return append_mapping(serial, address, stack, size, heap, mapping::MAPPED, out);
    }
    let coded = size.min(MAX_SIZE);
    let event_type = if heap == RUST { &ALLOC } else { &ALLOC_IN_HEAP };
    out.extend(event_type.wire().to_le_bytes());
    out.extend(&serial.to_le_bytes()[..3]);
    out.extend(address.to_le_bytes());
    out.extend(stack.to_le_bytes());
    out.extend(((coded >> SIZE_SHIFT) as u32).to_le_bytes());
    out.push(coded as u8 & 7);
    if heap != RUST {
        out.push(heap);
    }
    if size > MAX_SIZE {
        LARGE_SIZE.append(&[address.into(), size.into()], out);
    }
}

/// Appends the first half of a reallocation in a root heap.
pub(crate) fn append_realloc_free(serial: u64, address: u64, heap: u8, out: &mut Vec<u8>) {
    if heap == MAPPED {
        return append_mapping(serial, address, 0, 0, heap, mapping::MOVED_FROM, out);
    }
    let event_type = if heap == RUST { &REALLOC_FREE } else { &REALLOC_FREE_IN_HEAP };
    out.extend(event_type.wire().to_le_bytes());
    out.extend(&serial.to_le_bytes()[..3]);
    out.extend(address.to_le_bytes());
    if heap != RUST {
        out.extend([0, 0, 0, 0, heap]);
    }
}

/// Appends an event that gives a block the current tag of its stream.
pub(crate) fn append_update(serial: u64, address: u64, out: &mut Vec<u8>) {
    out.extend(UPDATE.wire().to_le_bytes());
    out.extend(&serial.to_le_bytes()[..3]);
    out.extend(address.to_le_bytes());
    out.extend([0; 5]);
}

/// Appends an event of mapped addresses in a state.
pub(crate) fn append_mapping(
    serial: u64,
    address: u64,
    stack: u32,
    size: u64,
    heap: u8,
    state: u8,
    out: &mut Vec<u8>,
) {
    out.extend(MAPPING.wire().to_le_bytes());
    out.extend(&serial.to_le_bytes()[..3]);
    out.extend(address.to_le_bytes());
    out.extend(stack.to_le_bytes());
    out.extend(size.to_le_bytes());
    out.extend([heap, state]);
}
