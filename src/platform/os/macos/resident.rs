//! Which memory of this process is resident (RSS), and what it is.

use super::super::own_pages::{is_in, own_pages};
use super::super::{AllocatorStatistics, AnonymousRange, ResidentMemory};
use super::page_bytes;
use std::ffi::c_int;
use std::io;

pub(super) const KERN_SUCCESS: libc::kern_return_t = 0;
const KERN_INVALID_ADDRESS: libc::kern_return_t = 1;

unsafe extern "C" {
    static mach_task_self_: libc::mach_port_t;
    fn mach_vm_region(
        task: libc::mach_port_t,
        address: *mut u64,
        bytes: *mut u64,
        flavor: c_int,
        info: *mut c_int,
        count: *mut libc::mach_msg_type_number_t,
        object: *mut libc::mach_port_t,
    ) -> libc::kern_return_t;
}

pub(super) fn own_task() -> libc::mach_port_t {
    // SAFETY: the C library has set it before it calls any function of the program.
    unsafe { mach_task_self_ }
}

/// The resident memory of this process now, and the largest so far, in bytes; `None` if the system does not
/// say. Pages of libraries that processes share are in it, and pages that the system has compressed are not:
/// it is not what Activity Monitor shows (`phys_footprint`).
pub(crate) fn rss_sums() -> Option<[u64; 3]> {
    // SAFETY: zeros are a valid value, of which the call writes at most its size.
    let found = unsafe {
        let mut found = std::mem::zeroed::<libc::mach_task_basic_info>();
        let mut count = libc::MACH_TASK_BASIC_INFO_COUNT;
        let (flavor, to) = (libc::MACH_TASK_BASIC_INFO, (&raw mut found).cast());
        if libc::task_info(own_task(), flavor, to, &raw mut count) != KERN_SUCCESS {
            return None;
        }
        found
    };
    // What of it is in no file is not said: at most all.
    Some([found.resident_size, found.resident_size_max, found.resident_size])
}

/// Allocators of this system say nothing of themselves without taking their locks.
pub(crate) fn allocator_statistics() -> Vec<AllocatorStatistics> {
    Vec::new()
}

/// What the system says of pages that are alike (`vm_region_extended_info` of `mach/vm_region.h`).
#[repr(C)]
#[derive(Default)]
struct Region {
    protection: c_int,
    user_tag: u32,
    pages_resident: u32,
    pages_shared_now_private: u32,
    pages_swapped_out: u32,
    pages_dirtied: u32,
    ref_count: u32,
    shadow_depth: u16,
    external_pager: u8,
    share_mode: u8,
    pages_reusable: u32,
}

/// What the resident memory of this process is. Takes time in proportion to its resident pages, and calls
/// `step` after each region.
///
/// NOTE: the libraries that all processes share are one region, of which the system does not say what is
/// resident, so the sum is less than [`rss_sums`].
///
/// # Errors
/// Those of the system.
pub(crate) fn resident_memory(step: impl Fn()) -> io::Result<ResidentMemory> {
    /// Of `mach/vm_statistics.h`: the tags of stacks, and of what the loader maps.
    const STACK: u32 = 30;
    const LOADED: [u32; 4] = [32, 33, 35, 60];
    /// Of `mach/vm_region.h` and `mach/vm_prot.h`.
    const SHARED: [u8; 2] = [4, 5];
    const EXECUTABLE: c_int = 4;
    let mut memory = ResidentMemory::default();
    let mut own: Vec<_> = own_pages().collect();
    own.sort_unstable();
    let mut at = 0_u64;
    while let Some((start, bytes, region)) = region_from(at)? {
        let Some(end) = start.checked_add(bytes).filter(|end| *end > at) else { break };
        at = end;
        let resident = u64::from(region.pages_resident) * page_bytes() as u64;
        // NOTE: what a library has of its own file is known by what may be run. Its data, which has been
        // copied from there, is among the files.
        let is_of_file = region.external_pager != 0;
        let may_run = region.protection & EXECUTABLE != 0;
        match region.user_tag {
            _ if is_in(&own, start) => memory.tracker += resident,
            STACK => memory.stacks += resident,
            tag if LOADED.contains(&tag) || is_of_file && may_run => memory.binaries += resident,
            _ if is_of_file => memory.files += resident,
            _ if SHARED.contains(&region.share_mode) => memory.shared += resident,
            _ if resident > 0 => {
                memory.anonymous.push(AnonymousRange { start, bytes, resident_bytes: resident });
            }
            _ => {}
        }
        step();
    }
    Ok(memory)
}

/// The first region at or behind an address, where it starts, and its bytes; `None` behind the last one.
fn region_from(address: u64) -> io::Result<Option<(u64, u64, Region)>> {
    /// Of `mach/vm_region.h`.
    const VM_REGION_EXTENDED_INFO: c_int = 13;
    let (mut start, mut bytes, mut region, mut object) = (address, 0, Region::default(), 0);
    let mut count = (size_of::<Region>() / size_of::<c_int>()) as libc::mach_msg_type_number_t;
    // SAFETY: the call writes to locals, at most the given numbers. It gives out no port, in spite of the
    // last argument (`vm_map_region` of XNU).
    let error = unsafe {
        let (start, bytes, count) = (&raw mut start, &raw mut bytes, &raw mut count);
        let to = (&raw mut region).cast();
        let object = &raw mut object;
        mach_vm_region(own_task(), start, bytes, VM_REGION_EXTENDED_INFO, to, count, object)
    };
    match error {
        KERN_SUCCESS => Ok(Some((start, bytes, region))),
        KERN_INVALID_ADDRESS => Ok(None),
        error => Err(io::Error::other(format!("mach_vm_region: error {error}"))),
    }
}
