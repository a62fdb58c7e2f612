//! Figures of a whole, from a sample of it.

use memledger_document::internal::{Sample, Weights};
use memledger_document::{Estimate, Figures, made};

fn estimate_of(sizes: &[u64], mean: u64) -> Estimate {
    let mut sum = Weights::default();
    for &bytes in sizes {
        sum.add_sample(&made!(Figures { live_bytes: bytes }), Sample::of(bytes, mean));
    }
    sum.estimates().live_bytes
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
    let mut sum = Weights::default();
    let sample = Sample::of(100, 4096);
    for change in [100, -100_i64] {
        sum.add_sample(&made!(Figures { live_bytes: change as u64 }), sample);
    }
    let Estimate { value, low, high, .. } = sum.estimates().live_bytes;
    assert_eq!((value, low), (0, 0));
    assert!(high > 4096, "a block that is not in the sample may be live");
}
