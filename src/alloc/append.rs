//! The same events as the [hook's](super::record), for a stream that joins late: they describe the blocks
//! that are live at that point.

use super::events::{ALLOC, LARGE_SIZE, REALLOC_FREE, SIZE_SHIFT, UPDATE};
use super::record::MAX_SIZE;

/// Appends the allocation of a live block. Its alignment is not known any more; the event has 1.
pub(crate) fn append_alloc(serial: u64, address: u64, size: u64, out: &mut Vec<u8>) {
    let coded = size.min(MAX_SIZE);
    out.extend(ALLOC.wire().to_le_bytes());
    out.extend(&serial.to_le_bytes()[..3]);
    out.extend(address.to_le_bytes());
    out.extend(0_u32.to_le_bytes());
    out.extend(((coded >> SIZE_SHIFT) as u32).to_le_bytes());
    out.push(coded as u8 & 7);
    if size > MAX_SIZE {
        LARGE_SIZE.append(&[address.into(), size.into()], out);
    }
}

/// Appends the first half of a reallocation.
pub(crate) fn append_realloc_free(serial: u64, address: u64, out: &mut Vec<u8>) {
    out.extend(REALLOC_FREE.wire().to_le_bytes());
    out.extend(&serial.to_le_bytes()[..3]);
    out.extend(address.to_le_bytes());
}

/// Appends an event that gives a block the current tag of its stream.
pub(crate) fn append_update(serial: u64, address: u64, out: &mut Vec<u8>) {
    out.extend(UPDATE.wire().to_le_bytes());
    out.extend(&serial.to_le_bytes()[..3]);
    out.extend(address.to_le_bytes());
    out.extend([0; 5]);
}

#[cfg(test)]
mod tests {
    use super::super::record::Writer;
    use super::super::record::tests::written;
    use super::*;
    use crate::trace::format::schema::SERIAL_MASK;

    #[test]
    fn what_is_appended_has_the_bytes_that_the_hook_writes() {
        let serial = 0x1234_0567_89ab_cdef;
        for size in [0, 1, 1027, MAX_SIZE, MAX_SIZE + 1, 1 << 40] {
            let mut bytes = Vec::new();
            append_alloc(serial, 0x7f01_0203_0405, size, &mut bytes);
            let hook = |w: &mut Writer| {
                w.alloc(ALLOC.wire(), serial & SERIAL_MASK, 0x7f01_0203_0405, size as usize, 1);
            };
            assert_eq!(bytes, written(hook), "{size}");
        }
        let mut bytes = Vec::new();
        append_realloc_free(serial, 0x7f01_0203_0405, &mut bytes);
        assert_eq!(bytes, written(|w| w.free(REALLOC_FREE.wire(), serial, 0x7f01_0203_0405)));
        bytes.clear();
        append_update(serial, 0x7f01_0203_0405, &mut bytes);
        assert_eq!(bytes, written(|w| w.update(serial, 0x7f01_0203_0405)));
    }
}
