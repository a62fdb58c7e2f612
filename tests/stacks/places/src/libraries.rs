//! Libraries that are loaded while the program runs.

use crate::{Random, allocate, calls, fill};
use stack_sampler::Place;
use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

type Callback = extern "C" fn(*mut c_void);
/// Calls back from a stack of `depth` frames.
type Work = unsafe extern "C" fn(Callback, *mut c_void, usize);

extern "C" fn callback(random: *mut c_void) {
    // SAFETY: `Library::work` has it, and does not use it now.
    let random = unsafe { &mut *random.cast::<Random>() };
    allocate(random);
    let depth = random.below(5);
    calls::wander(random, depth, true);
}

struct Library {
    handle: *mut c_void,
    work: Work,
}

impl Library {
    fn load(path: &Path) -> Self {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the library has this function.
        unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            assert!(!handle.is_null(), "{path:?} cannot be loaded");
            let work = libc::dlsym(handle, c"stack_library_work".as_ptr());
            assert!(!work.is_null());
            Self { handle, work: std::mem::transmute::<*mut c_void, Work>(work) }
        }
    }

    fn work(&self, random: &mut Random) {
        let depth = random.below(12);
        // SAFETY: the library is loaded, and calls back with `random`.
        unsafe { (self.work)(callback, std::ptr::from_mut(random).cast(), depth) }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: nothing of the library is in use.
        unsafe { libc::dlclose(self.handle) };
    }
}

/// Longer than the tracker needs to see which libraries are loaded; `docs/stacks.md` says how long.
const KNOWN_AFTER: Duration = Duration::from_millis(1500);

/// Works without samples until the tracker knows the libraries that are loaded.
fn until_known(random: &mut Random, library: &Library) {
    let start = Instant::now();
    stack_sampler::paused(|| {
        while start.elapsed() < KNOWN_AFTER {
            library.work(random);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

pub(crate) fn call(folder: &Path, share: u32) {
    let paths = ["rust.so", "one.so", "two.so"].map(|name| folder.join(name));
    let kept = paths.each_ref().map(|path| Library::load(path));
    until_known(&mut Random(1), &kept[0]);
    fill(Place::Library, share, |random| {
        let library = &kept[random.below(kept.len())];
        library.work(random);
    });
    drop(kept);
    // Two libraries whose functions have different frames, in turns at one address.
    for path in [&paths[1], &paths[2], &paths[1]] {
        let library = Library::load(path);
        until_known(&mut Random(1), &library);
        fill(Place::Reloaded, share / 12, |random| library.work(random));
    }
}
