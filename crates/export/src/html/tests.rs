//! The page of a report, read back.

use super::*;
use base64::prelude::Engine;
use flate2::read::GzDecoder;
use memledger_analysis::Analyzer;
use memledger_document::made;
use memledger_document::{Frames, TimePoint};
use serde_json::Value;
use std::io::Read;

/// The document of a page.
fn read_back(html: &[u8]) -> Value {
    let html = std::str::from_utf8(html).unwrap();
    let (_, data) = html.split_once("id=\"memledger-data\">").unwrap();
    let (data, _) = data.split_once('<').unwrap();
    let file = BASE64_STANDARD.decode(data).unwrap();
    let mut json = Vec::new();
    GzDecoder::new(&*file).read_to_end(&mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

#[test]
fn a_page_has_the_document_and_the_title() {
    let mut report = Analyzer::new().by_bucket().report();
    report.trace.program = Some("</title><script>alert(1)</script>\u{202e}".to_owned());
    let options = Options::default();
    let page = Page::new(&report, &options);
    let (mut html, mut json) = (Vec::new(), Vec::new());
    page.write_html(&mut html).unwrap();
    page.write_json(&mut json).unwrap();
    assert_eq!(read_back(&html), serde_json::from_slice::<Value>(&json).unwrap());
    let html = String::from_utf8(html).unwrap();
    let title =
        "<title>memledger: &lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}</title>";
    assert!(html.contains(title), "{}", &html[..400]);
    assert!(!html.contains(MARKER));
}

#[test]
fn a_page_of_some_scopes_says_what_has_no_stack() {
    let analyzer = Analyzer::new().by_bucket();
    let whole = analyzer.clone().report();
    let notes = |report: &Report| super::notes::notes(report).join("\n");
    assert!(!notes(&whole).contains("(no stack)"));
    let part = analyzer.stacks_in_scope("Load").report();
    assert!(notes(&part).contains("with \"load\" in their path"), "{}", notes(&part));
}

#[test]
fn a_page_of_a_difference_has_both_timelines() {
    let mut old = Analyzer::new().by_bucket().report();
    let mut new = old.clone();
    let point = |live_bytes| made!(TimePoint { live_bytes });
    old.timeline.points = vec![point(7)];
    new.timeline.points = vec![point(9)];
    let diff = Diff::new(&old, &new, &[], Frames::Folded);
    let (options, diff_options) = (Options::default(), DiffOptions::default());
    let document = |page: Page<'_>| -> Value {
        let mut json = Vec::new();
        page.write_json(&mut json).unwrap();
        serde_json::from_slice(&json).unwrap()
    };
    let page = Page::new(&new, &options);
    assert_eq!(document(page)["old_timeline"], Value::Null);
    let compared = document(page.with_diff(&diff, &diff_options));
    // Zigzag: 14 and 18.
    assert_eq!(compared["old_timeline"]["live_bytes"], BASE64_STANDARD.encode([14]));
    assert_eq!(compared["timeline"]["live_bytes"], BASE64_STANDARD.encode([18]));
}
