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

/// The path that was executed; empty if the kernel has not said it. Called first before `main`, which may
/// change the current folder.
pub(super) fn executed() -> &'static Path {
    static EXECUTED: OnceLock<PathBuf> = OnceLock::new();
    EXECUTED.get_or_init(|| {
        // SAFETY: an entry of the process's own vector, here and below.
        let text = unsafe { libc::getauxval(libc::AT_EXECFN) } as usize;
        if text == 0 {
            return PathBuf::new();
        }
        // SAFETY: the kernel has put a text there, which ends with a NUL.
        let path = unsafe { CStr::from_ptr(ptr::with_exposed_provenance::<c_char>(text)) };
        std::path::absolute(OsStr::from_bytes(path.to_bytes())).unwrap_or_default()
    })
}

pub(super) fn path() -> PathBuf {
    std::fs::read_link(OF_KERNEL).unwrap_or_else(|_| executed().to_owned())
}

/// Opens the file: by the kernel's link, or, where there is no `/proc`, by the path.
///
/// # Errors
/// Neither is the file that was loaded: of a script, the path is that of the script.
pub(super) fn open() -> io::Result<File> {
    let by_path = || File::open(executed());
    let file = File::open(OF_KERNEL).ok().filter(is_loaded).map_or_else(by_path, Ok)?;
    if is_loaded(&file) { Ok(file) } else { Err(io::ErrorKind::NotFound.into()) }
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
