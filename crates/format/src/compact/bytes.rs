//! Buffers in which every 16-bit index is valid.

use super::{MAX_PACKET_BYTES, SLACK};

/// The bytes of a packet or a payload, and [`SLACK`] for accesses after its end.
pub(super) type Buffer = [u8; MAX_PACKET_BYTES + SLACK];

/// The `N` bytes from `at` on.
#[inline(always)]
pub(super) fn load<const N: usize>(buffer: &Buffer, at: usize) -> [u8; N] {
    // PERF: the 16-bit index shows the compiler that the bytes lie in the buffer.
    let start = usize::from(at as u16);
    let mut word = [0; N];
    word.copy_from_slice(&buffer[start..start + N]);
    word
}

/// Stores `N` bytes from `at` on.
#[inline(always)]
pub(super) fn store<const N: usize>(buffer: &mut Buffer, at: usize, word: [u8; N]) {
    let start = usize::from(at as u16);
    buffer[start..start + N].copy_from_slice(&word);
}

/// The `N` bytes from `at` on, for writing. Never `None`.
#[inline(always)]
pub(super) fn part<const N: usize>(buffer: &mut Buffer, at: usize) -> Option<&mut [u8; N]> {
    buffer.get_mut(usize::from(at as u16)..)?.first_chunk_mut()
}

/// A buffer of zeros that is never on the stack.
pub(super) fn zeroed() -> Box<Buffer> {
    const SIZE: usize = MAX_PACKET_BYTES + SLACK;
    match vec![0; SIZE].into_boxed_slice().try_into() {
        Ok(buffer) => buffer,
        Err(_) => Box::new([0; SIZE]),
    }
}
