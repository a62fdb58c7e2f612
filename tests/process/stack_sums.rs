//! What stacks add up to: totals by stack are those by scope, and those of the whole.

use crate::exactness::Random;
use crate::harness::{Case, REPORT, Run, TRACE, builder, case, check_sums};
use memledger::{OnFull, ScopeGuard, Stacks, alloc_scope};
use memledger_analysis::{Report, StackEnd, StackKind};
use std::hint::black_box;
use std::sync::mpsc;

pub(crate) const CASES: &[Case] = &[
    case("sums by stack and by scope are the totals in random programs", random, |run| {
        for (seed, frames) in ["255", "1", "7", "40"].iter().enumerate() {
            let seed = format!("{}", seed + 1);
            let run = Run::of(&run).env("TEST_SEED", &seed).env("MEMLEDGER_STACK_FRAMES", frames);
            let outcome = run.run();
            outcome.quiet();
            let report = outcome.whole();
            assert!(report.totals.reallocations > 500, "{seed}: {:?}", report.totals);
            let stacks = report.by_stack.iter().filter(|row| row.kind == StackKind::Known);
            assert!(stacks.count() >= if *frames == "1" { 2 } else { 30 });
            let deepest = report.by_stack.iter().map(|row| row.frames.len()).max();
            assert!(deepest <= frames.parse().ok(), "{deepest:?}");
            // The blocks from before a stream have the stacks that they were allocated with.
            for name in ["late.utrace", "late.memledger"] {
                let (late, _) = outcome.trace(name);
                check_sums(&late);
                assert_eq!(late.totals.live_bytes, report.totals.live_bytes, "{name}");
                // Those from before the recording.
                assert_eq!(
                    live_of(&late, StackKind::NotTaken),
                    live_of(&report, StackKind::NotTaken)
                );
                assert_eq!(live_of(&late, StackKind::Unknown), 0, "{name}");
            }
        }
    }),
    case("sums by stack are the totals if stacks are turned on late", random_from_code, |run| {
        let report = run.env("TEST_SEED", "5").run().quiet().whole();
        let bytes = [StackKind::NotTaken, StackKind::Known].map(|kind| live_of(&report, kind));
        assert!(bytes.iter().all(|bytes| *bytes > 10_000), "{bytes:?}");
    }),
    case("sums by stack are the totals if events are dropped", random_with_losses, |run| {
        let report = run.env("TEST_SEED", "6").run().quiet().same(TRACE, REPORT);
        assert!(report.losses.lost_events > 0, "the buffer was large enough");
    }),
    case("stacks that the tree has no room for are cut and sums are the totals", full, |run| {
        let report = run.run().exited(0).whole();
        let known = report.by_stack.iter().filter(|row| row.kind == StackKind::Known);
        let known = known.map(|row| row.figures.allocations).sum::<u64>();
        let cut = report.losses.stacks_cut;
        assert!(cut > 100 && known - cut > 1000, "{cut} of {known}");
        assert!(report.by_stack.iter().all(|row| row.end != StackEnd::UnreadableMemory));
    }),
];

fn live_of(report: &Report, kind: StackKind) -> u64 {
    let rows = report.by_stack.iter().filter(|row| row.kind == kind);
    rows.map(|row| row.figures.live_bytes).sum()
}

/// Does `operations` random things, below random calls and in random scopes; returns what it keeps.
fn play(
    seed: u64,
    operations: usize,
    other: &mpsc::Sender<Vec<u8>>,
    own: &mpsc::Receiver<Vec<u8>>,
) -> Vec<Vec<u8>> {
    let mut random = Random(seed);
    let mut kept = Vec::new();
    for _ in 0..operations {
        let depth = random.below(30);
        call(&mut random, depth, &mut kept);
        match random.below(8) {
            0 if !kept.is_empty() => {
                let block = kept.swap_remove(random.below(kept.len()));
                // The other thread may have ended.
                drop(other.send(block));
            }
            1 => drop(own.try_recv()),
            2 if kept.len() > 50 => kept.truncate(20),
            _ => {}
        }
    }
    kept
}

#[inline(never)]
fn call(random: &mut Random, depth: usize, kept: &mut Vec<Vec<u8>>) {
    if depth == 0 {
        return allocate(random, kept);
    }
    match random.below(4) {
        0 => call(random, depth - 1, kept),
        1 => alloc_scope!("a scope", { call(random, depth - 1, kept) }),
        2 => {
            let _scope = ScopeGuard::enter("another");
            call(random, depth / 2, kept);
        }
        _ => (black_box(&mut |random: &mut Random| call(random, depth - 1, kept))
            as &mut dyn FnMut(&mut Random))(random),
    }
    black_box(());
}

#[inline(never)]
fn allocate(random: &mut Random, kept: &mut Vec<Vec<u8>>) {
    let size = 1 + random.below(5000);
    match random.below(4) {
        0 if !kept.is_empty() => {
            let at = random.below(kept.len());
            kept[at].reserve_exact(size);
        }
        1 if !kept.is_empty() => {
            let at = random.below(kept.len());
            kept[at].shrink_to(size / 8);
        }
        2 => kept.push(black_box(vec![0; size])),
        _ => kept.push(black_box(Vec::with_capacity(size))),
    }
}

/// Two threads that send each other blocks. Calls `halfway` in between.
fn two_threads(operations: usize, halfway: impl FnOnce()) {
    let seed = std::env::var("TEST_SEED").unwrap().parse::<u64>().unwrap();
    let mut halfway = Some(halfway);
    for half in 1..3_u64 {
        let ((to_first, first), (to_second, second)) = (mpsc::channel(), mpsc::channel());
        let start = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ half;
        let thread = std::thread::spawn(move || {
            std::mem::forget(play(start ^ 1 << 40, operations, &to_first, &second));
        });
        std::mem::forget(play(start, operations, &to_second, &first));
        thread.join().unwrap();
        if let Some(halfway) = halfway.take() {
            halfway();
        }
    }
}

fn random() {
    let ledger = builder().stacks(Stacks::On).start().unwrap();
    two_threads(3000, || {
        for name in ["late.utrace", "late.memledger"] {
            ledger.trace_to_file(name).unwrap();
        }
    });
    drop(ledger);
}

fn random_from_code() {
    let ledger = builder().start().unwrap();
    two_threads(3000, || {
        memledger::events::Channel::set_enabled_by_name("callstack", true).unwrap();
        ledger.flush();
    });
    drop(ledger);
}

fn random_with_losses() {
    let builder = builder().stacks(Stacks::On).buffer_limit(1).on_full(OnFull::Drop);
    let ledger = builder.start().unwrap();
    two_threads(50_000, || {});
    drop(ledger);
}

/// Each of 16,384 stacks has over 200 frames of its own.
fn full() {
    #[inline(never)]
    fn choose(path: u32, left: u32) {
        match (left, path & 1) {
            (0, _) => descend(210),
            (_, 0) => choose(path >> 1, left - 1),
            _ => choose_other(path, left),
        }
        black_box(());
    }
    #[inline(never)]
    fn choose_other(path: u32, left: u32) {
        choose(path >> 1, left - 1);
        black_box(());
    }
    #[inline(never)]
    fn descend(left: u32) {
        if left == 0 {
            black_box(Box::new(1_u8));
        } else {
            descend(left - 1);
        }
        black_box(());
    }
    let ledger = builder().stacks(Stacks::On).stack_memory(1 << 20).start().unwrap();
    (0..1 << 14).for_each(|path| choose(path, 14));
    drop(ledger);
}
