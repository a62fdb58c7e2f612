//! Unwraps serials: from the 24 bits of the stream to the full number.

use crate::trace::format::schema::{SERIAL_BITS, SERIAL_MASK};

/// The reader adds this to all serials internally, so that the serials of events before the first
/// one seen are above 0, too.
pub(super) const BIAS: u64 = 1 << SERIAL_BITS;

/// A serial at most this far above the highest one becomes the highest. A serial farther above does
/// so only when the next serial of its thread is not below it. Otherwise one flipped bit would
/// change all later serials.
const MAX_TRUSTED_JUMP: i32 = 1 << 16;

/// A watermark at most this far above the highest serial is accepted. This is half of the distance
/// within which serials are unambiguous.
const MAX_WATERMARK_LEAD: u64 = 1 << 22;

/// Half of the 2^24 serials that 24 bits distinguish. If waiting events span more serials than
/// this, the serial nearest to the highest may be the wrong one.
const HALF: u64 = 1 << (SERIAL_BITS - 1);
/// The serial of a late event is at most this far below the next serial.
const MAX_LATENESS: u64 = 1 << 20;

/// The state of unwrapping. A serial is unwrapped to the number with these lower 24 bits that is
/// nearest to the highest serial so far.
///
/// If a writer sends many events of one thread before it continues with the next thread, the
/// waiting events can span more serials than this distinguishes. Then a serial is unwrapped to the
/// lowest number with these 24 bits that is above the thread's last serial and above the delivered
/// events. That is right as long as no thread lags by more than 2^24 serials. If a thread may lag
/// by more, the number of missing events is reported as unknown.
#[derive(Default)]
pub(super) struct Serials {
    highest: u64,
    /// The lower bound of all later serials, except late ones; 0 while it is unknown.
    floor: u64,
    /// A thread may have lagged by more serials than 24 bits distinguish.
    unsure: bool,
}

impl Serials {
    /// Whether any serial is known.
    pub(super) fn is_known(&self) -> bool {
        self.highest != 0
    }

    /// The highest serial so far; 0 if there is none.
    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    /// Sets the lower bound of later serials: the serial of the next event to be delivered, or of
    /// the first waiting event.
    pub(super) fn set_floor(&mut self, floor: u64) {
        self.floor = floor;
    }

    /// Whether the number of missing events is unknown.
    pub(super) fn is_unsure(&self) -> bool {
        self.unsure
    }

    /// Starts from a serial that is known in full.
    pub(super) fn seed(&mut self, serial: u64) {
        self.highest = serial;
    }

    /// Takes in a watermark.
    pub(super) fn reached(&mut self, serial: u64) {
        if serial > self.highest && serial - self.highest <= MAX_WATERMARK_LEAD {
            self.highest = serial;
        }
    }

    /// The number that is congruent to `low` modulo 2^24 and nearest to the highest serial.
    #[inline]
    pub(super) fn nearest(&self, low: u32) -> u64 {
        self.highest.wrapping_add_signed(i64::from(self.distance(low)))
    }

    #[inline]
    fn distance(&self, low: u32) -> i32 {
        const UNUSED: u32 = u32::BITS - SERIAL_BITS;
        (low.wrapping_sub(self.highest as u32) << UNUSED) as i32 >> UNUSED
    }

    /// Whether the lower 24 bits of `serial` would be unwrapped to `serial`, and it is not too
    /// [far](MAX_TRUSTED_JUMP) above the highest.
    #[inline]
    pub(super) fn expects(&self, serial: u64) -> bool {
        let ahead = serial.wrapping_sub(self.highest) as i64;
        self.is_known() && (-(HALF as i64)..=i64::from(MAX_TRUSTED_JUMP)).contains(&ahead)
    }

    /// Takes in consecutive serials up to `last`, the first of which was [expected](Self::expects).
    #[inline]
    pub(super) fn row(&mut self, last: u64) {
        self.highest = self.highest.max(last);
    }

    /// Unwraps the next serial of a thread. `last` is the thread's last serial; 0 if it has none.
    #[inline]
    pub(super) fn unwrap(&mut self, low: u32, last: u64) -> u64 {
        if self.highest == 0 {
            self.highest = BIAS + (u64::from(low) & SERIAL_MASK);
            return self.highest;
        }
        if self.floor != 0 && self.highest > self.floor + HALF {
            return self.unwrap_behind(low, last);
        }
        let distance = self.distance(low);
        let serial = self.highest.wrapping_add_signed(i64::from(distance));
        if distance > MAX_TRUSTED_JUMP {
            self.far(serial, last);
        } else if distance > 0 {
            self.highest = serial;
        }
        serial
    }

    /// As [`unwrap`](Self::unwrap), if the waiting events span more than [`HALF`], so that the
    /// serial nearest to the highest may be the wrong one.
    #[cold]
    fn unwrap_behind(&mut self, low: u32, last: u64) -> u64 {
        let delivered = self.floor.saturating_sub(MAX_LATENESS);
        self.unsure |= last < delivered && self.highest - delivered > SERIAL_MASK;
        let base = delivered.max(last + 1);
        let serial = base + (u64::from(low).wrapping_sub(base) & SERIAL_MASK);
        if serial > self.highest + MAX_TRUSTED_JUMP as u64 {
            self.far(serial, last);
        } else {
            self.highest = self.highest.max(serial);
        }
        serial
    }

    #[cold]
    fn far(&mut self, serial: u64, last: u64) {
        if serial >= last && last > self.highest {
            self.highest = last;
            if serial - last <= MAX_TRUSTED_JUMP as u64 {
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
    fn one_threads_burst_before_anothers_does_not_wrap() {
        let mut serials = Serials::default();
        let mut last = 0;
        for serial in (0..14_000_000).step_by(1000) {
            last = serials.unwrap(serial, last);
            serials.set_floor(BIAS);
        }
        assert_eq!(last, BIAS + 13_999_000);
        // The first serial of the other thread is 14 million lower.
        let other = serials.unwrap(500, 0);
        assert_eq!(other, BIAS + 500);
        assert_eq!(serials.unwrap(1500, other), BIAS + 1500);
        assert!(!serials.is_unsure());
        // Late, not 2^24 serials later.
        serials.set_floor(BIAS + 1501);
        assert_eq!(serials.unwrap(700, 0), BIAS + 700);
        // Farther than 24 bits distinguish.
        for serial in (14_000_000..17_000_000).step_by(1000) {
            last = serials.unwrap(serial & 0x00ff_ffff, last);
        }
        assert_eq!((last, serials.is_unsure()), (BIAS + 16_999_000, false));
        serials.unwrap(9, 0);
        assert!(serials.is_unsure());
    }

    #[test]
    fn before_the_first_one_seen_there_is_still_room() {
        let mut serials = Serials::default();
        assert_eq!(serials.unwrap(5, 0), BIAS + 5);
        assert_eq!(serials.unwrap(0xff_fffa, 0), BIAS - 6);
    }

    #[test]
    fn a_jump_counts_when_its_thread_continues_from_it() {
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
