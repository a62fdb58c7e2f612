//! Where a recording's trace and report go. The trace is opened when the recording starts. The
//! report only reserves its name then; its file is created or replaced when the recording ends.

use super::live::Live;
use super::problems;
use super::report_to::ReportTo;
use super::run::tell;
use crate::dump;
use crate::error::Error;
use crate::platform::os::{self, BlockedSignals};
use crate::scopes;
use crate::trace::sink::file::{FileSink, LaterFile};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The destination of the report.
pub(super) enum Output {
    Stderr { verbose: bool },
    File { file: LaterFile, path: PathBuf, json: bool, verbose: bool },
}

pub(super) fn open_trace(path: &Path) -> Result<FileSink, Error> {
    let _signals = BlockedSignals::new();
    let path = expand(path);
    let file = FileSink::create(&path)?;
    if file.path() != path {
        tell_in_use(&path, file.path());
    }
    Ok(file)
}

pub(super) fn open_report(report: &ReportTo) -> Result<Output, Error> {
    let verbose = report.verbose;
    let Some(path) = &report.path else { return Ok(Output::Stderr { verbose }) };
    let asked = expand(path);
    let json = match asked.extension().and_then(|extension| extension.to_str()) {
        Some("json") => true,
        Some("txt") => false,
        _ => {
            return Err(Error::UnknownReportFormat(asked));
        }
    };
    let (file, path) = LaterFile::prepare(&asked)?;
    if path != asked {
        tell_in_use(&asked, &path);
    }
    Ok(Output::File { file, path, json, verbose })
}

fn tell_in_use(asked: &Path, used: &Path) {
    problems::add(format!(
        "{} is in use by another process, so {} is written instead",
        asked.display(),
        used.display()
    ));
}

/// `%p` process id, `%t` unix seconds, `%e` executable, `%%` a percent sign.
pub(super) fn expand(path: &Path) -> PathBuf {
    let Some(text) = path.to_str().filter(|text| text.contains('%')) else {
        return path.to_owned();
    };
    let mut expanded = String::new();
    let mut rest = text.chars();
    while let Some(char) = rest.next() {
        if char != '%' {
            expanded.push(char);
            continue;
        }
        match rest.next() {
            Some('p') => expanded += &os::process_id().to_string(),
            Some('t') => {
                let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                expanded += &time.as_secs().to_string();
            }
            Some('e') => {
                let program = std::env::current_exe().unwrap_or_default();
                expanded += &program.file_name().unwrap_or_default().to_string_lossy();
            }
            Some('%') => expanded.push('%'),
            other => {
                if let Some(letter) = other.filter(char::is_ascii_alphabetic) {
                    problems::add(format!(
                        "%{letter} in the name {} stays as it is; what can be put in is %p (process id), %t (unix seconds), %e (executable) and %% (%)",
                        path.display()
                    ));
                }
                expanded.push('%');
                expanded.extend(other);
            }
        }
    }
    expanded.into()
}

/// Why nothing is recorded of a program that does not use the tracker, and what to do about it.
pub(super) const UNLINKED: &str = "memledger::TrackingAllocator is not this program's global allocator; add: #[global_allocator] static ALLOC: memledger::TrackingAllocator = memledger::TrackingAllocator::system();";

pub(super) fn write_report(output: Output, unlinked: bool, live: Option<&Live>) {
    if unlinked {
        return problems::add(format!("no allocation was recorded, because {UNLINKED}"));
    }
    let Some(live) = live else { return };
    // NOTE: checks for memory first. Without it, making the report would end the process.
    let room = live.look(|analyzer| analyzer.report_bytes());
    if Vec::<u8>::new().try_reserve_exact(room).is_err() {
        return problems::add(format!(
            "the report is not written: it takes about {} KiB, and the system has no memory left",
            room >> 10
        ));
    }
    let report = live.report();
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    let _ = match output {
        Output::File { json: true, .. } => dump::json::write(&report, &mut bytes),
        Output::File { verbose, .. } => {
            let options = dump::text::Options { verbose, ..Default::default() };
            dump::text::write(&report, &options, &mut bytes)
        }
        Output::Stderr { verbose } => {
            let mut options = dump::text::Options { verbose, ..Default::default() };
            options.color = os::is_terminal(2);
            options.width = os::terminal_width(2).unwrap_or(options.width);
            dump::text::write(&report, &options, &mut bytes)
        }
    };
    match output {
        Output::Stderr { .. } => {
            let _ = os::write_all(2, &bytes);
        }
        Output::File { file, path, .. } => write_file(&file, path, &bytes),
    }
    if let Some(site) = scopes::thread::first_misuse() {
        problems::add(format!(
            "{} scopes were left out of order, or never; the first was entered at {site}",
            scopes::thread::misuses()
        ));
    }
}

/// Writes the report to its file, or to stderr if the system does not let the file be written.
///
/// NOTE: a program may have given up its rights since the start (`setresuid`, a sandbox), or have
/// no descriptor or no room on the disk left. Only a name made at the start would be there for it, and would be left behind
/// by a program that is killed. An unnamed file (`O_TMPFILE`) needs the same rights to get a name.
/// Descriptor 2 is open already and needs none. It is not used if the program has closed the
/// tracker's descriptors: 2 may be a file of the program then.
fn write_file(file: &LaterFile, path: PathBuf, bytes: &[u8]) {
    let Err(mut source) = file.write(bytes) else { return };
    let is_ours = file.is_ours();
    if is_ours {
        source = io::Error::other(format!("{source}; the report follows on stderr instead"));
    }
    tell(Error::File { path, action: "write", source });
    if is_ours {
        let _ = os::write_all(2, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_filled_in() {
        let pid = std::process::id();
        for (name, expanded) in [
            ("run.utrace", "run.utrace".to_owned()),
            ("%p/run-%p.utrace", format!("{pid}/run-{pid}.utrace")),
            ("100%%", "100%".to_owned()),
            ("50% of %", "50% of %".to_owned()),
            ("é%p", format!("é{pid}")),
            ("%z%1%", "%z%1%".to_owned()),
        ] {
            assert_eq!(expand(Path::new(name)), Path::new(&expanded), "{name}");
        }
        let executable = std::env::current_exe().unwrap();
        assert_eq!(expand(Path::new("%e")).as_os_str(), executable.file_name().unwrap());
        let seconds = expand(Path::new("%t")).to_str().unwrap().parse::<u64>().unwrap();
        assert!(seconds > 1_700_000_000);
    }
}
