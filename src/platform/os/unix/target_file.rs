//! Opens a file for writing safely in a folder where other users may have put links or files.
//!
//! A user who can write to a folder can create a link there under a name that is easy to guess.
//! Another user's program that writes to that name would overwrite a file of its own user. So links
//! are followed only in folders that no other user can write to. In other folders, an existing file
//! must belong to this user or to the folder's owner, and have no second name (hard link).
//!
//! NOTE: Linux's own `fs.protected_symlinks` is off in many containers, and protects only the last
//! part of a path, and only folders with the sticky bit.

use super::super::{FOLDER, names_descriptor, release, reserve};
use super::own::OwnDescriptor;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// The number of links that are followed in one path, as on Linux. macOS follows 32.
const MAX_LINKS: usize = 40;

/// The folder of a file, held open, and the file's name in it, which is not a link.
pub(crate) struct TargetFile {
    folder: OwnDescriptor<File>,
    name: CString,
    /// The name is that of an open descriptor: on Linux a link in `/proc`, which only the system can follow.
    is_descriptor: bool,
}

impl TargetFile {
    /// Opens the folder of `path`.
    ///
    /// # Errors
    /// Errors of the system, and an error for a link in a folder that others can write to.
    pub(crate) fn find(path: &Path) -> io::Result<Self> {
        let mut folder = start_of(path)?;
        let mut left = names_of(path);
        let mut links = 0;
        while let Some(name) = left.pop() {
            let name = CString::new(name.into_vec())?;
            let target = read_link(&folder, &name);
            if target.is_some() {
                if is_shared(&folder.metadata()?) {
                    return Err(io::Error::other(format!(
                        "{} is a link in a folder that others can write to, and those are not followed; name what it leads to",
                        name.to_string_lossy()
                    )));
                }
                links += 1;
                if links > MAX_LINKS {
                    return Err(io::Error::from_raw_os_error(libc::ELOOP));
                }
            }
            let is_descriptor = names_descriptor(&folder, target.is_some());
            match target {
                Some(target) if !is_descriptor => {
                    if target.is_absolute() {
                        folder = start_of(&target)?;
                    }
                    left.extend(names_of(&target));
                }
                _ if left.is_empty() => return Self::new(folder, name, is_descriptor),
                _ => {
                    let last = if is_descriptor { 0 } else { libc::O_NOFOLLOW };
                    let flags = FOLDER | last;
                    folder = open_at(Some(&folder), &name, flags, 0)?;
                }
            }
        }
        Err(io::Error::from_raw_os_error(libc::EISDIR))
    }

    fn new(folder: File, name: CString, is_descriptor: bool) -> io::Result<Self> {
        // NOTE: opens the folder again, for reading, because only such a descriptor can be locked.
        // For an unreadable folder the first descriptor stays.
        let read = libc::O_RDONLY | libc::O_DIRECTORY;
        let folder = open_at(Some(&folder), c".", read, 0).unwrap_or(folder);
        Ok(Self { folder: OwnDescriptor::new(folder)?, name, is_descriptor })
    }

    /// Opens the file for writing without emptying it, and creates it if it does not exist. A
    /// regular file of this user gets the permissions `mode`, whatever the process's umask. A file
    /// of another user, or one that is named only by an open descriptor (`/dev/stderr`), keeps its
    /// permissions.
    ///
    /// A pipe must have a reader; without one, opening it fails, because waiting for a reader could
    /// take forever.
    pub(crate) fn open(&self, mode: u32) -> io::Result<File> {
        let file = self.open_with(libc::O_CREAT, mode)?;
        let found = self.admit(&file)?;
        self.set_mode(&file, &found, mode);
        Ok(file)
    }

    /// Checks that the file can be opened for writing later, and changes nothing.
    ///
    /// Returns the file if it must stay open until then, because it is not a regular file, or is
    /// named by an open descriptor. A pipe is opened only once: its reader may stop when the first
    /// writer closes it.
    ///
    /// # Errors
    /// If the file could not be created or written.
    pub(crate) fn check(&self) -> io::Result<Option<File>> {
        let file = match self.open_with(0, 0) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return self.may_create().map(|()| None);
            }
            Err(error) => return Err(error),
        };
        let is_named = self.admit(&file)?.is_file() && !self.is_descriptor;
        Ok((!is_named).then_some(file))
    }

    /// Removes the name; the file stays for those that have it open.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn remove(&self) -> io::Result<()> {
        let folder = self.folder.opened()?.as_raw_fd();
        // SAFETY: the name ends with a NUL; the descriptor is open for the duration of the call.
        match unsafe { libc::unlinkat(folder, self.name.as_ptr(), 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Reserves the name for this process until `self` is dropped; `false` if another process has
    /// it.
    ///
    /// # Errors
    /// The name cannot be reserved: the folder is not readable, or its file system has no such locks.
    pub(crate) fn reserve(&self) -> io::Result<bool> {
        reserve(self.folder.opened()?, &self.name)
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.folder.number()
    }

    /// A descriptor of the folder that does not hold the reservation, and the name, for a watcher.
    pub(crate) fn hand_over(&self) -> io::Result<(File, &CStr)> {
        let folder = self.folder.opened()?;
        Ok((open_at(Some(folder), c".", libc::O_RDONLY | libc::O_DIRECTORY, 0)?, &self.name))
    }

    /// What [`hand_over`](Self::hand_over) has given.
    ///
    /// # Errors
    /// Those of [`OwnDescriptor::new`].
    pub(crate) fn received(folder: File, name: CString) -> io::Result<Self> {
        Ok(Self { folder: OwnDescriptor::new(folder)?, name, is_descriptor: false })
    }

    /// Whether the descriptor of the folder is still open.
    pub(crate) fn is_ours(&self) -> bool {
        self.folder.get().is_some()
    }

    fn open_with(&self, flags: libc::c_int, mode: u32) -> io::Result<File> {
        let last = if self.is_descriptor { 0 } else { libc::O_NOFOLLOW };
        let flags = libc::O_WRONLY | libc::O_NONBLOCK | last | flags;
        open_at(Some(self.folder.opened()?), &self.name, flags, mode)
    }

    /// The metadata of a file; an error if another user may have put it there.
    fn admit(&self, file: &File) -> io::Result<Metadata> {
        let (found, folder) = (file.metadata()?, self.folder.opened()?.metadata()?);
        let is_strange = ![user(), folder.uid()].contains(&found.uid());
        if is_shared(&folder) && (is_strange || found.is_file() && found.nlink() > 1) {
            return Err(io::Error::other(format!(
                "it is there already, and may be somebody else's: it belongs to user {} and has {} names, in a folder that others can write to",
                found.uid(),
                found.nlink()
            )));
        }
        Ok(found)
    }

    fn set_mode(&self, file: &File, found: &Metadata, mode: u32) {
        let is_ours = found.is_file() && found.uid() == user();
        if is_ours && !self.is_descriptor && found.mode() & 0o7777 != mode {
            // Some file systems have no permissions.
            let _ = file.set_permissions(Permissions::from_mode(mode));
        }
    }

    /// Checks that the process may create a file in the folder.
    ///
    /// NOTE: returns only errors about the folder. A sandbox that does not know the call
    /// (`faccessat2`) returns other errors, and may still allow the file to be created.
    fn may_create(&self) -> io::Result<()> {
        let (mode, flags) = (libc::W_OK | libc::X_OK, libc::AT_EACCESS);
        let folder = self.folder.opened()?.as_raw_fd();
        // SAFETY: the name ends with a NUL; the descriptor is open for the duration of the call.
        let allowed = unsafe { libc::faccessat(folder, c".".as_ptr(), mode, flags) };
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EROFS | libc::ENOENT) if allowed != 0 => Err(error),
            _ => Ok(()),
        }
    }
}

impl Drop for TargetFile {
    fn drop(&mut self) {
        // NOTE: the child of a fork has the folder open as well, so closing it would not unlock it.
        let _ = self.folder.opened().map(|folder| release(folder, &self.name));
    }
}

fn start_of(path: &Path) -> io::Result<File> {
    let start = if path.is_absolute() { c"/" } else { c"." };
    open_at(None, start, FOLDER, 0)
}

/// The names in a path, the last one first.
fn names_of(path: &Path) -> Vec<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().rev().filter_map(name).collect()
}

/// Whether another user can put links into a folder. A group with the same number as the folder's
/// owner is taken for the owner's own group, as in most distributions.
fn is_shared(folder: &Metadata) -> bool {
    let (mode, owner) = (folder.mode(), folder.uid());
    let group_can_write = mode & 0o020 != 0 && folder.gid() != owner;
    mode & 0o002 != 0 || group_can_write || ![0, user()].contains(&owner)
}

fn user() -> u32 {
    // SAFETY: takes no arguments and returns a number.
    unsafe { libc::geteuid() }
}

/// The target of a link; `None` if the name is not a link.
fn read_link(folder: &File, name: &CStr) -> Option<PathBuf> {
    let mut target = vec![0_u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer is valid for its length, and the name ends with a NUL.
    let length = unsafe {
        let (buffer, size) = (target.as_mut_ptr().cast(), target.len());
        libc::readlinkat(folder.as_raw_fd(), name.as_ptr(), buffer, size)
    };
    let target = target.get(..usize::try_from(length).ok()?)?;
    Some(PathBuf::from(OsStr::from_bytes(target)))
}

fn open_at(folder: Option<&File>, name: &CStr, flags: libc::c_int, mode: u32) -> io::Result<File> {
    let folder = folder.map_or(libc::AT_FDCWD, AsRawFd::as_raw_fd);
    loop {
        // SAFETY: the name ends with a NUL; the descriptor is open for the duration of the call.
        let file = unsafe { libc::openat(folder, name.as_ptr(), flags | libc::O_CLOEXEC, mode) };
        if file >= 0 {
            // SAFETY: the descriptor is new, so nothing else owns it.
            return Ok(unsafe { File::from_raw_fd(file) });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
