//! Libraries that are loaded while the program runs.

use crate::{Random, allocate, calls, fill};
use stack_sampler::Place;
use std::ffi::{CString, c_void};
use std::path::Path;
use std::time::{Duration, Instant};

const ENDING: &str = if cfg!(windows) { "dll" } else { "so" };

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
        let name = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        let (handle, work) = system::load(&name, c"stack_library_work");
        assert!(!work.is_null(), "{path:?} cannot be loaded");
        // SAFETY: the library has this function.
        Self { handle, work: unsafe { std::mem::transmute::<*mut c_void, Work>(work) } }
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
        unsafe { system::unload(self.handle) };
    }
}

#[cfg(unix)]
mod system {
    use std::ffi::{CStr, c_void};

    /// A library, and a function of it, which is null if the library cannot be loaded.
    pub(super) fn load(path: &CStr, function: &CStr) -> (*mut c_void, *mut c_void) {
        // SAFETY: the names end with a NUL, and the library's own code can be run.
        unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            (handle, libc::dlsym(handle, function.as_ptr()))
        }
    }

    pub(super) unsafe fn unload(handle: *mut c_void) {
        // SAFETY: the caller guarantees that nothing of it is in use.
        unsafe { libc::dlclose(handle) };
    }
}

#[cfg(windows)]
mod system {
    use std::ffi::{CStr, c_void};
    use windows_sys::Win32::Foundation::FreeLibrary;
    use windows_sys::Win32::System::LibraryLoader::{GetProcAddress, LoadLibraryA};

    /// The same as above.
    pub(super) fn load(path: &CStr, function: &CStr) -> (*mut c_void, *mut c_void) {
        // SAFETY: as above.
        unsafe {
            let handle = LoadLibraryA(path.as_ptr().cast());
            let found = GetProcAddress(handle, function.as_ptr().cast());
            (handle, found.map_or(std::ptr::null_mut(), |found| found as *mut c_void))
        }
    }

    pub(super) unsafe fn unload(handle: *mut c_void) {
        // SAFETY: the caller guarantees that nothing of it is in use.
        unsafe { FreeLibrary(handle) };
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
    let paths = ["rust", "one", "two"].map(|name| folder.join(name).with_extension(ENDING));
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
