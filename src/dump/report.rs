//! Where the report goes. At the start only its name is reserved; the file is created when the
//! report is written.

use crate::dump::symbols::find_functions;
use crate::dump::{InProcessAnalyzer, ReportTo};
use crate::error::{self, Error, ErrorKind};
use crate::platform::os;
use crate::problems::{self, ProblemKind};
use crate::scopes;
use crate::trace::sink::file::LaterFile;
use crate::trace::sink::names::expand;
use memledger_analysis::Analyzer;
use memledger_analysis::read::read;
use memledger_export::text::Options;
use memledger_export::{OWN_FORMATS, ReportFormat};
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// How the report is written, and where.
pub(crate) struct ReportOutput {
    format: &'static dyn ReportFormat,
    options: Options,
    /// `None` for standard error.
    file: Option<(LaterFile, PathBuf)>,
}

impl ReportOutput {
    /// How many of the largest live blocks the report has, if that is set.
    pub(crate) fn largest_live(&self) -> Option<usize> {
        self.options.largest_live
    }

    /// The descriptor that a watcher needs to write it.
    pub(crate) fn descriptor(&self) -> os::RawFd {
        self.file.as_ref().map_or(2, |(file, _)| file.descriptor())
    }

    /// What a watcher of a forked child needs to write it: the path, the name in its folder, and the
    /// descriptor.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn hand_over(&self) -> io::Result<(Vec<u8>, Vec<u8>, File)> {
        let Some((file, path)) = &self.file else {
            return Ok((Vec::new(), Vec::new(), os::duplicate(2)?));
        };
        let (descriptor, name) = file.hand_over()?;
        let name = name.map_or(&[][..], CStr::to_bytes);
        Ok((path.as_os_str().as_encoded_bytes().to_vec(), name.to_vec(), descriptor))
    }

    /// In that watcher: what [`hand_over`](Self::hand_over) has given. `None` if it is of no format.
    pub(crate) fn received(
        settings: &ReportTo,
        (path, name): (&[u8], &[u8]),
        file: File,
    ) -> Option<Self> {
        let options = options(settings);
        if path.is_empty() {
            os::use_as_stderr(file);
            return Some(Self { format: OWN_FORMATS.default(), options, file: None });
        }
        let path = os::path_of(path);
        let format = OWN_FORMATS.by_path(&path)?;
        let name = (!name.is_empty()).then(|| CString::new(name)).transpose().ok()?;
        let file = LaterFile::received(file, name).ok()?;
        Some(Self { format, options, file: Some((file, path)) })
    }

    /// Makes `analyzer` collect what the format needs.
    pub(crate) fn prepare(&self, analyzer: &InProcessAnalyzer) {
        if self.format.needs_buckets() {
            analyzer.with_analyzer(Analyzer::set_by_bucket);
        }
    }
}

/// How a report is shaped.
fn options(report: &ReportTo) -> Options {
    let mut options = Options::default();
    (options.verbose, options.largest_live) = (report.verbose, report.largest_live);
    options
}

/// What `MEMLEDGER_REPORT` asks for.
pub(crate) fn asked(value: &OsStr) -> Result<Option<ReportTo>, String> {
    match value.to_str() {
        Some("off") => Ok(None),
        Some("stderr") => Ok(Some(ReportTo::stderr())),
        _ if OWN_FORMATS.by_path(value.as_ref()).is_some() => Ok(Some(ReportTo::file(value))),
        _ => {
            let why = OWN_FORMATS.why_none(value.as_ref());
            Err(format!("only stderr, off, or a file are allowed, and {why}; the default is used"))
        }
    }
}

/// Reserves the name of the report's file, if it goes to one.
pub(crate) fn open_report(report: &ReportTo) -> Result<ReportOutput, Error> {
    let options = options(report);
    let Some(path) = &report.path else {
        return Ok(ReportOutput { format: OWN_FORMATS.default(), options, file: None });
    };
    let asked = expand(path, &mut |why| problems::add(ProblemKind::Setting, why));
    let Some(format) = OWN_FORMATS.by_path(&asked) else {
        let why = OWN_FORMATS.why_none(&asked);
        let sentence = format!("the report cannot go to {}: {why}", asked.display());
        return Err(Error::new(ErrorKind::InvalidSetting, sentence));
    };
    let (file, path) = LaterFile::prepare(&asked)?;
    if path != asked {
        problems::add_in_use(&asked, &path);
    }
    Ok(ReportOutput { format, options, file: Some((file, path)) })
}

/// In the watcher, whose process has ended: writes the report of the trace in `file`.
pub(crate) fn write_report_of(file: io::Result<File>, output: ReportOutput, unlinked: bool) {
    let analyzer = InProcessAnalyzer::late();
    output.prepare(&analyzer);
    let failed = |source| error::file("read", Path::new("the trace"), source);
    let read = match file.map_err(failed) {
        Ok(file) => analyzer.with_analyzer(|analyzer| read(file, analyzer)),
        Err(error) => return problems::report(error),
    };
    match read {
        Ok(_) => write_report(output, unlinked, Some(&analyzer), (0, [None; 2])),
        Err(error) => problems::add(ProblemKind::Tracker, format!("{error:#}")),
    }
}

/// Writes the report of `analyzer`, if there is one. It says itself how many events there are, and needs no
/// trace.
pub(crate) fn write_report(
    output: ReportOutput,
    unlinked: bool,
    analyzer: Option<&InProcessAnalyzer>,
    _: (u64, [Option<&str>; 2]),
) {
    if unlinked {
        return problems::add_unlinked();
    }
    let Some(analyzer) = analyzer else { return };
    // NOTE: checks first that there is enough memory: if memory ran out while the report is made,
    // the process would abort.
    let room = output.format.bytes()
        + analyzer.with_analyzer(|analyzer| analyzer.report_bytes(output.options.largest_live));
    if Vec::<u8>::new().try_reserve_exact(room).is_err() {
        return problems::add(
            ProblemKind::Incomplete,
            format!(
                "the report is not written: it takes about {} KiB, and the system has no memory left",
                room >> 10
            ),
        );
    }
    let mut report = analyzer.report(output.options.largest_live);
    let ReportOutput { format, mut options, file } = output;
    if format.shows_functions(&report, &options) {
        find_functions(&mut report);
    }
    if file.is_none() {
        let (is_terminal, width) =
            os::run_in_program_table(|| (os::is_terminal(2), os::terminal_width(2)))
                .unwrap_or_default();
        options.color = is_terminal;
        options.width = width.unwrap_or(options.width);
    }
    let write = |out: &mut dyn Write| format.write(&report, &options, out);
    match file {
        None => write_to_stderr(write),
        Some((file, path)) => write_file(&file, path, write),
    }
    if let Some(site) = scopes::misuse::first() {
        let count = scopes::misuse::count();
        let what = format!(
            "scopes misused (left out of order, or never): {count}; the first was entered at {site}"
        );
        problems::add(ProblemKind::Incomplete, what);
    }
}

/// Writes the report to its file, or to stderr if the system does not let the file be written.
///
/// NOTE: a program may have given up its rights since the start (`setresuid`, a sandbox), or have
/// no descriptor or no disk space left. Then only a file created at the start could be written, but
/// a killed program would leave such a file. An unnamed file (`O_TMPFILE`) needs the same rights to
/// get a name. Descriptor 2 is open already and needs no rights. It is not used if the program has
/// closed the tracker's descriptors: descriptor 2 may then be a file of the program.
fn write_file(file: &LaterFile, path: PathBuf, write: impl Fn(&mut dyn Write) -> io::Result<()>) {
    let Err(mut source) = file.write(&write) else { return };
    let is_ours = file.is_ours();
    if is_ours {
        source = io::Error::other(format!("{source}; the report follows on stderr instead"));
    }
    problems::report(error::file("write", &path, source));
    if is_ours {
        write_to_stderr(write);
    }
}

fn write_to_stderr(write: impl Fn(&mut dyn Write) -> io::Result<()>) {
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    let _ = write(&mut bytes);
    let _ = os::write_to_stderr(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_formats_decides_what_a_report_file_holds() {
        let folder = std::env::temp_dir().join(format!("memledger-formats-{}", os::process_id()));
        std::fs::create_dir_all(&folder).unwrap();
        for (file, format) in [("a.txt", "text"), ("b.json", "json")] {
            let path = folder.join(file);
            let output = open_report(&asked(path.as_ref()).unwrap().unwrap()).unwrap();
            assert_eq!(output.format.name(), format);
        }
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(open_report(&ReportTo::stderr()).unwrap().format.name(), "text");
        let why = "its name must end in .txt, .json, ";
        let Err(error) = open_report(&ReportTo::file("run.doc")) else { panic!() };
        let sentence = format!("the report cannot go to run.doc: {why}");
        assert!(error.to_string().starts_with(&sentence), "{error}");
        let error = asked("run.doc".as_ref()).unwrap_err();
        assert!(error.starts_with("only stderr, off, or a file are allowed, and "), "{error}");
        assert!(error.contains(why) && error.ends_with("; the default is used"), "{error}");
    }
}
