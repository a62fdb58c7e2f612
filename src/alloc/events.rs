//! Unreal's memory events as the hook writes them, and two of ours for what they cannot say.
//!
//! ```text
//! AllocSystem, ReallocAllocSystem (22 bytes)      FreeSystem, ReallocFreeSystem (13 bytes)
//! 0  u16 uid<<1|1                                 0  u16 uid<<1|1
//! 2  u24 epoch, then serial                       2  u24 epoch, then serial
//! 5  u64 address                                  5  u64 address
//! 13 u32 call stack, 0
//! 17 u32 size >> 3
//! 21 u8  log2(alignment) << 3 | size & 7
//!
//! UpdateAlloc (18 bytes)
//! 0  u16 uid<<1|1
//! 2  u24 epoch, then serial
//! 5  u64 address
//! 13 u32 call stack, 0
//! 17 u8  root heap, 0
//! ```
//! The hook writes the low bits of its epoch where the worker writes the serial, once it knows it.
//! Version 1 of the memory events: frees carry no call stack, which saves 4 of their 17 bytes.
#![expect(unsafe_code, reason = "events are written through raw pointers")]

use crate::events::channel::Channel;
use crate::trace::format::encode::{Declaration, SYNCED_HEADER};
use crate::trace::format::schema::{
    FieldType::{U8, U32, U64},
    IMPORTANT, NO_SYNC, SERIAL_MASK,
};
use crate::trace::format::stream_events::MARKER_PERIOD;
use crate::trace::worker::{EventProvider, Importants};

const SIZE_SHIFT: u32 = 3;

/// Everything that the allocator is asked for.
pub(crate) static CHANNEL: Channel = Channel::ours("Memory");

pub(crate) static INIT: Declaration = Declaration {
    uid: 32,
    logger: "Memory",
    event: "Init",
    flags: IMPORTANT | NO_SYNC,
    fields: &[("MarkerPeriod", U32), ("Version", U8), ("MinAlignment", U8), ("SizeShift", U8)],
};

const ALLOC_FIELDS: &[(&str, crate::trace::format::schema::FieldType)] =
    &[("Address", U64), ("CallstackId", U32), ("Size", U32), ("AlignmentPow2_SizeLower", U8)];

pub(crate) static ALLOC: Declaration =
    Declaration { uid: 33, logger: "Memory", event: "AllocSystem", flags: 0, fields: ALLOC_FIELDS };

pub(crate) static FREE: Declaration = Declaration {
    uid: 34,
    logger: "Memory",
    event: "FreeSystem",
    flags: 0,
    fields: &[("Address", U64)],
};

pub(crate) static REALLOC_ALLOC: Declaration = Declaration {
    uid: 35,
    logger: "Memory",
    event: "ReallocAllocSystem",
    flags: 0,
    fields: ALLOC_FIELDS,
};

pub(crate) static REALLOC_FREE: Declaration = Declaration {
    uid: 36,
    logger: "Memory",
    event: "ReallocFreeSystem",
    flags: 0,
    fields: &[("Address", U64)],
};

/// The reallocation just before on this thread failed: the block is what it was.
static REALLOC_FAILED: Declaration = Declaration {
    uid: 37,
    logger: "Memledger",
    event: "ReallocFailed",
    flags: NO_SYNC,
    fields: &[("Address", U64)],
};

/// The true size of the block just allocated on this thread, which Unreal's field cannot hold.
static LARGE_SIZE: Declaration = Declaration {
    uid: 38,
    logger: "Memledger",
    event: "LargeSize",
    flags: NO_SYNC,
    fields: &[("Address", U64), ("Size", U64)],
};

/// A live block has the tag that is current on this thread, from here on.
pub(crate) static UPDATE: Declaration = Declaration {
    uid: 39,
    logger: "Memory",
    event: "UpdateAlloc",
    flags: 0,
    fields: &[("Address", U64), ("CallstackId", U32), ("RootHeap", U8)],
};

pub(crate) static TYPES: &[&Declaration] =
    &[&INIT, &ALLOC, &FREE, &REALLOC_ALLOC, &REALLOC_FREE, &REALLOC_FAILED, &LARGE_SIZE, &UPDATE];

/// The largest size Unreal's event can carry.
const MAX_SIZE: u64 = (1 << 35) - 1;

/// Appends the allocation of a block that is alive already, for a stream that begins late. Its
/// alignment is not known any more and shows as 1.
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

/// Appends that a block has the tag its stream is in.
pub(crate) fn append_update(serial: u64, address: u64, out: &mut Vec<u8>) {
    out.extend(UPDATE.wire().to_le_bytes());
    out.extend(&serial.to_le_bytes()[..3]);
    out.extend(address.to_le_bytes());
    out.extend([0; 5]);
}

/// Writes events of this module one behind the other; the caller has seen to the room.
pub(crate) struct Writer {
    at: *mut u8,
}

impl Writer {
    /// # Safety
    /// From `at` on there are [`MAX_HOOK_BYTES`](crate::trace::write::buffer_pool::MAX_HOOK_BYTES) bytes to write to, and
    /// what is written through this writer stays below that.
    #[inline(always)]
    pub(crate) unsafe fn new(at: *mut u8) -> Self {
        Self { at }
    }

    /// Where the next event goes.
    #[inline(always)]
    pub(crate) fn end(&self) -> *mut u8 {
        self.at
    }

    /// An allocation (`ALLOC`) whose size and alignment are below 4 GiB. Of `epoch`, the lowest 24
    /// bits count.
    #[inline(always)]
    pub(crate) fn alloc_small(&mut self, epoch: u64, address: usize, size: usize, align: usize) {
        let address = address as u64;
        let head = u64::from(ALLOC.wire()) | (epoch & SERIAL_MASK) << 16 | address << 40;
        let low = u64::from(align.trailing_zeros()) << SIZE_SHIFT | size as u64 & 7;
        let tail = low << 56 | (size as u64 >> SIZE_SHIFT) << 24;
        // SAFETY: as in `alloc`. PERF: three stores, at 0, 6 and 14: the first takes 3 bytes of the
        // address; the last byte of the second is 0, the first of the call stack.
        unsafe {
            self.at.cast::<u64>().write_unaligned(head);
            self.at.add(6).cast::<u64>().write_unaligned(address >> 8);
            self.at.add(14).cast::<u64>().write_unaligned(tail);
            self.at = self.at.add(22);
        }
    }

    /// An allocation (`ALLOC`, `REALLOC_ALLOC`).
    #[inline(always)]
    pub(crate) fn alloc(
        &mut self,
        wire: u16,
        epoch: u64,
        address: usize,
        size: usize,
        align: usize,
    ) {
        let coded = (size as u64).min(MAX_SIZE);
        let align = align.trailing_zeros().min(31) as u8;
        let head = u64::from(wire) | epoch << 16;
        // SAFETY: promised to `new`. The first word reaches into the address, which the second
        // writes over: two stores instead of four.
        unsafe {
            self.at.cast::<u64>().write_unaligned(head);
            self.at.add(SYNCED_HEADER).cast::<u64>().write_unaligned(address as u64);
            self.at.add(13).cast::<u64>().write_unaligned((coded >> SIZE_SHIFT) << 32);
            self.at.add(21).write(align << SIZE_SHIFT | coded as u8 & 7);
            self.at = self.at.add(22);
        }
        if size as u64 > MAX_SIZE {
            self.at = large_size(self.at, address, size);
        }
    }

    /// A free (`FREE`, `REALLOC_FREE`).
    #[inline(always)]
    pub(crate) fn free(&mut self, wire: u16, epoch: u64, address: usize) {
        let head = u64::from(wire) | epoch << 16;
        // SAFETY: as in `alloc`.
        unsafe {
            self.at.cast::<u64>().write_unaligned(head);
            self.at.add(SYNCED_HEADER).cast::<u64>().write_unaligned(address as u64);
            self.at = self.at.add(13);
        }
    }

    /// A block gets the tag of this thread (`UPDATE`).
    pub(crate) fn update(&mut self, epoch: u64, address: usize) {
        self.free(UPDATE.wire(), epoch, address);
        // SAFETY: as in `alloc`. The call stack and the heap.
        unsafe {
            self.at.write_bytes(0, 5);
            self.at = self.at.add(5);
        }
    }

    /// Says that the reallocation just written did not happen.
    #[inline(always)]
    pub(crate) fn realloc_failed(&mut self, address: usize) {
        self.at = realloc_failed(self.at, address);
    }
}

// PERF: the two below are handed the position, not the writer, so that it can stay in a register.

#[cold]
#[inline(never)]
fn large_size(at: *mut u8, address: usize, size: usize) -> *mut u8 {
    // SAFETY: as in `Writer::alloc`.
    unsafe {
        at.cast::<u16>().write_unaligned(LARGE_SIZE.wire());
        at.add(2).cast::<u64>().write_unaligned(address as u64);
        at.add(10).cast::<u64>().write_unaligned(size as u64);
        at.add(18)
    }
}

#[cold]
#[inline(never)]
fn realloc_failed(at: *mut u8, address: usize) -> *mut u8 {
    // SAFETY: as in `Writer::alloc`.
    unsafe {
        at.cast::<u16>().write_unaligned(REALLOC_FAILED.wire());
        at.add(2).cast::<u64>().write_unaligned(address as u64);
        at.add(10)
    }
}

/// Announces this module's types and how to read them.
pub(crate) struct MemoryEvents {
    announced: bool,
}

impl MemoryEvents {
    pub(crate) fn new() -> Self {
        Self { announced: false }
    }
}

impl EventProvider for MemoryEvents {
    fn types(&self) -> &'static [&'static Declaration] {
        TYPES
    }

    fn announce(&mut self, importants: &mut Importants) {
        if !std::mem::replace(&mut self.announced, true) {
            let (period, version, min_align) = (MARKER_PERIOD.into(), 1_u32.into(), 1_u32.into());
            importants.add(&INIT, &[period, version, min_align, SIZE_SHIFT.into()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut bytes = [0xaa_u8; 128];
        // SAFETY: the buffer is as long as promised.
        let mut writer = unsafe { Writer::new(bytes.as_mut_ptr()) };
        write(&mut writer);
        let size = writer.end().addr() - bytes.as_ptr().addr();
        bytes[..size].to_vec()
    }

    #[test]
    fn exact_bytes_of_an_allocation() {
        let bytes = written(|w| w.alloc(ALLOC.wire(), 0x01_c0_b0_a0, 0x7f01_0203_0405, 1027, 16));
        let expected = [
            &[67, 0, 0xa0, 0xb0, 0xc0][..],
            &[0x05, 0x04, 0x03, 0x02, 0x01, 0x7f, 0, 0],
            &[0; 4],
            &[128, 0, 0, 0],
            &[4 << 3 | 3],
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn the_short_way_writes_the_same_bytes() {
        for (address, size, align) in
            [(0x7f01_0203_0405, 1027, 16), (usize::MAX, 0xffff, 1), (1 << 63, 0, 1 << 15)]
        {
            let epoch = 0x1234_0567_89ab_cdef;
            let long = written(|w| w.alloc(ALLOC.wire(), epoch, address, size, align));
            assert_eq!(written(|w| w.alloc_small(epoch, address, size, align)), long);
        }
    }

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
    }

    #[test]
    fn exact_bytes_of_a_free() {
        let bytes = written(|w| w.free(FREE.wire(), 0x01_c0_b0_a0, 0x7f01_0203_0405));
        let expected =
            [&[69, 0, 0xa0, 0xb0, 0xc0][..], &[0x05, 0x04, 0x03, 0x02, 0x01, 0x7f, 0, 0]];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn exact_bytes_of_an_update() {
        let bytes = written(|w| w.update(0x01_c0_b0_a0, 0x7f01_0203_0405));
        let expected = [
            &[79, 0, 0xa0, 0xb0, 0xc0][..],
            &[0x05, 0x04, 0x03, 0x02, 0x01, 0x7f, 0, 0],
            &[0; 4],
            &[0],
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(UPDATE.layout().size(), bytes.len());
        let mut appended = Vec::new();
        append_update(0x01_c0_b0_a0, 0x7f01_0203_0405, &mut appended);
        assert_eq!(appended, bytes);
    }

    #[test]
    fn a_size_beyond_35_bits_is_followed_by_the_true_one() {
        let max = MAX_SIZE as usize;
        for (size, extra) in [(max, 0), (max + 1, 18), (isize::MAX as usize, 18)] {
            let bytes = written(|w| w.alloc(ALLOC.wire(), 0, 0x1000, size, 1 << 40));
            assert_eq!(bytes.len(), 22 + extra);
            assert_eq!(bytes[17..22], [0xff, 0xff, 0xff, 0xff, 31 << 3 | 7]);
            if extra > 0 {
                assert_eq!(bytes[32..], (size as u64).to_le_bytes());
            }
        }
    }
}
