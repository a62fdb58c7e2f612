//! The end of a process in which the program has no thread left. The C library does not see that, because it
//! also counts the tracker's threads: without this, such a process would never end.
//!
//! A thread that returns or calls `pthread_exit` ends the process by `exit(0)` if it is the last, as the C
//! library does then. So what runs at exit has a thread of the program. It is the last if it counts the
//! threads that `pthread_create` has made down to none, and the system lists only threads of the tracker
//! beside it, and such that are about to end. A thread that ends by a system call does not come here; the
//! worker asks [`left_alone`] from time to time.

#[cfg(c_mmap)]
use super::thread_stacks::remember_stack;
use super::threads::{has_own_threads, is_any_starting, is_own_thread, started_threads};
use super::{is_kernel_closed, now, process_id, thread_id};
use crate::platform::own_thread::{self, ValueOffset};
use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The program's threads that have not ended: the first, and those of [`count_thread`].
static THREADS: AtomicU32 = AtomicU32::new(1);

/// How long to wait for threads of the tracker that were made and have not begun, in nanoseconds.
const START_TIMEOUT: u64 = 1_000_000_000;

/// The most threads that can be about to end at once: after their last instruction for the program, the
/// system lists them still.
const MAX_ENDING: usize = 1024;
/// The threads of the program that have ended last.
static ENDING: [AtomicU32; MAX_ENDING] = [const { AtomicU32::new(0) }; MAX_ENDING];
static ENDED: AtomicU32 = AtomicU32::new(0);

/// Whether a thread ends the process already.
static EXITS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread, other than the first, is one of [`THREADS`].
    static IS_COUNTED: Cell<bool> = const { Cell::new(false) };
}

static PLACE: ValueOffset = ValueOffset::new();

/// Counts a thread of the program that is about to be made.
#[cfg(c_mmap)]
pub(crate) fn count_thread() {
    THREADS.fetch_add(1, Ordering::AcqRel);
}

/// Whether the program has no thread of [`count_thread`].
#[cfg(c_mmap)]
pub(super) fn has_made_none() -> bool {
    THREADS.load(Ordering::Acquire) == 1
}

/// The thread was not made.
#[cfg(c_mmap)]
pub(crate) fn uncount_thread() {
    THREADS.fetch_sub(1, Ordering::AcqRel);
}

/// Called by a thread of [`count_thread`] at its start. Its stack has as many bytes; 0 if the program has
/// given it the memory.
#[cfg(c_mmap)]
pub(crate) fn begin_counted_thread(stack_bytes: usize) {
    remember_stack(stack_bytes);
    if let Some(is_counted) = own_thread::get(&IS_COUNTED, &PLACE) {
        is_counted.set(true);
    }
    super::super::unix::thread_exit::await_thread_exit();
}

/// In the child of a fork: it has one thread, of the program.
pub(crate) fn forget_ends() {
    ENDING.iter().for_each(|place| place.store(0, Ordering::Relaxed));
    EXITS.store(false, Ordering::Relaxed);
    THREADS.store(1, Ordering::Release);
}

/// A thread ends, after all that runs at its end. If it is the last of the program, ends the process.
///
/// NOTE: a function as of C, so that its caller, which C calls, has no path that panics in case this one
/// does.
pub(in crate::platform::os) extern "C" fn thread_ends() {
    if is_kernel_closed() {
        // The worker ends a process that has no other thread.
        if own_thread::get(&IS_COUNTED, &PLACE).is_some_and(Cell::take) {
            THREADS.fetch_sub(1, Ordering::SeqCst);
        }
        return;
    }
    let own = thread_id();
    if is_own_thread(own) {
        return;
    }
    let place = ENDED.fetch_add(1, Ordering::SeqCst) as usize % MAX_ENDING;
    // NOTE: before the others are looked at. Of two threads that end at once, one sees that the other does.
    ENDING[place].store(own, Ordering::SeqCst);
    let is_counted = own_thread::get(&IS_COUNTED, &PLACE).is_some_and(Cell::take);
    let left = match is_counted || own == process_id() {
        true => THREADS.fetch_sub(1, Ordering::SeqCst) - 1,
        false => THREADS.load(Ordering::SeqCst),
    };
    if left == 0 && is_last(own) && !EXITS.swap(true, Ordering::SeqCst) {
        // SAFETY: ends the process as the C library does when its last thread has ended.
        unsafe { libc::exit(0) };
    }
}

/// Whether all threads but this one are of the tracker, or are about to end. Without the tracker's, the C
/// library ends the process.
fn is_last(own: u32) -> bool {
    let ends = |id| ENDING.iter().any(|ending| ending.load(Ordering::SeqCst) == id);
    let is_ours = |id| id == own || id == process_id() || is_own_thread(id) || ends(id);
    let begin = now();
    loop {
        let started = started_threads();
        // NOTE: a thread that the tracker starts is no thread of the program, but its id is not known before
        // it runs.
        while is_any_starting() && now() - begin < START_TIMEOUT {
            // SAFETY: always allowed. NOTE: not by std, as in `process_id`.
            unsafe { libc::sched_yield() };
        }
        let all = other_threads(is_ours);
        // One that began meanwhile looked like a thread of the program.
        let is_known = all != Some(false) || started == started_threads();
        if is_known || now() - begin > START_TIMEOUT {
            // Without `/proc`, the count is all that is known.
            return all.is_none_or(|all| all && has_own_threads());
        }
    }
}

/// The status of the first thread, if the program has no thread left and none has ended the process. For the
/// tracker's threads.
pub(crate) fn left_alone() -> Option<c_int> {
    let first = process_id();
    let mut path = [0; 64];
    // A zero stays at the end.
    write!(&mut path[..63], "/proc/self/task/{first}/stat").ok()?;
    let mut text = [0; 1024];
    let stat = read(CStr::from_bytes_until_nul(&path).ok()?, &mut text)?;
    // Behind the name, which may have any characters: the state, the number of threads, and as the last field
    // the status.
    let mut fields = stat.rsplit(')').next()?.split_ascii_whitespace();
    if fields.next() != Some("Z") {
        return None;
    }
    let threads = fields.nth(16)?.parse::<u32>().ok()?;
    let status = fields.next_back()?.parse::<c_int>().ok()?;
    let mut listed = 0;
    let are_ours = !is_any_starting()
        && other_threads(|id| {
            listed += 1;
            id == first || is_own_thread(id)
        }) == Some(true);
    // NOTE: the list ends early where a thread ends while it is made.
    (are_ours && listed == threads).then_some(status >> 8 & 0xff)
}

/// Ends the process without anything that runs at exit.
pub(crate) fn end_process(status: c_int) -> ! {
    loop {
        // SAFETY: ends the process. NOTE: not by `_exit`, which the library of `preload/` defines.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// The text of a small file.
fn read<'a>(path: &CStr, text: &'a mut [u8]) -> Option<&'a str> {
    // SAFETY: the path ends with a zero; what is read fits; the descriptor is ours until it is closed.
    let size = unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let size = libc::read(file, text.as_mut_ptr().cast(), text.len());
        libc::close(file);
        size
    };
    std::str::from_utf8(text.get(..usize::try_from(size).ok()?)?).ok()
}

/// Whether all threads of this process are such; `None` if the system does not say.
///
/// NOTE: without an allocation, or a function of std's that may panic: the thread that ends is the program's.
fn other_threads(mut are: impl FnMut(u32) -> bool) -> Option<bool> {
    /// Where an entry says how long it is, and where its name begins (`struct linux_dirent64`).
    const LENGTH: usize = 16;
    const NAME: usize = 19;
    let mut entries = [0_u8; 4096];
    let path = c"/proc/self/task";
    // SAFETY: the path ends with a zero.
    let folder =
        unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) };
    if folder < 0 {
        return None;
    }
    let mut all = Some(true);
    loop {
        // SAFETY: what is read fits.
        let size = unsafe {
            libc::syscall(libc::SYS_getdents64, folder, entries.as_mut_ptr(), entries.len())
        };
        let Ok(size) = usize::try_from(size) else {
            all = None;
            break;
        };
        let mut rest = entries.get(..size).unwrap_or_default();
        if rest.is_empty() {
            break;
        }
        while let Some([low, high]) = rest.get(LENGTH..LENGTH + 2) {
            let length = usize::from(u16::from_ne_bytes([*low, *high]));
            let name = rest.get(NAME..length).unwrap_or_default();
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let id = name.iter().try_fold(0_u32, |number, digit| {
                number.checked_mul(10)?.checked_add(char::from(*digit).to_digit(10)?)
            });
            if id.is_some_and(|id| !are(id)) {
                all = Some(false);
            }
            rest = rest.get(length..).unwrap_or_default();
        }
    }
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(folder) };
    all
}
