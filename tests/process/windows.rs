//! What only Windows has: the last error of a thread, and consoles.
#![expect(unsafe_code, reason = "system calls")]

use crate::counts::{check, map_counts};
use crate::harness::{Case, builder, case, start};
use memledger::{TrackingAllocator, alloc_scope};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use windows_sys::Win32::Foundation::{GetLastError, SetLastError};
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent};

pub(crate) const CASES: &[Case] = &[
    case("the last error is what it was after each call of the allocator", last_error, |run| {
        run.run().quiet().whole();
    }),
    case("Ctrl-Break ends a program after its report", interrupted, |run| {
        let outcome = run.run();
        // `STATUS_CONTROL_C_EXIT`
        check(outcome.exited(0xc000_013a_u32.cast_signed()), true);
    }),
];

const ERROR: u32 = 1234;

/// NOTE: not the allocator of this program, which has values of std in each thread: to find one sets the
/// error.
static ALLOC: TrackingAllocator<System> = TrackingAllocator::new(System);

/// Runs `call`, which leaves the thread's error as it was.
#[track_caller]
fn keeps_error<R>(call: impl FnOnce() -> R) -> R {
    // SAFETY: a number of this thread.
    unsafe { SetLastError(ERROR) };
    let result = black_box(call());
    // SAFETY: as above.
    assert_eq!(unsafe { GetLastError() }, ERROR);
    result
}

/// The first event of a thread, later ones, full buffers, and the thread's last moments.
fn last_error() {
    struct Allocates(bool);
    impl Drop for Allocates {
        fn drop(&mut self) {
            let layout = Layout::new::<[u64; 8]>();
            // SAFETY: the layout has a size, and the block is freed once.
            unsafe {
                let block = keeps_error(|| ALLOC.alloc(layout));
                keeps_error(|| ALLOC.dealloc(block, layout));
            }
        }
    }
    thread_local! {
        static VALUE: std::cell::RefCell<Allocates> =
            const { std::cell::RefCell::new(Allocates(false)) };
    }
    let _ledger = start();
    let layout = Layout::new::<[u64; 8]>();
    for _ in 0..20 {
        let body = move || {
            for number in 0..20_000 {
                // SAFETY: the layout has a size, and each block is freed once with the layout it has.
                unsafe {
                    let block = keeps_error(|| ALLOC.alloc(layout));
                    let block = keeps_error(|| ALLOC.realloc(block, layout, 1024));
                    keeps_error(|| {
                        ALLOC.dealloc(block, Layout::from_size_align_unchecked(1024, 8))
                    });
                    let zeroed = keeps_error(|| ALLOC.alloc_zeroed(layout));
                    keeps_error(|| ALLOC.dealloc(zeroed, layout));
                }
                if number % 100 == 0 {
                    // SAFETY: as above.
                    alloc_scope!("scope", unsafe {
                        let block = keeps_error(|| ALLOC.alloc(layout));
                        keeps_error(|| ALLOC.dealloc(block, layout));
                    });
                }
            }
            VALUE.with_borrow_mut(|value| value.0 = true);
        };
        std::thread::spawn(body).join().unwrap();
    }
}

fn interrupted() {
    let counts = map_counts();
    let _ledger = builder().report_on_signals(true).start().unwrap();
    for counts in &counts[..4] {
        std::thread::spawn(|| {
            alloc_scope!("counted");
            loop {
                counts.work(1000);
            }
        });
    }
    alloc_scope!("counted");
    counts[4].work(100_000);
    // SAFETY: takes numbers; 0 is the console's own group of processes.
    let sent = unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, 0) };
    assert_ne!(sent, 0, "{}", std::io::Error::last_os_error());
    loop {
        counts[4].work(1);
    }
}
