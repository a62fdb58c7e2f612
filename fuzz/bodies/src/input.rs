//! Inputs in pieces.

use std::io::{self, ErrorKind, Read};

/// A small generator of pseudo-random numbers, seeded from the input.
pub struct Numbers(u64);

impl Numbers {
    /// Seeds the generator from the input.
    pub fn of(data: &[u8]) -> Self {
        let mix = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        Self(data.iter().fold(0xcbf2_9ce4_8422_2325, mix) | 1)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// `data` in pieces of 1 to `most` bytes.
pub fn pieces(data: &[u8], most: usize) -> impl Iterator<Item = &[u8]> {
    let mut numbers = Numbers::of(data);
    let mut rest = data;
    std::iter::from_fn(move || {
        let size = (1 + numbers.below(most)).min(rest.len());
        let (piece, after) = rest.split_at(size);
        rest = after;
        (!piece.is_empty()).then_some(piece)
    })
}

/// A source that gives `data` in pieces of 1 to `most` bytes, with some interrupted reads.
pub struct Slow<'a> {
    rest: &'a [u8],
    most: usize,
    numbers: Numbers,
}

impl<'a> Slow<'a> {
    pub fn new(data: &'a [u8], most: usize) -> Self {
        Self { rest: data, most, numbers: Numbers::of(data) }
    }
}

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.numbers.below(self.most + 1);
        if size == 0 {
            return Err(ErrorKind::Interrupted.into());
        }
        let size = size.min(buffer.len());
        Read::read(&mut self.rest, &mut buffer[..size])
    }
}
