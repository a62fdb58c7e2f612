#![expect(unsafe_code, reason = "system calls")]

use std::path::PathBuf;

/// The system's id of the calling thread.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: the call always succeeds.
    unsafe { libc::gettid() as u32 }
}

/// Ends this process without anything that runs at its end.
pub(crate) fn end_at_once(status: i32) {
    // SAFETY: nothing runs after this.
    unsafe { libc::_exit(status) };
}

/// Bytes of this process's memory that are resident.
pub(crate) fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
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
