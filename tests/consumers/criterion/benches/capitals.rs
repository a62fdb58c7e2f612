//! A bench that also says what the code does with memory: criterion measures the time, memledger the bytes.

use budgets::capitals;
use criterion::{Criterion, criterion_group, criterion_main};
use memledger::{TrackingAllocator, budget, measure};

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

fn words(criterion: &mut Criterion) {
    let text = "word ".repeat(100);
    let (_, before) = measure(|| capitals(&text));
    criterion.bench_function("capitals", |bencher| bencher.iter(|| capitals(&text)));
    let (_, after) = measure(|| capitals(&text));
    if memledger::ENABLED {
        let figures = before.expect("a measurement");
        println!("capitals: {} allocations, {} bytes", figures.allocations, figures.peak_bytes);
        assert_eq!(figures, after.expect("a measurement"), "criterion has no part in them");
        budget("capitals").live_bytes(0).allocations(101).run(|| drop(capitals(&text)));
    }
}

criterion_group!(benches, words);
criterion_main!(benches);
