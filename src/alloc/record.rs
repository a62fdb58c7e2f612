//! The hook's writer of events.
//!
//! ```text
//! AllocSystem, ReallocAllocSystem (22 bytes)      FreeSystem, ReallocFreeSystem (13 bytes)
//! 0  u16 uid<<1|1                                 0  u16 uid<<1|1
//! 2  u24 epoch, then serial                       2  u24 epoch, then serial
//! 5  u64 address                                  5  u64 address
//! 13 u32 call stack, 0 for none
//! 17 u32 size >> 3
//! 21 u8  log2(alignment) << 3 | size & 7
//!
//! Alloc, ReallocAlloc (23 bytes): the same, and      Free, ReallocFree (18 bytes): the same, and
//! 22 u8  root heap                                13 u32 call stack, 0
//!                                                 17 u8  root heap
//!
//! UpdateAlloc (18 bytes)                          Memledger.Mapping (27 bytes)
//! 0  u16 uid<<1|1                                 0  u16 uid<<1|1
//! 2  u24 epoch, then serial                       2  u24 epoch, then serial
//! 5  u64 address                                  5  u64 address
//! 13 u32 call stack, 0                            13 u32 call stack, 0 for none
//! 17 u8  root heap, 0                             17 u64 size
//!                                                 25 u8  root heap
//!                                                 26 u8  state
//! ```
//! The hook writes the lower bits of the thread's epoch. The worker replaces them with the serial.
//! These are version 1 of Unreal's memory events: a free has no call stack, which saves 4 of 17
//! bytes.
#![expect(unsafe_code, reason = "events are written through raw pointers")]

#[cfg(c_mmap)]
use super::events::MAPPING;
use super::events::{
    ALLOC, ALLOC_IN_HEAP, FREE, FREE_IN_HEAP, LARGE_SIZE, REALLOC_ALLOC, REALLOC_ALLOC_IN_HEAP,
    REALLOC_FAILED, REALLOC_FREE, REALLOC_FREE_IN_HEAP, RUST, SIZE_SHIFT, UPDATE,
};
use memledger_format::encode::SYNCED_HEADER;
use memledger_format::schema::SERIAL_MASK;

/// The largest size, in bytes, that Unreal's field can hold.
pub(crate) const MAX_SIZE: u64 = (1 << 35) - 1;

/// Writes one event after the other into a buffer whose room the caller has checked.
pub(crate) struct Writer {
    at: *mut u8,
}

impl Writer {
    /// # Safety
    /// `at` is valid for writes of
    /// [`MAX_HOOK_BYTES`](crate::trace::write::buffer_pool::MAX_HOOK_BYTES) bytes, and the writer
    /// writes no more than that.
    pub(crate) unsafe fn new(at: *mut u8) -> Self {
        Self { at }
    }

    /// The address of the next event.
    #[inline(always)]
    pub(crate) fn end(&self) -> *mut u8 {
        self.at
    }

    /// An allocation (`ALLOC`) whose size and alignment are below 4 GiB. Uses the lower 24 bits of
    /// `epoch`.
    #[inline(always)]
    pub(crate) fn alloc_small(
        &mut self,
        epoch: u64,
        address: usize,
        size: usize,
        align: usize,
        stack: u32,
    ) {
        let (address, stack) = (address as u64, u64::from(stack));
        let head = u64::from(ALLOC.wire()) | (epoch & SERIAL_MASK) << 16 | address << 40;
        let low = u64::from(align.trailing_zeros()) << SIZE_SHIFT | size as u64 & 7;
        let tail = low << 56 | (size as u64 >> SIZE_SHIFT) << 24 | stack >> 8;
        // SAFETY: as in `alloc`. PERF: three stores, at bytes 0, 6 and 14. The first contains 3
        // bytes of the address. The last byte of the second is the first byte of the call stack.
        unsafe {
            self.at.cast::<u64>().write_unaligned(head);
            self.at.add(6).cast::<u64>().write_unaligned(address >> 8 | stack << 56);
            self.at.add(14).cast::<u64>().write_unaligned(tail);
            self.at = self.at.add(22);
        }
    }

    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "one for each field")]
    fn alloc(
        &mut self,
        wire: u16,
        epoch: u64,
        address: usize,
        size: usize,
        align: usize,
        stack: u32,
        heap: u8,
    ) {
        let coded = (size as u64).min(MAX_SIZE);
        let align = align.trailing_zeros().min(31) as u8;
        let head = u64::from(wire) | epoch << 16;
        // SAFETY: the caller of `new` has promised the room. PERF: two stores instead of four for
        // the first 13 bytes. The first store also writes into the place of the address; the second
        // store then overwrites that with the address.
        unsafe {
            self.at.cast::<u64>().write_unaligned(head);
            self.at.add(SYNCED_HEADER).cast::<u64>().write_unaligned(address as u64);
            self.at
                .add(13)
                .cast::<u64>()
                .write_unaligned(u64::from(stack) | (coded >> SIZE_SHIFT) << 32);
            self.at.add(21).write(align << SIZE_SHIFT | coded as u8 & 7);
            self.at = self.at.add(22);
            if heap != RUST {
                self.at.write(heap);
                self.at = self.at.add(1);
            }
        }
        if size as u64 > MAX_SIZE {
            self.at = large_size(self.at, address, size);
        }
    }

    #[inline(always)]
    fn free(&mut self, wire: u16, epoch: u64, address: usize) {
        let head = u64::from(wire) | epoch << 16;
        // SAFETY: as in `alloc`.
        unsafe {
            self.at.cast::<u64>().write_unaligned(head);
            self.at.add(SYNCED_HEADER).cast::<u64>().write_unaligned(address as u64);
            self.at = self.at.add(13);
        }
    }

    /// An allocation in a heap; if `REALLOC`, the second half of a reallocation.
    #[inline(always)]
    pub(crate) fn alloc_in<const HEAP: u8, const REALLOC: bool>(
        &mut self,
        epoch: u64,
        address: usize,
        size: usize,
        align: usize,
        stack: u32,
    ) {
        // PERF: in a block of constants, here and below. Where a reference to one of several declarations
        // is chosen, the compiler does not see through it, and loads the number from memory at each
        // event: 4 instructions.
        let wire = const {
            match (HEAP == RUST, REALLOC) {
                (true, false) => ALLOC.wire(),
                (true, true) => REALLOC_ALLOC.wire(),
                (false, false) => ALLOC_IN_HEAP.wire(),
                (false, true) => REALLOC_ALLOC_IN_HEAP.wire(),
            }
        };
        self.alloc(wire, epoch, address, size, align, stack, HEAP);
    }

    /// A free in a heap; if `REALLOC`, the first half of a reallocation.
    #[inline(always)]
    pub(crate) fn free_in<const HEAP: u8, const REALLOC: bool>(
        &mut self,
        epoch: u64,
        address: usize,
    ) {
        let wire = const {
            match (HEAP == RUST, REALLOC) {
                (true, false) => FREE.wire(),
                (true, true) => REALLOC_FREE.wire(),
                (false, false) => FREE_IN_HEAP.wire(),
                (false, true) => REALLOC_FREE_IN_HEAP.wire(),
            }
        };
        self.free(wire, epoch, address);
        if HEAP != RUST {
            self.no_stack_and(HEAP);
        }
    }

    /// Completes an event with a call stack of 0 and a heap.
    #[inline(always)]
    fn no_stack_and(&mut self, heap: u8) {
        // SAFETY: as in `alloc`.
        unsafe {
            self.at.write_bytes(0, 4);
            self.at.add(4).write(heap);
            self.at = self.at.add(5);
        }
    }

    /// Something has happened to addresses (`MAPPING`).
    #[cfg(c_mmap)]
    pub(crate) fn mapping(
        &mut self,
        epoch: u64,
        address: usize,
        size: usize,
        stack: u32,
        heap: u8,
        state: u8,
    ) {
        self.free(MAPPING.wire(), epoch, address);
        // SAFETY: as in `alloc`.
        unsafe {
            self.at.cast::<u32>().write_unaligned(stack);
            self.at.add(4).cast::<u64>().write_unaligned(size as u64);
            self.at.add(12).write(heap);
            self.at.add(13).write(state);
            self.at = self.at.add(14);
        }
    }

    /// A block gets the tag of this thread (`UPDATE`).
    #[cfg_attr(not(feature = "containers"), allow(dead_code))]
    pub(crate) fn update(&mut self, epoch: u64, address: usize) {
        self.free(UPDATE.wire(), epoch, address);
        self.no_stack_and(RUST);
    }

    /// The reallocation that was written last has failed (`REALLOC_FAILED`).
    #[inline(always)]
    pub(crate) fn realloc_failed(&mut self, address: usize) {
        self.at = realloc_failed(self.at, address);
    }
}

// PERF: these two functions take the address, not the writer, so that the address can stay in a
// register.

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

#[cfg(test)]
mod tests {
    #[cfg(c_mmap)]
    use super::super::append::append_mapping;
    use super::super::append::{append_alloc, append_realloc_free, append_update};
    use super::super::events::C;
    #[cfg(c_mmap)]
    use super::super::events::MAPPED;
    use super::*;

    fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut bytes = [0xaa_u8; 128];
        // SAFETY: the buffer has as many bytes as promised.
        let mut writer = unsafe { Writer::new(bytes.as_mut_ptr()) };
        write(&mut writer);
        let size = writer.end().addr() - bytes.as_ptr().addr();
        bytes[..size].to_vec()
    }

    #[test]
    fn exact_bytes_of_an_allocation() {
        let bytes =
            written(|w| w.alloc_in::<RUST, false>(0x01_c0_b0_a0, 0x7f01_0203_0405, 1027, 16, 0));
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
    fn the_fast_path_writes_the_same_bytes() {
        for (address, size, align, stack) in [
            (0x7f01_0203_0405, 1027, 16, 0),
            (usize::MAX, 0xffff, 1, u32::MAX),
            (1 << 63, 0, 1 << 15, 0x0123_4567),
        ] {
            let epoch = 0x1234_0567_89ab_cdef;
            let long = written(|w| w.alloc_in::<RUST, false>(epoch, address, size, align, stack));
            assert_eq!(written(|w| w.alloc_small(epoch, address, size, align, stack)), long);
        }
    }

    #[test]
    fn exact_bytes_of_a_free() {
        let bytes = written(|w| w.free_in::<RUST, false>(0x01_c0_b0_a0, 0x7f01_0203_0405));
        let expected =
            [&[69, 0, 0xa0, 0xb0, 0xc0][..], &[0x05, 0x04, 0x03, 0x02, 0x01, 0x7f, 0, 0]];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn exact_bytes_in_a_heap() {
        let head = |uid: u8| vec![uid << 1 | 1, 0, 0xa0, 0xb0, 0xc0, 5, 4, 3, 2, 1, 0x7f, 0, 0];
        let layout = [[128, 0, 0, 0, 4 << 3 | 3].as_slice(), &[C]].concat();
        let bytes = written(|w| {
            w.alloc_in::<C, false>(0x01_c0_b0_a0, 0x7f01_0203_0405, 1027, 16, 0x0403_0201);
        });
        assert_eq!(bytes, [&*head(40), &[1, 2, 3, 4], &layout].concat());
        assert_eq!(bytes.len(), ALLOC_IN_HEAP.layout().size());
        let bytes =
            written(|w| w.alloc_in::<C, true>(0x01_c0_b0_a0, 0x7f01_0203_0405, 1027, 16, 0));
        assert_eq!(bytes, [&*head(42), &[0; 4], &layout].concat());
        let bytes = written(|w| w.free_in::<C, false>(0x01_c0_b0_a0, 0x7f01_0203_0405));
        assert_eq!(bytes, [&*head(41), &[0, 0, 0, 0, C]].concat());
        assert_eq!(bytes.len(), FREE_IN_HEAP.layout().size());
        let bytes = written(|w| w.free_in::<C, true>(0x01_c0_b0_a0, 0x7f01_0203_0405));
        assert_eq!(bytes, [&*head(43), &[0, 0, 0, 0, C]].concat());
    }

    #[test]
    #[cfg(c_mmap)]
    fn exact_bytes_of_mappings() {
        let head = |uid: u8| vec![uid << 1 | 1, 0, 0xa0, 0xb0, 0xc0, 0, 0x40, 3, 2, 1, 0x7f, 0, 0];
        let size = [0, 0x50, 6, 7, 8, 0, 0, 0];
        let (address, bytes) = (0x7f01_0203_4000, 0x08_0706_5000);
        let state = written(|w| w.mapping(0x01_c0_b0_a0, address, bytes, 0x0403_0201, MAPPED, 1));
        assert_eq!(state, [&*head(45), &[1, 2, 3, 4], &size, &[MAPPED, 1]].concat());
        assert_eq!(state.len(), MAPPING.layout().size());
        let mut late = Vec::new();
        append_mapping(0xc0_b0_a0, address as u64, 0x0403_0201, bytes as u64, MAPPED, 1, &mut late);
        assert_eq!(
            late,
            written(|w| w.mapping(0xc0_b0_a0, address, bytes, 0x0403_0201, MAPPED, 1))
        );
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
    }

    #[test]
    fn a_size_beyond_35_bits_is_followed_by_the_true_one() {
        let max = MAX_SIZE as usize;
        for (size, extra) in [(max, 0), (max + 1, 18), (isize::MAX as usize, 18)] {
            let bytes = written(|w| w.alloc_in::<RUST, false>(0, 0x1000, size, 1 << 40, 0));
            assert_eq!(bytes.len(), 22 + extra);
            assert_eq!(bytes[17..22], [0xff, 0xff, 0xff, 0xff, 31 << 3 | 7]);
            if extra > 0 {
                assert_eq!(bytes[32..], (size as u64).to_le_bytes());
            }
        }
    }

    #[test]
    fn what_is_appended_has_the_bytes_that_the_hook_writes() {
        let serial = 0x1234_0567_89ab_cdef;
        for size in [0, 1, 1027, MAX_SIZE, MAX_SIZE + 1, 1 << 40] {
            fn same<const HEAP: u8>(serial: u64, size: u64) {
                let mut bytes = Vec::new();
                append_alloc(serial, 0x7f01_0203_0405, 0, size, HEAP, &mut bytes);
                let hook = |w: &mut Writer| {
                    w.alloc_in::<HEAP, false>(serial, 0x7f01_0203_0405, size as usize, 1, 0);
                };
                assert_eq!(bytes, written(hook), "{size}");
                bytes.clear();
                append_realloc_free(serial, 0x7f01_0203_0405, HEAP, &mut bytes);
                assert_eq!(bytes, written(|w| w.free_in::<HEAP, true>(serial, 0x7f01_0203_0405)));
            }
            same::<RUST>(serial & SERIAL_MASK, size);
            same::<C>(serial & SERIAL_MASK, size);
        }
        let mut bytes = Vec::new();
        append_update(serial, 0x7f01_0203_0405, &mut bytes);
        assert_eq!(bytes, written(|w| w.update(serial, 0x7f01_0203_0405)));
    }
}
