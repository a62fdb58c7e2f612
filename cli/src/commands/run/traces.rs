//! The files that the traces of a program and of its children are in.

use crate::cache::{RunFolder, is_locked};
use crate::error::CliError;
use memledger_analysis::Report;
use memledger_format::words::system_text;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// What is put in for `%p`, and for `%%`.
const PID: &str = "%p";
const PERCENT: &str = "%%";

/// How long the watchers of processes that have ended may take, and what has other traces locked.
const ENDED_TIMEOUT: Duration = Duration::from_secs(30);
const OTHERS_TIMEOUT: Duration = Duration::from_secs(1);

/// Where the program writes its trace.
pub struct Traces {
    /// The name, with `%p` for the process id and `%%` for a percent sign.
    pattern: PathBuf,
    /// The folder of a trace that is not kept; it is removed with this value.
    temporary: Option<Temporary>,
    /// The folder of a trace that is kept as that of the last run.
    last: Option<RunFolder>,
    follow_children: bool,
    /// The files that have such a name already.
    before: HashMap<PathBuf, Stamp>,
}

/// A folder that is removed with this value. While this process has it, a file in it is locked.
struct Temporary {
    _lock: File,
    _folder: TempDir,
}

/// How the names of such folders begin.
const TEMPORARY: &str = "memledger-run-";
/// A folder that has not changed for this time is not one that was just made.
const UNUSED_FOR: Duration = Duration::from_secs(60);

/// Removes the folders of commands that were killed, if no program writes a trace there.
fn remove_left_behind(among: &Path) {
    for entry in fs::read_dir(among).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(TEMPORARY)
            && entry.metadata().is_ok_and(|found| found.is_dir() && is_own_and_old(&found));
        let folder = entry.path();
        if !is_ours || is_locked(&folder) {
            continue;
        }
        let mut traces = fs::read_dir(&folder).into_iter().flatten().flatten();
        if !traces.any(|trace| is_locked(&trace.path())) {
            // What cannot be removed stays.
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

/// Whether a folder belongs to this user, and was not changed just now.
fn is_own_and_old(found: &Metadata) -> bool {
    #[cfg(unix)]
    let is_own = std::os::unix::fs::MetadataExt::uid(found) == rustix::process::geteuid().as_raw();
    #[cfg(not(unix))]
    let is_own = true;
    let age = found.modified().ok().and_then(|at| at.elapsed().ok());
    is_own && age.is_some_and(|age| age > UNUSED_FOR)
}

/// What changes when a file is written.
#[derive(PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
}

impl Traces {
    /// `keep` is the name that the user has given, if any; `last` is where the run is kept, if it is.
    pub fn new(
        keep: Option<&Path>,
        follow_children: bool,
        last: Option<RunFolder>,
    ) -> Result<Self, CliError> {
        let failed =
            |error| CliError::Failed(format!("a temporary folder cannot be made: {error}"));
        let (pattern, temporary) = match (keep, &last) {
            (Some(path), _) => (absolute(path)?, None),
            (None, Some(run)) => (escaped(&run.folder).join(run.name(follow_children)), None),
            (None, None) => {
                remove_left_behind(&tempfile::env::temp_dir());
                let folder = tempfile::Builder::new().prefix(TEMPORARY).tempdir();
                let folder = folder.map_err(failed)?;
                // NOTE: of a file in it, since Windows has no locks of folders.
                let lock = File::create(folder.path().join("lock")).map_err(failed)?;
                // On a file system without locks, the next command may remove it after `UNUSED_FOR`.
                let _ = lock.try_lock();
                let pattern = escaped(folder.path()).join("%p.memledger");
                (pattern, Some(Temporary { _lock: lock, _folder: folder }))
            }
        };
        if follow_children {
            check_distinct("--trace", &pattern)?;
        } else if is_locked(&named(&pattern, 0)) {
            return Err(CliError::Failed(format!(
                "another process is writing the trace {}; give --trace another name",
                pattern.display()
            )));
        }
        let before = HashMap::new();
        let mut traces = Self { pattern, temporary, last, follow_children, before };
        traces.before = traces
            .all(None)
            .filter_map(|path| Some((stamp(&path)?, path)))
            .map(|(stamp, path)| (path, stamp))
            .collect();
        Ok(traces)
    }

    /// The value of `MEMLEDGER_TRACE`.
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

    /// The trace of the program that runs in the first process that writes one: the last one there, if the
    /// process has replaced itself by `exec`.
    pub fn running(&self, pid: u32) -> Option<PathBuf> {
        let mut found = self.found(pid);
        if self.follow_children {
            let process = |path: &Path| path.file_name().and_then(|name| self.pid_of(name));
            let first = process(found.first()?);
            found.retain(|path| process(path) == first);
        }
        found.pop()
    }

    /// The traces of all programs, those of a process in their order, as [`found`](Self::found) has the
    /// processes. A process that has replaced itself by `exec` has several. The last of its programs gets the
    /// name that was asked for, and those before it `NAME.PID.EXT`, `NAME.PID.2.EXT` and so on.
    pub fn programs(&self, pid: u32) -> Vec<Trace> {
        let mut processes = Vec::<(u32, Vec<PathBuf>)>::new();
        for path in self.found(pid) {
            let name = path.file_name().unwrap_or_default();
            let own = if self.follow_children { self.pid_of(name).unwrap_or(pid) } else { pid };
            match processes.iter_mut().find(|(process, _)| *process == own) {
                Some((_, paths)) => paths.push(path),
                None => processes.push((own, vec![path])),
            }
        }
        processes.into_iter().flat_map(|(_, paths)| last_first(paths)).collect()
    }

    /// Waits until the watchers of ended processes have completed their traces: until then, a trace is
    /// locked. The wait is short if the process, or a child that also holds the lock, still runs.
    pub fn wait_for_watchers(&self, pid: u32) {
        let begin = Instant::now();
        for path in self.found(pid) {
            let its = if self.follow_children {
                path.file_name().and_then(|name| self.pid_of(name))
            } else {
                Some(pid)
            };
            let Ok(file) = File::open(&path) else { continue };
            // NOTE: the lock of a forked child's is a shared one.
            while matches!(file.try_lock(), Err(TryLockError::WouldBlock))
                && begin.elapsed()
                    < if its.is_some_and(has_ended) { ENDED_TIMEOUT } else { OTHERS_TIMEOUT }
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
        let is_trace = |name: &OsStr| {
            self.pid_of(name).is_some_and(|pid| {
                let own = named(&self.pattern, pid);
                let is = |path: &PathBuf| path.file_name().is_some_and(|own| own == name);
                is(&own) || all_beside(&own, pid).any(|path| is(&path))
            })
        };
        let folder = named(self.pattern.parent().unwrap_or(Path::new("/")), 0);
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        Box::new(
            entries.filter(move |entry| is_trace(&entry.file_name())).map(|entry| entry.path()),
        )
    }

    /// Whether the process `pid` has left one of these traces, where each process has its own.
    pub fn has_left(&self, traces: &[Trace], pid: u32) -> bool {
        let process = |trace: &Trace| trace.path.file_name().and_then(|name| self.pid_of(name));
        traces.iter().any(|trace| process(trace) == Some(pid))
    }

    /// The process that a trace of this name could be of, in a pattern with `%p`.
    fn pid_of(&self, name: &OsStr) -> Option<u32> {
        let pattern = self.pattern.file_name().unwrap_or_default().as_encoded_bytes();
        let at = pattern.windows(2).position(|pair| pair == PID.as_bytes());
        let (before, after) = pattern.split_at(at.unwrap_or(pattern.len()));
        let after = after.strip_prefix(PID.as_bytes()).unwrap_or(after);
        let [before, after] = [before, after].map(|part| filled(part, PID));
        // NOTE: with two `%p` the rest has more than digits.
        let rest = name.as_encoded_bytes().strip_prefix(&*before)?.strip_suffix(&*after)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
    }

    /// The run is over: its trace is that of the process `pid`, which was started. Returns where it is kept
    /// as that of the last run.
    pub fn end(&self, pid: u32) -> Option<PathBuf> {
        Some(self.last.as_ref()?.end(self.found(pid).first()?))
    }

    /// The name of the trace at `path` in the working folder, if it is kept. `last` is that of the process
    /// `pid`, which was started.
    pub fn kept(&self, path: &Path, pid: u32) -> Option<String> {
        let is_in = |run: &RunFolder| path.parent() == Some(&run.folder);
        if self.last.as_ref().is_some_and(is_in) && path == named(&self.pattern, pid) {
            return Some("last".to_owned());
        }
        let folder = std::env::current_dir().unwrap_or_default();
        let name = path.strip_prefix(folder).unwrap_or(path);
        self.temporary.is_none().then(|| name.display().to_string())
    }

    /// Keeps the trace at `path`, if it is not kept anyway: beside the folder that will be removed.
    pub fn keep(&self, path: &Path) -> PathBuf {
        let kept = || {
            let folder = path.parent()?.parent().filter(|_| self.temporary.is_some())?;
            let mut name = tempfile::Builder::new();
            let name = name.prefix("memledger-").suffix(".memledger").tempfile_in(folder).ok()?;
            let (_, name) = name.keep().ok()?;
            fs::rename(path, &name).ok()?;
            Some(name)
        };
        kept().unwrap_or_else(|| path.to_owned())
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

/// The trace of one program.
pub struct Trace {
    pub path: PathBuf,
    /// Which program of its process it is of: 0 for the last one, and from 1 for those before it.
    pub number: u32,
}

/// The traces of the programs of one process, in their order, renamed so that the last one has the first
/// name. If that fails, they keep their names.
fn last_first(paths: Vec<PathBuf>) -> Vec<Trace> {
    let renamed = |paths: &[PathBuf]| {
        let (Some(first), Some(last)) = (paths.first(), paths.last()) else { return Ok(()) };
        if paths.len() == 1 {
            return Ok(());
        }
        let aside = beside(first, "last");
        fs::rename(last, &aside)?;
        for pair in paths.windows(2).rev() {
            fs::rename(&pair[0], &pair[1])?;
        }
        fs::rename(&aside, first)
    };
    let is_renamed = renamed(&paths).is_ok();
    let mut traces: Vec<_> =
        (0..).zip(paths).map(|(number, path)| Trace { path, number }).collect();
    if is_renamed && !traces.is_empty() {
        traces.rotate_left(1);
    }
    traces
}

/// A name that has to be another one for each process.
pub fn check_distinct(flag: &str, path: &Path) -> Result<(), CliError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.replace(PERCENT, "").contains(PID) {
        return Ok(());
    }
    Err(CliError::Usage(format!(
        "with --follow-children each process needs its own file; add %p (the process id) to {flag} {name}"
    )))
}

/// `path` with the process id in it.
pub fn named(path: &Path, pid: u32) -> PathBuf {
    path_of(filled(path.as_os_str().as_encoded_bytes(), &pid.to_string()))
}

/// A pattern with `pid` in it.
fn filled(pattern: &[u8], pid: &str) -> Vec<u8> {
    let mut filled = Vec::new();
    let mut rest = pattern;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match rest.first() {
            Some(b'p') if byte == b'%' => filled.extend(pid.bytes()),
            Some(b'%') if byte == b'%' => filled.push(b'%'),
            _ => {
                filled.push(byte);
                continue;
            }
        }
        rest = &rest[1..];
    }
    filled
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    system_text(bytes).into()
}

/// `path` with the process id in it, for a program of a process: `NAME.PID.EXT` and so on, as
/// [`Trace::number`] says.
pub fn numbered(path: &Path, pid: u32, number: u32) -> PathBuf {
    let path = named(path, pid);
    match number {
        0 => path,
        1 => beside(&path, pid),
        _ => beside(&beside(&path, pid), number),
    }
}

/// Whether a process has ended, perhaps without a parent that knows.
fn has_ended(pid: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{pid}/stat"));
    // The name before it can have any character.
    state.map_or(true, |state| {
        state.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X']))
    })
}

/// The files that the tracker of a process writes instead of `path` if that is in use, as far as there are
/// any: each program in which the process replaced itself by `exec` has one.
fn all_beside(path: &Path, pid: u32) -> impl Iterator<Item = PathBuf> + use<> {
    let first = beside(path, pid);
    let others = first.clone();
    let others = (2..).map(move |number| beside(&others, number));
    std::iter::once(first).chain(others).take_while(|path| path.exists())
}

/// `NAME.SUFFIX.EXT`.
fn beside(path: &Path, suffix: impl std::fmt::Display) -> PathBuf {
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
    let text = path.to_string_lossy().replace(PERCENT, "").replace(PID, "");
    if let Some(letter) = ["%t", "%e"].iter().find(|letter| text.contains(**letter)) {
        return Err(CliError::Usage(format!(
            "the trace {name} has {letter}, but memledger run replaces only %p (process id) and %% (%)"
        )));
    }
    if fs::metadata(named(path, 0)).is_ok_and(|found| !found.is_file()) {
        return Err(CliError::Usage(format!(
            "the trace {name} is not a regular file, so no report can be made from it"
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
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    path_of(
        bytes.flat_map(|&byte| std::iter::repeat_n(byte, 1 + usize::from(byte == b'%'))).collect(),
    )
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
        #[cfg(unix)]
        {
            let path = |bytes: &[u8]| path_of(bytes.to_vec());
            assert_eq!(named(&path(b"d\xff/%p-%%"), 42), path(b"d\xff/42-%"));
            assert_eq!(named(&escaped(&path(b"d%p\xff")), 42), path(b"d%p\xff"));
        }
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
        let traces = Traces::new(Some(&pattern), true, None).expect("a pattern");
        assert!(traces.found(8).is_empty());
        for name in ["x-%-8.t", "x-%-10.t", "x-%-6.t", "x-%-9.t.old", "x-%-a.t"] {
            write(name, "this is after that");
        }
        assert_eq!(traces.found(8), ["x-%-8.t", "x-%-6.t", "x-%-10.t"].map(file));
        assert_eq!(traces.running(8), Some(file("x-%-8.t")));
        write("x-%-8.8.t", "of its next program");
        assert_eq!(traces.running(8), Some(file("x-%-8.8.t")));
        assert_eq!(traces.running(7), Some(file("x-%-6.t")), "it has no trace");

        let traces = Traces::new(Some(&file("other")), false, None).expect("a name");
        assert!(traces.found(8).is_empty());
        write("other.8", "of process 8");
        assert_eq!(traces.found(8), [file("other.8")]);
        assert_eq!(traces.running(8), Some(file("other.8")));
    }
}
