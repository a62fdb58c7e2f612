//! What the allocators of this process say of themselves.
//!
//! The tracker is linked with none of them: it looks their functions up in what the program has.
#![expect(unsafe_code, reason = "calls functions of allocators")]

use super::super::AllocatorStatistics;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;

/// The address of a function that the program is linked with; null if there is none.
///
/// NOTE: the loader does not know functions of a program that has an allocator in itself. But the linker
/// does, and a weak symbol without a definition is 0.
macro_rules! linked {
    ($name:literal) => {{
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        let address: *mut c_void;
        // SAFETY: reads an address that the linker or the loader has written.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                concat!(".weak ", $name),
                concat!("mov {}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                out(reg) address,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        // SAFETY: as above.
        #[cfg(target_arch = "aarch64")]
        unsafe {
            std::arch::asm!(
                concat!(".weak ", $name),
                concat!("adrp {address}, :got:", $name),
                concat!("ldr {address}, [{address}, :got_lo12:", $name, "]"),
                address = out(reg) address,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        // Elsewhere only what the loader knows is found.
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let address = ptr::null_mut::<c_void>();
        address
    }};
}

/// What the allocators of this process say of themselves, without those that say nothing.
///
/// NOTE: takes the locks of the allocators, and the loader's. glibc walks through all free blocks meanwhile,
/// and ends the process if it finds its lists damaged. So it is called on a thread that nothing waits for
/// without a deadline, and not after a crash.
pub(crate) fn allocator_statistics() -> Vec<AllocatorStatistics> {
    let or_loaded =
        |linked: *mut c_void, name| if linked.is_null() { loaded(name) } else { linked };
    let mut all = Vec::new();
    let mut add = |allocator, figures: Figures| {
        // An allocator that is there and was never used has no memory.
        if figures.iter().any(|(_, bytes)| *bytes > 0) {
            all.push(AllocatorStatistics { allocator, figures });
        }
    };
    for (allocator, mallctl) in [
        ("jemalloc", or_loaded(linked!("mallctl"), c"mallctl")),
        ("jemalloc (_rjem_)", or_loaded(linked!("_rjem_mallctl"), c"_rjem_mallctl")),
    ] {
        // SAFETY: a function of this name has this type, here and below.
        if let Some(mallctl) = unsafe { transmute::<*mut c_void, Option<Mallctl>>(mallctl) } {
            add(allocator, of_jemalloc(mallctl));
        }
    }
    let info = or_loaded(linked!("mi_process_info"), c"mi_process_info");
    // SAFETY: as above.
    if let Some(info) = unsafe { transmute::<*mut c_void, Option<MiProcessInfo>>(info) } {
        add("mimalloc", of_mimalloc(info));
    }
    let property = loaded(c"MallocExtension_GetNumericProperty");
    // SAFETY: as above.
    if let Some(property) = unsafe { transmute::<*mut c_void, Option<NumericProperty>>(property) } {
        add("tcmalloc", of_tcmalloc(property));
    }
    // NOTE: not a weak symbol of a program with a loader, which would not start with a glibc before 2.33.
    #[cfg(target_feature = "crt-static")]
    let mallinfo2 = linked!("mallinfo2");
    #[cfg(not(target_feature = "crt-static"))]
    let mallinfo2 = loaded(c"mallinfo2");
    // SAFETY: as above.
    if let Some(mallinfo2) = unsafe { transmute::<*mut c_void, Option<Mallinfo2>>(mallinfo2) } {
        add("glibc", of_glibc(mallinfo2));
    }
    all
}

type Figures = Vec<(&'static str, u64)>;

#[cfg(not(target_feature = "crt-static"))]
fn loaded(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a NUL.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// A static program has no loader.
#[cfg(target_feature = "crt-static")]
fn loaded(_: &CStr) -> *mut c_void {
    ptr::null_mut()
}

/// glibc's `struct mallinfo2`.
#[repr(C)]
struct Info {
    arena: usize,
    ordblks: usize,
    smblks: usize,
    hblks: usize,
    hblkhd: usize,
    usmblks: usize,
    fsmblks: usize,
    uordblks: usize,
    fordblks: usize,
    keepcost: usize,
}

type Mallinfo2 = unsafe extern "C" fn() -> Info;

/// `man 3 mallinfo`.
fn of_glibc(mallinfo2: Mallinfo2) -> Figures {
    // SAFETY: the function has no condition.
    let info = unsafe { mallinfo2() };
    let figures = [
        ("arenas", info.arena),
        ("in use", info.uordblks),
        ("free", info.fordblks),
        ("top", info.keepcost),
        ("mapped", info.hblkhd),
    ];
    figures.map(|(name, bytes)| (name, bytes as u64)).to_vec()
}

type Mallctl =
    unsafe extern "C" fn(*const c_char, *mut c_void, *mut usize, *mut c_void, usize) -> c_int;

/// `stats` of `man 3 jemalloc`. Without figures if it was built without them.
fn of_jemalloc(mallctl: Mallctl) -> Figures {
    let mut epoch = 1_u64;
    // SAFETY: the value has this size. It makes the figures those of now.
    unsafe {
        mallctl(
            c"epoch".as_ptr(),
            ptr::null_mut(),
            ptr::null_mut(),
            (&raw mut epoch).cast(),
            size_of::<u64>(),
        );
    }
    let figure = |(name, key): (&'static str, &CStr)| {
        let (mut bytes, mut size) = (0_usize, size_of::<usize>());
        // SAFETY: the value has this size.
        let error = unsafe {
            mallctl(key.as_ptr(), (&raw mut bytes).cast(), &raw mut size, ptr::null_mut(), 0)
        };
        (error == 0).then_some((name, bytes as u64))
    };
    let keys = [
        ("allocated", c"stats.allocated"),
        ("active", c"stats.active"),
        ("metadata", c"stats.metadata"),
        ("resident", c"stats.resident"),
        ("mapped", c"stats.mapped"),
        ("retained", c"stats.retained"),
    ];
    keys.into_iter().filter_map(figure).collect()
}

/// Eight places for figures, of which the last three are the bytes that are committed now and were at most,
/// and page faults.
type MiProcessInfo = unsafe extern "C" fn(
    *mut usize,
    *mut usize,
    *mut usize,
    *mut usize,
    *mut usize,
    *mut usize,
    *mut usize,
    *mut usize,
);

/// `mi_process_info` of mimalloc.
fn of_mimalloc(process_info: MiProcessInfo) -> Figures {
    let (mut now, mut most) = (0_usize, 0_usize);
    let none = ptr::null_mut;
    // SAFETY: null is allowed; the others are places for numbers.
    unsafe {
        process_info(none(), none(), none(), none(), none(), &raw mut now, &raw mut most, none());
    }
    vec![("committed", now as u64), ("most committed", most as u64)]
}

type NumericProperty = unsafe extern "C" fn(*const c_char, *mut usize) -> c_int;

/// `MallocExtension` of tcmalloc (gperftools).
fn of_tcmalloc(numeric_property: NumericProperty) -> Figures {
    let figure = |(name, key): (&'static str, &CStr)| {
        let mut bytes = 0_usize;
        // SAFETY: the name ends with a NUL, and the value is a place for a number.
        let is_known = unsafe { numeric_property(key.as_ptr(), &raw mut bytes) } != 0;
        is_known.then_some((name, bytes as u64))
    };
    let keys = [
        ("allocated", c"generic.current_allocated_bytes"),
        ("heap", c"generic.heap_size"),
        ("free pages", c"tcmalloc.pageheap_free_bytes"),
        ("unmapped pages", c"tcmalloc.pageheap_unmapped_bytes"),
        ("thread caches", c"tcmalloc.current_total_thread_cache_bytes"),
    ];
    keys.into_iter().filter_map(figure).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_does_not_have_is_null() {
        assert!(linked!("memledger_no_such_function").is_null());
        assert!(loaded(c"memledger_no_such_function").is_null());
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn the_figures_of_glibc_are_those_of_its_memory() {
        let block = std::hint::black_box(vec![1_u8; 64 << 20]);
        let all = allocator_statistics();
        let [glibc] = &all[..] else { panic!("{all:?}") };
        let figure = |name| glibc.figures.iter().find(|(found, _)| *found == name).unwrap().1;
        assert_eq!(glibc.allocator, "glibc");
        assert!(figure("mapped") >= block.len() as u64);
        assert_eq!(figure("in use") + figure("free"), figure("arenas"));
        assert!(figure("top") <= figure("free"));
    }
}
