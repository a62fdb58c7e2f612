//! Which memory of this process is resident (its working set), and what it is.

use super::super::own_pages::{is_in, own_pages};
use super::super::{AllocatorStatistics, AnonymousRange, ResidentMemory};
use std::io;
use std::ptr;
use windows_sys::Win32::System::Memory::{
    MEM_COMMIT, MEM_FREE, MEM_IMAGE, MEM_MAPPED, MEMORY_BASIC_INFORMATION, PAGE_GUARD, VirtualQuery,
};
use windows_sys::Win32::System::ProcessStatus::{
    GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS, PSAPI_WORKING_SET_EX_INFORMATION,
    QueryWorkingSetEx,
};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

const PAGE: u64 = super::SMALLEST_PAGE as u64;

/// The resident memory of this process now, and the largest so far, in bytes; `None` if the system does not
/// say.
pub(crate) fn rss_sums() -> Option<[u64; 3]> {
    // SAFETY: all zeros are a valid value, and the call writes at most its size.
    let counters = unsafe {
        let mut counters = std::mem::zeroed::<PROCESS_MEMORY_COUNTERS>();
        let size = size_of_val(&counters) as u32;
        if GetProcessMemoryInfo(GetCurrentProcess(), &raw mut counters, size) == 0 {
            return None;
        }
        counters
    };
    let now = counters.WorkingSetSize as u64;
    // What of it is in no file is not in the counters: at most all.
    Some([now, counters.PeakWorkingSetSize as u64, now])
}

/// Allocators of this system say nothing of themselves without a walk through all their blocks.
pub(crate) fn allocator_statistics() -> Vec<AllocatorStatistics> {
    Vec::new()
}

/// What the resident memory of this process is. Takes time in proportion to its committed pages, and calls
/// `step` after each 256 of them, at least.
///
/// # Errors
/// Those of the system.
pub(crate) fn resident_memory(step: impl Fn()) -> io::Result<ResidentMemory> {
    let mut memory = ResidentMemory::default();
    let mut own: Vec<_> = own_pages().collect();
    own.sort_unstable();
    let mut reserved = Reserved::default();
    let mut at = 0_u64;
    while let Some(region) = region_at(at) {
        let (start, bytes) = (region.BaseAddress.addr() as u64, region.RegionSize as u64);
        let Some(end) = start.checked_add(bytes).filter(|end| *end > at) else { break };
        at = end;
        if region.State == MEM_FREE {
            continue;
        }
        reserved.enter(&region);
        if region.State != MEM_COMMIT || region.Protect & PAGE_GUARD != 0 {
            continue;
        }
        let resident = resident_bytes(start, end, &step)?;
        match region.Type {
            MEM_IMAGE => memory.binaries += resident,
            // NOTE: of a mapping that has a name, other processes can have the pages, too.
            MEM_MAPPED => memory.files += resident,
            _ if is_in(&own, start) => memory.tracker += resident,
            _ if reserved.is_stack => memory.stacks += resident,
            _ if resident > 0 => {
                memory.anonymous.push(AnonymousRange { start, bytes, resident_bytes: resident });
            }
            _ => {}
        }
    }
    Ok(memory)
}

/// The reservation that the present region is a part of.
#[derive(Default)]
struct Reserved {
    start: usize,
    /// Whether it is the stack of a thread: the lower part of it is only reserved, then come pages whose
    /// first access makes it grow, then those that are in use.
    is_stack: bool,
}

impl Reserved {
    fn enter(&mut self, region: &MEMORY_BASIC_INFORMATION) {
        let start = region.AllocationBase.addr();
        if start != self.start {
            *self = Self { start, is_stack: false };
        }
        self.is_stack |= region.State == MEM_COMMIT && region.Protect & PAGE_GUARD != 0;
    }
}

/// What the system says of the pages from an address on that are alike; `None` behind the last ones.
fn region_at(address: u64) -> Option<MEMORY_BASIC_INFORMATION> {
    // SAFETY: all zeros are a valid value, and the call writes at most its size.
    unsafe {
        let mut region = std::mem::zeroed::<MEMORY_BASIC_INFORMATION>();
        let size = size_of_val(&region);
        let at = ptr::without_provenance(address as usize);
        (VirtualQuery(at, &raw mut region, size) != 0).then_some(region)
    }
}

/// How many bytes of these pages are resident.
fn resident_bytes(start: u64, end: u64, step: impl Fn()) -> io::Result<u64> {
    /// Pages of one call.
    const BATCH: usize = 256;
    /// The lowest bit of what the system says of a page: it is in the working set.
    const VALID: usize = 1;
    let mut resident = 0;
    let mut at = start;
    while at < end {
        // SAFETY: all zeros are a valid value, of which the call writes at most the given bytes.
        let (pages, count) = unsafe {
            let mut pages: [PSAPI_WORKING_SET_EX_INFORMATION; BATCH] = std::mem::zeroed();
            let count = ((end - at).div_ceil(PAGE) as usize).min(BATCH);
            for (number, page) in pages.iter_mut().take(count).enumerate() {
                page.VirtualAddress =
                    ptr::without_provenance_mut((at + number as u64 * PAGE) as usize);
            }
            let bytes = (count * size_of::<PSAPI_WORKING_SET_EX_INFORMATION>()) as u32;
            if QueryWorkingSetEx(GetCurrentProcess(), pages.as_mut_ptr().cast(), bytes) == 0 {
                return Err(io::Error::last_os_error());
            }
            (pages, count)
        };
        // SAFETY: any bytes are a valid number.
        let is_resident = |page: &&PSAPI_WORKING_SET_EX_INFORMATION| unsafe {
            page.VirtualAttributes.Flags & VALID != 0
        };
        resident += pages.iter().take(count).filter(is_resident).count() as u64 * PAGE;
        at += count as u64 * PAGE;
        step();
    }
    Ok(resident)
}
