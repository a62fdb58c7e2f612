//! `--fail-if` and `--at` of `memledger report`.

use memledger_analysis::{Report, ScopeRow};
use memledger_cli::commands::condition::Condition;
use memledger_cli::commands::condition::figures::Figures;
use memledger_cli::commands::moment::TimeSpec;
use memledger_cli::quantity::size;
use std::mem;
use std::sync::LazyLock;

static REPORT: LazyLock<Report> = LazyLock::new(|| {
    let mut report = Report::default();
    report.totals.peak_bytes = 64 << 20;
    report.totals.live_blocks = 3;
    report.totals.peak_bytes_at_ns = 1_500_000_000;
    let mut scope = ScopeRow::default();
    scope.path = vec!["GlobalScope".to_owned(), "request".to_owned()];
    scope.inclusive.peak_bytes = 1 << 20;
    report.by_scope.push(scope);
    report
});

/// Reads `data` as a condition, a moment and a size.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match text.parse::<Condition>() {
        Ok(condition) => {
            let shown = condition.to_string();
            let again = shown.parse::<Condition>().unwrap_or_else(|error| panic!("{shown}: {error}"));
            assert_eq!(again.to_string(), shown);
            let verdict = |condition: &Condition| condition.check(&Figures::of(&REPORT), 5).map(|verdict| mem::discriminant(&verdict)).ok();
            assert_eq!(verdict(&again), verdict(&condition), "{shown}");
        }
        Err(reason) => assert!(!reason.is_empty()),
    }
    match text.parse::<TimeSpec>() {
        Ok(TimeSpec::Nanoseconds(time)) => {
            assert_eq!(time.to_string().parse(), Ok(TimeSpec::Nanoseconds(time)));
        }
        Ok(TimeSpec::Share(share)) => assert!(share <= 1_000_000_000),
        Ok(TimeSpec::Bookmark(name)) => {
            assert_eq!(format!("bookmark:{name}").parse(), Ok(TimeSpec::Bookmark(name)));
        }
        Ok(_) => {}
        Err(reason) => assert!(!reason.is_empty()),
    }
    if let Ok(bytes) = size(text) {
        assert_eq!(size(&bytes.to_string()), Ok(bytes));
        assert_eq!(size(&format!("{bytes}B")), Ok(bytes));
    }
}

/// Conditions, moments, sizes.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "peak_bytes > 64MiB",
        "live_blocks<=0",
        "complete = false",
        "peak_bytes{scope=\"request\"} > 1KiB",
        "frees{group='a \\' \\\\',name=\"b > c\"}!=1",
        "lost_events != 0",
        "peak_bytes_at_ns >= 1.5ms",
        "allocated_bytes == 1_000.25 GB",
        "overhead_bytes < 0.000000000000000001TiB",
        "1.5s",
        "2 min",
        "12.5%",
        "peak",
        "bookmark:after warm-up",
        "512KiB",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
