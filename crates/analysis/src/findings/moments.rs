//! Moments of a run, with the live bytes of each bucket.

/// What distances between moments are counted in: events, nanoseconds, and allocated bytes. A program that
/// starts with a million small events grows later, as events count; one that waits for hours grows at once.
pub(super) const CLOCKS: usize = 3;
/// The clock of events.
pub(super) const EVENTS: usize = 0;
/// The clock of time.
pub(super) const TIME: usize = 1;

/// The first distance between two moments, of each clock; it doubles when [`MOMENTS`] are kept.
const FIRST_DISTANCE: [u64; CLOCKS] = [256, 1 << 24, 1 << 16];
/// The maximum number of moments that are kept for each clock.
const MOMENTS: usize = 32;

/// The live bytes of each bucket at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct LiveSnapshot {
    /// What each clock says: the number of the next event, when that is, and the bytes that were allocated
    /// before it.
    pub(super) at: [u64; CLOCKS],
    /// The buckets with live bytes, in their order, and these bytes. In a program with stacks, most buckets
    /// have none.
    buckets: Box<[u32]>,
    bytes: Box<[u64]>,
}

impl LiveSnapshot {
    fn new(at: [u64; CLOCKS], live_bytes: &[u64]) -> Self {
        let live = || (0..).zip(live_bytes).filter(|(_, bytes)| **bytes != 0);
        let buckets = live().map(|(bucket, _)| bucket).collect();
        Self { at, buckets, bytes: live().map(|(_, bytes)| *bytes).collect() }
    }

    /// The live bytes of one bucket.
    pub(super) fn live_bytes(&self, bucket: usize) -> u64 {
        let place = self.buckets.binary_search_by_key(&bucket, |&at| at as usize);
        place.map_or(0, |place| self.bytes[place])
    }
}

/// Moments at distances that each of the clocks says.
#[derive(Clone, Debug, Default)]
pub(super) struct Moments {
    next: [u64; CLOCKS],
    distance: [u64; CLOCKS],
    taken: [Vec<LiveSnapshot>; CLOCKS],
}

impl Moments {
    /// Whether a snapshot is due.
    #[inline(always)]
    pub(super) fn is_due(&self, at: [u64; CLOCKS]) -> bool {
        at.iter().zip(&self.next).any(|(at, next)| at >= next)
    }

    /// The moments at the distances of one clock, in their order.
    pub(super) fn of(&self, clock: usize) -> &[LiveSnapshot] {
        &self.taken[clock]
    }

    #[cold]
    #[inline(never)]
    pub(super) fn take(&mut self, at: [u64; CLOCKS], live_bytes: &[u64]) {
        for clock in 0..CLOCKS {
            if at[clock] < self.next[clock] {
                continue;
            }
            let (distance, taken) = (&mut self.distance[clock], &mut self.taken[clock]);
            *distance = (*distance).max(FIRST_DISTANCE[clock]);
            while taken.len() >= MOMENTS && *distance < u64::MAX {
                *distance = distance.saturating_mul(2);
                taken.dedup_by_key(|moment| moment.at[clock] / *distance);
            }
            self.next[clock] = (at[clock] / *distance).saturating_add(1).saturating_mul(*distance);
            self.taken[clock].push(LiveSnapshot::new(at, live_bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes what is due at each of these times of one clock.
    fn taken(clock: usize, times: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut moments = Moments { next: [u64::MAX; CLOCKS], ..Moments::default() };
        moments.next[clock] = 0;
        for time in times {
            let mut at = [0; CLOCKS];
            at[clock] = time;
            if moments.is_due(at) {
                moments.take(at, &[]);
            }
        }
        moments.of(clock).iter().map(|moment| moment.at[clock]).collect()
    }

    #[test]
    fn a_long_trace_has_no_more_moments() {
        for (clock, first) in FIRST_DISTANCE.into_iter().enumerate() {
            let step = first / 256;
            let moments = taken(clock, (0..100_000).map(|number| number * step));
            assert!((MOMENTS / 2..=MOMENTS).contains(&moments.len()), "{}", moments.len());
            // At equal distances, up to the end.
            let distance = moments[1] - moments[0];
            assert!(moments.windows(2).all(|pair| pair[1] - pair[0] == distance));
            assert!(moments.last().is_some_and(|last| last + distance > 99_999 * step));
        }
    }

    #[test]
    fn a_moment_has_the_live_bytes_of_each_bucket() {
        let live_bytes = [0, 7, 0, 0, u64::MAX, 1];
        let moment = LiveSnapshot::new([1, 2, 3], &live_bytes);
        assert!((0..9).all(|at| moment.live_bytes(at) == *live_bytes.get(at).unwrap_or(&0)));
    }

    #[test]
    fn time_that_jumps_takes_no_more_moments() {
        // All at even distances, and one at the end of all time.
        let jumps = (0..1_000).map(|number| number * FIRST_DISTANCE[TIME] * 2);
        let moments = taken(TIME, jumps.chain([u64::MAX; 100]));
        assert!((2..=MOMENTS).contains(&moments.len()), "{moments:?}");
    }
}
