//! Paths that files and traces have in them.

use crate::Module;
use memledger_format::words::{bytes_of, is_windows_path, system_text};
use std::path::PathBuf;

/// The path that these bytes of a file stand for.
pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    system_text(bytes.to_vec()).into()
}

/// The path of a module. One of Windows has its parts, but is not absolute, where the trace is read
/// elsewhere.
pub(super) fn path_of_module(module: &Module) -> PathBuf {
    let path: Vec<_> = bytes_of(&module.path).collect();
    if is_windows_path(&path) { windows_path(&path) } else { path_of(&path) }
}

/// A path that was written on Windows.
pub(super) fn windows_path(path: &[u8]) -> PathBuf {
    let separator = |byte: &u8| if cfg!(not(windows)) && *byte == b'\\' { b'/' } else { *byte };
    path_of(&path.iter().map(separator).collect::<Vec<_>>())
}
