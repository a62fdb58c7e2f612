//! The peaks of measurements, and what each bucket held then.

use super::peaks::PeakTracker;

/// The live bytes of a measurement, and its peak generation.
#[derive(Clone, Copy, Debug, Default)]
struct MeasurementPeak {
    tracker: PeakTracker,
    generation: u64,
}

/// What a bucket held at the peak of one measurement around it.
#[derive(Clone, Copy, Debug)]
struct BucketHeld {
    /// The number of the measurement.
    measured: u32,
    generation: u64,
    bytes: u64,
}

/// The peaks of all measurements.
#[derive(Clone, Debug, Default)]
pub(crate) struct MeasuredPeaks {
    /// Whether buckets keep figures for measurements. Only an in-process analyzer reports
    /// measurements; in the trace of another process, each bucket could be inside hundreds of
    /// measurements whose figures are never read.
    enabled: bool,
    measured: Vec<MeasurementPeak>,
    /// The figures that buckets keep for their measurements, one bucket after another.
    held: Vec<BucketHeld>,
    /// By bucket, up to the last one in a measurement: the range of its entries, start and end.
    ranges: Vec<(u32, u32)>,
}

impl MeasuredPeaks {
    /// Buckets that are made from now on keep figures for their measurements.
    pub(crate) fn enable(&mut self) {
        self.enabled = true;
    }

    /// Adds a measurement; returns its number.
    pub(crate) fn add(&mut self) -> u32 {
        self.measured.push(MeasurementPeak::default());
        self.measured.len() as u32 - 1
    }

    /// Adds the entries of a new bucket that is within these measurements.
    pub(super) fn add_bucket(&mut self, bucket: u32, within: impl Iterator<Item = u32>) {
        let start = self.held.len() as u32;
        for measured in within.filter(|_| self.enabled) {
            let generation = self.measured[measured as usize].generation;
            self.held.push(BucketHeld { measured, generation, bytes: 0 });
        }
        let end = self.held.len() as u32;
        if start < end {
            self.ranges.resize(bucket as usize, (0, 0));
            self.ranges.push((start, end));
        }
    }

    /// Resets the peak of a measurement.
    pub(crate) fn reset(&mut self, measured: u32) {
        let measured = &mut self.measured[measured as usize];
        measured.tracker.peak = measured.tracker.live;
        measured.generation += 1;
    }

    /// The peak bytes of a measurement.
    pub(crate) fn peak(&self, measured: u32) -> u64 {
        self.measured[measured as usize].tracker.peak
    }

    /// The bytes that a bucket held at the last peak of a measurement; `None` if it has not changed
    /// since.
    pub(super) fn held_at_peak(&self, bucket: u32, measured: u32) -> Option<u64> {
        let &(start, end) = self.ranges.get(bucket as usize)?;
        let mut all = self.held[start as usize..end as usize].iter();
        let generation = self.measured[measured as usize].generation;
        let kept = all.find(|held| held.measured == measured && held.generation == generation);
        kept.map(|held| held.bytes)
    }

    /// Adds `bytes`, which may be negative, to the measurements around a bucket that held `before`
    /// bytes; `most` is the highest intermediate sum.
    #[inline(always)]
    pub(super) fn apply(&mut self, bucket: u32, before: u64, bytes: i64, most: i64) {
        let Some(&(start, end)) = self.ranges.get(bucket as usize) else { return };
        for held in &mut self.held[start as usize..end as usize] {
            let measured = &mut self.measured[held.measured as usize];
            let peak = measured.tracker.peak;
            measured.tracker.apply(bytes, most);
            if measured.tracker.peak > peak {
                measured.generation += 1;
                (held.generation, held.bytes) =
                    (measured.generation, before.wrapping_add_signed(most));
            } else if held.generation != measured.generation {
                (held.generation, held.bytes) = (measured.generation, before);
            }
        }
    }
}
