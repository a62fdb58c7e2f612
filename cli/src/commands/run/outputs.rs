//! The files that `memledger run` is asked to write, checked before the program runs: it may run for hours.

use super::preload;
use super::traces::named;
use crate::error::CliError;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A file that is asked for.
pub struct Output<'a> {
    what: &'static str,
    /// What names another one.
    cure: &'static str,
    /// With `%p`.
    path: &'a Path,
    /// Whether it is written in its place, not renamed to its name.
    in_place: bool,
}

/// What is asked for: the trace that is kept, the report and the page.
pub fn of<'a>(
    trace: Option<&'a Path>,
    report: Option<&'a Path>,
    page: Option<&'a Path>,
) -> Vec<Output<'a>> {
    let trace =
        trace.map(|path| Output { what: "the trace", cure: "--trace", path, in_place: true });
    let beside = [("the report", "--report", report), ("the page", "--html", page)];
    let beside = beside.into_iter().filter_map(|(what, cure, path)| {
        path.map(|path| Output { what, cure, path, in_place: false })
    });
    trace.into_iter().chain(beside).collect()
}

/// Refuses two outputs in one file, one in the place of the program, and what cannot be written.
pub fn check(command: &[OsString], outputs: &[Output<'_>]) -> Result<(), CliError> {
    let program = command.first().and_then(|name| preload::find(name));
    let program = program.and_then(|path| fs::canonicalize(path).ok());
    let mut targets = Vec::<(PathBuf, &Output<'_>)>::new();
    for output in outputs {
        let Output { what, cure, .. } = *output;
        let path = named(output.path, 0);
        let (shown, target) = (path.display(), target(&path));
        if Some(&target) == program.as_ref() {
            return Err(CliError::Usage(format!(
                "{what} {shown} would overwrite the program; give {cure} another name"
            )));
        }
        // Several may go to what is no file, such as `/dev/null`.
        let is_file = fs::metadata(&target).map_or(true, |found| found.is_file());
        let other = targets.iter().find(|(other, _)| is_file && *other == target);
        if let Some((_, other)) = other {
            return Err(CliError::Usage(format!(
                "{} and {what} cannot both be written to {shown}; give {cure} another name",
                other.what
            )));
        }
        if let Err(error) = is_writable(output, &target, is_file) {
            return Err(CliError::Failed(format!(
                "{what} cannot be written to {shown}: {error}; give {cure} a name in a folder that can be written"
            )));
        }
        targets.push((target, output));
    }
    Ok(())
}

/// The path with all links followed, whether the file is there or not.
fn target(path: &Path) -> PathBuf {
    let of_folder = || {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
        Some(folder.join(path.file_name()?))
    };
    fs::canonicalize(path).ok().or_else(of_folder).unwrap_or_else(|| path.to_owned())
}

/// Whether this process, and the program, could create or change the file.
fn is_writable(output: &Output<'_>, target: &Path, is_file: bool) -> io::Result<()> {
    let folder = target.parent().unwrap_or(target);
    let name_of = |pid| named(output.path, pid).parent().map(Path::to_owned);
    if name_of(0) != name_of(1) {
        // The folder is that of a process which is not there yet.
        return Ok(());
    }
    if target.exists() && (output.in_place || !is_file) {
        return access(target, false);
    }
    access(folder, true)
}

#[cfg(unix)]
fn access(path: &Path, is_folder: bool) -> io::Result<()> {
    use rustix::fs::Access;
    let enter = if is_folder { Access::EXEC_OK } else { Access::empty() };
    if is_folder && !fs::metadata(path)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(rustix::fs::access(path, Access::WRITE_OK | enter)?)
}

#[cfg(not(unix))]
fn access(path: &Path, _is_folder: bool) -> io::Result<()> {
    fs::metadata(path).map(drop)
}

/// Has temporary files go to the first folder that can be written: that of `TMPDIR`, `/var/tmp` or `/tmp`.
///
/// # Errors
/// Why none of them can.
pub fn choose_temporary_folder() -> Result<(), CliError> {
    let first = std::env::temp_dir();
    let failed = |error| {
        let first = first.display();
        CliError::Failed(format!(
            "temporary files cannot be written to {first} ({error}), /var/tmp or /tmp; TMPDIR names another folder"
        ))
    };
    let Err(error) = tempfile::tempfile_in(&first) else { return Ok(()) };
    let others = ["/var/tmp", "/tmp"].map(Path::new);
    let is_writable = |path: &&Path| cfg!(unix) && tempfile::tempfile_in(path).is_ok();
    let Some(other) = others.into_iter().find(is_writable) else { return Err(failed(error)) };
    // One that was chosen before is as good.
    let _ = tempfile::env::override_temp_dir(other);
    Ok(())
}
