//! The file of the program that runs.
#![expect(unsafe_code, reason = "reads what the kernel has given to the process")]

use std::ffi::{CStr, OsStr, c_char};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

const OF_KERNEL: &str = "/proc/self/exe";

/// The path that was executed and, where that is a script, the interpreter's. Asked for first where
/// allocators are redirected, before `main`, which may change the current folder.
pub(super) fn paths() -> &'static [PathBuf; 2] {
    static PATHS: OnceLock<[PathBuf; 2]> = OnceLock::new();
    PATHS.get_or_init(|| {
        // SAFETY: an entry of the process's own vector, here and below.
        let text = unsafe { libc::getauxval(libc::AT_EXECFN) } as usize;
        let text = ptr::with_exposed_provenance::<c_char>(text);
        // SAFETY: the kernel has put a text there, which ends with a NUL.
        let text = if text.is_null() { c"" } else { unsafe { CStr::from_ptr(text) } };
        let executed = OsStr::from_bytes(text.to_bytes()).to_owned();
        [executed, std::env::args_os().next().unwrap_or_default()]
            .map(|path| std::path::absolute(path).unwrap_or_default())
    })
}

pub(super) fn path() -> PathBuf {
    std::fs::read_link(OF_KERNEL).unwrap_or_else(|_| paths()[0].clone())
}

/// Opens the file: by the kernel's link, or, where there is no `/proc`, by its path.
///
/// # Errors
/// None of these is the file that was loaded.
pub(super) fn open() -> io::Result<File> {
    let all = [Path::new(OF_KERNEL)].into_iter().chain(paths().iter().map(PathBuf::as_path));
    let found = all.filter_map(|path| File::open(path).ok()).find(is_loaded);
    found.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Whether the program's headers in memory are those of a file (`elf.h`: `Elf64_Ehdr`).
fn is_loaded(file: &File) -> bool {
    let mut head = [0; size_of::<libc::Elf64_Ehdr>()];
    if file.read_exact_at(&mut head, 0).is_err() {
        return false;
    }
    // SAFETY: all bytes are values of it.
    let head = unsafe { head.as_ptr().cast::<libc::Elf64_Ehdr>().read_unaligned() };
    // SAFETY: as above.
    let [start, count] = [libc::AT_PHDR, libc::AT_PHNUM].map(|it| unsafe { libc::getauxval(it) });
    let bytes = count as usize * size_of::<libc::Elf64_Phdr>();
    let mut headers = vec![0; bytes];
    // SAFETY: the kernel has mapped the headers of the program there.
    let loaded = unsafe {
        std::slice::from_raw_parts::<u8>(ptr::with_exposed_provenance(start as usize), bytes)
    };
    let is_read = file.read_exact_at(&mut headers, head.e_phoff).is_ok();
    is_read && u64::from(head.e_phnum) == count && headers == loaded
}
