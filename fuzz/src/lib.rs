//! The code that all fuzz targets share: one target for each body of `bodies/`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The limit for allocated bytes: those of one input, together with those that are kept between
/// inputs. libFuzzer's own limits check the whole process once a second, and single blocks only
/// with a sanitizer.
const MAX_ALLOCATED_BYTES: usize = 64 << 20;

/// The system's allocator, with a limit: beyond it the program aborts, which is a finding.
pub struct Limited;

static USED: AtomicUsize = AtomicUsize::new(0);

fn count(size: usize) {
    if USED.fetch_add(size, Relaxed) + size > MAX_ALLOCATED_BYTES {
        eprintln!("more than {MAX_ALLOCATED_BYTES} bytes are allocated at once");
        std::process::abort();
    }
}

// SAFETY: all calls go to the system's allocator unchanged; only a count is added.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller makes the same guarantee.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller makes the same guarantee.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller makes the same guarantee.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size);
        USED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller makes the same guarantee.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

/// With `FUZZ_SEEDS=FOLDER`, writes the seeds into the folder, and exits.
pub fn seeds(name: &str) {
    let Some(folder) = std::env::var_os("FUZZ_SEEDS") else { return };
    let target = memledger_fuzz_bodies::TARGETS.iter().find(|target| target.name == name);
    for (index, seed) in
        target.map(|target| (target.seeds)()).unwrap_or_default().iter().enumerate()
    {
        if let Err(error) = std::fs::write(Path::new(&folder).join(format!("seed-{index}")), seed) {
            eprintln!("a seed cannot be written: {error}");
            std::process::exit(1);
        }
    }
    std::process::exit(0);
}

/// The main function of one fuzz target.
#[macro_export]
macro_rules! target {
    ($name:ident) => {
        #[global_allocator]
        static LIMITED: memledger_fuzz::Limited = memledger_fuzz::Limited;

        libfuzzer_sys::fuzz_target!(
            init: memledger_fuzz::seeds(stringify!($name)),
            |data: &[u8]| memledger_fuzz_bodies::$name::run(data)
        );
    };
}
