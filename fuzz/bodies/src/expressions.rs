//! `--fail-if` and `--at` of `memledger report`.

use memledger::analysis::Report;
use memledger_cli::commands::expr::{At, Expr, size};
use memledger_cli::commands::figures::Figures;
use std::sync::LazyLock;

static FIGURES: LazyLock<Figures> = LazyLock::new(|| {
    let mut report = Report::default();
    report.totals.peak_bytes = 64 << 20;
    report.totals.live_blocks = 3;
    report.totals.peak_bytes_at_ns = 1_500_000_000;
    Figures::of(&report)
});

/// Reads `data` as a condition, a moment and a size.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match text.parse::<Expr>() {
        Ok(expr) => {
            let source = expr.source();
            assert_eq!(source.parse().as_ref(), Ok(&expr), "{source}");
            if let Ok(Some(sentence)) = expr.check(&FIGURES) {
                assert!(sentence.contains(source), "{sentence}");
            }
        }
        Err(reason) => assert!(!reason.is_empty()),
    }
    match text.parse::<At>() {
        Ok(At::Nanoseconds(time)) => {
            assert_eq!(time.to_string().parse(), Ok(At::Nanoseconds(time)));
        }
        Ok(At::Share(share)) => assert!(share <= 1_000_000_000),
        Ok(At::Bookmark(name)) => {
            assert_eq!(format!("bookmark:{name}").parse(), Ok(At::Bookmark(name)));
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
        "lost_events != 0",
        "peak_bytes_at_ns >= 1.5ms",
        "allocated_bytes == 1_000.25 GB",
        "overhead_bytes < 0.000000000000000001TiB",
        "complete = false",
        r#"peak_bytes{scope="request"} > 1MiB"#,
        r#"live_blocks{group='Index', name="it\"s"} != 0"#,
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
