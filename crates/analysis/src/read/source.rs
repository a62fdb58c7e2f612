//! The input, with bounded read-ahead.

use std::io::{self, ErrorKind, Read};

/// The maximum read-ahead in bytes: 16 packets of the largest size.
pub(super) const WINDOW: usize = 1 << 20;
/// The minimum and the maximum size of the buffer, in bytes. It doubles when a read has filled it,
/// so a small input has a small buffer.
const MIN_BUFFER_BYTES: usize = MAX_BUFFER_BYTES >> 4;
const MAX_BUFFER_BYTES: usize = WINDOW + WINDOW / 4;

/// A buffered source of bytes, whose next bytes can be read before they are consumed.
pub(super) struct Source<R> {
    inner: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset in the input of the byte at `start`.
    offset: u64,
    at_end: bool,
    error: Option<io::Error>,
}

impl<R: Read> Source<R> {
    /// `offset` is the number of bytes that were already read from `inner`.
    pub(super) fn new(inner: R, offset: u64) -> Self {
        Self {
            inner,
            buffer: vec![0; MIN_BUFFER_BYTES],
            start: 0,
            end: 0,
            offset,
            at_end: false,
            error: None,
        }
    }

    /// The same, but the source begins with `ahead`, which was read from `inner` before.
    pub(super) fn with(ahead: &[u8], inner: R, offset: u64) -> Self {
        let mut source = Self::new(inner, offset);
        source.buffer.resize(MIN_BUFFER_BYTES.max(ahead.len()), 0);
        source.buffer[..ahead.len()].copy_from_slice(ahead);
        source.end = ahead.len();
        source
    }

    /// Offset in the input of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The error that ended the source early.
    pub(super) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// The next bytes: at least `size` of them, unless the input ends earlier. `size` is at most
    /// [`WINDOW`]. If the buffer has `size` bytes, does not read, and so does not block.
    pub(super) fn peek(&mut self, size: usize) -> &[u8] {
        let size = size.min(WINDOW);
        while self.end - self.start < size && !self.at_end {
            self.fill();
        }
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    pub(super) fn buffered(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// The next bytes, at least half of [`WINDOW`] unless the input ends earlier; and whether they
    /// end where the input ends.
    pub(super) fn window(&mut self) -> (&[u8], bool) {
        // PERF: the buffer is refilled only when it is half empty, so small steps through the input
        // do not move its bytes each time.
        if self.end - self.start < WINDOW / 2 {
            self.peek(WINDOW);
        }
        let bytes = self.buffer.get(self.start..self.end).unwrap_or_default();
        (bytes, self.at_end)
    }

    /// Whether the next `size` bytes are there. If not, the input can be read again when it has grown.
    pub(super) fn has(&mut self, size: usize) -> bool {
        let has = self.peek(size).len() >= size;
        if !has && self.error.is_none() {
            self.at_end = false;
        }
        has
    }

    /// Whether the source is at its end and the buffer is empty.
    pub(super) fn is_over(&self) -> bool {
        self.at_end && self.start == self.end
    }

    /// Skips `size` bytes of the buffer.
    pub(super) fn consume(&mut self, size: usize) {
        let size = size.min(self.end - self.start);
        self.start += size;
        self.offset += size as u64;
    }

    fn fill(&mut self) {
        let size = self.buffer.len();
        if self.end == size && size < MAX_BUFFER_BYTES {
            self.buffer.resize(2 * size, 0);
        } else if size - self.end < size / 5 {
            // PERF: moves the rest to the front only when little room is left after it.
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        match self.inner.read(self.buffer.get_mut(self.end..).unwrap_or_default()) {
            Ok(0) => self.at_end = true,
            // A faulty source may return a count that exceeds the buffer.
            Ok(count) => self.end = (self.end + count).min(self.buffer.len()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                self.error = Some(error);
                self.at_end = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time, with an interruption before each.
    struct Slow(Vec<u8>, bool);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            match (self.1, self.0.is_empty()) {
                (true, _) => Err(ErrorKind::Interrupted.into()),
                (_, true) => Err(io::Error::other("torn")),
                _ => {
                    buffer[0] = self.0.remove(0);
                    Ok(1)
                }
            }
        }
    }

    #[test]
    fn interruptions_are_retried_and_an_error_ends_the_input() {
        let mut source = Source::new(Slow(vec![1, 2, 3], false), 8);
        assert_eq!(source.peek(2), [1, 2]);
        source.consume(1);
        assert_eq!(source.offset(), 9);
        assert_eq!(source.peek(9), [2, 3]);
        assert_eq!(source.window(), (&[2, 3][..], true));
        assert_eq!(source.take_error().map(|error| error.to_string()).as_deref(), Some("torn"));
    }

    #[test]
    fn a_small_input_has_a_small_buffer() {
        let bytes = vec![7; MIN_BUFFER_BYTES - 1];
        let mut source = Source::new(&bytes[..], 0);
        assert!(source.window() == (&bytes[..], true));
        assert_eq!(source.buffer.len(), MIN_BUFFER_BYTES);
        let bytes = vec![7; WINDOW];
        let mut source = Source::new(&bytes[..], 0);
        assert!(source.peek(WINDOW) == bytes);
        assert_eq!(source.buffer.len(), MAX_BUFFER_BYTES);
    }

    #[test]
    fn the_window_moves_over_long_input() {
        let bytes = (0..5 * WINDOW).map(|i| (i / 7) as u8).collect::<Vec<_>>();
        let mut source = Source::new(&bytes[..], 0);
        let mut seen = Vec::new();
        loop {
            let ahead = source.peek(WINDOW);
            let step = ahead.len().min(100_003);
            if step == 0 {
                break;
            }
            seen.extend_from_slice(&ahead[..step]);
            source.consume(step);
        }
        assert!(seen == bytes);
    }
}
