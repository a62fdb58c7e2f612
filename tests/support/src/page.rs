//! A reader of the pages of reports.

use base64::prelude::{BASE64_STANDARD, Engine};
use memledger_analysis::Report;
use memledger_export::text::Options;
use memledger_export::{ReportFormat, html, json};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;

/// The columns of buckets and of points.
const COLUMNS: [&str; 9] = [
    "allocations",
    "frees",
    "reallocations",
    "allocated_bytes",
    "live_blocks",
    "live_bytes",
    "live_bytes_at_peak",
    "live_blocks_at_peak",
    "short_lived",
];

/// The document of a page.
pub struct Page(pub Value);

impl Page {
    /// The page of a report with buckets, which has the figures of its JSON.
    pub fn of_report(report: &Report) -> Self {
        let mut page = Vec::new();
        html::Format.write(report, &Options::default(), &mut page).unwrap();
        let mut document = Vec::new();
        json::write(report, &mut document).unwrap();
        let page = Self::of_html(&page);
        page.is_of(&serde_json::from_slice(&document).unwrap());
        page
    }

    /// The document in a file of HTML.
    pub fn of_html(html: &[u8]) -> Self {
        let html = std::str::from_utf8(html).expect("UTF-8");
        let begin = "<script type=\"application/gzip;base64\" id=\"memledger-data\">";
        let (_, data) = html.split_once(begin).expect("the element of the data");
        let (data, _) = data.split_once("</script>").expect("its end");
        let mut json = Vec::new();
        let file = BASE64_STANDARD.decode(data).expect("base64");
        flate2::read::GzDecoder::new(&*file).read_to_end(&mut json).expect("gzip");
        Self::of_json(&json)
    }

    /// The document alone.
    pub fn of_json(json: &[u8]) -> Self {
        let document: Value = serde_json::from_slice(json).expect("JSON");
        assert_eq!(document["schema"], "memledger.page/1");
        Self(document)
    }

    /// A column of numbers.
    pub fn numbers(&self, of: &Value) -> Vec<u64> {
        let mut numbers = Vec::new();
        let (mut last, mut coded, mut shift) = (0_u64, 0_u64, 0);
        let column = of.as_str().expect("a column");
        for byte in BASE64_STANDARD.decode(column).expect("base64") {
            coded |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                let difference = (coded >> 1) as i64 ^ -((coded & 1) as i64);
                last = last.wrapping_add_signed(difference);
                numbers.push(last);
                (coded, shift) = (0, 0);
            }
        }
        assert_eq!(shift, 0, "the last number is whole");
        numbers
    }

    fn bucket(&self, column: &str) -> Vec<u64> {
        self.numbers(&self.0["buckets"][column])
    }

    /// By stack, outermost function first: the sums of a column. `None`: blocks without a stack.
    pub fn stacks(&self, column: &str, all_frames: bool) -> BTreeMap<Option<String>, u64> {
        let document = &self.0;
        let strings = document["strings"].as_array().expect("strings");
        let frame = |part: &str| self.numbers(&document["frames"][part]);
        let (names, folded) = (frame("name"), frame("folded"));
        let parents = self.numbers(&document["stacks"]["parent"]);
        let frames = self.numbers(&document["stacks"]["frame"]);
        let mut paths: Vec<Vec<&str>> = Vec::new();
        for (node, (&parent, &frame)) in parents.iter().zip(&frames).enumerate() {
            assert!(parent == u64::MAX || parent < node as u64, "a parent comes first");
            let mut path = paths.get(parent as usize).cloned().unwrap_or_default();
            if all_frames || folded[frame as usize] == 0 {
                path.push(strings[names[frame as usize] as usize].as_str().expect("a name"));
            }
            paths.push(path);
        }
        let mut sums = BTreeMap::new();
        for (stack, figure) in self.bucket("stack").iter().zip(self.bucket(column)) {
            let path = paths.get(*stack as usize).map(|path| path.join(";"));
            *sums.entry(path).or_default() += figure;
        }
        sums
    }

    /// Checks that the page has the figures of a report, and that its buckets and its timeline sum to
    /// them.
    pub fn is_of(&self, report: &Value) {
        let document = &self.0;
        let all = ["trace", "totals", "peak", "losses", "after_report", "bookmarks"];
        let rows = ["by_scope", "by_group", "by_name", "by_thread", "by_size"];
        for key in all.iter().chain(&rows) {
            assert_eq!(document[key], report[key], "{key}");
        }
        let is_sampled = document["stack_sampling_bytes"].is_number();
        let totals = &document["totals"];
        for column in COLUMNS.iter().filter(|_| !is_sampled) {
            let figures = self.bucket(column);
            for (by, rows) in [("scope", "by_scope"), ("name", "by_name"), ("thread", "by_thread")]
            {
                let rows = document[rows].as_array().expect("rows");
                let mut sums = vec![0_u64; rows.len()];
                for (row, figure) in self.bucket(by).into_iter().zip(&figures) {
                    sums[row as usize] = sums[row as usize].wrapping_add(*figure);
                }
                let expected: Vec<_> =
                    rows.iter().map(|row| row[column].as_u64().expect("a figure")).collect();
                assert_eq!(sums, expected, "{column} by {by}");
            }
        }
        let timeline = &document["timeline"];
        let point = |key: &str| self.numbers(&timeline[key]);
        let last = |key: &str| point(key).last().copied();
        for key in &COLUMNS[..6] {
            assert_eq!(last(key), totals[key].as_u64(), "the last point: {key}");
        }
        assert_eq!(last("at_ns"), document["trace"]["duration_ns"].as_u64());
        assert_eq!(last("events"), document["trace"]["events"].as_u64());
        assert_eq!(point("peak_bytes").into_iter().max(), totals["peak_bytes"].as_u64());
        let count = point("at_ns").len();
        assert!(count <= 2_050, "{count} points");
        for key in ["at_ns", "events"] {
            assert!(point(key).is_sorted(), "{key}");
        }
        for (key, mut left) in
            ["live_bytes", "allocated_bytes"].into_iter().map(|key| (key, point(key)))
        {
            for series in timeline["threads"].as_array().expect("threads") {
                let figures = self.numbers(&series[key]);
                assert_eq!(figures.len(), count);
                left.iter_mut().zip(figures).for_each(|(left, figure)| {
                    *left = left.wrapping_sub(figure);
                });
            }
            assert!(left.iter().all(|&left| left == 0), "the threads have all {key}");
        }
    }

    /// Whether a note has this text.
    pub fn notes(&self, text: &str) -> bool {
        let notes = self.0["notes"].as_array().expect("notes");
        notes.iter().any(|note| note.as_str().expect("a sentence").contains(text))
    }
}
