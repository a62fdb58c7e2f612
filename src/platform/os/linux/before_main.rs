//! What runs before `main`, and what says in a program's file that it has the tracker.

use std::ffi::{CStr, OsStr, OsString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr;

extern "C" fn before_main() {
    super::super::unix::before_main::start();
}

/// The thread that runs the `main` of a process: its id is that of the process.
pub(crate) fn main_thread_of(process: u32) -> u32 {
    process
}

/// What the platform does before `main`.
pub(crate) fn prepare_before_main() {
    super::library::stay_loaded();
    super::loads::find_counts();
    super::threads::find_minimal_stack();
    #[cfg(preload)]
    super::next_signals::find_all();
    #[cfg(redirects)]
    super::exec::prepare();
    // The key is created this early so that it is among the first 32. The use of those allocates
    // nothing.
    super::super::unix::thread_exit::exit_key();
    #[cfg(c_filter)]
    super::next_filter::find_all();
    #[cfg(c_identity)]
    super::next_identity::find_all();
}

// SAFETY: the section holds pointers to functions of this form, called once each before `main`.
#[unsafe(link_section = ".init_array")]
#[used]
static BEFORE_MAIN: extern "C" fn() = before_main;

/// The name that the program was started by: that of a link, not of the file behind it; that of a script.
pub(crate) fn program_name() -> OsString {
    // SAFETY: asks for a word that the kernel has given to the process: the address of a text, or 0.
    let executed = unsafe {
        let at = libc::getauxval(libc::AT_EXECFN) as usize;
        (at != 0).then(|| CStr::from_ptr(ptr::with_exposed_provenance::<c_char>(at)))
    };
    let program = match executed {
        // NOTE: if a user has started the program through the loader (`man 8 ld.so`), the loader has put the
        // program's path in. Of a descriptor that was executed it is no name.
        Some(path) if !path.to_bytes().starts_with(b"/dev/fd/") => {
            PathBuf::from(OsStr::from_bytes(path.to_bytes()))
        }
        _ => std::env::current_exe().unwrap_or_default(),
    };
    program.file_name().unwrap_or_default().to_owned()
}

/// Says in the file of a program that it has the tracker: an ELF note, which stays when symbols are
/// stripped. `memledger run` looks for it, and so does the library that it loads into other programs.
#[repr(C, align(4))]
struct Note {
    name_bytes: u32,
    description_bytes: u32,
    kind: u32,
    name: [u8; 12],
}

const NOTE_NAME: [u8; 12] = *b"memledger\0\0\0";

// NOTE: the zeros after the first end the name, and align what follows.
#[unsafe(link_section = ".note.memledger")]
#[used]
static NOTE: Note = Note { name_bytes: 10, description_bytes: 0, kind: 1, name: NOTE_NAME };

/// Makes the linker keep the function that runs before `main`, and the note, in every program that
/// calls this.
pub(crate) fn keep_before_main() {
    std::hint::black_box((&raw const BEFORE_MAIN, &raw const NOTE));
}

/// Whether the program that this library is loaded into has a tracker of its own: the [`NOTE`].
#[cfg(preload)]
pub(crate) fn program_has_tracker() -> bool {
    let is_in = |(start, bytes): (usize, usize)| {
        let start = std::ptr::with_exposed_provenance::<u8>(start);
        // SAFETY: the loader has mapped the notes of the program.
        let notes = unsafe { std::slice::from_raw_parts(start, bytes) };
        notes.windows(NOTE_NAME.len()).any(|name| name == NOTE_NAME)
    };
    // The first object is the program.
    super::objects::find(|program| Some(program.parts(libc::PT_NOTE).any(is_in))).unwrap_or(false)
}
