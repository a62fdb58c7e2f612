//! `-o report.html` as a user meets it: the page has the figures of the other formats.

use memledger_test_support::command::{ran, told_bytes};
use memledger_test_support::memledger;
use memledger_test_support::page::Page;
use serde_json::Value;
use std::path::Path;

const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples/mem-2t-40k.utrace");
const LATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/late.utrace");
const KILLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/killed.utrace");
const NO_MEMORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/no-memory.utrace");

/// Status, standard output, standard error.
fn run(args: &[&str]) -> (i32, Vec<u8>, String) {
    told_bytes(ran(memledger!(args)))
}

#[track_caller]
fn json(args: &[&str]) -> Value {
    let (_, out, err) = run(&[args, &["--format", "json"]].concat());
    serde_json::from_slice(&out).unwrap_or_else(|error| panic!("{error}: {err}"))
}

/// The page in a file that the command writes.
#[track_caller]
fn page(args: &[&str], status: i32) -> Page {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("page.html");
    let to = path.to_str().expect("UTF-8");
    let (got, out, err) = run(&[args, &["-o", to]].concat());
    assert_eq!((got, out.len()), (status, 0), "{err}");
    Page::of_html(&std::fs::read(Path::new(to)).expect("the page"))
}

#[test]
fn a_page_has_the_figures_and_the_findings_of_the_report() {
    for (trace, status) in [(SAMPLE, 0), (LATE, 0), (KILLED, 1), (NO_MEMORY, 0)] {
        for at in [&[][..], &["--at", "50%"], &["--at", "peak"]] {
            let args = [&["report", trace], at].concat();
            let report = json(&[&args[..], &["--findings"]].concat());
            let page = page(&args, status);
            page.is_of(&report);
            assert_eq!(page.0["findings"], report["findings"], "{args:?}");
            // But for the stack, which is a node of the page.
            let of = |document: &Value| {
                let blocks = document["largest_live"].as_array().expect("blocks").clone();
                let block = |block: Value| [block["address"].clone(), block["bytes"].clone()];
                blocks.into_iter().map(block).collect::<Vec<_>>()
            };
            assert!(of(&page.0) == of(&report), "{args:?}");
            assert_eq!(page.0["moment"].as_str(), at.get(1).copied());
        }
    }
    assert!(page(&["report", KILLED], 1).notes("not whole"));
    assert!(page(&["report", LATE], 0).notes("the recording began at"));
    let (status, out, err) = run(&["report", SAMPLE, "--format", "html"]);
    assert_eq!((status, err.as_str()), (0, ""));
    Page::of_html(&out).is_of(&json(&["report", SAMPLE]));
}

#[test]
fn the_page_of_a_diff_has_the_new_report_and_the_tables() {
    let args = ["diff", LATE, SAMPLE];
    let page_of_two = page(&args, 0);
    page_of_two.is_of(&json(&["report", SAMPLE]));
    assert_eq!(page_of_two.0["diff"], json(&args));
    let args = ["diff", SAMPLE, "--at", "25%", "--at", "75%", "--by", "thread"];
    let page_of_one = page(&args, 0);
    page_of_one.is_of(&json(&["report", SAMPLE, "--at", "75%"]));
    assert_eq!(page_of_one.0["diff"], json(&args));
    assert_eq!(page_of_one.0["moment"], "75%");
}
