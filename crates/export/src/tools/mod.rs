//! Formats of other tools, and the table of all formats of a report.

pub mod dhat;
mod folded;
#[doc(hidden)]
pub mod frames;
pub mod heaptrack;
mod speedscope;
mod stacks;

#[cfg(feature = "html")]
use crate::html;
#[cfg(feature = "pprof")]
use crate::pprof;
use crate::{Formats, json, text};

/// All formats of a report: those that a program writes of itself, and those of other tools.
///
/// ```
/// use memledger_analysis::Analyzer;
/// use memledger_export::{text::Options, tools::FORMATS};
/// use std::path::Path;
///
/// let format = FORMATS.by_path(Path::new("run.speedscope.json")).expect("speedscope");
/// let mut document = Vec::new();
/// format.write(&Analyzer::new().report(), &Options::default(), &mut document)?;
/// assert!(document.starts_with(b"{"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub static FORMATS: Formats = Formats::new(&[
    &text::Format,
    &json::Format,
    #[cfg(feature = "html")]
    &html::Format,
    &folded::Format,
    &speedscope::Format,
    #[cfg(feature = "pprof")]
    &pprof::Format,
]);

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn names_and_endings_of_formats_differ() {
        for (index, format) in FORMATS.all().iter().enumerate() {
            assert!(!format.endings().is_empty());
            for other in &FORMATS.all()[..index] {
                assert_ne!(format.name(), other.name());
                assert!(!format.endings().iter().any(|ending| other.endings().contains(ending)));
            }
        }
    }

    #[test]
    fn a_file_has_the_format_of_its_longest_ending() {
        for (path, name) in [
            ("run.json", "json"),
            ("run.speedscope.json", "speedscope"),
            ("a/b.c.speedscope.json", "speedscope"),
            ("run.folded", "folded"),
        ] {
            assert_eq!(FORMATS.by_path(Path::new(path)).unwrap().name(), name, "{path}");
        }
        for format in FORMATS.all() {
            for ending in format.endings() {
                let path = format!("run.{ending}");
                assert_eq!(FORMATS.by_path(Path::new(&path)).unwrap().name(), format.name());
            }
        }
    }
}
