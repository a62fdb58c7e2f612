//! System calls about pages, without the C library's functions: a program may have its own, which record
//! ([`track_c_malloc!`](crate::track_c_malloc)).

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The least bytes that a page has on any processor.
pub(crate) const SMALLEST_PAGE: usize = 4096;

/// *Hook.* The bytes of a page. The system is asked once.
pub(crate) fn page_bytes() -> usize {
    static BYTES: AtomicUsize = AtomicUsize::new(0);
    let known = BYTES.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: asks for a number that the kernel has given to the process.
    let bytes = (unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize).max(SMALLEST_PAGE);
    BYTES.store(bytes, Ordering::Relaxed);
    bytes
}

/// *Hook.* Maps `bytes` of zeroed pages; `None` if the system has none.
pub(in crate::platform::os) fn map_pages(bytes: usize) -> Option<NonNull<u8>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new private anonymous mapping does not affect existing memory.
    let mapped = unsafe { mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
    NonNull::new(mapped.cast()).filter(|_| mapped != libc::MAP_FAILED)
}

/// *Hook.* Unmaps pages of [`map_pages`] that nothing uses.
pub(in crate::platform::os) fn unmap_pages(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller mapped exactly these pages and has not published them.
    unsafe { munmap(start.as_ptr().cast(), bytes) };
}

fn pointer(result: i64) -> *mut c_void {
    with_exposed_provenance_mut(result as usize)
}

/// # Safety
/// That of C's function, here and below.
pub unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the caller's promise, here and below.
    pointer(unsafe { libc::syscall(libc::SYS_mmap, address, bytes, access, flags, file, offset) })
}

/// # Safety
/// As above.
pub unsafe extern "C" fn munmap(address: *mut c_void, bytes: usize) -> c_int {
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_munmap, address, bytes) as c_int }
}

/// # Safety
/// As above.
pub unsafe extern "C" fn mremap(
    address: *mut c_void,
    bytes: usize,
    new_bytes: usize,
    flags: c_int,
    new_address: *mut c_void,
) -> *mut c_void {
    // SAFETY: as above.
    pointer(unsafe {
        libc::syscall(libc::SYS_mremap, address, bytes, new_bytes, flags, new_address)
    })
}

/// # Safety
/// As above.
#[cfg(c_mmap)]
pub unsafe extern "C" fn mprotect(address: *mut c_void, bytes: usize, access: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_mprotect, address, bytes, access) as c_int }
}

/// # Safety
/// As above.
#[cfg(c_mmap)]
pub unsafe extern "C" fn shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    // SAFETY: as above.
    pointer(unsafe { libc::syscall(libc::SYS_shmat, id, address, flags) })
}

/// # Safety
/// As above.
#[cfg(c_mmap)]
pub unsafe extern "C" fn shmdt(address: *const c_void) -> c_int {
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_shmdt, address) as c_int }
}

/// The bytes of a segment of shared memory; 0 if there is no such segment.
#[cfg(c_mmap)]
pub(crate) fn segment_bytes(id: c_int) -> usize {
    if super::is_kernel_closed() {
        return 0;
    }
    // SAFETY: the call fills the structure, which is valid when zeroed.
    unsafe {
        let mut segment: libc::shmid_ds = std::mem::zeroed();
        if libc::shmctl(id, libc::IPC_STAT, &raw mut segment) == 0 { segment.shm_segsz } else { 0 }
    }
}

/// Whether a file has no pages but those in memory: shared memory (`shm_open`, `memfd_create`), a file of
/// another file system in memory, or `/dev/zero`.
#[cfg(c_mmap)]
pub(crate) fn is_in_memory(file: c_int) -> bool {
    /// `RAMFS_MAGIC` of Linux's `magic.h`.
    const RAMFS: i64 = 0x8584_58f6;
    if super::is_kernel_closed() {
        return false;
    }
    // SAFETY: the calls fill the structures, which are valid when zeroed.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        if libc::fstat(file, &raw mut status) != 0 {
            return false;
        }
        if status.st_mode & libc::S_IFMT == libc::S_IFCHR {
            return status.st_rdev == libc::makedev(1, 5);
        }
        let mut system: libc::statfs = std::mem::zeroed();
        status.st_mode & libc::S_IFMT == libc::S_IFREG
            && libc::fstatfs(file, &raw mut system) == 0
            && [libc::TMPFS_MAGIC, libc::HUGETLBFS_MAGIC, RAMFS].contains(&system.f_type)
    }
}
