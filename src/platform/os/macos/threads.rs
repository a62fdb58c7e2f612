//! Threads: how the tracker's own are started, and what the system says of others.

use super::super::counted_threads::run_task;
use super::super::unix::process::errno;
use super::super::unix::thread_exit;
use super::super::{ThreadName, own_values};
use super::KeepErrno;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::ptr;
use std::time::Duration;

/// A thread that has just been started.
pub(in crate::platform::os) struct StartedThread(libc::pthread_t);

impl StartedThread {
    /// Waits for its end.
    pub(in crate::platform::os) fn join(self) {
        // SAFETY: the thread is joined or detached once.
        unsafe { libc::pthread_join(self.0, ptr::null_mut()) };
    }

    /// The thread runs on without it.
    pub(in crate::platform::os) fn detach(self) {
        // SAFETY: as above. The system keeps what it knows of a thread until then, also after its end.
        unsafe { libc::pthread_detach(self.0) };
    }
}

/// Starts a thread that runs [`run_task`] with `passed`, with all signals blocked, so that the program's own
/// threads handle them.
pub(in crate::platform::os) fn start_thread(
    passed: *mut c_void,
    stack: usize,
) -> io::Result<StartedThread> {
    // NOTE: another size than one of whole pages is refused (`man 3 pthread_attr_setstacksize`).
    let stack = stack.max(libc::PTHREAD_STACK_MIN).next_multiple_of(super::page_bytes());
    // SAFETY: plain calls on local values.
    let (error, thread) = unsafe {
        let mut attributes = std::mem::zeroed::<libc::pthread_attr_t>();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setstacksize(&raw mut attributes, stack);
        let (mut all, mut before, mut thread) = (0, 0, 0);
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let error = libc::pthread_create(&raw mut thread, &raw const attributes, begin, passed);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        libc::pthread_attr_destroy(&raw mut attributes);
        (error, thread)
    };
    if error == 0 { Ok(StartedThread(thread)) } else { Err(io::Error::from_raw_os_error(error)) }
}

/// The first function of each thread.
extern "C" fn begin(passed: *mut c_void) -> *mut c_void {
    // SAFETY: `start_thread` passes this on.
    unsafe { run_task(passed) };
    ptr::null_mut()
}

/// Memory of C's allocator, which has no hook; null if it has none.
pub(in crate::platform::os) fn take_memory(bytes: usize) -> *mut c_void {
    // SAFETY: takes a number.
    unsafe { libc::malloc(bytes) }
}

pub(in crate::platform::os) fn give_memory_back(memory: *mut c_void) {
    // SAFETY: it is that of `take_memory`, and nothing uses it.
    unsafe { libc::free(memory) };
}

/// *Hook.* From now on, [`thread_ends`] runs at the end of the calling thread.
pub(in crate::platform::os) fn await_thread_end() {
    thread_exit::await_thread_exit();
}

/// The last that runs at the end of a thread.
pub(in crate::platform::os) extern "C" fn thread_ends() {
    own_values::give_back_all();
}

/// The system's number of the calling thread: one for each since the system was started.
fn own_number() -> u64 {
    let mut number = 0;
    // SAFETY: 0 stands for the calling thread, for which the call takes no lock; it writes to a local.
    unsafe { libc::pthread_threadid_np(0, &raw mut number) };
    number
}

/// Other threads can begin while this one ends.
pub(in crate::platform::os) fn is_ending() -> bool {
    false
}

/// *Hook.* The lower half of the system's number of the calling thread, which tells threads apart until the
/// system has started 4 billion others.
pub(crate) fn thread_id() -> u32 {
    own_number() as u32
}

/// The whole number of a thread of this process: the one with this lower half that is nearest to that of the
/// calling thread.
fn whole_number(id: u32) -> u64 {
    let own = own_number();
    own.wrapping_add_signed(id.wrapping_sub(own as u32).cast_signed().into())
}

/// What the system says of a thread of this process.
///
/// # Errors
/// `ESRCH` if there is no such thread.
fn ask(id: u32) -> Result<libc::proc_threadinfo, c_int> {
    /// Of `sys/proc_info.h`: threads by the number that `pthread_threadid_np` gives.
    const PROC_PIDTHREADID64INFO: c_int = 15;
    let size = size_of::<libc::proc_threadinfo>() as c_int;
    // SAFETY: zeros are a valid value, of which the call writes at most its size. The location of the error
    // is valid for the calling thread.
    unsafe {
        let mut found = std::mem::zeroed::<libc::proc_threadinfo>();
        let to = (&raw mut found).cast();
        let process = libc::getpid();
        let written =
            libc::proc_pidinfo(process, PROC_PIDTHREADID64INFO, whole_number(id), to, size);
        if written == size { Ok(found) } else { Err(*errno()) }
    }
}

/// Whether this process has a thread with this id. Where the system does not say, it is taken for alive.
pub(crate) fn is_thread_alive(id: u32) -> bool {
    let _errno = KeepErrno::new();
    ask(id).err() != Some(libc::ESRCH)
}

/// The processor time that a thread of this process has taken; `None` if it has ended.
pub(crate) fn processor_time_of(id: u32) -> Option<Duration> {
    let found = ask(id).ok()?;
    Some(Duration::from_nanos(found.pth_user_time.saturating_add(found.pth_system_time)))
}

/// Names the calling thread, one of the tracker's.
pub(crate) fn name_thread(name: &CStr) {
    // SAFETY: the name ends with a NUL.
    unsafe { libc::pthread_setname_np(name.as_ptr()) };
}

/// *Hook.* The name of the calling thread.
pub(crate) fn thread_name() -> ThreadName {
    let _errno = KeepErrno::new();
    // NOTE: names have at most 63 bytes. For the calling thread, the call takes no lock.
    let mut name: [c_char; 64] = [0; 64];
    // SAFETY: the call writes at most the given bytes, of the calling thread's name.
    unsafe { libc::pthread_getname_np(libc::pthread_self(), name.as_mut_ptr(), name.len()) };
    cut(&name)
}

/// The name of another thread of this process; `None` if the thread has ended.
pub(crate) fn thread_name_of(id: u32) -> Option<ThreadName> {
    Some(cut(&ask(id).ok()?.pth_name))
}

/// What fits into a [`ThreadName`], in whole characters.
fn cut(name: &[c_char]) -> ThreadName {
    const MAX_BYTES: usize = 15;
    let is_within = |byte: c_char| byte.cast_unsigned() & 0xc0 == 0x80;
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let mut end = length.min(MAX_BYTES);
    while end > 0 && end < length && name.get(end).copied().is_some_and(is_within) {
        end -= 1;
    }
    let mut found = ThreadName::default();
    found.iter_mut().zip(name).take(end).for_each(|(to, byte)| *to = byte.cast_unsigned());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_between_characters() {
        let cut = |text: &str| {
            let name: Vec<_> = text.bytes().map(u8::cast_signed).collect();
            cut(&name)
        };
        assert_eq!(&cut("0123456789abcdef")[..], b"0123456789abcde\0");
        assert_eq!(&cut("0123456789abcd\u{e4}")[..], b"0123456789abcd\0\0");
        assert_eq!(cut(""), ThreadName::default());
    }

    #[test]
    fn numbers_are_whole_again() {
        let own = own_number();
        for number in [own, own + 1, own.wrapping_sub(1), own + (1 << 30)] {
            assert_eq!(whole_number(number as u32), number);
        }
    }
}
