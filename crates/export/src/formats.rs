//! The table of the formats of a report.
//!
//! Every choice of a format uses such a table: `ReportTo::file` and `MEMLEDGER_REPORT` look up the
//! ending of the file's name in [`OWN_FORMATS`]; `memledger report` looks up `--format`, or else the
//! ending of `-o`, in `tools::FORMATS`.

use crate::ReportFormat;
#[cfg(feature = "html")]
use crate::html;
#[cfg(feature = "pprof")]
use crate::pprof;
use crate::{json, text};
use std::path::Path;

/// Formats of a report; the first is the default.
#[derive(Clone, Copy)]
pub struct Formats(&'static [&'static dyn ReportFormat]);

/// The formats that a program writes of itself: text, JSON, and with the features `html` and `pprof` the page
/// and the heap profile.
///
/// ```
/// use memledger_analysis::Analyzer;
/// use memledger_export::{OWN_FORMATS, text::Options};
/// use std::path::Path;
///
/// let format = OWN_FORMATS.by_path(Path::new("run.json")).expect("JSON");
/// let mut document = Vec::new();
/// format.write(&Analyzer::new().report(), &Options::default(), &mut document)?;
/// assert!(document.starts_with(b"{"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub static OWN_FORMATS: Formats = Formats(&[
    &text::Format,
    &json::Format,
    #[cfg(feature = "html")]
    &html::Format,
    #[cfg(feature = "pprof")]
    &pprof::Format,
]);

/// Where a format is that a table lacks.
#[derive(Clone, Copy)]
enum Elsewhere {
    /// In builds with this feature.
    Feature(&'static str),
    /// In `memledger report`.
    Report,
    /// In `memledger export`, by these words after `--to`.
    Export(&'static str),
}

/// Endings of formats that a table can lack, and where these are.
const ELSEWHERE: [(&[&str], Elsewhere); 10] = [
    (&["html", "htm"], Elsewhere::Feature("html")),
    (&["pb.gz"], Elsewhere::Feature("pprof")),
    (&["folded", "speedscope.json"], Elsewhere::Report),
    (&["utrace"], Elsewhere::Export("utrace")),
    (&["memledger"], Elsewhere::Export("memledger")),
    (&["dhat.json"], Elsewhere::Export("dhat")),
    (&["parquet"], Elsewhere::Export("parquet --table blocks")),
    (&["csv"], Elsewhere::Export("csv --table blocks")),
    (&["heaptrack", "heaptrack.gz", "heaptrack.zst"], Elsewhere::Export("heaptrack")),
    (&["pftrace", "perfetto-trace"], Elsewhere::Export("perfetto")),
];

impl Formats {
    /// A table with these formats.
    ///
    /// # Panics
    /// If it has none.
    pub const fn new(formats: &'static [&'static dyn ReportFormat]) -> Self {
        assert!(!formats.is_empty(), "a table has a default format");
        Self(formats)
    }

    /// All formats.
    pub fn all(&self) -> &'static [&'static dyn ReportFormat] {
        self.0
    }

    /// The format of a report if none is given: text.
    pub fn default(&self) -> &'static dyn ReportFormat {
        self.0[0]
    }

    /// The format with this name.
    pub fn by_name(&self, name: &str) -> Option<&'static dyn ReportFormat> {
        self.0.iter().copied().find(|format| format.name() == name)
    }

    /// The format of a file with this name, by its longest known ending: `run.speedscope.json` is not
    /// JSON of the report.
    pub fn by_path(&self, path: &Path) -> Option<&'static dyn ReportFormat> {
        let other = ELSEWHERE.iter().filter_map(|(endings, _)| ending_of(path, endings));
        let other = other.map(str::len).max();
        let length = |format: &&dyn ReportFormat| ending_of(path, format.endings()).map(str::len);
        let fits = |format: &&dyn ReportFormat| length(format).is_some_and(|it| Some(it) >= other);
        self.0.iter().copied().filter(fits).max_by_key(length)
    }

    /// If a file with this name is none of a report, but one that `memledger export` writes: the words after
    /// `--to` with which it does, such as `dhat` for `run.dhat.json`.
    pub fn exported(&self, path: &Path) -> Option<&'static str> {
        match self.elsewhere(path)? {
            (_, Elsewhere::Export(to)) => Some(to),
            _ => None,
        }
    }

    /// The ending of a file whose format this table lacks, and where that is.
    fn elsewhere(&self, path: &Path) -> Option<(&'static str, Elsewhere)> {
        if self.by_path(path).is_some() {
            return None;
        }
        ELSEWHERE.iter().find_map(|(endings, it)| Some((ending_of(path, endings)?, *it)))
    }

    /// Why [`by_path`](Self::by_path) has no format for this file, as the end of a sentence:
    /// `its name must end in .txt or .json`, or what has that format.
    pub fn why_none(&self, path: &Path) -> String {
        if let Some((ending, elsewhere)) = self.elsewhere(path) {
            let command = match elsewhere {
                Elsewhere::Feature(name) => {
                    return format!("`.{ending}` needs the feature `{name}`");
                }
                Elsewhere::Report => "report TRACE".to_owned(),
                Elsewhere::Export(to) => format!("export TRACE --to {to}"),
            };
            return format!(
                "`.{ending}` is written from a trace: memledger {command} -o FILE.{ending}"
            );
        }
        let endings = self.0.iter().flat_map(|format| format.endings());
        let endings: Vec<_> = endings.map(|ending| format!(".{ending}")).collect();
        match endings.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("its name must end in {} or {last}", others.join(", "))
            }
            _ => format!("its name must end in {}", endings.concat()),
        }
    }
}

impl std::fmt::Debug for Formats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|format| format.name())).finish()
    }
}

/// The longest of these endings that the name of the file has.
fn ending_of(path: &Path, endings: &[&'static str]) -> Option<&'static str> {
    let name = path.file_name()?.to_string_lossy();
    let has = |ending: &&&str| {
        let stem = name.strip_suffix(**ending).and_then(|stem| stem.strip_suffix('.'));
        stem.is_some_and(|stem| !stem.is_empty())
    };
    endings.iter().filter(has).max_by_key(|ending| ending.len()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Sealed;
    use crate::text::Options;
    use memledger_document::Report;
    use std::io::{self, Write};

    struct Toy;

    impl Sealed for Toy {}
    impl ReportFormat for Toy {
        fn name(&self) -> &'static str {
            "toy"
        }

        fn about(&self) -> &'static str {
            "For tests"
        }

        fn endings(&self) -> &'static [&'static str] {
            &["toy", "toys"]
        }

        fn write(&self, report: &Report, _: &Options, out: &mut dyn Write) -> io::Result<()> {
            writeln!(out, "{} toys", report.totals.allocations)
        }
    }

    #[test]
    fn a_format_is_found_by_name_and_by_the_ending_of_a_file() {
        let formats = Formats::new(&[&text::Format, &json::Format, &Toy]);
        let named = |path| formats.by_path(Path::new(path)).map(ReportFormat::name);
        for path in ["run.toy", "a.b/%e-%p.toys"] {
            assert_eq!(named(path), Some("toy"), "{path}");
        }
        assert_eq!(named("run.txt"), Some("text"));
        assert_eq!(named("run.json"), Some("json"));
        assert_eq!(named("speedscope.json"), Some("json"));
        for path in ["run", "run.JSON", ".toy", "toy", "run.utrace", "run.gz", ".pb.gz", "a.json/b"]
        {
            assert_eq!(named(path), None, "{path}");
        }
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            let not_utf_8 = Path::new(std::ffi::OsStr::from_bytes(b"\xff.json"));
            assert_eq!(formats.by_path(not_utf_8).unwrap().name(), "json");
        }
        assert_eq!(formats.default().name(), "text");
        assert_eq!(formats.by_name("toy").unwrap().name(), "toy");
        assert!(formats.by_name("toys").is_none());
        let why = |path| formats.why_none(Path::new(path));
        assert_eq!(why("run.doc"), "its name must end in .txt, .json, .toy or .toys");
    }

    #[test]
    fn a_file_of_a_format_that_is_not_here_says_where_it_is() {
        let formats = Formats::new(&[&json::Format]);
        assert_eq!(formats.why_none(Path::new("run.doc")), "its name must end in .json");
        for (path, why) in [
            ("run.html", "`.html` needs the feature `html`"),
            ("a/run.pb.gz", "`.pb.gz` needs the feature `pprof`"),
            (
                "run.speedscope.json",
                "`.speedscope.json` is written from a trace: memledger report TRACE -o FILE.speedscope.json",
            ),
            (
                "run.dhat.json",
                "`.dhat.json` is written from a trace: memledger export TRACE --to dhat -o FILE.dhat.json",
            ),
        ] {
            assert!(formats.by_path(Path::new(path)).is_none(), "{path}");
            assert_eq!(formats.why_none(Path::new(path)), why);
        }
        let exported = |path| formats.exported(Path::new(path));
        assert_eq!(
            ["run.dhat.json", "a.b/run.csv"].map(exported),
            [Some("dhat"), Some("csv --table blocks")]
        );
        assert_eq!(
            ["run.json", "run.folded", "run.doc", "csv", "a.csv/b"].map(exported),
            [None; 5]
        );
    }
}
