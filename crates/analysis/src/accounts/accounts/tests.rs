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
                accounts.add_block(key, bytes, Moment { time: 0, event }, |_| {});
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
                for (index, bucket) in accounts.buckets.iter().enumerate() {
                    if AROUND[index].contains(&number) {
                        let found = accounts.held_at_peak(bucket, number);
                        assert_eq!(found, held[index], "{number}, bucket {index} at {event}");
                    }
                }
            }
        }
    }
}
