//! A program without the feature `report`: `scripts/check_light_build.sh` runs it.
use memledger::{ErrorKind, Ledger, Limit, ReportTo, TrackingAllocator, alloc_scope, budget};

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::system();

fn main() {
    let how = std::env::args().nth(1);
    let how = how.as_deref();
    let ledger = match how {
        Some("in code") => {
            let builder = Ledger::builder().report_on_exit(ReportTo::file("run.json"));
            builder.black_box_at(Limit::Null).trace_to_file("run.memledger").start().unwrap()
        }
        _ => Ledger::from_env(),
    };
    alloc_scope!("light", {
        std::mem::forget(std::hint::black_box(Vec::<u8>::with_capacity(1_000_003)))
    });
    if how == Some("killed") {
        ledger.flush();
        std::process::abort();
    }
    assert!(ledger.snapshot().is_none() && ledger.stats().live_bytes.is_none());
    assert!(
        budget("nothing").live_bytes(0).try_run(|| ()).1.is_err(),
        "a budget passes without a report"
    );
    if how == Some("in code") {
        assert_eq!(ledger.problems().len(), 2, "{:?}", ledger.problems());
        let late = ledger.trace_to_file("late.memledger").unwrap();
        std::mem::forget(vec![1; 77]);
        late.stop();
        let again = Ledger::builder().start();
        assert!(again.is_err_and(|error| error.kind() == ErrorKind::AlreadyStarted));
    }
}
