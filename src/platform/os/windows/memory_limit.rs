//! How much memory the process may have: the limits of its job.

use windows_sys::Win32::System::JobObjects::{
    JOB_OBJECT_LIMIT_JOB_MEMORY, JOB_OBJECT_LIMIT_PROCESS_MEMORY,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectExtendedLimitInformation,
    QueryInformationJobObject,
};

/// The smaller of the limits of the job that this process is in, in bytes of committed memory; `None` if it
/// is in none, or that has no limit.
pub(crate) fn memory_limit() -> Option<u64> {
    // SAFETY: all zeros are a valid value of this structure, and the call writes at most its size. Without a
    // handle it is about the job of the calling process.
    let limits = unsafe {
        let mut limits = std::mem::zeroed::<JOBOBJECT_EXTENDED_LIMIT_INFORMATION>();
        let (to, size) = ((&raw mut limits).cast(), size_of_val(&limits) as u32);
        let (none, kind) = (std::ptr::null_mut(), JobObjectExtendedLimitInformation);
        if QueryInformationJobObject(none, kind, to, size, std::ptr::null_mut()) == 0 {
            return None;
        }
        limits
    };
    let is_set = |flag| limits.BasicLimitInformation.LimitFlags & flag != 0;
    let process = is_set(JOB_OBJECT_LIMIT_PROCESS_MEMORY).then_some(limits.ProcessMemoryLimit);
    let job = is_set(JOB_OBJECT_LIMIT_JOB_MEMORY).then_some(limits.JobMemoryLimit);
    process.into_iter().chain(job).min().map(|bytes| bytes as u64)
}
