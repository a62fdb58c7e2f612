//! Writes the output of a command: a file that is complete or does not exist, or standard output.

use super::input::is_stdin;
use crate::error::CliError;
use memledger_analysis::Frames;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::path::{Component, Path, Prefix};
use tempfile::NamedTempFile;

/// What `--all-frames` means.
pub fn frames(all: bool) -> Frames {
    if all { Frames::All } else { Frames::Folded }
}

/// Lets `body` write the file `path`, or `out` if the path is `-`. Its errors of writing are to go
/// through [`unwritable`].
///
/// A new file can be read by its owner only, as the traces that it is made of; one that is there keeps its
/// permissions. It is written without a name, where the system has such files, else under another name in the
/// same folder, and gets its name at the end. If `body` fails or a signal ends this command, what `path` was
/// before stays, and nothing else (but for a signal where the file has another name). What is no file (a
/// pipe, `/dev/null`) is written directly.
pub fn write_to<T>(
    path: &Path,
    out: &mut dyn Write,
    body: impl FnOnce(&mut dyn Write) -> Result<T, CliError>,
) -> Result<T, CliError> {
    if is_stdin(path) {
        return body(out);
    }
    write_file(path, body)
}

/// [`write_to`] for a path that is never standard output.
pub fn write_file<T>(
    path: &Path,
    body: impl FnOnce(&mut dyn Write) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let failed = |error| unwritable(path, error);
    // Through a link, to the file itself.
    let is_device = is_device(path);
    let target = fs::canonicalize(path).ok().filter(|_| !is_device);
    let target = target.unwrap_or_else(|| path.to_owned());
    let before = fs::metadata(&target).ok();
    if is_device || before.as_ref().is_some_and(|before| !before.is_file()) {
        let file = fs::OpenOptions::new().write(true).open(&target).map_err(failed)?;
        let mut file = BufWriter::new(file);
        let value = body(&mut file)?;
        file.flush().map_err(failed)?;
        return Ok(value);
    }
    let part = Part::new(&target).map_err(failed)?;
    let mut file = BufWriter::new(part.file());
    let value = body(&mut file)?;
    file.flush().map_err(failed)?;
    drop(file);
    if let Some(before) = before {
        part.file().set_permissions(before.permissions()).map_err(failed)?;
    }
    part.persist(&target).map_err(failed)?;
    Ok(value)
}

/// Whether the path is that of a device of Windows, such as `NUL`, which says nothing else about itself.
fn is_device(path: &Path) -> bool {
    let whole = std::path::absolute(path).unwrap_or_default();
    match whole.components().next() {
        Some(Component::Prefix(prefix)) => matches!(prefix.kind(), Prefix::DeviceNS(_)),
        _ => false,
    }
}

/// How a file that only its owner may read is opened.
pub fn private() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// The error of a command whose output, the file `path` or standard output, cannot be written.
pub fn unwritable(path: &Path, error: io::Error) -> CliError {
    if is_stdin(path) {
        CliError::Output(error)
    } else {
        CliError::Failed(format!("cannot write {}: {error}", path.display()))
    }
}

/// A file that is not whole yet, which is removed when it is dropped.
pub enum Part {
    /// On Linux, where the file system has files without a name: nothing stays of them, however this process
    /// ends.
    #[cfg(target_os = "linux")]
    Unnamed(File),
    Named(NamedTempFile),
}

impl Part {
    /// One that can get the name `path`. Only its owner may read it.
    pub fn new(path: &Path) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{Mode, OFlags, open};
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            let unnamed = open(folder_of(path), flags, Mode::from_raw_mode(0o600)).map(File::from);
            if let Some(file) = unnamed.ok().filter(|file| link_of(file).exists()) {
                return Ok(Self::Unnamed(file));
            }
        }
        let named = named_part(path, |builder, folder| builder.tempfile_in(folder));
        named.map(Self::Named)
    }

    pub fn file(&self) -> &File {
        match self {
            #[cfg(target_os = "linux")]
            Self::Unnamed(file) => file,
            Self::Named(file) => file.as_file(),
        }
    }

    /// Gives it its name, in the place of a file that has it.
    pub fn persist(self, path: &Path) -> io::Result<()> {
        match self {
            Self::Named(file) => file.persist(path).map(drop).map_err(|error| error.error),
            #[cfg(target_os = "linux")]
            Self::Unnamed(file) => {
                use rustix::fs::{AtFlags, CWD, linkat};
                // NOTE: a link takes no name that is in use.
                let link = |name: &Path| {
                    linkat(CWD, link_of(&file), CWD, name, AtFlags::SYMLINK_FOLLOW)
                        .map_err(Into::into)
                };
                let linked = named_part(path, |builder, folder| builder.make_in(folder, link))?;
                linked.into_temp_path().persist(path).map_err(|error| error.error)
            }
        }
    }
}

/// Where Linux has the file itself, if `/proc` is there.
#[cfg(target_os = "linux")]
fn link_of(file: &File) -> PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// What `make` makes beside `path`, under a name that is not in use.
fn named_part<T>(
    path: &Path,
    make: impl FnOnce(&mut tempfile::Builder<'_, '_>, &Path) -> io::Result<T>,
) -> io::Result<T> {
    let mut builder = tempfile::Builder::new();
    let prefix = path.file_name().map(|name| format!(".{}.", name.to_string_lossy()));
    // A name of 255 bytes has no room for more.
    let prefix = prefix.filter(|prefix| prefix.len() < 200).unwrap_or_default();
    // NOTE: `tempfile` gives it the permissions 0600. The error would name the temporary file.
    let made = make(builder.prefix(&prefix).suffix(".part"), folder_of(path));
    made.map_err(|error| error.kind().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_whole_or_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let fail = |file: &mut dyn Write| {
            file.write_all(&[b'x'; 100_000]).unwrap();
            let parts = usize::from(cfg!(not(target_os = "linux")));
            assert_eq!(names(folder.path()).len(), parts + usize::from(path.exists()));
            Err::<(), _>(CliError::Failed("no more".into()))
        };
        write_to(&path, &mut io::sink(), fail).unwrap_err();
        assert_eq!(names(folder.path()), Vec::<String>::new());

        let write = |text: &'static str| {
            move |file: &mut dyn Write| file.write_all(text.as_bytes()).map_err(CliError::Output)
        };
        write_to(&path, &mut io::sink(), write("first")).unwrap();
        write_to(&path, &mut io::sink(), fail).unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        write_to(&path, &mut io::sink(), write("second")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_new_file_is_its_owners_only() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let write = |file: &mut dyn Write| file.write_all(b"names").map_err(CliError::Output);
        write_to(&path, &mut io::sink(), write).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_stay() {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "before").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("file", &link).unwrap();
        let write = |file: &mut dyn Write| file.write_all(b"after").map_err(CliError::Output);
        write_to(&link, &mut io::sink(), write).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"after");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn what_is_no_file_is_written_directly() {
        let mut out = Vec::new();
        let write = |file: &mut dyn Write| file.write_all(b"data").map_err(CliError::Output);
        write_to(Path::new("-"), &mut out, write).unwrap();
        assert_eq!(out, b"data");
        let nothing = if cfg!(windows) { "NUL" } else { "/dev/null" };
        write_to(Path::new(nothing), &mut io::sink(), write).unwrap();
        let CliError::Failed(sentence) =
            write_to(Path::new("/no/such/folder/x"), &mut io::sink(), write).unwrap_err()
        else {
            panic!()
        };
        assert!(sentence.starts_with("cannot write /no/such/folder/x: "), "{sentence}");
    }
}
