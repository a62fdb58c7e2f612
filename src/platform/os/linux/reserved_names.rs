//! What Linux says of a name in a folder: whether another process has reserved it, and whether it is that of
//! an open descriptor.

use std::ffi::{CStr, c_int, c_short};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// How a folder is opened in which names are looked up: it need not be readable.
pub(in crate::platform::os) const FOLDER: c_int = libc::O_PATH | libc::O_DIRECTORY;

/// Reserves a name until [`release`]; `false` if another process has it.
///
/// NOTE: takes a lock on one byte of the folder, at an offset that the name determines, because the file to
/// lock may not exist yet. Linux grants only shared locks on folders, but reports the locks of other
/// processes. If two processes ask at the same time, both may be refused.
pub(in crate::platform::os) fn reserve(folder: &File, name: &CStr) -> io::Result<bool> {
    if is_taken(folder, name)? {
        return Ok(false);
    }
    lock(folder, name, libc::F_OFD_SETLK, libc::F_RDLCK)?;
    let is_alone = !is_taken(folder, name)?;
    if !is_alone {
        release(folder, name);
    }
    Ok(is_alone)
}

pub(in crate::platform::os) fn release(folder: &File, name: &CStr) {
    let _ = lock(folder, name, libc::F_OFD_SETLK, libc::F_UNLCK);
}

fn is_taken(folder: &File, name: &CStr) -> io::Result<bool> {
    let found = lock(folder, name, libc::F_OFD_GETLK, libc::F_WRLCK)?;
    Ok(c_int::from(found.l_type) != libc::F_UNLCK)
}

fn lock(folder: &File, name: &CStr, command: c_int, kind: c_int) -> io::Result<libc::flock> {
    // FNV-1a: the same result in every program.
    let number = name.to_bytes().iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    // SAFETY: all zeros are a valid lock; the call reads and writes the local.
    unsafe {
        let mut lock = std::mem::zeroed::<libc::flock>();
        lock.l_type = kind as c_short;
        lock.l_whence = libc::SEEK_SET as c_short;
        lock.l_start = (number >> 2) as libc::off_t;
        lock.l_len = 1;
        match libc::fcntl(folder.as_raw_fd(), command, &raw mut lock) {
            0 => Ok(lock),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Whether a name in this folder is that of an open descriptor: a link in `/proc`, which only the system can
/// follow.
pub(in crate::platform::os) fn names_descriptor(folder: &File, is_link: bool) -> bool {
    is_link && is_proc(folder)
}

fn is_proc(folder: &File) -> bool {
    // SAFETY: the structure is valid for writing, the descriptor is open.
    unsafe {
        let mut found = std::mem::zeroed::<libc::statfs>();
        libc::fstatfs(folder.as_raw_fd(), &raw mut found) == 0
            && found.f_type as u64 == libc::PROC_SUPER_MAGIC as u64
    }
}
