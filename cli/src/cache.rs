//! What this command keeps for its user: the traces of the last runs, and what can be made again.
//!
//! ```text
//! traces/TIME-xxxxxx/            one run of `memledger run`
//!     PROGRAM.memledger          its trace, or a link to where the user keeps it
//!     PROGRAM.PID.memledger      those of its other processes
//!     lock                       locked while it runs; its time is that of the last use
//! symbols/                       functions of addresses
//! indexes/                       what is kept of traces in folders that cannot be written
//! ```

use crate::quantity;
use clap::builder::{PathBufValueParser, TypedValueParser};
use memledger_export::text::bytes;
use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How much is kept, or where, or `off`.
pub const VARIABLE: &str = "MEMLEDGER_CACHE";
/// The most bytes of all that is kept, unless the variable says otherwise.
const LIMIT: u64 = 2 << 30;
/// Symbols, and indexes, may take this part of it; traces may take the rest.
const PART: u64 = 8;
const TRACES: &str = "traces";
const LOCK: &str = "lock";
const TRACE_SUFFIX: &str = ".memledger";
/// How the names of files with functions and of indexes end.
const FILES: [&str; 3] = ["functions", "index", "blocks"];

/// The folder of what is kept.
pub struct Cache {
    folder: PathBuf,
    limit: u64,
    /// The user has named the folder, so it matters whether it can be used.
    pub is_named: bool,
}

/// Where the user keeps what can be made again: the folder that the variable names, or `memledger` in the
/// user's cache folder; `None` if the user has none.
pub fn cache_folder() -> Option<PathBuf> {
    match value().0 {
        Some(named) => std::path::absolute(named).ok(),
        None => default_folder(),
    }
}

fn default_folder() -> Option<PathBuf> {
    // NOTE: by the XDG specification, an empty or relative path is no value.
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = named.filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(std::env::home_dir()?.join(".cache")));
    Some(cache.filter(|path| path.is_absolute())?.join("memledger"))
}

/// The folder and the limit that the variable says; a limit of 0 is `off`.
fn value() -> (Option<PathBuf>, u64) {
    let value = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    match value {
        None => (None, LIMIT),
        Some(value) if value == "off" => (None, 0),
        Some(value) => match value.to_str().and_then(|text| quantity::size(text).ok()) {
            Some(bytes) => (None, bytes),
            None => (Some(value.into()), LIMIT),
        },
    }
}

impl Cache {
    /// As the variable says; `None` if nothing may be kept.
    pub fn from_environment() -> Option<Self> {
        let (named, limit) = value();
        let (folder, is_named) = (cache_folder()?, named.is_some());
        (limit > 0).then_some(Self { folder, limit, is_named })
    }

    /// A folder of the user's choice.
    #[cfg(test)]
    pub fn at(folder: &Path, limit: u64) -> Self {
        Self { folder: folder.to_owned(), limit, is_named: true }
    }

    pub fn symbols(&self) -> PathBuf {
        self.folder.join("symbols")
    }

    pub fn indexes(&self) -> PathBuf {
        self.folder.join("indexes")
    }

    /// The folder for the traces of runs.
    ///
    /// # Errors
    /// Why a trace cannot be written there.
    pub fn traces(&self) -> Result<PathBuf, String> {
        let folder = self.folder.join(TRACES);
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(failed)?;
        if is_remote(&folder) {
            return Err(format!("{} is not on a disk of this machine", folder.display()));
        }
        match free_bytes(&folder) {
            Some(free) if free < self.limit.saturating_mul(2) => Err(format!(
                "{} has {} free, and twice {VARIABLE} ({}) is needed",
                folder.display(),
                bytes(free),
                bytes(self.limit)
            )),
            _ => Ok(folder),
        }
    }

    /// Removes what was not used for the longest time, as far as there is too much.
    pub fn trim(&self) {
        let part = self.limit / PART;
        remove_oldest(&self.symbols(), part);
        remove_oldest(&self.indexes(), part);
        remove_oldest(&self.folder.join(TRACES), self.limit - 2 * part);
    }

    /// The runs that have ended, the last one first.
    fn runs(&self) -> Vec<KeptRun> {
        let folders = fs::read_dir(self.folder.join(TRACES)).into_iter().flatten().flatten();
        let mut runs: Vec<_> = folders.filter_map(|entry| KeptRun::of(&entry.path())).collect();
        runs.sort_by_key(|run| Reverse(run.ended));
        runs
    }
}

/// A run that has ended.
struct KeptRun {
    trace: PathBuf,
    program: String,
    ended: SystemTime,
}

impl KeptRun {
    fn of(folder: &Path) -> Option<Self> {
        if is_locked(&folder.join(LOCK)) {
            return None;
        }
        let files = fs::read_dir(folder).ok()?.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let program = name.strip_suffix(TRACE_SUFFIX)?.to_owned();
            let ended = fs::metadata(entry.path()).ok()?.modified().ok()?;
            Some(Self { trace: entry.path(), program, ended })
        });
        // Other processes have longer names.
        files.min_by_key(|run| (run.program.len(), run.program.clone()))
    }
}

/// The files of one run while it runs. Its folder is removed with this value if there is no trace in it.
pub struct RunFolder {
    pub folder: PathBuf,
    program: String,
    _lock: File,
}

impl RunFolder {
    /// A new one in the folder of all.
    pub fn new(cache: &Cache, program: &Path) -> Result<Self, String> {
        let among = cache.traces()?;
        let failed = |error: io::Error| format!("{}: {error}", among.display());
        let name = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ-").to_string();
        let folder = tempfile::Builder::new().prefix(&name).tempdir_in(&among).map_err(failed)?;
        let lock = File::create(folder.path().join(LOCK)).map_err(failed)?;
        // On a file system without locks, it counts as ended.
        let _ = lock.try_lock();
        let program = program.file_name().unwrap_or_default().to_string_lossy();
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
        let program = program.chars().take(64).map(|c| if is_plain(c) { c } else { '_' });
        Ok(Self { folder: folder.keep(), program: program.collect(), _lock: lock })
    }

    /// The name of its trace, or of those of all its processes, in which `%p` is the process id.
    pub fn name(&self, has_others: bool) -> String {
        let others = if has_others { ".%p" } else { "" };
        format!("{}{others}{TRACE_SUFFIX}", self.program)
    }

    /// The run is over, and its trace is this file. Returns its name here.
    pub fn end(&self, trace: &Path) -> PathBuf {
        let own = self.folder.join(self.name(false));
        if trace.parent() == Some(&self.folder) {
            let _ = fs::rename(trace, &own);
        } else {
            #[cfg(unix)]
            let _ = std::os::unix::fs::symlink(trace, &own);
        }
        own
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        let mut files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        if files.all(|file| file.file_name() == LOCK) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Reads the name of a trace on the command line, where `last` and `last:NAME` are that of the last run.
pub fn trace_arg() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| trace_of(path, Cache::from_environment().as_ref()))
}

/// Whether it is `last` or `last:NAME`.
pub fn is_kept_run(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text == "last" || text.starts_with("last:"))
}

fn trace_of(path: PathBuf, cache: Option<&Cache>) -> Result<PathBuf, String> {
    if !is_kept_run(&path) {
        return Ok(path);
    }
    let name = path.to_str().and_then(|text| text.strip_prefix("last:"));
    let runs = cache.map(Cache::runs).unwrap_or_default();
    let is_wanted = |run: &&KeptRun| name.is_none_or(|name| run.program == name);
    if let Some(run) = runs.iter().find(is_wanted) {
        if let Some(lock) = run.trace.parent().map(|folder| folder.join(LOCK)) {
            // It was used. Without it, it is removed earlier.
            let _ = File::create(lock).and_then(|lock| lock.set_modified(SystemTime::now()));
        }
        return Ok(run.trace.clone());
    }
    let mut names: Vec<_> = runs.into_iter().map(|run| run.program).collect();
    names.sort();
    names.dedup();
    Err(match (name, cache) {
        (_, None) => format!("{VARIABLE} is off, so no run is kept; ./last is a file of that name"),
        (Some(name), _) if !names.is_empty() => {
            format!("no run of {name} is kept; there are runs of {}", names.join(", "))
        }
        _ => "no run is kept: memledger run keeps its trace if its report goes to a terminal, or with \
              --keep; ./last is a file of that name"
            .to_owned(),
    })
}

/// The name of a trace for another command: `last`, if it is that of the last run.
pub fn name_of(trace: &Path) -> String {
    let last = || trace_of("last".into(), Cache::from_environment().as_ref()).ok();
    let is_kept = cache_folder().is_some_and(|folder| trace.starts_with(folder.join(TRACES)));
    let is_last = is_kept && last().is_some_and(|last| last == trace);
    if is_last { "last".to_owned() } else { trace.display().to_string() }
}

/// Whether another process has locked a file, as one that writes a trace does.
pub fn is_locked(path: &Path) -> bool {
    let file = File::open(path);
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Whether it is kept by this command: the user may have named a folder that has other things, too.
fn is_ours(path: &Path) -> bool {
    let ending = path.extension().and_then(OsStr::to_str);
    path.join(LOCK).is_file() || ending.is_some_and(|ending| FILES.contains(&ending))
}

/// Removes what is kept, but for what is in use, until the rest has no more than this number of bytes.
fn remove_oldest(folder: &Path, most: u64) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let unlocked = entries.filter(|path| is_ours(path) && !is_locked(&path.join(LOCK)));
    let mut entries: Vec<_> = unlocked
        .map(|path| {
            let files = files_of(&path);
            let used = files.iter().filter_map(|file| file.modified().ok()).max();
            (used, files.iter().map(fs::Metadata::len).fold(0, u64::saturating_add), path)
        })
        .collect();
    entries.sort();
    let mut bytes: u64 = 0;
    for (_, size, path) in entries.into_iter().rev() {
        bytes = bytes.saturating_add(size);
        if bytes > most {
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

/// A file, or the files in a folder. A link is no more than itself.
fn files_of(path: &Path) -> Vec<fs::Metadata> {
    match fs::read_dir(path) {
        Ok(files) => files.flatten().filter_map(|file| file.metadata().ok()).collect(),
        Err(_) => fs::symlink_metadata(path).into_iter().collect(),
    }
}

/// The bytes that this user may still write, if the system says so.
fn free_bytes(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        let found = rustix::fs::statvfs(folder).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}

/// Whether the folder is on another machine, or a program's file system: a trace is written as the program
/// allocates.
fn is_remote(folder: &Path) -> bool {
    #[cfg(target_os = "linux")]
    {
        // The magic numbers of linux/magic.h: NFS, SMB, CIFS, SMB2, FUSE, 9P, Ceph, AFS, Coda.
        const REMOTE: [u32; 9] = [
            0x6969,
            0x517b,
            0xff53_4d42,
            0xfe53_4d42,
            0x6573_5546,
            0x0102_1997,
            0x00c3_6400,
            0x5346_414f,
            0x7375_7245,
        ];
        rustix::fs::statfs(folder).is_ok_and(|found| REMOTE.contains(&(found.f_type as u32)))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn old(path: &Path, minutes: u64) {
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(60 * minutes)).unwrap();
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("user's")).unwrap();
        let files = [(3, "run/lock"), (3, "run/one.memledger"), (7, "user's/file"), (8, "a file")];
        for (age, name) in
            [(1, "b.functions"), (2, ".a.functions"), (9, "old.index")].into_iter().chain(files)
        {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let size = if name.ends_with(LOCK) { 0 } else { 100 };
            File::create(&path).unwrap().set_len(size).unwrap();
            old(&path, age);
        }
        let names = || {
            let entries = fs::read_dir(folder.path()).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<_> = names.collect();
            names.sort();
            assert!(["a file", "user's"].iter().all(|name| names.contains(&(*name).to_owned())));
            names.retain(|name| !matches!(&**name, "a file" | "user's"));
            names
        };
        remove_oldest(folder.path(), 400);
        assert_eq!(names(), [".a.functions", "b.functions", "old.index", "run"]);
        remove_oldest(folder.path(), 399);
        assert_eq!(names(), [".a.functions", "b.functions", "run"]);
        let lock = File::open(folder.path().join("run/lock")).unwrap();
        lock.lock().unwrap();
        remove_oldest(folder.path(), 0);
        assert_eq!(names(), ["run"], "it runs");
        drop(lock);
        remove_oldest(folder.path(), 0);
        assert_eq!(names(), [""; 0]);
    }

    #[test]
    fn the_last_run_is_the_one_that_ended_last() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path(), 1 << 20);
        let last = |name: &str| trace_of(name.into(), Some(&cache));
        assert!(last("last").unwrap_err().starts_with("no run is kept: "));
        let run = |program: &str, age| {
            let run = RunFolder::new(&cache, Path::new(program)).unwrap();
            let trace = run.folder.join(run.name(true).replace("%p", "42"));
            fs::write(&trace, "trace").unwrap();
            fs::write(run.folder.join(run.name(true).replace("%p", "43")), "child").unwrap();
            run.end(&trace);
            let trace = run.folder.join(run.name(false));
            old(&trace, age);
            (run, trace)
        };
        let (first, of_first) = run("/bin/first", 2);
        let (second, of_second) = run("a second", 1);
        assert!(last("last").is_err(), "both run");
        drop(first);
        assert_eq!(last("last"), Ok(of_first.clone()));
        drop(second);
        assert_eq!(last("last"), Ok(of_second.clone()));
        assert_eq!(last("last:first"), Ok(of_first.clone()));
        assert_eq!(last("last:a_second"), Ok(of_second));
        let why = "no run of third is kept; there are runs of a_second, first";
        assert_eq!(last("last:third"), Err(why.to_owned()));
        assert_eq!(last("./last"), Ok("./last".into()));
        assert!(trace_of("last".into(), None).unwrap_err().starts_with("MEMLEDGER_CACHE is off"));
        drop(run("first", 3));
        assert_eq!(last("last:first"), Ok(of_first));
        // One that has left nothing is not there.
        drop(RunFolder::new(&cache, Path::new("none")).unwrap());
        assert_eq!(fs::read_dir(folder.path().join(TRACES)).unwrap().count(), 3);
    }
}
