//! The files that the traces of a program and of its children are in.

use crate::error::CliError;
use memledger::analysis::Report;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// What is put in for `%p`, and for `%%`.
const PID: &str = "%p";
const PERCENT: &str = "%%";

/// How long the watcher of the program may take, and all others together.
const OWN_TIMEOUT: Duration = Duration::from_secs(30);
const OTHERS_TIMEOUT: Duration = Duration::from_secs(1);

/// Where the program writes its trace.
pub struct Traces {
    /// The name, with `%p` for the process id and `%%` for a percent sign.
    pattern: PathBuf,
    /// The folder of a trace that is not kept; it is removed with this value.
    temporary: Option<TempDir>,
    follow_children: bool,
    /// The files that have such a name already.
    before: HashMap<PathBuf, Stamp>,
}

/// What changes when a file is written.
#[derive(PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
}

impl Traces {
    /// `keep` is the name that the user has given, if any.
    pub fn new(keep: Option<&Path>, follow_children: bool) -> Result<Self, CliError> {
        let failed =
            |error| CliError::Failed(format!("a temporary folder cannot be made: {error}"));
        let (pattern, temporary) = match keep {
            Some(path) => (absolute(path)?, None),
            None => {
                let folder = tempfile::Builder::new().prefix("memledger-run-").tempdir();
                let folder = folder.map_err(failed)?;
                (escaped(folder.path()).join("%p.memledger"), Some(folder))
            }
        };
        if follow_children {
            check_distinct("--trace", &pattern)?;
        }
        let mut traces = Self { pattern, temporary, follow_children, before: HashMap::new() };
        traces.before = traces
            .all(None)
            .filter_map(|path| Some((stamp(&path)?, path)))
            .map(|(stamp, path)| (path, stamp))
            .collect();
        Ok(traces)
    }

    /// The value of `MEMLEDGER_FILE`.
    pub fn pattern(&self) -> &Path {
        &self.pattern
    }

    /// The traces that were written since [`new`](Self::new): first that of the process `pid`, which
    /// was started then.
    pub fn found(&self, pid: u32) -> Vec<PathBuf> {
        let is_new =
            |path: &PathBuf| stamp(path).is_some_and(|stamp| self.before.get(path) != Some(&stamp));
        let own = named(&self.pattern, pid);
        let mut found: Vec<_> = self.all(Some(pid)).filter(is_new).collect();
        found.sort_by_key(|path| (*path != own, path.as_os_str().len(), path.clone()));
        found.dedup();
        found
    }

    /// Waits until the watchers of processes that have ended have completed their traces: until then, a trace is locked. Not for long, because
    /// a child of the program that runs on can have it locked, too.
    pub fn wait_for_watchers(&self, pid: u32) {
        let begin = Instant::now();
        let own = named(&self.pattern, pid);
        for path in self.found(pid) {
            let most = if path == own { OWN_TIMEOUT } else { OTHERS_TIMEOUT };
            let Ok(file) = File::open(&path) else { continue };
            while matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
                && begin.elapsed() < most
            {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// The files that a trace may be in. `pid` is the process that was started, if it was.
    fn all(&self, pid: Option<u32>) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        if !self.follow_children {
            let own = named(&self.pattern, pid.unwrap_or(0));
            let beside: Vec<_> = pid.into_iter().flat_map(|pid| all_beside(&own, pid)).collect();
            return Box::new(std::iter::once(own).chain(beside));
        }
        let name = self.pattern.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let (before, after) = name.split_once(PID).unwrap_or((name, ""));
        let [before, after] = [before, after].map(|part| part.replace(PERCENT, "%"));
        let is_trace = move |name: &str| {
            let pid = name.strip_prefix(&*before).and_then(|rest| rest.strip_suffix(&*after));
            // NOTE: with two `%p` the rest has more than digits.
            pid.is_some_and(|pid| {
                let digits = pid.bytes().take_while(u8::is_ascii_digit).count();
                let pid = pid.get(..digits).and_then(|pid| pid.parse().ok());
                pid.is_some_and(|pid| {
                    let own = named(&self.pattern, pid);
                    let is = |path: &PathBuf| path.file_name().is_some_and(|own| own == name);
                    is(&own) || all_beside(&own, pid).any(|path| is(&path))
                })
            })
        };
        let folder = named(self.pattern.parent().unwrap_or(Path::new("/")), 0);
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        Box::new(
            entries
                .filter(move |entry| entry.file_name().to_str().is_some_and(&is_trace))
                .map(|entry| entry.path()),
        )
    }

    /// A sentence about the trace at `path`, without the name of a file that is removed soon.
    pub fn sentence(&self, path: &Path, sentence: &str, report: Option<&Report>) -> String {
        if self.temporary.is_none() {
            return sentence.to_owned();
        }
        let process = report.and_then(|report| {
            Some(format!("{} (process {})", report.trace.program.as_ref()?, report.trace.pid?))
        });
        let name = match process {
            Some(process) => format!("the trace of {process}"),
            None => "the trace".to_owned(),
        };
        sentence.replace(&path.display().to_string(), &name)
    }
}

/// A name that has to be another one for each process.
pub fn check_distinct(flag: &str, path: &Path) -> Result<(), CliError> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.replace(PERCENT, "").contains(PID) {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "with --follow-children each process needs a file of its own: {flag} {name} has no %p, for \
         which the process id is put in"
    )))
}

/// `path` with the process id in it.
pub fn named(path: &Path, pid: u32) -> PathBuf {
    let Some(text) = path.to_str() else { return path.to_owned() };
    let parts = text.split(PERCENT).map(|part| part.replace(PID, &pid.to_string()));
    parts.collect::<Vec<_>>().join("%").into()
}

/// The files that the tracker of a process writes instead of `path` if that is in use, as far as there are any: each
/// program in which the process replaced itself by `exec` has one.
fn all_beside(path: &Path, pid: u32) -> impl Iterator<Item = PathBuf> + use<> {
    let first = beside(path, pid);
    let others = first.clone();
    let others = (2..).map(move |number| beside(&others, number));
    std::iter::once(first).chain(others).take_while(|path| path.exists())
}

/// `NAME.SUFFIX.EXT`.
fn beside(path: &Path, suffix: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{suffix}"));
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

/// The path from the root, so that it is the same file for children that run in other folders.
fn absolute(path: &Path) -> Result<PathBuf, CliError> {
    let name = path.display();
    let text = path.to_str().unwrap_or_default().replace(PERCENT, "").replace(PID, "");
    if let Some(letter) = ["%t", "%e"].iter().find(|letter| text.contains(**letter)) {
        return Err(CliError::Usage(format!(
            "the trace {name} has {letter}; here only %p (process id) and %% (%) are put in, because \
             the trace is read afterwards"
        )));
    }
    if fs::metadata(named(path, 0)).is_ok_and(|found| !found.is_file()) {
        return Err(CliError::Usage(format!(
            "the trace {name} is no regular file, and the report is made from it after the program"
        )));
    }
    if path.is_absolute() {
        return Ok(path.to_owned());
    }
    let folder = std::env::current_dir()
        .map_err(|error| CliError::Failed(format!("the folder of {name} is unknown: {error}")))?;
    Ok(escaped(&folder).join(path))
}

/// A path that means itself as a pattern.
fn escaped(path: &Path) -> PathBuf {
    // NOTE: in a path that is no UTF-8, the tracker puts nothing in.
    match path.to_str() {
        Some(text) => OsString::from(text.replace('%', PERCENT)).into(),
        None => path.to_owned(),
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok().filter(Metadata::is_file)?;
    Some(Stamp { modified: found.modified().ok(), bytes: found.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_id_and_percent_signs_are_put_in() {
        for (pattern, expected) in [
            ("run.memledger", "run.memledger"),
            ("run-%p.utrace", "run-42.utrace"),
            ("100%%/%p-%%p.utrace", "100%/42-%p.utrace"),
        ] {
            assert_eq!(named(Path::new(pattern), 42), Path::new(expected));
        }
        assert_eq!(named(&escaped(Path::new("/a%p/b%%c")), 42), Path::new("/a%p/b%%c"));
        assert_eq!(beside(Path::new("/a/run.x.utrace"), 42), Path::new("/a/run.x.42.utrace"));
        assert_eq!(beside(Path::new("/a/run"), 42), Path::new("/a/run.42"));
    }

    #[test]
    fn only_what_was_written_since_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| fs::write(file(name), text).expect("a file");
        for name in ["x-%-7.t", "x-%-8.t", "x-%-9.t.old", "x-%-.t", "other"] {
            write(name, "before");
        }
        let pattern = escaped(folder.path()).join("x-%%-%p.t");
        let traces = Traces::new(Some(&pattern), true).expect("a pattern");
        assert!(traces.found(8).is_empty());
        for name in ["x-%-8.t", "x-%-10.t", "x-%-6.t", "x-%-9.t.old", "x-%-a.t"] {
            write(name, "this is after that");
        }
        assert_eq!(traces.found(8), ["x-%-8.t", "x-%-6.t", "x-%-10.t"].map(file));

        let traces = Traces::new(Some(&file("other")), false).expect("a name");
        assert!(traces.found(8).is_empty());
        write("other.8", "of process 8");
        assert_eq!(traces.found(8), [file("other.8")]);
    }
}
