//! On a system whose threads all have one table of descriptors, that of the program: the tracker has none of
//! its own. See `linux/own_table.rs`.

use super::{Body, STACK, run_on_new_thread, write_all};
use std::convert::Infallible;
use std::fs::File;
use std::io;

/// While it exists, the tracker's table does.
pub(crate) struct OwnTable(());

impl OwnTable {
    pub(crate) fn enter(_wanted: bool, _body: Body) -> Self {
        Self(())
    }

    pub(crate) fn share() -> Self {
        Self(())
    }
}

/// A descriptor that the tracker's table would take from the program's.
pub(crate) struct InProgramTable(());

impl InProgramTable {
    pub(crate) fn new(_descriptor: &File) -> Self {
        Self(())
    }
}

/// What the tracker's descriptors would wait in.
pub(crate) struct Packed(Infallible);

/// No thread has a table to serve.
pub(crate) fn serve(_argument: usize) {}

pub(crate) fn run_in_own_table<R: Send>(body: impl FnOnce() -> R + Send) -> Option<R> {
    Some(body())
}

pub(crate) fn run_in_program_table<R: Send>(body: impl Fn() -> R + Send + Sync) -> Option<R> {
    Some(body())
}

pub(crate) fn run_on_table_thread<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    run_on_new_thread(STACK, body)
}

/// Writes to the standard error that the program has at this moment.
pub(crate) fn write_to_stderr(bytes: &[u8]) -> io::Result<()> {
    #[cfg(target_os = "macos")]
    let _none = super::macos::descriptors::RaisesNone::new(2);
    write_all(2, bytes)
}

pub(crate) fn leave_streams() {}

/// How many calls no thread has answered: there is no such thread.
pub(crate) fn take_unanswered() -> u32 {
    0
}

/// No call of such a system needs a process without the tracker's threads, so these never end for a moment.
pub(crate) fn close_gate(_resume: fn()) -> bool {
    false
}

pub(crate) fn open_gate() {}

pub(crate) fn table_threads() -> usize {
    0
}

pub(crate) fn pack() -> io::Result<Packed> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn unpack(Packed(never): Packed) -> io::Result<()> {
    match never {}
}
