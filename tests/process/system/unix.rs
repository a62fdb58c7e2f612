#![expect(unsafe_code, reason = "system calls")]

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::ptr;

/// The system's id of the calling thread.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: the call always succeeds.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::gettid() as u32
    }
    #[cfg(target_os = "macos")]
    {
        let mut number = 0;
        // SAFETY: 0 stands for the calling thread; the number is a local.
        unsafe { libc::pthread_threadid_np(0, &raw mut number) };
        number as u32
    }
}

/// The name of a thread of this process, which runs.
#[cfg(target_os = "macos")]
pub(crate) fn name_of_thread(id: u32) -> String {
    /// Of `sys/proc_info.h`.
    const PROC_PIDTHREADID64INFO: libc::c_int = 15;
    let size = size_of::<libc::proc_threadinfo>() as libc::c_int;
    // SAFETY: zeros are a valid value, of which the call writes at most its size.
    let (written, found) = unsafe {
        let mut number = 0_u64;
        libc::pthread_threadid_np(0, &raw mut number);
        // The upper half is that of this thread: the system has not started so many between the two.
        let number = number & !u64::from(u32::MAX) | u64::from(id);
        let mut found = std::mem::zeroed::<libc::proc_threadinfo>();
        let to = (&raw mut found).cast();
        (libc::proc_pidinfo(libc::getpid(), PROC_PIDTHREADID64INFO, number, to, size), found)
    };
    let name = found.pth_name.iter().map(|byte| byte.cast_unsigned());
    let name: Vec<_> = name.take_while(|byte| *byte != 0).collect();
    if written == size { String::from_utf8_lossy(&name).into_owned() } else { String::new() }
}

/// Ends this process without anything that runs at its end.
pub(crate) fn end_at_once(status: i32) {
    // SAFETY: nothing runs after this.
    unsafe { libc::_exit(status) };
}

/// Bytes of this process's memory that are resident.
#[cfg(target_os = "macos")]
pub(crate) fn resident_bytes() -> u64 {
    unsafe extern "C" {
        static mach_task_self_: libc::mach_port_t;
    }
    // SAFETY: zeros are a valid value, of which the call writes at most its size.
    unsafe {
        let mut found = std::mem::zeroed::<libc::mach_task_basic_info>();
        let mut count = libc::MACH_TASK_BASIC_INFO_COUNT;
        let to = (&raw mut found).cast();
        let flavor = libc::MACH_TASK_BASIC_INFO;
        assert_eq!(libc::task_info(mach_task_self_, flavor, to, &raw mut count), 0);
        found.resident_size
    }
}

/// Bytes of this process's memory that are resident.
#[cfg(target_os = "linux")]
pub(crate) fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// A page with code; anywhere if `address` is 0. Its address.
pub(crate) fn map_code(address: usize, code: &[u8]) -> usize {
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    #[cfg(target_os = "linux")]
    let fixed = if address == 0 { 0 } else { libc::MAP_FIXED_NOREPLACE };
    #[cfg(target_os = "macos")]
    let fixed = if address == 0 { 0 } else { libc::MAP_FIXED };
    // SAFETY: new memory, in which the code fits.
    unsafe {
        let address = ptr::without_provenance_mut(address);
        let page = libc::mmap(address, code.len(), access, flags | fixed, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        page.cast::<u8>().copy_from_nonoverlapping(code.as_ptr(), code.len());
        assert_eq!(libc::mprotect(page, code.len(), libc::PROT_READ | libc::PROT_EXEC), 0);
        page.expose_provenance()
    }
}

/// Gives a page of [`map_code`] back. No code in it runs.
pub(crate) fn unmap_code(page: usize) {
    // SAFETY: the caller's promise.
    assert_eq!(unsafe { libc::munmap(ptr::with_exposed_provenance_mut(page), 1) }, 0);
}

/// A library that is loaded.
pub(crate) struct Library(*mut libc::c_void);

impl Library {
    pub(crate) fn load(path: &Path) -> Self {
        let name = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: loads one of `build.rs`, which does nothing at its start.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null(), "{path:?}");
        Self(handle)
    }

    /// The address of one of its functions, and the function's offset in the library.
    pub(crate) fn function(&self, name: &CStr) -> (*const (), usize) {
        // SAFETY: the library is loaded, and zeros are a valid value.
        unsafe {
            let function = libc::dlsym(self.0, name.as_ptr());
            assert!(!function.is_null());
            let mut about = std::mem::zeroed::<libc::Dl_info>();
            assert_ne!(libc::dladdr(function, &raw mut about), 0);
            (function.cast(), function.addr() - about.dli_fbase.addr())
        }
    }

    /// Nothing uses it from here on.
    pub(crate) fn unload(self) {
        // SAFETY: the caller's promise.
        assert_eq!(unsafe { libc::dlclose(self.0) }, 0);
    }
}

pub(crate) fn kill(pid: libc::pid_t, signal: libc::c_int) {
    // SAFETY: sends a signal.
    unsafe { libc::kill(pid, signal) };
}

pub(crate) fn wait_for_stop(pid: libc::pid_t) {
    // SAFETY: the result is written to a local of the right type.
    unsafe {
        let mut info = std::mem::zeroed();
        while libc::waitid(libc::P_PID, pid as libc::id_t, &raw mut info, libc::WSTOPPED) != 0 {
            let error = std::io::Error::last_os_error();
            assert_eq!(error.kind(), std::io::ErrorKind::Interrupted);
        }
    }
}

/// Where the folders of children are: in memory, if there is room and programs may be run there. A disk that
/// is busy, as after a build, can hold a write for longer than the end of a recording waits.
#[cfg(target_os = "linux")]
pub(crate) fn scratch() -> PathBuf {
    const ROOM: u64 = 4 << 30;
    // SAFETY: the path ends with a null byte, and the structure of numbers is valid if it is zero.
    let memory: libc::statvfs = unsafe {
        let mut found = std::mem::zeroed();
        libc::statvfs(c"/dev/shm".as_ptr(), &raw mut found);
        found
    };
    let has_room = memory.f_bavail * memory.f_frsize >= ROOM;
    let is_wanted = has_room && memory.f_flag & libc::ST_NOEXEC == 0;
    if is_wanted { PathBuf::from("/dev/shm") } else { std::env::temp_dir() }
}

#[cfg(target_os = "macos")]
pub(crate) fn scratch() -> PathBuf {
    std::env::temp_dir()
}
