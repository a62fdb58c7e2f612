//! The table of the formats of a report.
//!
//! Every choice of a format uses this table: `ReportTo::file` and `MEMLEDGER_REPORT` look up the
//! ending of the file's name; `memledger report` looks up `--format`, or else the ending of `-o`.

use super::format::ReportFormat;
#[cfg(feature = "html")]
use super::html;
#[cfg(feature = "pprof")]
use super::pprof;
use super::{callgrind, folded, json, speedscope, text};
use std::path::Path;

/// All formats; the first is the default.
///
/// ```
/// use memledger::{analysis::Analyzer, dump::{FORMATS, text::Options}};
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
    use super::super::options::{By, Options};
    use super::*;
    use crate::analysis::{Analyzer, Report};
    use crate::trace::format::schema::{EventType, Field, FieldFamily, FieldType};
    use crate::trace::read::{Event, Visitor};
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
        toy.write(&sized_report(), &Options::default(), &mut written).unwrap();
        assert_eq!(written, b"3 toys\n");
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

    /// The column `toy_odd_sizes` of `analysis/columns.rs`, which only unit tests have.
    #[test]
    fn a_column_is_one_line_and_its_computation() {
        let report = sized_report();
        assert_eq!(report.totals.toy_odd_sizes, 2);
        let mut document = Vec::new();
        json::write(&report, &mut document).unwrap();
        let document = serde_json::from_slice::<serde_json::Value>(&document).unwrap();
        assert_eq!(document["totals"]["toy_odd_sizes"], 2);
        for array in ["by_scope", "by_group", "by_name", "by_thread", "by_size"] {
            let rows = document[array].as_array().unwrap();
            let sum: u64 = rows.iter().map(|row| row["toy_odd_sizes"].as_u64().unwrap()).sum();
            assert_eq!(sum, 2, "{array}");
        }
        let scopes = document["by_scope"].as_array().unwrap();
        let outermost = scopes.iter().find(|row| row["path"].as_array().unwrap().len() == 1);
        assert_eq!(outermost.unwrap()["toy_odd_sizes"], 1);
        assert_eq!(outermost.unwrap()["inclusive"]["toy_odd_sizes"], 2);

        let options = Options { by: Some(By::Scope), width: 200, ..Options::default() };
        let mut written = Vec::new();
        text::write(&report, &options, &mut written).unwrap();
        let written = String::from_utf8(written).unwrap();
        let header = written.lines().find(|line| line.starts_with("By scope")).unwrap();
        assert!(header.ends_with("reallocations  odd sizes"), "{written}");
        let row = written.lines().find(|line| line.starts_with("  (whole program)")).unwrap();
        assert!(row.ends_with(" 2"), "{written}");
    }

    /// The report of three allocations, two of an odd size, one of these in a scope.
    fn sized_report() -> Report {
        const ALLOC: &[(&str, FieldType)] = &[
            ("Address", FieldType::U64),
            ("Size", FieldType::U32),
            ("AlignmentPow2_SizeLower", FieldType::U8),
            ("RootHeap", FieldType::U8),
        ];
        let types = [
            event_type(16, "Alloc", ALLOC),
            event_type(17, "MemoryScope", &[("Tag", FieldType::I32)]),
        ];
        let mut analyzer = Analyzer::new();
        for (index, event_type) in types.iter().enumerate() {
            analyzer.event_type(index, event_type);
        }
        let mut emit = |type_index: usize, fixed: &[u8]| {
            analyzer.event(&Event {
                event_type: &types[type_index],
                type_index,
                stream: 2,
                serial: None,
                enters_scope: type_index == 1,
                fixed,
                aux: &[],
            });
        };
        let alloc = |address: u8, size: u8| {
            [&[address, 0, 0, 0, 0, 0, 0, 0][..], &[size >> 3, 0, 0, 0, size & 7, 0]].concat()
        };
        emit(0, &alloc(0x10, 9));
        emit(0, &alloc(0x20, 16));
        emit(1, &[5, 0, 0, 0]);
        emit(0, &alloc(0x30, 31));
        analyzer.flush();
        analyzer.report()
    }

    /// A type of the logger `Memory`.
    fn event_type(uid: u16, event: &str, fields: &[(&'static str, FieldType)]) -> EventType {
        let mut offset = 0;
        let mut all = Vec::new();
        for &(name, field_type) in fields {
            let family = FieldFamily::Regular;
            all.push(Field { name: name.into(), field_type, family, offset });
            offset += field_type.fixed_size() as u16;
        }
        let (logger, event) = ("Memory".to_owned().into(), event.to_owned().into());
        EventType { uid, logger, event, flags: 0, fields: all.into() }
    }
}
