//! Unwraps serials: from the 24 bits of the stream (16 in protocol 1) to the full number.

use memledger_format::schema::SERIAL_BITS;

/// The reader adds this to all serials internally, so that the serials of events before the first
/// one seen are above 0, too.
pub(super) const BIAS: u64 = 1 << SERIAL_BITS;

/// A watermark at most this far above the highest serial is accepted. This is half of the distance
/// within which serials are unambiguous.
const MAX_WATERMARK_LEAD: u64 = 1 << 22;

/// The state of unwrapping. A serial is unwrapped to the number with these lower 24 bits that is
/// nearest to the highest serial so far. (Protocol 1 has 16 bits; the distances below shrink with
/// them.)
///
/// If a writer sends many events of one thread before it continues with the next thread, the
/// waiting events can span more serials than this distinguishes. Then a serial is unwrapped to the
/// lowest number with these 24 bits that is above the thread's last serial and above the delivered
/// events. That is right as long as no thread lags by more than 2^24 serials. If a thread may lag
/// by more, the number of missing events is reported as unknown.
pub(super) struct Serials {
    /// The number of bits that an event carries.
    bits: u32,
    /// Half of the number of serials that `bits` can tell apart. If waiting events span more serials, the one
    /// nearest to the highest may be the wrong one. PERF: kept, because each event needs it.
    half: u64,
    /// A serial at most this far above the highest one becomes the highest. A serial farther above does so
    /// only when the next serial of its thread is not below it. Otherwise one flipped bit would change all
    /// later serials.
    max_trusted_jump: i32,
    /// The first serial is not known yet, so serials stay as they are in the stream.
    collecting: bool,
    /// The number of serials collected so.
    collected: u64,
    highest: u64,
    /// The lower bound of all later serials, except late ones; 0 while it is unknown.
    floor: u64,
    /// A thread may have lagged by more serials than 24 bits distinguish.
    unsure: bool,
}

impl Default for Serials {
    fn default() -> Self {
        Self::of_bits(SERIAL_BITS)
    }
}

impl Serials {
    fn of_bits(bits: u32) -> Self {
        Self {
            bits,
            half: 1 << (bits - 1),
            max_trusted_jump: 1 << (bits - 8).max(12),
            collecting: false,
            collected: 0,
            highest: 0,
            floor: 0,
            unsure: false,
        }
    }

    /// The serials of a stream that has `bits` of each, and does not say which one is the first.
    pub(super) fn collecting(bits: u32) -> Self {
        Self { collecting: true, ..Self::of_bits(bits) }
    }

    /// Whether serials stay as they are in the stream, plus [`BIAS`].
    #[inline]
    pub(super) fn is_collecting(&self) -> bool {
        self.collecting
    }

    /// Counts a serial that is collected.
    pub(super) fn collect(&mut self) {
        self.collected += 1;
    }

    /// From here on, serials are unwrapped.
    pub(super) fn end_collecting(&mut self) {
        self.collecting = false;
    }

    /// The number of serials that have arrived since the highest one was `since`, roughly.
    pub(super) fn progress(&self, since: u64) -> u64 {
        if self.collecting { self.collected } else { self.highest.saturating_sub(since) }
    }

    /// Half of the serials that can be told apart.
    #[inline]
    pub(super) fn half(&self) -> u64 {
        self.half
    }

    fn mask(&self) -> u64 {
        (1 << self.bits) - 1
    }

    /// The serial of a late event is at most this far below the next serial.
    fn max_lateness(&self) -> u64 {
        1 << (self.bits - 4)
    }

    /// How far `low` is above `from`, modulo the number of serials; negative if it is nearer below.
    #[inline]
    fn distance_from(&self, from: u32, low: u32) -> i32 {
        let unused = u32::BITS - self.bits;
        (low.wrapping_sub(from) << unused) as i32 >> unused
    }

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
        self.distance_from(self.highest as u32, low)
    }

    /// Whether the lower 24 bits of `serial` would be unwrapped to `serial`, and it is not too far above the
    /// highest (`max_trusted_jump`).
    #[inline]
    pub(super) fn expects(&self, serial: u64) -> bool {
        let ahead = serial.wrapping_sub(self.highest) as i64;
        self.is_known() && (-(self.half as i64)..=i64::from(self.max_trusted_jump)).contains(&ahead)
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
            self.highest = BIAS + (u64::from(low) & self.mask());
            return self.highest;
        }
        if self.floor != 0 && self.highest > self.floor + self.half {
            return self.unwrap_behind(low, last);
        }
        let distance = self.distance(low);
        let serial = self.highest.wrapping_add_signed(i64::from(distance));
        if distance > self.max_trusted_jump {
            self.far(serial, last);
        } else if distance > 0 {
            self.highest = serial;
        }
        serial
    }

    /// As [`unwrap`](Self::unwrap), if the waiting events span more than [`half`](Self::half), so that the
    /// serial nearest to the highest may be the wrong one.
    #[cold]
    fn unwrap_behind(&mut self, low: u32, last: u64) -> u64 {
        let delivered = self.floor.saturating_sub(self.max_lateness());
        self.unsure |= last < delivered && self.highest - delivered > self.mask();
        let base = delivered.max(last + 1);
        let serial = base + (u64::from(low).wrapping_sub(base) & self.mask());
        if serial > self.highest + self.max_trusted_jump as u64 {
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
            if serial - last <= self.max_trusted_jump as u64 {
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
