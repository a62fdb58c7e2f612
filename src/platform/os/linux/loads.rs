//! How often the loader has unloaded a library.
#![cfg_attr(not(takes_stacks), allow(dead_code, reason = "only call stacks use it"))]

use super::objects;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// How many of the libraries that were loaded with the program are known.
const MAX_LASTING: usize = 256;

/// How far the first libraries are from where they were linked: none of them is ever unloaded. The program is
/// one.
static LASTING: [AtomicU64; MAX_LASTING] = [const { AtomicU64::new(0) }; MAX_LASTING];
static LASTING_COUNT: AtomicUsize = AtomicUsize::new(0);

static ZERO: AtomicU64 = AtomicU64::new(0);

/// Where the loader counts what it has loaded, and what is loaded now.
static LOADS: AtomicPtr<AtomicU64> = AtomicPtr::new((&raw const ZERO).cast_mut());
static LOADED: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const ZERO).cast_mut().cast());

/// *Hook.* A number that is another one after the loader has unloaded a library, and can be another one while
/// it loads one; always 0 where the loader's counts were not found.
#[inline(always)]
pub(crate) fn unloads() -> u32 {
    let (loads, loaded) = (LOADS.load(Ordering::Relaxed), LOADED.load(Ordering::Relaxed));
    // SAFETY: `ZERO`, or variables of the loader, which is never unloaded, and reads and writes them with the
    // same instructions.
    let (loads, loaded) = unsafe { (&*loads, &*loaded) };
    (loads.load(Ordering::Acquire) as u32).wrapping_sub(loaded.load(Ordering::Acquire))
}

/// *Hook.* How many libraries the loader has loaded; always 0 where its counts were not found.
pub(crate) fn loads() -> u32 {
    // SAFETY: as above.
    let loads = unsafe { &*LOADS.load(Ordering::Relaxed) };
    loads.load(Ordering::Acquire) as u32
}

/// How many libraries the loader has loaded and unloaded; `None` where its counts were not found.
pub(super) fn loads_and_unloads() -> Option<(u64, u32)> {
    let loads = LOADS.load(Ordering::Relaxed);
    // SAFETY: as above.
    let loads = (loads.cast_const() != &raw const ZERO).then(|| unsafe { &*loads });
    Some((loads?.load(Ordering::Acquire), unloads()))
}

/// Whether a file that is loaded this far from where it was linked was loaded with the program, and is never
/// unloaded.
pub(crate) fn is_lasting(moved: u64) -> bool {
    let mut known = LASTING.iter().take(LASTING_COUNT.load(Ordering::Acquire));
    known.any(|lasting| lasting.load(Ordering::Relaxed) == moved)
}

/// Notes which libraries there are, and finds the loader's counts. Called while this code is loaded, by the
/// thread that loads it: another one would wait for the loader's lock.
///
/// NOTE: `dl_iterate_phdr` says the counts, but only with the loader's lock, which a hook must not take. The
/// loader is glibc's, and keeps them in `_rtld_global` (`GL(dl_load_adds)`, and `_ns_nloaded` at its start),
/// in places that differ between versions. So they are taken only where the words there are what
/// `dl_iterate_phdr` says, and follow the lock that this thread holds meanwhile.
pub(super) fn find_counts() {
    let own = find_counts as *const () as usize;
    let (mut seen, mut is_with_program, mut tables) = (0, cfg!(preload), None);
    let mut counts = (0, 0);
    objects::find(|object| -> Option<()> {
        is_with_program |= seen == 0 && object.has(own);
        // NOTE: a library that was loaded later than the program can be unloaded, but not the program.
        if (seen == 0 || is_with_program)
            && let Some(lasting) = LASTING.get(seen)
        {
            lasting.store(object.base as u64, Ordering::Relaxed);
            LASTING_COUNT.store(seen + 1, Ordering::Release);
        }
        seen += 1;
        counts = object.counts;
        tables = tables.or_else(|| counts_in(object.variable(c"_rtld_global")?, counts));
        None
    });
    if let Some((loads, loaded)) = tables {
        LOADED.store(loaded, Ordering::Relaxed);
        LOADS.store(loads, Ordering::Relaxed);
    }
}

/// The counts of loads and of what is loaded, in the loader's variables, which are at this address and have
/// this size.
fn counts_in(
    (address, bytes): (usize, usize),
    (loads, unloads): (u64, u64),
) -> Option<(*mut AtomicU64, *mut AtomicU32)> {
    /// Words of a mutex; the owner is the lower half of the second.
    const MUTEX: usize = size_of::<libc::pthread_mutex_t>() / 8;
    let start = std::ptr::with_exposed_provenance_mut::<AtomicU64>(address);
    // SAFETY: the loader's own variable, at a multiple of 8.
    let words = unsafe { std::slice::from_raw_parts(start, bytes / 8) };
    let word = |at: usize| words.get(at).map(|word| word.load(Ordering::Relaxed));
    let own_thread = super::thread_id();
    let is_own_lock = |at: usize| word(at + 1).is_some_and(|owner| owner as u32 == own_thread);
    let is_after_lock = |at: usize| {
        [MUTEX, 2 * MUTEX].iter().any(|words| at.checked_sub(*words).is_some_and(is_own_lock))
    };
    let mut found = (2..words.len()).filter(|at| word(*at) == Some(loads) && is_after_lock(*at));
    let at = found.next().filter(|_| found.next().is_none())?;
    (word(1)? as u32 == loads.wrapping_sub(unloads) as u32)
        .then(|| (start.wrapping_add(at), start.wrapping_add(1).cast()))
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    #[test]
    fn the_counts_are_those_of_the_loader() {
        let of_loader = || {
            let mut counts = None;
            objects::find(|object| {
                counts = Some(object.counts);
                counts
            });
            counts.map(|(loads, unloads)| (loads, unloads as u32))
        };
        // Other tests load libraries at the same time.
        let are_equal = |_| loads_and_unloads().is_some() && loads_and_unloads() == of_loader();
        assert!((0..1000).any(are_equal), "{:?} {:?}", loads_and_unloads(), of_loader());
    }

    #[test]
    fn what_was_loaded_with_the_program_is_lasting() {
        let code = what_was_loaded_with_the_program_is_lasting as fn() as usize;
        let moved = |address| objects::find(|object| object.has(address).then_some(object.base));
        assert!(is_lasting(moved(code).unwrap() as u64));
        assert!(is_lasting(moved(libc::printf as *const () as usize).unwrap() as u64));
        // A library that no test uses.
        // SAFETY: it is a part of glibc.
        let library = unsafe { libc::dlopen(c"libnss_compat.so.2".as_ptr(), libc::RTLD_NOW) };
        // SAFETY: the library is loaded.
        let function = unsafe { libc::dlsym(library, c"_nss_compat_setpwent".as_ptr()) };
        assert!(!function.is_null() && !is_lasting(moved(function.addr()).unwrap() as u64));
        // SAFETY: nothing uses the library.
        unsafe { libc::dlclose(library) };
    }
}
