//! The peaks of measurements, against a model that looks at all buckets after each change.

use super::*;

/// Measurement 0 contains 1 and 2; one bucket for each, and one bucket outside.
#[test]
fn what_buckets_held_at_the_peak_of_a_measurement_is_what_they_held() {
    const AROUND: [&[u32]; 4] = [&[], &[0], &[1, 0], &[2, 0]];
    let mut accounts = Accounts::default();
    accounts.measured_mut().enable();
    let thread = accounts.add_peak();
    (0..3).for_each(|number| assert_eq!(accounts.measured_mut().add(), number));
    accounts.set_peaks(0, &[]);
    // The live bytes of each bucket, now and at the peak of each measurement.
    let (mut live, mut peaks) = ([0_u64; 4], [(0_u64, [0_u64; 4]); 3]);
    let mut blocks = Vec::new();
    let mut random = 7_u64;
    for event in 0..20_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (action, bucket, bytes) =
            (random >> 33 & 7, random >> 40 & 3, 1 + (random >> 45 & 0x3ff));
        // The last bucket is added between the changes.
        let bucket = bucket.min(if event < 5000 { 2 } else { 3 }) as u32;
        while accounts.buckets.len() as u32 <= bucket {
            let number = accounts.buckets.len();
            let around = AROUND[number].iter().copied();
            accounts.bucket_of((0, number as u32), thread, around);
        }
        let grow = |live: &mut [u64; 4], peaks: &mut [(u64, [u64; 4]); 3], by: u64| {
            live[bucket as usize] += by;
            for (number, peak) in (0..).zip(peaks) {
                let is_in = |bucket: &usize| AROUND[*bucket].contains(&number);
                let sum = (0..4).filter(is_in).map(|bucket| live[bucket]).sum::<u64>();
                if sum > peak.0 {
                    *peak = (sum, *live);
                }
            }
        };
        match action {
            0..4 => {
                let key = AccountKey { bucket, class: class_of(bytes) };
                accounts.add_block(key, bytes, EventTime { time: 0, event }, |_| {});
                grow(&mut live, &mut peaks, bytes);
                blocks.push((bucket, bytes));
            }
            4..6 if !blocks.is_empty() => {
                let (from, bytes) = blocks.swap_remove(random as usize % blocks.len());
                let key = AccountKey { bucket: from, class: class_of(bytes) };
                accounts.remove_block(key, bytes, |_| {});
                live[from as usize] -= bytes;
            }
            6 if !blocks.is_empty() => {
                let index = random as usize % blocks.len();
                let (from, bytes) = blocks[index];
                accounts.transfer(from, bucket, bytes);
                blocks[index].0 = bucket;
                live[from as usize] -= bytes;
                grow(&mut live, &mut peaks, bytes);
            }
            _ => {}
        }
        if event == 10_000 {
            accounts.flush();
            accounts.measured_mut().reset(0);
            peaks[0] = (live[1] + live[2] + live[3], live);
        }
        if event % 97 == 0 {
            accounts.flush();
            for (number, (peak, held)) in (0..).zip(peaks) {
                assert_eq!(accounts.measured().peak(number), peak, "{number} at {event}");
                for (index, bucket) in accounts.buckets().enumerate() {
                    if AROUND[index].contains(&number) {
                        let found = accounts.held_at_peak(&bucket, number);
                        assert_eq!(found, held[index], "{number}, bucket {index} at {event}");
                    }
                }
            }
        }
    }
}

/// Counts of more than 32 bits, numbers of generations whose lower 32 bits begin again, and the peak
/// of a stack that gets a second bucket.
#[test]
fn buckets_have_the_figures_of_a_model_of_64_bits() {
    for with_stacks in [false, true] {
        for first_generation in [0, u64::from(u32::MAX) - 20, (1 << 33) - 20] {
            let mut accounts = Accounts::default();
            accounts.total.generation = first_generation;
            let thread = accounts.add_peak();
            (0..2).for_each(|context| accounts.set_peaks(context, &[]));
            let mut buckets = Vec::new();
            // Allocations, blocks and bytes of each bucket, and the last two at the peak of all.
            let (mut now, mut at_peak) = ([(0_u64, 0_u64, 0_u64); 2], [(0, 0); 2]);
            let (mut peak, mut random) = (0, 7_u64);
            for event in 0..5_000 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let index = (random >> 60) as usize % if event < 1_000 { 1 } else { 2 };
                while buckets.len() <= index {
                    let context = buckets.len() as u32;
                    let mut bucket = accounts.bucket_of((context, 0), thread, [].into_iter());
                    if with_stacks {
                        bucket = accounts.stack_bucket(bucket, 1, 0, [].into_iter());
                    }
                    buckets.push(bucket);
                }
                let (allocations, blocks, bytes) = &mut now[index];
                let more = random >> 32;
                let change = if random >> 20 & 1 == 0 {
                    (more as i64, (random >> 8 & 0xfff) as i64)
                } else {
                    (-(more.min(*blocks) as i64), -((random >> 8 & 0xfff).min(*bytes) as i64))
                };
                *allocations = allocations.wrapping_add(more);
                *blocks = blocks.wrapping_add_signed(change.0);
                *bytes = bytes.wrapping_add_signed(change.1);
                let key = AccountKey { bucket: buckets[index], class: 0 };
                let count = |tally: &mut Tally| tally.allocations += more;
                accounts.apply(key, change.0, change.1, EventTime { time: 0, event }, count);
                let sum = now.iter().map(|(_, _, bytes)| bytes).sum::<u64>();
                if sum > peak {
                    (peak, at_peak) = (sum, now.map(|(_, blocks, bytes)| (blocks, bytes)));
                }
                if event % 7 == 0 {
                    accounts.flush();
                    let generation = accounts.total().generation;
                    for (number, &bucket) in buckets.iter().enumerate() {
                        let Bucket { counts, .. } = accounts.bucket(bucket);
                        let found =
                            (counts.tally.allocations, counts.live_blocks, counts.live_bytes);
                        assert_eq!(found, now[number], "bucket {number} at {event}");
                        assert_eq!(
                            counts.at_peak(generation),
                            at_peak[number],
                            "{number} at {event}"
                        );
                    }
                    assert_eq!(accounts.stack_peak(1), if with_stacks { peak } else { 0 });
                }
            }
            assert!(
                accounts.upper.len() == 2 && accounts.total().generation > first_generation + 20
            );
        }
    }
}
