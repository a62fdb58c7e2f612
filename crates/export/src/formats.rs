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
/// use memledger_export::format_by_path;
/// use std::path::Path;
///
/// let format = format_by_path(Path::new("run.json")).expect("JSON");
/// let mut document = Vec::new();
/// format.write(&Analyzer::new().report(), &Options::default(), &mut document)?;
/// assert!(document.starts_with(b"{"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub static FORMATS: &[&dyn ReportFormat] = &[
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
];

/// Formats that need a feature: its name, which is that of the format, and the endings.
const OF_FEATURES: [(&str, &[&str]); 2] = [("html", &["html", "htm"]), ("pprof", &["pb.gz"])];

/// The format of a report if none is given: text.
pub fn default_format() -> &'static dyn ReportFormat {
    FORMATS[0]
}

/// The format with this name.
pub fn format_by_name(name: &str) -> Option<&'static dyn ReportFormat> {
    FORMATS.iter().copied().find(|format| format.name() == name)
}

/// The format of a file with this name, by its longest known ending: `run.speedscope.json` is not
/// JSON of the report.
pub fn format_by_path(path: &Path) -> Option<&'static dyn ReportFormat> {
    let length = |format: &&dyn ReportFormat| ending_of(path, format.endings()).map(str::len);
    FORMATS.iter().copied().filter(|format| length(format).is_some()).max_by_key(length)
}

/// Why [`format_by_path`] has no format for this file, as the end of a sentence: `its name must end in .txt or
/// .json`, or that the format needs a feature.
pub fn why_no_format(path: &Path) -> String {
    for (feature, endings) in OF_FEATURES {
        let ending = ending_of(path, endings).filter(|_| format_by_path(path).is_none());
        if let Some(ending) = ending {
            return format!("`.{ending}` needs the feature `{feature}`");
        }
    }
    let endings = FORMATS.iter().flat_map(|format| format.endings());
    let endings: Vec<_> = endings.map(|ending| format!(".{ending}")).collect();
    let (last, others) = endings.split_last().expect("formats have endings");
    format!("its name must end in {} or {last}", others.join(", "))
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
    use memledger_analysis::dump::text::Options;
    use memledger_analysis::{Analyzer, Report};
    use std::io::{self, Write};

    /// A format of the tests only, in the table like any other.
    pub(super) struct Toy;

    impl memledger_analysis::internal::Sealed for Toy {}
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
        let toy = format_by_name("toy").unwrap();
        for path in ["run.toy", "a.b/%e-%p.toys"] {
            assert_eq!(format_by_path(Path::new(path)).unwrap().name(), "toy", "{path}");
        }
        assert_eq!(format_by_path(Path::new("run.txt")).unwrap().name(), "text");
        assert_eq!(format_by_path(Path::new("run.json")).unwrap().name(), "json");
        for path in ["run.speedscope.json", "a/b.c.speedscope.json"] {
            assert_eq!(format_by_path(Path::new(path)).unwrap().name(), "speedscope", "{path}");
        }
        assert_eq!(format_by_path(Path::new("speedscope.json")).unwrap().name(), "json");
        for path in ["run", "run.JSON", ".toy", "toy", "run.utrace", "run.gz", ".pb.gz", "a.json/b"]
        {
            assert!(format_by_path(Path::new(path)).is_none(), "{path}");
        }
        #[cfg(feature = "pprof")]
        assert_eq!(format_by_path(Path::new("a/run.pb.gz")).unwrap().name(), "pprof");
        assert!(format_by_name("toys").is_none());
        let html = if cfg!(feature = "html") { " .html, .htm," } else { "" };
        let pprof = if cfg!(feature = "pprof") { " .pb.gz," } else { "" };
        let others = format!(".folded, .speedscope.json, .callgrind,{pprof} .toy or .toys");
        assert_eq!(
            why_no_format(Path::new("run.doc")),
            format!("its name must end in .txt, .json,{html} {others}")
        );
        let mut written = Vec::new();
        toy.write(&Analyzer::new().report(), &Options::default(), &mut written).unwrap();
        assert_eq!(written, b"0 toys\n");
    }

    #[test]
    fn names_and_endings_of_formats_differ() {
        for (index, format) in FORMATS.iter().enumerate() {
            if let Some((_, endings)) = OF_FEATURES.iter().find(|(name, _)| *name == format.name())
            {
                assert_eq!(format.endings(), *endings);
            }
            assert!(!format.endings().is_empty());
            for other in &FORMATS[..index] {
                assert_ne!(format.name(), other.name());
                assert!(!format.endings().iter().any(|ending| other.endings().contains(ending)));
            }
        }
    }
}
