//! Platforms without a tracker: everything compiles, nothing is recorded.

use super::ThreadName;
use std::ffi::{CStr, OsStr, OsString, c_void};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

pub(crate) const SUPPORTED: bool = false;

pub(crate) type RawFd = i32;

pub(crate) fn map(_bytes: usize) -> Option<NonNull<u8>> {
    None
}

pub(crate) fn unmap(_pages: NonNull<u8>, _bytes: usize) {}

pub(crate) fn memory_limit() -> Option<u64> {
    None
}

pub(crate) fn now() -> u64 {
    0
}

#[cfg(feature = "perfetto")]
pub(crate) fn since_boot() -> u64 {
    0
}

#[cfg(feature = "perfetto")]
pub(crate) fn clocks() -> [(u64, u64); 0] {
    []
}

#[cfg(feature = "perfetto")]
pub(crate) fn has_steady_counter() -> bool {
    false
}

#[cfg(feature = "perfetto")]
pub(crate) fn counter() -> u64 {
    0
}

pub(crate) fn wait(_word: &AtomicU32, _expected: u32, _nanos: u64) {}

pub(crate) fn wake_all(_word: &AtomicU32) {}

pub(crate) fn register_barrier() -> bool {
    false
}

pub(crate) fn barrier_on_all_threads() {}

pub(crate) fn has_waiting_thread() -> bool {
    true
}

pub(crate) fn forget_signals() {}

pub(crate) fn handle_ending_signals() {}

pub(crate) fn has_late_crashes() -> bool {
    false
}

pub(crate) fn handle_late_crashes() -> bool {
    true
}

pub(crate) fn wait_for_ending_signal() -> bool {
    false
}

pub(crate) fn left_alone() -> Option<i32> {
    None
}

pub(crate) fn end_process(status: i32) -> ! {
    std::process::exit(status)
}

pub(crate) fn open_regular(_path: &str) -> Option<File> {
    None
}

pub(crate) fn read_at(_file: &File, _bytes: &mut [u8], _offset: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn is_report_awaited() -> bool {
    false
}

pub(crate) fn end_waiting() {}

#[cfg(feature = "__preload")]
pub(crate) fn exit_after_report(status: i32) -> ! {
    std::process::exit(status)
}

pub(crate) fn thread_id() -> u32 {
    0
}

pub(crate) fn process_id() -> u32 {
    std::process::id()
}

pub(crate) fn parent_process_id() -> u32 {
    0
}

pub(crate) fn thread_name() -> ThreadName {
    [0; 16]
}

pub(crate) fn thread_name_of(_id: u32) -> Option<ThreadName> {
    None
}

pub(crate) fn is_thread_alive(_id: u32) -> bool {
    true
}

pub(crate) fn on_thread_exit(_run: &'static extern "C" fn()) -> bool {
    false
}

pub(crate) fn keep_apart<D>(descriptor: D) -> io::Result<D> {
    Ok(descriptor)
}

pub(crate) struct AllBlocked;

impl AllBlocked {
    pub(crate) fn new() -> Self {
        Self
    }
}

pub(crate) struct Packed;

pub(crate) fn pack() -> io::Result<Packed> {
    Ok(Packed)
}

pub(crate) fn unpack(_packed: Packed) -> io::Result<()> {
    Ok(())
}

pub(crate) fn close_gate(_resume: fn()) -> bool {
    false
}

pub(crate) fn open_gate() {}

pub(crate) fn servants() -> usize {
    0
}

pub(crate) fn has_own_threads() -> bool {
    false
}

pub(crate) fn wait_for_ends(_most: usize, _timeout: Duration) -> bool {
    true
}

pub(crate) fn dismiss_waiting_thread() {}

pub(crate) fn keep_waiting_thread() -> bool {
    false
}

pub(crate) struct OwnTable;

impl OwnTable {
    pub(crate) fn enter(_wanted: bool, _body: extern "C" fn(*mut c_void) -> *mut c_void) -> Self {
        Self
    }

    pub(crate) fn share() -> Self {
        Self
    }
}

pub(crate) fn serve(_argument: usize) {}

pub(crate) fn leave_streams() {}

pub(crate) fn forget_threads() {}

pub(crate) fn run_in_own_table<R: Send>(body: impl FnOnce() -> R + Send) -> Option<R> {
    Some(body())
}

pub(crate) fn run_in_program_table<R: Send>(body: impl Fn() -> R + Send + Sync) -> Option<R> {
    Some(body())
}

pub(crate) fn run_on_keeper<R: Send>(body: impl FnOnce() -> R + Send) -> R {
    body()
}

pub(crate) fn take_unanswered() -> u32 {
    0
}

pub(crate) fn write_to_stderr(bytes: &[u8]) -> io::Result<()> {
    write_all(2, bytes)
}

pub(crate) fn send_to_socket(_name: &[u8], _bytes: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) const STACK: usize = 0;

pub(crate) fn run_on_new_thread<R: Send>(_stack: usize, body: impl FnOnce() -> R + Send) -> R {
    body()
}

pub(crate) fn processor_time_of(_id: u32) -> Option<Duration> {
    None
}

pub(crate) fn name_thread(_name: &CStr) {}

pub(crate) fn spawn(
    _body: extern "C" fn(*mut c_void) -> *mut c_void,
    _argument: usize,
) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) struct BlockedSignals;

impl BlockedSignals {
    pub(crate) fn new() -> Self {
        Self
    }
}

pub(crate) struct KeepErrno;

impl KeepErrno {
    pub(crate) fn new() -> Self {
        Self
    }
}

pub(crate) fn at_fork(_before: extern "C" fn(), _parent: extern "C" fn(), _child: extern "C" fn()) {
}

pub(crate) fn at_exit(_function: extern "C" fn()) {}

pub(crate) fn at_quick_exit(_function: extern "C" fn()) {}

pub(crate) fn has_env(_prefix: &[u8]) -> bool {
    false
}

pub(crate) fn secure_env(name: &CStr) -> Option<OsString> {
    std::env::var_os(name.to_str().ok()?)
}

pub(crate) fn write_all(_fd: RawFd, bytes: &[u8]) -> io::Result<()> {
    io::stderr().write_all(bytes)
}

pub(crate) fn write_file(file: &File, bytes: &[u8]) -> io::Result<usize> {
    let mut file = file;
    file.write(bytes)
}

pub(crate) fn watch_connection(_stream: &TcpStream) -> io::Result<()> {
    Ok(())
}

pub(crate) fn descriptor(_file: &File) -> RawFd {
    -1
}

pub(crate) fn identity<T>(_file: &T) -> Option<(u64, u64)> {
    Some((0, 0))
}

pub(crate) fn terminal_width(_fd: RawFd) -> Option<usize> {
    None
}

pub(crate) fn is_terminal(_fd: RawFd) -> bool {
    io::stderr().is_terminal()
}

pub(crate) struct TargetFile(PathBuf);

impl TargetFile {
    pub(crate) fn find(path: &Path) -> io::Result<Self> {
        Ok(Self(path.to_owned()))
    }

    pub(crate) fn open(&self, _mode: u32) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(false).open(&self.0)
    }

    pub(crate) fn check(&self) -> io::Result<Option<File>> {
        self.open(0).map(Some)
    }

    pub(crate) fn reserve(&self) -> io::Result<bool> {
        Ok(true)
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn hand_over(&self) -> io::Result<(File, &CStr)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn received(_folder: File, name: std::ffi::CString) -> Self {
        Self(path_of(name.to_bytes()))
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        -1
    }

    pub(crate) fn is_ours(&self) -> bool {
        true
    }
}

pub(crate) fn readable(
    _listener: &TcpListener,
    _clients: &[&TcpStream],
    _timeout: Duration,
) -> io::Result<(bool, Vec<bool>)> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn set_mode(_file: &File, _mode: u32) {}

pub(crate) fn stop_listening(_listener: &TcpListener) {}

pub(crate) fn create_in(_folder: &Path, _name: impl AsRef<OsStr>) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn prepare_before_main() {}

#[cfg(feature = "__preload")]
pub(crate) fn program_has_tracker() -> bool {
    false
}

#[cfg(feature = "__preload")]
pub(crate) fn has_static_thread_memory() -> bool {
    true
}

pub(crate) fn program_name() -> OsString {
    let program = std::env::current_exe().unwrap_or_default();
    program.file_name().unwrap_or_default().to_owned()
}

pub(crate) fn keep_before_main() {
    // Nothing calls it here.
    let _ = crate::ledger::environment::start_before_main as fn();
}

pub(crate) fn map_shared(_bytes: usize) -> io::Result<NonNull<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[expect(unsafe_code, reason = "as on Linux")]
pub(crate) unsafe fn share_in_place(_start: NonNull<u8>, _bytes: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[expect(unsafe_code, reason = "as on Linux")]
pub(crate) unsafe fn clear_in_children(_start: NonNull<u8>, _bytes: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn unshare_all() {}

pub(crate) fn forget_shared() {}

pub(crate) fn share_again() -> io::Result<(NonNull<u8>, File)> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn map_shared_file(_file: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn duplicate(_fd: RawFd) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn use_as_stderr(_file: File) {}

pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}

pub(crate) fn has_no_name(_file: &File) -> bool {
    false
}

pub(crate) fn lock_for_watcher(_fd: RawFd) {}

pub(crate) fn connection() -> io::Result<(Watcher, Watched)> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) struct InProgramTable;

impl InProgramTable {
    pub(crate) fn new(_descriptor: &File) -> Self {
        Self
    }
}

impl Drop for InProgramTable {
    fn drop(&mut self) {}
}

pub(crate) struct Family;

impl Family {
    pub(crate) fn request(
        &self,
        _watched: &Watched,
        _bytes: &[u8],
        _descriptors: &[RawFd],
    ) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

pub(crate) struct Request {
    pub(crate) watched: Watched,
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptors: Vec<File>,
}

pub(crate) enum StartedFamily {
    #[expect(dead_code, reason = "as on Linux")]
    Program(Family),
    #[expect(dead_code, reason = "as on Linux")]
    Watcher(Request),
}

pub(crate) fn start_family() -> io::Result<StartedFamily> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn has_one_thread() -> bool {
    false
}

pub(crate) fn has_usual_pages() -> bool {
    false
}

pub(crate) fn is_in_loaded_file(_address: usize) -> bool {
    false
}

pub(crate) struct Watcher;

impl Watcher {
    pub(crate) fn dismiss(&mut self) {}

    pub(crate) fn forget(self) {}
}

pub(crate) enum Started {
    #[expect(dead_code, reason = "as on Linux")]
    Watched(Watcher),
    #[expect(dead_code, reason = "as on Linux")]
    Watcher(Watched),
}

pub(crate) struct Watched;

impl Watched {
    pub(crate) fn wait_for_end(self) -> bool {
        false
    }
}

pub(crate) fn start_watcher(_kept: &[RawFd]) -> io::Result<Started> {
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn end_watcher() -> ! {
    std::process::exit(0)
}
