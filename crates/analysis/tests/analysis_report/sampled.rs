//! Traces with a sample of stacks: what the estimates are worth.

use memledger_analysis::{
    Analyzer, BlockObserver, CallRow, Estimate, Position, Query, Report, Rule, StackKind, StackRow,
};
use memledger_export::query::{Written, rows};
use memledger_export::{json, text};
use memledger_test_support::feed::{Feed, V::N};
use serde_json::Value;

/// Random numbers from a fixed seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// In [0, 1).
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Between 2^`from` and 2^`to`, its logarithm evenly distributed.
    fn size(&mut self, from: f64, to: f64) -> u64 {
        (from + (to - from) * self.share()).exp2() as u64
    }
}

/// The exact figures of a stack.
#[derive(Clone, Copy, Default)]
struct Exact {
    allocations: u64,
    allocated: u64,
    live: u64,
    at_peak: u64,
}

const STACKS: usize = 24;

/// Runs a program of random allocations, reallocations and frees with a sample of stacks; the report,
/// and the exact figures of each stack.
fn run(seed: u64, mean: u64) -> (Report, Vec<Exact>) {
    let (mut feed, exact) = fed(seed, mean, Analyzer::new());
    (feed.report(), exact)
}

fn fed<O: BlockObserver>(seed: u64, mean: u64, analyzer: Analyzer<O>) -> (Feed<O>, Vec<Exact>) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut feed = Feed::ours(analyzer);
    feed.emit("Memledger.StackSampling", 1, &[N(mean)]);
    feed.module("/bin/program", 0x1000, 0x1_0000);
    let mut kinds = Vec::new();
    for stack in 0..STACKS {
        feed.stack(2 + stack as u32, &[0x1100 + stack as u64, 0x1010]);
        // How often it allocates, and which sizes: often one, else many.
        let smallest = random.share() * 12.0;
        let spread = if random.share() < 0.5 { 0.0 } else { 6.0 };
        kinds.push((random.size(0.0, 11.0), smallest, smallest + spread));
    }
    let weights: u64 = kinds.iter().map(|kind| kind.0).sum();
    let mut exact = vec![Exact::default(); STACKS];
    let mut live: Vec<(u64, u64, usize)> = Vec::new();
    let (mut total, mut peak) = (0, 0);
    for step in 0..weights {
        let mut at = random.next() % weights;
        let stack = kinds.iter().position(|kind| {
            let is_it = at < kind.0;
            at = at.saturating_sub(kind.0);
            is_it
        });
        let stack = stack.expect("one of them");
        let size = random.size(kinds[stack].1, kinds[stack].2);
        let sampled = random.share() < -(-(size.max(1) as f64) / mean as f64).exp_m1();
        let id = if sampled { 2 + stack as u32 } else { 0 };
        let address = 0x10_0000 + step * 0x10_0000;
        let grows = random.share() < 0.1 && !live.is_empty();
        if grows {
            let which = random.next() as usize % live.len();
            let (from, old, owner) = live.swap_remove(which);
            feed.realloc_free(2, from);
            feed.realloc_alloc_at(2, address, size, id);
            exact[owner].live -= old;
            total -= old;
        } else {
            feed.alloc_at(2, address, size, id);
            exact[stack].allocations += 1;
        }
        live.push((address, size, stack));
        exact[stack].allocated += size;
        exact[stack].live += size;
        total += size;
        if total > peak {
            peak = total;
            exact.iter_mut().for_each(|exact| exact.at_peak = exact.live);
        }
        if random.share() < 0.6 {
            let which = random.next() as usize % live.len();
            let (address, size, owner) = live.swap_remove(which);
            feed.free(2, address);
            exact[owner].live -= size;
            total -= size;
        }
    }
    (feed, exact)
}

/// How often intervals cover the exact figure, and the sums of estimates and exact figures.
#[derive(Default)]
struct Coverage {
    rows: u64,
    covered: u64,
    estimated: f64,
    exact: f64,
}

impl Coverage {
    fn add(&mut self, of: Estimate, exact: u64) {
        self.rows += 1;
        // An end is rounded to a whole number.
        self.covered += u64::from(of.low <= exact + 1 && exact <= of.high + 1);
        self.estimated += of.value as f64;
        self.exact += exact as f64;
    }

    fn share(&self) -> f64 {
        self.covered as f64 / self.rows as f64
    }
}

/// 250 programs of 24 stacks each, with 1 to 2048 blocks of 1 byte to 256 KiB a stack.
#[test]
fn intervals_cover_the_exact_figures_95_times_in_100() {
    let mut columns: [(&str, Coverage); 4] =
        ["allocations", "allocated", "live", "at peak"].map(|name| (name, Coverage::default()));
    // Rows with fewer than 5 samples, rows with more, and stacks that the sample does not have.
    let mut by_samples: [Coverage; 3] = Default::default();
    for seed in 0..250 {
        let mean = [512, 4096, 16_384][seed as usize % 3];
        let (report, exact) = run(seed + 1, mean);
        assert_eq!(report.stack_sampling_bytes, Some(mean));
        for (stack, exact) in exact.iter().enumerate().filter(|(_, exact)| exact.allocated > 0) {
            let place = 0xff + stack as u64;
            let row = report.by_stack.iter().find(|row| {
                row.frames.first().is_some_and(|&f| report.frames[f as usize].offset == place)
            });
            let estimates = row.as_ref().and_then(StackRow::estimates).unwrap_or_default();
            let pairs = [
                (estimates.allocations, exact.allocations),
                (estimates.allocated_bytes, exact.allocated),
                (estimates.live_bytes, exact.live),
                (estimates.live_bytes_at_peak, exact.at_peak),
            ];
            match row {
                None => by_samples[2].add(estimates.allocated_bytes, exact.allocated),
                Some(row) => {
                    let figures = row.figures;
                    let samples = figures.allocations + figures.reallocations;
                    let few = usize::from(samples >= 5);
                    by_samples[few].add(estimates.allocated_bytes, exact.allocated);
                    for ((_, column), (estimate, exact)) in columns.iter_mut().zip(pairs) {
                        column.add(estimate, exact);
                    }
                }
            }
        }
    }
    for (name, column) in &columns {
        println!("{name}: {:.1} % of {} rows", 100.0 * column.share(), column.rows);
    }
    let [few, many, none] = &by_samples;
    println!("1 to 4 samples: {:.1} % of {} rows", 100.0 * few.share(), few.rows);
    println!("5 and more: {:.1} % of {} rows", 100.0 * many.share(), many.rows);
    let all = few.exact + many.exact + none.exact;
    println!("no sample: {} stacks with {:.2} % of the bytes", none.rows, 100.0 * none.exact / all);
    for (name, column) in &columns {
        assert!((0.925..=0.985).contains(&column.share()), "{name}: {}", column.share());
    }
    assert!((0.93..=0.985).contains(&many.share()), "{}", many.share());
    assert!(few.share() >= 0.85, "{}", few.share());
    // Without bias: what is not in the sample is made up for by what is.
    let estimated = few.estimated + many.estimated;
    assert!((estimated / all - 1.0).abs() < 0.01, "{estimated} of {all}");
}

#[test]
fn exact_figures_stay_exact_and_estimates_say_what_they_are() {
    let (report, exact) = run(7, 4096);
    let live: u64 = exact.iter().map(|exact| exact.live).sum();
    let allocated: u64 = exact.iter().map(|exact| exact.allocated).sum();
    assert_eq!((report.totals.live_bytes, report.totals.allocated_bytes), (live, allocated));
    // The rows hold the blocks of the sample; the others are in one row.
    let sum: u64 = report.by_stack.iter().map(|row| row.figures.live_bytes).sum();
    assert_eq!(sum, live);
    let others = report.by_stack.iter().find(|row| row.kind == StackKind::NotTaken).expect("it");
    assert_eq!(others.estimates(), None);

    let mut document = Vec::new();
    json::write(&report, &mut document).expect("memory takes everything");
    let document: Value = serde_json::from_slice(&document).expect("JSON");
    assert_eq!(document["stack_sampling_bytes"], 4096);
    let rows = document["by_stack"].as_array().expect("rows");
    let known = rows.iter().find(|row| row["kind"] == "known").expect("a row");
    let estimate = &known["estimates"]["allocated_bytes"];
    assert!(estimate["low"].as_u64() < estimate["high"].as_u64(), "{estimate}");
    assert!(
        document["by_function"][0]["inclusive_estimates"]["live_bytes"]["value"].is_u64()
            || document["by_function"][1]["inclusive_estimates"]["live_bytes"]["value"].is_u64()
    );

    for by in [text::By::Stack, text::By::Function] {
        let mut options = text::Options::default();
        (options.by, options.width) = (Some(by), 160);
        let mut text = Vec::new();
        text::write(&report, &options, &mut text).expect("memory takes everything");
        let text = String::from_utf8(text).expect("UTF-8");
        assert!(text.contains(" ±") && !text.contains("(not in the sample)"), "{text}");
        assert!(text.contains("one in 4.0 KiB"), "{text}");
    }
}

#[test]
fn a_block_of_the_sample_leaves_it_when_its_reallocation_is_not_in_it() {
    let mut feed = Feed::new();
    feed.module("/bin/program", 0x1000, 0x100);
    feed.stack(2, &[0x1010]);
    // Exact at first.
    feed.alloc_at(2, 0x10, 100, 2);
    feed.emit("Memledger.StackSampling", 1, &[N(1 << 20)]);
    feed.alloc_at(2, 0x20, 64, 2);
    feed.realloc_free(2, 0x20);
    feed.realloc_alloc_at(2, 0x30, 128, 0);
    feed.emit("Memledger.StackSampling", 1, &[N(0)]);
    feed.alloc_at(2, 0x40, 1000, 2);
    let report = feed.report();
    let row = report.by_stack.iter().find(|row| row.kind == StackKind::Known).expect("it");
    let estimates = row.estimates().expect("a sample");
    assert_eq!((row.figures.live_bytes, row.figures.moved_out.blocks), (1100, 1));
    assert_eq!((estimates.live_bytes.value, estimates.live_bytes.low), (1100, 1100));
    // One block of 64 bytes counts as 2^20 bytes.
    assert!(estimates.allocated_bytes.value.abs_diff(1100 + (1 << 20)) < 64);
}

#[test]
fn a_query_scales_the_sample_as_the_report_does() {
    for seed in 1..8 {
        let (report, _) = run(seed, 4096);
        let query = Query::new(Rule::AliveAtA, vec![Position::End]);
        let (mut feed, exact) = fed(seed, 4096, query.analyzer());
        let answer = feed.analyzer.answer().expect("the end is there");
        assert_eq!(answer.total.bytes, exact.iter().map(|exact| exact.live).sum::<u64>());
        let (mut options, mut scaled) = (text::Options::default(), 0);
        options.by = Some(text::By::Function);
        let all = report.by_function(options.frames);
        for row in rows(&answer, text::By::Function, &options) {
            let is_it = |of: &&CallRow| of.name == row.path[0];
            let same = all.iter().find(is_it).expect("a row of the report");
            let pair = row.estimates.as_deref().copied().zip(same.estimates());
            for (found, live) in pair.into_iter().flat_map(|(a, b)| a.into_iter().zip(b)) {
                // Sums of the same numbers in another order.
                let bytes = found.live_bytes_at_peak.value.abs_diff(live.live_bytes.value);
                let blocks = found.allocations.value.abs_diff(live.live_blocks.value);
                assert!(bytes <= 1 && blocks <= 1, "{found:?} {live:?}");
                scaled += 1;
            }
        }
        assert!(scaled > 10);
        let written = Written::new(&answer, &[], &options);
        let mut text = Vec::new();
        written.text(&mut text).expect("memory takes everything");
        assert!(String::from_utf8(text).expect("UTF-8").contains(" ±"));
    }
}
