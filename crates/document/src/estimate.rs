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

use crate::figure::Unit;
use crate::figures::{Estimate, Estimates, FIGURES, Figures, SUMS};

/// The probability with which a block was in the sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    probability: f64,
    /// 1 - `probability`, to all digits.
    rest: f64,
    mean: f64,
}

impl Sample {
    /// The estimate for a block of `size` bytes, if one sample is taken every `mean` bytes.
    pub fn of(size: u64, mean: u64) -> Self {
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
struct Weighted {
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
    fn add(&mut self, x: i64, is_bytes: bool, sample: Sample) {
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
    fn add_exact(&mut self, figure: u64) {
        self.value += figure as f64;
    }

    /// Adds the sums of other blocks.
    fn sum(&mut self, other: &Self) {
        self.value += other.value;
        self.variance += other.variance;
        self.uncertain += other.uncertain;
        self.weight = self.weight.max(other.weight);
    }

    /// The figure of the whole.
    fn estimate(&self) -> Estimate {
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

/// What a sample says about the columns of a row that add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weights([Weighted; SUMS]);

impl Weights {
    /// Adds what changed for one block of the sample; a change below 0 has wrapped.
    pub fn add_sample(&mut self, change: &Figures, sample: Sample) {
        let columns = FIGURES.iter().filter(|column| column.adds_up());
        for ((sum, column), change) in self.0.iter_mut().zip(columns).zip(change.sums()) {
            sum.add(change as i64, column.unit == Unit::Bytes, sample);
        }
    }

    /// Adds the sums of other blocks.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| sum.sum(more));
    }

    /// Adds the figures of blocks that were all taken.
    pub fn add_exact(&mut self, figures: &Figures) {
        self.0.iter_mut().zip(figures.sums()).for_each(|(sum, figure)| sum.add_exact(figure));
    }

    /// What is live is what is live at the peak.
    pub fn keep_peak(&mut self) {
        let [_, _, _, _, live_blocks, live_bytes, bytes_at_peak, blocks_at_peak, ..] = &mut self.0;
        (*bytes_at_peak, *blocks_at_peak) = (*live_bytes, *live_blocks);
    }

    /// The figures of the whole.
    pub fn estimates(&self) -> Estimates {
        let mut estimates = Estimates::default();
        let all = estimates.all_mut().into_iter().zip(&self.0);
        all.for_each(|(estimate, sum)| *estimate = sum.estimate());
        estimates
    }
}
