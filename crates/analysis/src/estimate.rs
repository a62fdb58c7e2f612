//! Figures of a whole, from a sample of it.
//!
//! A block of `s` bytes is in the sample with probability `p = 1 - exp(-s / mean)`, so it counts
//! `1 / p` times (Horvitz and Thompson): the sums are unbiased, and their variance is that of the
//! sum of `x^2 (1 - p) / p^2`, where `x` is 1 or the size.
//!
//! An interval is made from the sums below as if the uncertain part of a sum were a number of equal samples,
//! `variance / weight^2`. Such a number has a Poisson distribution; Jeffreys' interval for its mean covers
//! the true mean 95 times in 100 on average, also for one sample, where an interval of two standard
//! deviations would not. With many samples, it is that interval. The lower end takes the mean weight of the
//! samples, if that is smaller. The upper end takes the largest weight that a block may have, for the blocks
//! that are not in the sample.

/// The probability with which a block was in the sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    probability: f64,
    /// 1 - `probability`, to all digits.
    rest: f64,
    mean: f64,
}

impl Sample {
    /// The estimate for a block of `size` bytes, if one sample is taken every `mean` bytes.
    pub(crate) fn of(size: u64, mean: u64) -> Self {
        let mean = mean.max(1) as f64;
        let exponent = -(size.max(1) as f64) / mean;
        Self { probability: -exponent.exp_m1(), rest: exponent.exp(), mean }
    }
}

/// How many blocks a block of `size` bytes in the sample counts for.
pub(crate) fn weight(size: u64, mean: u64) -> f64 {
    1.0 / Sample::of(size, mean).probability
}

/// The sums over a sample of one column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Weighted {
    value: f64,
    variance: f64,
    /// The sum of the weights, each times the chance to be left out.
    uncertain: f64,
    /// The largest weight that a block may have, times the root of its chance to be left out.
    weight: f64,
}

// The sums of finite numbers are never NaN.
impl Eq for Weighted {}

impl Weighted {
    /// Adds `x` blocks or bytes of a block, which is negative if they were added before.
    ///
    /// NOTE: the largest weight is that of the smallest block, which need not be in the sample. In a
    /// column of bytes that is the mean distance of samples. In any other column it has no bound;
    /// twice that of the smallest block in the sample is assumed.
    #[inline]
    pub(crate) fn add(&mut self, x: i64, is_bytes: bool, sample: Sample) {
        if x == 0 {
            return;
        }
        let scaled = x as f64 / sample.probability;
        self.value += scaled;
        self.variance += scaled * scaled.abs() * sample.rest;
        self.uncertain += scaled * sample.rest;
        let of_smallest = 2.0 * scaled.abs() * sample.rest.sqrt();
        self.weight = self.weight.max(if is_bytes { sample.mean } else { of_smallest });
    }

    /// Adds the figure of blocks that were all taken.
    pub(crate) fn add_exact(&mut self, figure: u64) {
        self.value += figure as f64;
    }

    /// Adds the sums of other blocks.
    pub(crate) fn sum(&mut self, other: &Self) {
        self.value += other.value;
        self.variance += other.variance;
        self.uncertain += other.uncertain;
        self.weight = self.weight.max(other.weight);
    }

    /// The figure of the whole.
    pub(crate) fn estimate(&self) -> Estimate {
        let Self { value, variance, uncertain, weight } = *self;
        let (value, variance) = (value.max(0.0), variance.max(0.0));
        // The end of the interval on the side of `z`, if each sample has this weight.
        let end = |weight: f64, z: f64| {
            let samples = variance / (weight * weight);
            value - variance / weight + weight * gamma_quantile(samples + 0.5, z)
        };
        let low = if variance > 0.0 && uncertain > 0.0 {
            end(weight.min(variance / uncertain), -1.96)
        } else {
            value
        };
        let high = if weight > 0.0 { end(weight, 1.96) } else { value };
        Estimate {
            value: value.round() as u64,
            low: low.clamp(0.0, value).round() as u64,
            high: high.max(value).round() as u64,
        }
    }
}

/// The quantile of the gamma distribution with this shape that lies `z` standard deviations of a
/// normal distribution from its middle (Wilson and Hilferty; to 2 % from a shape of 1 on).
fn gamma_quantile(shape: f64, z: f64) -> f64 {
    let root = 1.0 - 1.0 / (9.0 * shape) + z / (3.0 * shape.sqrt());
    shape * root.max(0.0).powi(3)
}

/// A figure of the whole, estimated from a sample of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Estimate {
    /// The estimate; without bias.
    pub value: u64,
    /// The lower and upper end of an interval that covers the figure 95 times in 100.
    pub low: u64,
    /// See `low`.
    pub high: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate_of(sizes: &[u64], mean: u64) -> Estimate {
        let mut sum = Weighted::default();
        for &size in sizes {
            sum.add(size as i64, true, Sample::of(size, mean));
        }
        sum.estimate()
    }

    #[test]
    fn a_large_block_counts_once_and_a_small_one_for_all_its_like() {
        let large = estimate_of(&[100 << 20], 1 << 10);
        assert_eq!((large.value, large.low), (100 << 20, 100 << 20));
        assert!(large.high < (100 << 20) + (3 << 10), "{large:?}");
        let small = estimate_of(&[8], 512 << 10);
        assert!(small.value.abs_diff(512 << 10) <= 5, "{small:?}");
        // Jeffreys' interval of one event is 0.11 to 4.67.
        assert!((small.low as f64 / f64::from(512 << 10) - 0.108).abs() < 0.03, "{small:?}");
        assert!((small.high as f64 / f64::from(512 << 10) - 4.67).abs() < 0.1, "{small:?}");
        let many = estimate_of(&[8; 10_000], 512 << 10);
        let width = (many.high - many.low) as f64 / (2.0 * many.value as f64);
        assert!((width - 0.0196).abs() < 0.0002, "{width}");
        assert_eq!(estimate_of(&[], 7), Estimate::default());
    }

    #[test]
    fn what_is_taken_back_leaves_nothing() {
        let mut sum = Weighted::default();
        let sample = Sample::of(100, 4096);
        sum.add(100, true, sample);
        sum.add(-100, true, sample);
        let Estimate { value, low, high } = sum.estimate();
        assert_eq!((value, low), (0, 0));
        assert!(high > 4096, "a block that is not in the sample may be live");
    }
}
