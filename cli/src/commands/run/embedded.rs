//! The library that is part of this command, as a file.
//!
//! The dynamic loader opens it by its name, so no other user may be able to change it after the check. The
//! folder and the file belong to the user, and only the user may write to them. A program of root that
//! changes its user loads it as that user, who must be able to reach it.

#[cfg(any(has_library, all(test, target_os = "linux")))]
mod own_file;

use std::path::PathBuf;

/// The file of the library, which is made if it is not there; `None` if this command was built without it.
///
/// # Errors
/// A sentence.
#[cfg(has_library)]
pub fn library() -> Option<Result<PathBuf, String>> {
    const NAME: &str = concat!("libmemledger_preload-", env!("MEMLEDGER_LIBRARY_HASH"), ".so");
    const CONTENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libmemledger_preload.so"));
    let folders = own_file::folders(crate::cache::cache_folder());
    let failed = |why| format!("the library cannot be kept: {why}; TMPDIR names another folder");
    let is_root = rustix::process::geteuid().is_root();
    Some(own_file::kept(&folders, is_root, NAME, CONTENT).map_err(failed))
}

/// As the one above, in a build without the library.
#[cfg(not(has_library))]
pub fn library() -> Option<Result<PathBuf, String>> {
    None
}
