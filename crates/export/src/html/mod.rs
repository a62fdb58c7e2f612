//! The report as a page for a browser: one file that needs no other, and no network.
//!
//! The page is `page.html`, a template, which shows a document of JSON, `memledger.page/1`. In the file,
//! the document is in gzip and base64, in the place of the template's line `<!-- memledger-data -->`:
//!
//! ```text
//! <script type="application/gzip;base64" id="memledger-data">H4sI...</script>
//! ```
//!
//! So no name of a program can end an element of the page. The document:
//!
//! ```text
//! "schema"    "memledger.page/1"
//! "moment"    null, or the time that was asked for: "50%"
//! "notes"     [sentence]: what a reader should know of the figures
//! "trace", "totals", "peak", "losses", "after_report", "bookmarks", "by_scope", "by_group",
//! "by_name", "by_thread", "by_size"            as in memledger.report/1
//! "stack_sampling_bytes"                       as in memledger.report/1
//! "largest_live"                               the same, but "stack" is a node of "stacks", or null
//! "llm_tags", "rss"                            as in memledger.report/1
//! "peak_by", "findings"                        the same; null if there is none, or none was looked for
//! "none_found"   why there are none, where they were looked for: as in the text
//! "resident"     { "all": "162 MiB", "parts": "0.1 live + 152 freed but kept by malloc + ...",
//!                 "most": "170 MiB at most" }: the resident memory, as in the text; absent if the trace does
//!                 not say what it is
//! "strings"   [string]; the first is ""
//! "short"     { "string": [string], "text": [string] }   what is shown of functions whose names are too long
//! "frames"    { "name": [string], "file": [string], "line": [line], "crate": [string], "folded": [0 or 1] }
//! "stacks"    { "parent": [node or -1], "frame": [frame] }   a tree, parents before their children
//! "buckets"   { "scope": [row], "name": [row], "thread": [row], "stack": [node or -1], columns }
//! "timeline"  { "at_ns": [], "events": [], "live_bytes": [], "live_blocks": [], "peak_bytes": [],
//!               "allocated_bytes": [], "allocations": [], "frees": [], "reallocations": [],
//!               "threads": [{ "thread": row or -1, "live_bytes": [], "allocated_bytes": [] }] }
//! "old_timeline"   null or, with "diff", the same of the old report
//! "rss_timeline"   { "at_ns": [], "rss_bytes": [] }   what RSS was, the largest of some readings
//!               each; absent if the trace has no readings
//! "diff"      null or a document of memledger.diff/1
//! ```
//!
//! - Each column of numbers of the last five before "old_timeline", in it, and in "rss_timeline", is a
//!   string: base64 of the differences of neighbours, the first from 0, in zigzag and LEB128. It is a third
//!   of the list of numbers, and read faster.
//! - Buckets are the rows of [`Report::by_bucket`], in their order. `scope`, `name` and `thread` are rows of
//!   `by_scope`, `by_name` and `by_thread`. The columns are those of a row but `peak_bytes`; each sums to the
//!   total. In a sampled trace they are the estimates, as in all formats by stack; blocks that the sample
//!   represents count 0.
//! - `stack` is -1 where a block has no call stack. Inlined functions are also frames. A frame is folded
//!   where reports do not show it unless `--all-frames` is given. File and line are 0 where they are not
//!   known. Nodes are in the order in which their buckets were first used.
//! - For `timeline` see [`TimeSeries`](memledger_document::TimeSeries).

mod document;
mod notes;
mod tree;

#[cfg(feature = "diff")]
use crate::diff::{self, Diff, DiffOptions};
use crate::format::{ReportFormat, Sealed};
use crate::options::Options;
use crate::pretty::{self, Json, OneLine};
use base64::prelude::BASE64_STANDARD;
use base64::write::EncoderWriter;
use document::Document;
use flate2::Compression;
use flate2::write::GzEncoder;
use memledger_document::Report;
use memledger_format::words::escape;
use std::io::{self, BufWriter, Write};

/// The page, with a line in the place of its data.
const TEMPLATE: &str = include_str!("page.html");

/// The line of the template that the data replaces.
const MARKER: &str = "<!-- memledger-data -->";

/// How much work deflate does.
const LEVEL: u32 = 6;

/// Bytes that are compressed at once.
const PIECE: usize = 32 << 10;

/// As a page.
#[derive(Debug)]
pub struct Format;

impl Sealed for Format {}
impl ReportFormat for Format {
    fn name(&self) -> &'static str {
        "html"
    }

    fn about(&self) -> &'static str {
        "A page for a browser in one file: timeline, flame graph, tables"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["html", "htm"]
    }

    fn needs_buckets(&self) -> bool {
        true
    }

    fn shows_findings(&self, _options: &Options) -> bool {
        true
    }

    /// The template twice, and what compresses.
    fn bytes(&self) -> usize {
        2 * TEMPLATE.len() + (1 << 20)
    }

    fn write(&self, report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        Page::new(report, options).write_html(out)
    }
}

/// What the page of a report shows. The report has [buckets](Report::by_bucket), or the page has no
/// stacks.
///
/// ```
/// use memledger_analysis::Analyzer;
/// use memledger_export::{html::Page, text::Options};
///
/// let report = Analyzer::new().by_bucket().report();
/// let mut file = Vec::new();
/// Page::new(&report, &Options::default()).write_html(&mut file)?;
/// assert!(file.starts_with(b"<!doctype html>"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    report: &'a Report,
    options: &'a Options,
    #[cfg(feature = "diff")]
    diff: Option<(&'a Diff<'a>, &'a DiffOptions)>,
}

impl<'a> Page<'a> {
    /// The page of `report`. Only the option [`moment`](Options::moment) matters.
    pub fn new(report: &'a Report, options: &'a Options) -> Self {
        Self {
            report,
            options,
            #[cfg(feature = "diff")]
            diff: None,
        }
    }

    /// The same with a difference, of which the report is the new side.
    #[cfg(feature = "diff")]
    pub fn with_diff(self, diff: &'a Diff<'a>, options: &'a DiffOptions) -> Self {
        Self { diff: Some((diff, options)), ..self }
    }

    /// Writes the page: a file for a browser, which has its data in it. Takes 500 KiB of memory beside
    /// that of the tree of stacks.
    ///
    /// # Errors
    /// Those of `out`; the same holds for the other function.
    pub fn write_html(&self, out: &mut dyn Write) -> io::Result<()> {
        let (before, after) = template(self.report.trace.program.as_deref());
        out.write_all(before.as_bytes())?;
        out.write_all(b"<script type=\"application/gzip;base64\" id=\"memledger-data\">")?;
        let base64 = EncoderWriter::new(&mut *out, &BASE64_STANDARD);
        let gzip = GzEncoder::new(base64, Compression::new(LEVEL));
        let mut document = BufWriter::with_capacity(PIECE, gzip);
        pretty::write(&OneLine(self.document()), &mut document)?;
        let gzip = document.into_inner().map_err(io::IntoInnerError::into_error)?;
        gzip.finish()?.finish()?;
        out.write_all(b"</script>")?;
        out.write_all(after.as_bytes())
    }

    /// Writes the document alone, as JSON with the schema `memledger.page/1`.
    pub fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut out = BufWriter::new(out);
        pretty::write(&OneLine(self.document()), &mut out)?;
        out.write_all(b"\n")?;
        out.flush()
    }

    fn document(&self) -> Document<'a> {
        #[cfg(not(feature = "diff"))]
        let diff = None;
        #[cfg(feature = "diff")]
        let diff = self.diff.map(|(diff, options)| {
            (Box::new(diff::Document::new(diff, options)) as Box<dyn Json>, diff.old)
        });
        Document::new(self.report, self.options, diff)
    }
}

/// The page of a program, with `data` in the place of its data: HTML that says where the page gets them.
///
/// ```
/// let page = memledger_export::html::page_with(Some("server"), "<script>window.data = 1</script>");
/// assert!(page.contains("<title>memledger: server</title>"));
/// ```
pub fn page_with(program: Option<&str>, data: &str) -> String {
    let (mut page, after) = template(program);
    page.push_str(data);
    page.push_str(after);
    page
}

/// The template with its title, before and after its data.
fn template(program: Option<&str>) -> (String, &'static str) {
    let (before, after) = TEMPLATE.split_once(MARKER).unwrap_or((TEMPLATE, ""));
    let mut page = before.to_owned();
    let title = page.find("<title>").map(|at| at + "<title>".len());
    let title = title.and_then(|from| Some(from..from + page[from..].find("</title>")?));
    if let Some((range, program)) = title.zip(program) {
        page.replace_range(range, &format!("memledger: {}", html_text(program)));
    }
    (page, after)
}

/// A name as text of HTML.
fn html_text(name: &str) -> String {
    escape(name).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests;
