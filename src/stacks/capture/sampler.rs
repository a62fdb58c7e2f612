//! Which allocations have a stack, if only a sample of the bytes has.
//!
//! Each byte is in the sample with the same small probability, independently of all others (a
//! Poisson sample), and an allocation has a stack if one of its bytes is in the sample. So an
//! allocation of `s` bytes has a stack with probability `1 - exp(-s / mean)`. The distance from one
//! byte of the sample to the next is distributed exponentially, so a thread draws a distance and
//! counts it down.

use std::cell::Cell;

/// The state of one thread. All bytes are 0 at first.
pub(super) struct Sampler {
    /// The number of bytes up to the next one in the sample.
    bytes_left: Cell<u64>,
    /// The mean distance that was used to draw it.
    mean_bytes: Cell<u64>,
    /// The state of the random numbers, 0 before the first.
    random: Cell<u64>,
}

impl Sampler {
    /// Whether an allocation of `size` bytes is in the sample. One of 0 bytes counts as 1.
    #[inline(always)]
    pub(super) fn is_in_sample(&self, size: usize, mean_bytes: u64) -> bool {
        let size = (size as u64).max(1);
        let left = self.bytes_left.get();
        if size <= left && self.mean_bytes.get() == mean_bytes {
            self.bytes_left.set(left - size);
            return false;
        }
        self.is_in_sample_cold(size, mean_bytes)
    }

    #[cold]
    #[inline(never)]
    fn is_in_sample_cold(&self, size: u64, mean_bytes: u64) -> bool {
        if self.mean_bytes.replace(mean_bytes) != mean_bytes {
            // The process is memoryless: a new distance may be drawn at any byte.
            self.bytes_left.set(self.distance(mean_bytes));
            if size <= self.bytes_left.get() {
                self.bytes_left.set(self.bytes_left.get() - size);
                return false;
            }
        }
        self.bytes_left.set(self.distance(mean_bytes));
        true
    }

    /// A random distance: the number of bytes before the next one in the sample.
    fn distance(&self, mean_bytes: u64) -> u64 {
        // In (0, 1].
        let uniform = ((self.next_random() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (-uniform.ln() * mean_bytes as f64) as u64
    }

    /// The `splitmix64` generator of Steele, Lea and Flood, which has no bad states.
    fn next_random(&self) -> u64 {
        if self.random.get() == 0 {
            // Threads must differ. The address of their memory and the time do.
            let address = std::ptr::from_ref(self).addr() as u64;
            self.random.set(crate::platform::clock::now() ^ address.rotate_left(32));
        }
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of the allocations of one size that are in the sample is `1 - exp(-size / mean)`.
    #[test]
    fn an_allocation_is_in_the_sample_with_the_probability_of_its_size() {
        const MEAN: u64 = 4096;
        const EVENTS: u64 = 200_000;
        for size in [0, 1, 100, 1000, 4096, 20_000] {
            let sampler = Sampler {
                bytes_left: Cell::new(0),
                mean_bytes: Cell::new(0),
                random: Cell::new(size + 1),
            };
            let taken =
                (0..EVENTS).filter(|_| sampler.is_in_sample(size as usize, MEAN)).count() as f64;
            let share = 1.0 - (-(size.max(1) as f64) / MEAN as f64).exp();
            let expected = share * EVENTS as f64;
            let deviation = (expected * (1.0 - share)).sqrt();
            assert!((taken - expected).abs() < 5.0 * deviation + 1.0, "{size}: {taken} {expected}");
        }
    }
}
