//! What whole processes do: how recording starts and ends, and what it survives in between.
//!
//! Each test runs this very program again, as a child, to which an environment variable says
//! which scenario to play, in a folder of its own and against a deadline. Then it looks at what
//! the child left behind: exit status, output, report and trace.
//!
//! What is for Unix only is not on Windows, for the reasons that `not_on_windows.txt` in `scripts/platforms`
//! gives; what is for Linux only is not on macOS.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, unused_imports, reason = "what only tests of Unix or Linux use")
)]

mod allocator;
mod harness;
mod system;

mod black_box;
mod budgets;
mod choices;
mod code;
mod containers;
mod control;
#[cfg(target_os = "linux")]
mod cores;
mod counts;
#[cfg(unix)]
mod crashes;
#[cfg(unix)]
mod descriptors;
mod destinations;
#[cfg(unix)]
mod ending_signals;
mod entries;
mod exactness;
mod exit;
#[cfg(target_os = "linux")]
mod faults;
mod files;
mod findings;
#[cfg(unix)]
mod fork;
#[cfg(unix)]
mod fork_starts;
#[cfg(target_os = "linux")]
mod fork_watchers;
#[cfg(target_arch = "x86_64")]
mod frame_pointers;
mod free_scopes;
mod functions;
mod jumps;
#[cfg(unix)]
mod limits;
mod log;
mod log_moments;
mod losses;
mod memory;
mod millions;
mod no_memory;
#[cfg(unix)]
mod oom;
mod own_memory;
mod pages;
mod panics;
#[cfg(target_os = "linux")]
mod private;
mod profiles;
mod recorders;
mod rss;
mod scopes;
mod settings;
#[cfg(target_os = "linux")]
mod shim;
#[cfg(unix)]
mod signals;
mod spans;
mod stack_sums;
mod stacks;
mod start;
mod threads;
mod track_events;
mod travel;
#[cfg(target_os = "linux")]
mod watcher;
#[cfg(windows)]
mod windows;
mod wire;

use allocator::{Counting, Faulty};
use memledger::TrackingAllocator;

#[global_allocator]
static ALLOC: Counting<TrackingAllocator<Faulty>> = Counting(TrackingAllocator::new(Faulty));

fn main() {
    #[cfg(unix)]
    crashes::at_once();
    harness::main(&[
        ("start", start::CASES),
        ("exit", exit::CASES),
        ("files", files::CASES),
        #[cfg(target_os = "linux")]
        ("private", private::CASES),
        ("settings", settings::CASES),
        ("destinations", destinations::CASES),
        ("recorders", recorders::CASES),
        #[cfg(unix)]
        ("descriptors", descriptors::CASES),
        #[cfg(unix)]
        ("limits", limits::CASES),
        ("choices", choices::CASES),
        ("control", control::CASES),
        ("threads", threads::CASES),
        ("track_events", track_events::CASES),
        ("memory", memory::CASES),
        ("millions", millions::CASES),
        #[cfg(windows)]
        ("windows", windows::CASES),
        ("black_box", black_box::CASES),
        #[cfg(target_os = "linux")]
        ("watcher", watcher::CASES),
        #[cfg(target_os = "linux")]
        ("fork_watchers", fork_watchers::CASES),
        #[cfg(unix)]
        ("oom", oom::CASES),
        ("no_memory", no_memory::CASES),
        #[cfg(target_os = "linux")]
        ("faults", faults::CASES),
        ("scopes", scopes::CASES),
        ("free_scopes", free_scopes::CASES),
        ("jumps", jumps::CASES),
        ("entries", entries::CASES),
        ("containers", containers::CASES),
        ("travel", travel::CASES),
        ("spans", spans::CASES),
        ("stacks", stacks::CASES),
        #[cfg(target_arch = "x86_64")]
        ("frame_pointers", frame_pointers::CASES),
        ("functions", functions::CASES),
        ("findings", findings::CASES),
        ("profiles", profiles::CASES),
        ("pages", pages::CASES),
        ("panics", panics::CASES),
        ("stack_sums", stack_sums::CASES),
        ("code", code::CASES),
        ("log", log::CASES),
        ("log_moments", log_moments::CASES),
        ("losses", losses::CASES),
        #[cfg(unix)]
        ("fork", fork::CASES),
        #[cfg(unix)]
        ("fork_starts", fork_starts::CASES),
        #[cfg(unix)]
        ("signals", signals::CASES),
        #[cfg(unix)]
        ("ending_signals", ending_signals::CASES),
        #[cfg(unix)]
        ("crashes", crashes::CASES),
        #[cfg(target_os = "linux")]
        ("cores", cores::CASES),
        ("own_memory", own_memory::CASES),
        ("exactness", exactness::CASES),
        ("budgets", budgets::CASES),
        ("rss", rss::CASES),
        ("wire", wire::CASES),
    ]);
}
