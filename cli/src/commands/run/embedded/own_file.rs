//! A file that only its user can have written.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file in the folder with this content, which is written unless it is there.
pub(super) fn stored(folder: &Path, name: &str, content: &[u8]) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::metadata(folder)?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    if !is_only_ours(&found) {
        // Made with a mask that lets a group write.
        fs::set_permissions(folder, Permissions::from_mode(found.mode() & 0o755))?;
    }
    let path = folder.join(name);
    if has_content(&path, content).unwrap_or(false) {
        return Ok(path);
    }
    let mut file = tempfile::Builder::new().prefix(".").suffix(".part").tempfile_in(folder)?;
    file.write_all(content)?;
    // A program that changes its user starts others, which load it as that user.
    file.as_file().set_permissions(Permissions::from_mode(0o644))?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(path)
}

/// Whether the file is the user's, a file, and has this content.
fn has_content(path: &Path, content: &[u8]) -> io::Result<bool> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file: File = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.len() != content.len() as u64 || !is_only_ours(&found) {
        return Ok(false);
    }
    let mut bytes = Vec::with_capacity(content.len());
    file.take(content.len() as u64).read_to_end(&mut bytes)?;
    Ok(bytes == content)
}

/// Whether the user owns it, and no other user may write to it.
fn is_only_ours(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_is_written_once_and_again_if_it_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("cache/memledger");
        let path = stored(&folder, "library.so", b"content").unwrap();
        let inode = || fs::metadata(&path).unwrap().ino();
        let first = inode();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert_eq!(stored(&folder, "library.so", b"content").unwrap(), path);
        assert_eq!(inode(), first);
        fs::write(&path, b"changed").unwrap();
        stored(&folder, "library.so", b"content").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        let second = inode();
        assert_ne!(second, first, "a process that has the changed file keeps it");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        stored(&folder, "library.so", b"content").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
        let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["library.so"]);
    }

    #[test]
    fn a_link_and_a_pipe_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        let other = folder.path().join("other");
        fs::write(&other, b"content").unwrap();
        let path = folder.path().join("library.so");
        symlink(&other, &path).unwrap();
        stored(folder.path(), "library.so", b"content").unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        stored(folder.path(), "library.so", b"content").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content");
    }

    #[test]
    fn nobody_else_may_write_to_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o775)).unwrap();
        stored(folder.path(), "library.so", b"content").unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o755);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(folder.path(), Some(1), None).unwrap();
            let error = stored(folder.path(), "library.so", b"content").unwrap_err();
            assert_eq!(error.to_string(), "it belongs to another user");
        }
    }
}
