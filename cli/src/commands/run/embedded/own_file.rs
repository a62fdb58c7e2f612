//! A file that only its user can have written.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The folders that the file may be in, with their modes if they are made: the user's cache, and ones of the
/// user beside those of other users.
pub(super) fn folders(cache: Option<PathBuf>) -> Vec<(PathBuf, u32)> {
    let name = format!("memledger-{}", rustix::process::geteuid().as_raw());
    let of_all = [std::env::temp_dir(), "/var/tmp".into(), "/tmp".into()];
    let of_all = of_all.map(|folder| (folder.join(&name), 0o711));
    cache.map(|cache| (cache, 0o700)).into_iter().chain(of_all).collect()
}

/// The file with this content, in the first folder that it can be in; `for_all`: that all users can reach, if
/// there is one.
///
/// # Errors
/// A sentence, if it can be in none.
pub(super) fn kept(
    folders: &[(PathBuf, u32)],
    for_all: bool,
    name: &str,
    content: &[u8],
) -> Result<PathBuf, String> {
    let is_first = |(folder, mode): &&(PathBuf, u32)| !for_all || all_may_enter(folder, *mode);
    // PERF: a folder that is not wanted is not looked into: to compare the file takes a millisecond.
    let (first, others) = folders.iter().partition::<Vec<_>, _>(is_first);
    let mut refusals = Vec::new();
    for (folder, mode) in first.into_iter().chain(others) {
        match stored(folder, *mode, name, content) {
            Ok(path) => return Ok(path),
            Err(error) => refusals.push(format!("in {}: {error}", folder.display())),
        }
    }
    Err(refusals.join(", "))
}

/// Whether all users can enter the folder, which has this mode if it is made.
fn all_may_enter(folder: &Path, mode: u32) -> bool {
    let may_enter = |it: &Path| match fs::metadata(it) {
        Ok(found) => found.mode() & 0o001 != 0,
        Err(_) => it == folder && mode & 0o001 != 0,
    };
    folder.ancestors().all(may_enter)
}

/// The file in the folder with this content, which is written unless it is there.
fn stored(folder: &Path, mode: u32, name: &str, content: &[u8]) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(mode).create(folder)?;
    // NOTE: not where a link of another user leads. A folder of ours, no other user can replace.
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() {
        return Err(io::Error::other("it is a link"));
    }
    if rustix::fs::statvfs(folder)?.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC) {
        return Err(io::Error::other("nothing there may be executed"));
    }
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
        let path = stored(&folder, 0o700, "library.so", b"content").unwrap();
        let inode = || fs::metadata(&path).unwrap().ino();
        let first = inode();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        assert_eq!(stored(&folder, 0o700, "library.so", b"content").unwrap(), path);
        assert_eq!(inode(), first);
        fs::write(&path, b"changed").unwrap();
        stored(&folder, 0o700, "library.so", b"content").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content");
        let second = inode();
        assert_ne!(second, first, "a process that has the changed file keeps it");
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        stored(&folder, 0o700, "library.so", b"content").unwrap();
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
        stored(folder.path(), 0o700, "library.so", b"content").unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
        fs::remove_file(&path).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        stored(folder.path(), 0o700, "library.so", b"content").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"content");
    }

    #[test]
    fn root_has_it_where_all_can_reach_it() {
        let top = tempfile::tempdir().unwrap();
        fs::set_permissions(top.path(), Permissions::from_mode(0o711)).unwrap();
        let link = top.path().join("link");
        symlink("/", &link).unwrap();
        let named = |name: &str, mode| (top.path().join(name), mode);
        let folders =
            [named("file/none", 0o700), named("own", 0o700), (link, 0o711), named("all", 0o711)];
        fs::write(top.path().join("file"), "").unwrap();
        let kept = |folders: &[_], for_all| kept(folders, for_all, "library.so", b"content");
        let (own, all) = (Ok(top.path().join("own/library.so")), top.path().join("all/library.so"));
        let of_all = self::folders(None);
        assert!(
            of_all[1].0.starts_with("/var/tmp") && of_all[2].0.starts_with("/tmp"),
            "{of_all:?}"
        );
        let all_can_reach = all_may_enter(top.path(), 0);
        assert_eq!(kept(&folders, false), own);
        assert_eq!(kept(&folders, true), if all_can_reach { Ok(all) } else { own.clone() });
        assert_eq!(kept(&folders[..3], true), own, "better than none");
        let why = kept(&folders[2..3], true).unwrap_err();
        assert!(why.ends_with("link: it is a link"), "{why}");
    }

    #[test]
    fn nobody_else_may_write_to_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o775)).unwrap();
        stored(folder.path(), 0o700, "library.so", b"content").unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o755);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(folder.path(), Some(1), None).unwrap();
            let error = stored(folder.path(), 0o700, "library.so", b"content").unwrap_err();
            assert_eq!(error.to_string(), "it belongs to another user");
        }
    }
}
