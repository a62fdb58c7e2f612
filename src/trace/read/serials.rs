//! From the 24 bits of the wire to the full serial.

/// All serials inside the reader lie this much higher than outside, so that an event from
/// before the first one seen still has a place below it.
pub(super) const BIAS: u64 = 1 << 24;

/// A serial this far ahead of all others is believed at once; one farther ahead only when its
/// thread goes on from there. Otherwise one flipped bit would shift all that comes after.
const NEAR: i32 = 1 << 16;

/// How far the writer may say that it has come since the last event: half of what leaves the
/// serials after it unambiguous.
const FAR: u64 = 1 << 22;

/// Unwraps serials: each is the one with the right lower 24 bits that is nearest to the highest
/// seen before it in the input.
#[derive(Default)]
pub(super) struct Serials {
    highest: u64,
}

impl Serials {
    /// Whether anything has said where the serials are.
    pub(super) fn seen(&self) -> bool {
        self.highest != 0
    }

    /// The highest serial so far; 0 if there is none.
    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    /// Starts from a serial that is known in full.
    pub(super) fn seed(&mut self, serial: u64) {
        self.highest = serial;
    }

    /// The writer says how far it has come.
    pub(super) fn reached(&mut self, serial: u64) {
        if serial > self.highest && serial - self.highest <= FAR {
            self.highest = serial;
        }
    }

    /// The serial nearest to the highest that is congruent to `low` modulo 2^24.
    #[inline]
    pub(super) fn nearest(&self, low: u32) -> u64 {
        self.highest.wrapping_add_signed(i64::from(self.distance(low)))
    }

    #[inline]
    fn distance(&self, low: u32) -> i32 {
        (low.wrapping_sub(self.highest as u32) << 8) as i32 >> 8
    }

    /// Whether the lower 24 bits of `serial` would be unwrapped to it, and it believed.
    #[inline]
    pub(super) fn expects(&self, serial: u64) -> bool {
        let ahead = serial.wrapping_sub(self.highest) as i64;
        self.seen() && (-(1 << 23)..=i64::from(NEAR)).contains(&ahead)
    }

    /// Takes in a row of serials, each one above the one before, that ends with `last`; its first
    /// was [expected](Self::expects).
    #[inline]
    pub(super) fn row(&mut self, last: u64) {
        self.highest = self.highest.max(last);
    }

    /// Unwraps the next serial of a thread whose serial before it was `last` (0: none).
    #[inline]
    pub(super) fn unwrap(&mut self, low: u32, last: u64) -> u64 {
        if self.highest == 0 {
            self.highest = BIAS + u64::from(low & 0x00ff_ffff);
            return self.highest;
        }
        let distance = self.distance(low);
        let serial = self.highest.wrapping_add_signed(i64::from(distance));
        if distance > NEAR {
            self.far(serial, last);
        } else if distance > 0 {
            self.highest = serial;
        }
        serial
    }

    #[cold]
    fn far(&mut self, serial: u64, last: u64) {
        if serial >= last && last > self.highest {
            self.highest = last;
            if serial - last <= NEAR as u64 {
                self.highest = serial;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_and_looks_back() {
        let mut serials = Serials::default();
        assert_eq!(serials.unwrap(0xff_fffe, 0), BIAS + 0xff_fffe);
        assert_eq!(serials.unwrap(3, 0), BIAS + 0x100_0003);
        assert_eq!(serials.unwrap(0xff_ffff, 0), BIAS + 0xff_ffff);
        assert_eq!(serials.highest(), BIAS + 0x100_0003);
    }

    #[test]
    fn before_the_first_one_seen_there_is_still_room() {
        let mut serials = Serials::default();
        assert_eq!(serials.unwrap(5, 0), BIAS + 5);
        assert_eq!(serials.unwrap(0xff_fffa, 0), BIAS - 6);
    }

    #[test]
    fn a_jump_counts_when_its_thread_goes_on_from_there() {
        let mut serials = Serials::default();
        let first = serials.unwrap(0, 0);
        let jump = serials.unwrap(1 << 22, first);
        assert_eq!((jump, serials.highest()), (first + (1 << 22), first));
        assert_eq!(serials.unwrap(1, first), first + 1);
        assert_eq!(serials.highest(), first + 1);
        serials.unwrap((1 << 22) + 1, jump);
        assert_eq!(serials.highest(), jump + 1);
    }
}
