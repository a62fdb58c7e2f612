//! The table of the formats of a report.
//!
//! Every choice of a format uses this table: `ReportTo::file` and `MEMLEDGER_REPORT` look up the
//! ending of the file's name; `memledger report` looks up `--format`, or else the ending of `-o`.

use super::{callgrind, folded, speedscope};
use memledger_analysis::dump::ReportFormat;
#[cfg(feature = "html")]
use memledger_analysis::dump::html;
#[cfg(feature = "pprof")]
use memledger_analysis::dump::pprof;
use memledger_analysis::dump::{json, text};
use std::path::Path;

/// All formats; the first is the default.
///
/// ```
/// use memledger_analysis::{Analyzer, dump::text::Options};
/// use memledger_export::FORMATS;
/// use std::path::Path;
///
/// let format = FORMATS.by_path(Path::new("run.json")).expect("JSON");
/// let mut document = Vec::new();
/// format.write(&Analyzer::new().report(), &Options::default(), &mut document)?;
/// assert!(document.starts_with(b"{"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub static FORMATS: Formats = Formats(&[
    &text::Format,
    &json::Format,
    #[cfg(feature = "html")]
    &html::Format,
    &folded::Format,
    &speedscope::Format,
    &callgrind::Format,
    #[cfg(feature = "pprof")]
    &pprof::Format,
    #[cfg(test)]
    &tests::Toy,
]);

/// A table of formats.
pub struct Formats(&'static [&'static dyn ReportFormat]);

impl Formats {
    /// All formats.
    pub fn all(&self) -> impl Iterator<Item = &'static dyn ReportFormat> {
        self.0.iter().copied()
    }

    /// The default: the format of a report if none is given.
    pub fn default(&self) -> &'static dyn ReportFormat {
        self.0[0]
    }

    /// The format with this name.
    pub fn by_name(&self, name: &str) -> Option<&'static dyn ReportFormat> {
        self.all().find(|format| format.name() == name)
    }

    /// The format of a file with this name, by its longest known ending: `run.speedscope.json` is not
    /// JSON of the report.
    pub fn by_path(&self, path: &Path) -> Option<&'static dyn ReportFormat> {
        let name = path.file_name()?.to_string_lossy();
        let is_ending = |ending: &str| {
            let stem = name.strip_suffix(ending).and_then(|stem| stem.strip_suffix('.'));
            stem.is_some_and(|stem| !stem.is_empty())
        };
        let endings =
            self.all().flat_map(|format| format.endings().iter().map(move |end| (format, end)));
        let of_name = endings.filter(|(_, ending)| is_ending(ending));
        of_name.max_by_key(|(_, ending)| ending.len()).map(|(format, _)| format)
    }

    /// The endings of all formats, for a sentence: `.txt or .json`.
    pub fn endings(&self) -> String {
        let endings = self.all().flat_map(|format| format.endings());
        let endings: Vec<_> = endings.map(|ending| format!(".{ending}")).collect();
        match endings.split_last() {
            Some((last, others)) if !others.is_empty() => {
                format!("{} or {last}", others.join(", "))
            }
            _ => endings.concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memledger_analysis::dump::text::Options;
    use memledger_analysis::{Analyzer, Report};
    use std::io::{self, Write};

    /// A format of the tests only, in the table like any other.
    pub(super) struct Toy;

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
    fn a_format_is_one_line_in_the_table() {
        let toy = FORMATS.by_name("toy").unwrap();
        for path in ["run.toy", "a.b/%e-%p.toys"] {
            assert_eq!(FORMATS.by_path(Path::new(path)).unwrap().name(), "toy", "{path}");
        }
        assert_eq!(FORMATS.by_path(Path::new("run.txt")).unwrap().name(), "text");
        assert_eq!(FORMATS.by_path(Path::new("run.json")).unwrap().name(), "json");
        for path in ["run.speedscope.json", "a/b.c.speedscope.json"] {
            assert_eq!(FORMATS.by_path(Path::new(path)).unwrap().name(), "speedscope", "{path}");
        }
        assert_eq!(FORMATS.by_path(Path::new("speedscope.json")).unwrap().name(), "json");
        for path in ["run", "run.JSON", ".toy", "toy", "run.utrace", "run.gz", ".pb.gz", "a.json/b"]
        {
            assert!(FORMATS.by_path(Path::new(path)).is_none(), "{path}");
        }
        #[cfg(feature = "pprof")]
        assert_eq!(FORMATS.by_path(Path::new("a/run.pb.gz")).unwrap().name(), "pprof");
        assert!(FORMATS.by_name("toys").is_none());
        let html = if cfg!(feature = "html") { " .html, .htm," } else { "" };
        let pprof = if cfg!(feature = "pprof") { " .pb.gz," } else { "" };
        let endings = FORMATS.endings();
        assert_eq!(
            endings,
            format!(
                ".txt, .json,{html} .folded, .speedscope.json, .callgrind,{pprof} .toy or .toys"
            )
        );
        assert_eq!(Formats(&[&text::Format]).endings(), ".txt");
        let mut written = Vec::new();
        toy.write(&Analyzer::new().report(), &Options::default(), &mut written).unwrap();
        assert_eq!(written, b"0 toys\n");
    }

    #[test]
    fn names_and_endings_of_formats_differ() {
        let all: Vec<_> = FORMATS.all().collect();
        for (index, format) in all.iter().enumerate() {
            assert!(!format.endings().is_empty());
            for other in &all[..index] {
                assert_ne!(format.name(), other.name());
                assert!(!format.endings().iter().any(|ending| other.endings().contains(ending)));
            }
        }
    }
}
