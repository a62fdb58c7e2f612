//! The file that a name leads to, opened for writing.
//!
//! Links, which only administrators and users in a mode for developers can create, are followed.

use super::RawFd;
use std::ffi::{CStr, CString};
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::windows::io::{FromRawHandle, OwnedHandle};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use windows_sys::Win32::Foundation::{ERROR_ALREADY_EXISTS, GetLastError};
use windows_sys::Win32::System::Threading::CreateMutexW;

/// The name of a file in a folder that exists.
pub(crate) struct TargetFile {
    path: PathBuf,
    /// What other processes see of a name that is reserved for this one.
    reserved: Mutex<Option<OwnedHandle>>,
}

impl TargetFile {
    /// Finds the folder of `path`.
    ///
    /// # Errors
    /// Those of the system: there is no such folder.
    pub(crate) fn find(path: &Path) -> io::Result<Self> {
        let Some(name) = path.file_name() else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        // NOTE: a device, such as `NUL`, or a pipe has no folder that could be found.
        let folder = folder.unwrap_or(Path::new(".")).canonicalize();
        let path = folder.map_or_else(|_| path.to_owned(), |folder| folder.join(name));
        Ok(Self { path, reserved: Mutex::new(None) })
    }

    /// Opens the file for writing without emptying it, and creates it if it does not exist. Others can read
    /// and remove it meanwhile. It has the rights that its folder gives it.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn open(&self, _mode: u32) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(false).open(&self.path)
    }

    /// Checks that the file can be opened for writing later, and changes nothing.
    ///
    /// Returns the file if it must stay open until then, because it is not a regular file.
    ///
    /// # Errors
    /// If the file could not be created or written.
    pub(crate) fn check(&self) -> io::Result<Option<File>> {
        match OpenOptions::new().write(true).open(&self.path) {
            Ok(file) => Ok(Some(file).filter(|file| !is_regular(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.path.parent().map_or(Ok(()), |folder| folder.metadata().map(|_| ()))?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes the name; the file stays for those that have it open.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn remove(&self) -> io::Result<()> {
        std::fs::remove_file(&self.path)
    }

    /// Reserves the name for this process until `self` is dropped; `false` if it is reserved already.
    ///
    /// NOTE: by an object of the system (a mutex, which nobody locks) whose name follows from the path, since
    /// the file may not exist yet.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn reserve(&self) -> io::Result<bool> {
        let mut hash = DefaultHasher::new();
        self.path.to_string_lossy().to_lowercase().hash(&mut hash);
        let name = format!("Local\\memledger-{:016x}\0", hash.finish());
        let name: Vec<u16> = name.encode_utf16().collect();
        // SAFETY: the name ends with a 0; the handle is new, so nothing else owns it.
        let (object, is_new) = unsafe {
            let object = CreateMutexW(std::ptr::null(), 0, name.as_ptr());
            if object.is_null() {
                return Err(io::Error::last_os_error());
            }
            let is_new = GetLastError() != ERROR_ALREADY_EXISTS;
            (OwnedHandle::from_raw_handle(object), is_new)
        };
        if is_new {
            *self.reserved.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(object);
        }
        Ok(is_new)
    }

    /// No watcher needs it.
    pub(crate) fn descriptor(&self) -> RawFd {
        usize::MAX
    }

    pub(crate) fn hand_over(&self) -> io::Result<(File, &CStr)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn received(_folder: File, _name: CString) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Nothing that it needs is open.
    pub(crate) fn is_ours(&self) -> bool {
        true
    }
}

fn is_regular(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.is_file())
}
