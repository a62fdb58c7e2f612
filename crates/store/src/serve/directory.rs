//! The folder with the traces: the only place that opens files in it.
//!
//! Names are chosen here, never by a client: `20261121_134519_001.utrace`, the time in UTC and a
//! number. A file is created only if its name is free, and only its user can access it. Symbolic
//! links are never followed, and pipes and devices are never read.

use crate::{Error, ErrorKind};
use jiff::Timestamp;
use parking_lot::Mutex;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The lock file of the server that uses the folder. It holds the server's process id.
const LOCK: &str = ".memledger-serve.lock";
/// The suffixes of trace files.
const ENDINGS: [&str; 2] = [".utrace", ".memledger"];
/// At most this many names are tried that begin with the same second.
const TRIES: u32 = 100_000;

/// The folder of traces, locked so that no other server uses it.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Locked until it is unlocked, or all that have this open close it.
    lock: File,
    /// The second and the number in the name that was chosen last.
    last: Mutex<(String, u32)>,
}

/// A trace in the folder.
#[derive(Debug)]
pub struct TraceFile {
    pub file: String,
    pub size: u64,
    pub modified: SystemTime,
}

impl Directory {
    /// Opens the folder, and creates it if its parent exists.
    ///
    /// # Errors
    /// [`ErrorKind::Folder`] if it cannot be used, or if another server uses it.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |what: String| {
            Error::new(
                ErrorKind::Folder,
                format!("cannot keep traces in {}: {what}", path.display()),
            )
        };
        match folder_builder().create(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(failed("the folder that it would be in does not exist".to_owned()));
            }
            Err(error) => return Err(failed(error.to_string())),
        }
        // NOTE: the canonical path has no links in it that could be changed later.
        let path = dunce::canonicalize(path).map_err(|error| failed(error.to_string()))?;
        if !path.is_dir() {
            return Err(failed("it is a file, not a folder".to_owned()));
        }
        let mut lock = options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path.join(LOCK))
            .map_err(|error| failed(format!("no file can be created there: {error}")))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                let _ = (&mut lock).take(20).read_to_string(&mut owner);
                return Err(failed(match owner.trim() {
                    // NOTE: Windows lets nobody else read what is locked.
                    "" => "another memledger serve is using it".to_owned(),
                    owner => format!("memledger serve, process {owner}, is using it"),
                }));
            }
            // The file system has no locks, so another server cannot be detected.
            Err(TryLockError::Error(_)) => {}
        }
        let number = format!("{}\n", std::process::id());
        lock.set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| lock.write_all(number.as_bytes()))
            .map_err(|error| failed(format!("writing there failed: {error}")))?;
        Ok(Self { path, lock, last: Mutex::default() })
    }

    /// Another descriptor of the locked file, to unlock it.
    pub fn lock(&self) -> io::Result<File> {
        self.lock.try_clone()
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The traces in it, in the order of their names.
    pub(super) fn list(&self) -> io::Result<Vec<TraceFile>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let Ok(file) = entry.file_name().into_string() else { continue };
            if file.starts_with('.') || stem(&file) == file {
                continue;
            }
            // The file was removed meanwhile, or is not readable.
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_file() {
                let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                found.push(TraceFile { file, size: metadata.len(), modified });
            }
        }
        found.sort_by(|one, other| one.file.cmp(&other.file));
        Ok(found)
    }

    /// A new, empty file for a trace, and its name.
    pub(super) fn create(&self, compact: bool) -> io::Result<(String, File)> {
        let time = Timestamp::now().strftime("%Y%m%d_%H%M%S").to_string();
        let [ending, other] = if compact { [1, 0] } else { [0, 1] }.map(|kind| ENDINGS[kind]);
        let mut last = self.last.lock();
        let first = if last.0 == time { last.1 + 1 } else { 1 };
        for number in first..TRIES {
            let name = format!("{time}_{number:03}");
            // A `.utrace` and a `.memledger` file never have the same stem.
            if fs::symlink_metadata(self.path.join(format!("{name}{other}"))).is_ok() {
                continue;
            }
            let file = format!("{name}{ending}");
            // `create_new` fails if anything has this name, even a link.
            match options().write(true).create_new(true).open(self.path.join(&file)) {
                Ok(opened) => {
                    *last = (time, number);
                    return Ok((file, opened));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other(format!("there are already {TRIES} traces of this second")))
    }

    /// Opens a trace by a name that [`list`](Self::list) or [`create`](Self::create) returned.
    pub(super) fn read(&self, file: &str) -> io::Result<File> {
        let file = options().read(true).open(self.path.join(file))?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is not a regular file any more")),
        }
    }

    /// Removes an empty trace.
    pub(super) fn remove(&self, file: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(file))
    }
}

/// The name of a trace: that of its file without the ending.
pub fn stem(file: &str) -> &str {
    ENDINGS.iter().find_map(|ending| file.strip_suffix(ending)).unwrap_or(file)
}

/// The folder for traces of this user: `memledger/traces` where programs keep data. It is created if it does
/// not exist.
///
/// # Errors
/// [`ErrorKind::Folder`] if it cannot be created, or if there is no home directory.
pub fn default_path() -> Result<PathBuf, Error> {
    let data =
        std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let data = data.or_else(|| Some(std::env::home_dir()?.join(".local/share")));
    let Some(data) = data.filter(|path| path.is_absolute()) else {
        return Err(Error::new(
            ErrorKind::Folder,
            "there is no home directory to keep traces in".to_owned(),
        ));
    };
    let path = data.join("memledger").join("traces");
    let mut builder = folder_builder();
    builder.recursive(true);
    match builder.create(&path) {
        Ok(()) => Ok(path),
        Err(error) => {
            let path = path.display();
            Err(Error::new(
                ErrorKind::Folder,
                format!("cannot make {path} to keep traces in: {error}"),
            ))
        }
    }
}

/// Creates folders that only their user can read.
fn folder_builder() -> fs::DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

/// Opens files that only their user can read. Links are not followed, and a pipe does not block.
fn options() -> OpenOptions {
    #[cfg_attr(not(any(unix, windows)), expect(unused_mut))]
    let mut options = OpenOptions::new();
    #[cfg(windows)]
    {
        const FILE_FLAG_OPEN_REPARSE_POINT: u32 = 0x20_0000;
        std::os::windows::fs::OpenOptionsExt::custom_flags(
            &mut options,
            FILE_FLAG_OPEN_REPARSE_POINT,
        );
    }
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits() as i32);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Directory) {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path()).unwrap();
        (folder, directory)
    }

    #[test]
    fn names_are_new_and_files_private() {
        let (_folder, directory) = folder();
        let mut names: Vec<_> = (0..20).map(|n| directory.create(n % 2 == 1).unwrap().0).collect();
        let listed: Vec<_> =
            directory.list().unwrap().into_iter().map(|found| found.file).collect();
        names.sort();
        assert_eq!(listed, names);
        let mut stems: Vec<_> = names.iter().map(|name| stem(name)).collect();
        stems.dedup();
        assert_eq!(stems.len(), 20);
        for name in &names {
            let shape = |c: char| if c.is_ascii_digit() { '0' } else { c };
            assert_eq!(stem(name).chars().map(shape).collect::<String>(), "00000000_000000_000");
            #[cfg(unix)]
            {
                use std::os::unix::fs::MetadataExt;
                let metadata = fs::metadata(directory.path().join(name)).unwrap();
                assert_eq!(metadata.mode() & 0o777, 0o600);
            }
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_there_is_passed_over() {
        let (folder, directory) = folder();
        // Every name of this second and of the next ones, as a link to a file that is not there.
        let now = Timestamp::now();
        let outside = folder.path().join("outside");
        for second in 0..60 {
            let time = now + jiff::SignedDuration::from_secs(second);
            let name = format!("{}_001.utrace", time.strftime("%Y%m%d_%H%M%S"));
            std::os::unix::fs::symlink(&outside, folder.path().join(name)).unwrap();
        }
        for (compact, name) in [(false, "_002.utrace"), (true, "_003.memledger")] {
            let made = directory.create(compact).unwrap().0;
            assert!(made.ends_with(name) || made.contains("_002."), "{made}");
        }
        assert!(!outside.exists());
    }

    #[cfg(unix)]
    #[test]
    fn links_pipes_and_folders_are_no_traces() {
        use std::os::unix::fs::symlink;
        let (folder, directory) = folder();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("secret"), "secret").unwrap();
        symlink(at("secret"), at("link.utrace")).unwrap();
        fs::create_dir(at("folder.utrace")).unwrap();
        fs::write(at(".hidden.utrace"), "").unwrap();
        fs::write(at("notes.txt"), "").unwrap();
        fs::write(at("copied.utrace"), "2CRT").unwrap();
        let made = std::process::Command::new("mkfifo").arg(at("pipe.utrace")).status().unwrap();
        assert!(made.success());
        let listed: Vec<_> =
            directory.list().unwrap().into_iter().map(|found| found.file).collect();
        assert_eq!(listed, ["copied.utrace"]);
        for name in ["link.utrace", "folder.utrace", "pipe.utrace"] {
            assert!(directory.read(name).is_err(), "{name}");
        }
        assert!(directory.read("copied.utrace").is_ok());
    }

    #[test]
    fn one_server_a_folder() {
        let (folder, directory) = folder();
        let error = Directory::open(folder.path()).unwrap_err().to_string();
        let says = format!("memledger serve, process {}, is using it", std::process::id());
        assert!(error.contains(&says), "{error}");
        drop(directory);
        Directory::open(folder.path()).unwrap();
    }

    #[test]
    fn a_folder_that_cannot_be_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "").unwrap();
        for (path, says) in [
            (at("missing/traces"), "the folder that it would be in does not exist"),
            (at("file"), "it is a file, not a folder"),
        ] {
            let error = Directory::open(&path).unwrap_err().to_string();
            assert!(error.contains(says) && error.contains(path.to_str().unwrap()), "{error}");
        }
        Directory::open(&at("new")).unwrap();
    }
}
