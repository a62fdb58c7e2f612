//! What whole processes do: how recording starts and ends, and what it survives in between.
//!
//! Each test runs this very program again, as a child, to which an environment variable says
//! which scenario to play, in a folder of its own and against a deadline. Then it looks at what
//! the child left behind: exit status, output, report and trace.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod allocator;
mod harness;

mod black_box;
mod budgets;
mod choices;
mod code;
mod containers;
mod control;
mod cores;
mod counts;
mod crashes;
mod descriptors;
mod destinations;
mod ending_signals;
mod entries;
mod exactness;
mod exit;
mod faults;
mod files;
mod findings;
mod fork;
mod fork_starts;
mod fork_watchers;
mod frame_pointers;
mod free_scopes;
mod functions;
mod jumps;
mod limits;
mod log;
mod log_moments;
mod losses;
mod memory;
mod no_memory;
mod oom;
mod own_memory;
mod pages;
mod panics;
mod private;
mod profiles;
mod recorders;
mod rss;
mod scopes;
mod settings;
mod shim;
mod signals;
mod spans;
mod stack_sums;
mod stacks;
mod start;
mod threads;
mod track_events;
mod travel;
mod watcher;
mod wire;

use allocator::{Counting, Faulty};
use memledger::TrackingAllocator;

#[global_allocator]
static ALLOC: Counting<TrackingAllocator<Faulty>> = Counting(TrackingAllocator::new(Faulty));

fn main() {
    crashes::at_once();
    harness::main(&[
        ("start", start::CASES),
        ("exit", exit::CASES),
        ("files", files::CASES),
        ("private", private::CASES),
        ("settings", settings::CASES),
        ("destinations", destinations::CASES),
        ("recorders", recorders::CASES),
        ("descriptors", descriptors::CASES),
        ("limits", limits::CASES),
        ("choices", choices::CASES),
        ("control", control::CASES),
        ("threads", threads::CASES),
        ("track_events", track_events::CASES),
        ("memory", memory::CASES),
        ("black_box", black_box::CASES),
        ("watcher", watcher::CASES),
        ("fork_watchers", fork_watchers::CASES),
        ("oom", oom::CASES),
        ("no_memory", no_memory::CASES),
        ("faults", faults::CASES),
        ("scopes", scopes::CASES),
        ("free_scopes", free_scopes::CASES),
        ("jumps", jumps::CASES),
        ("entries", entries::CASES),
        ("containers", containers::CASES),
        ("travel", travel::CASES),
        ("spans", spans::CASES),
        ("stacks", stacks::CASES),
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
        ("fork", fork::CASES),
        ("fork_starts", fork_starts::CASES),
        ("signals", signals::CASES),
        ("ending_signals", ending_signals::CASES),
        ("crashes", crashes::CASES),
        ("cores", cores::CASES),
        ("own_memory", own_memory::CASES),
        ("exactness", exactness::CASES),
        ("budgets", budgets::CASES),
        ("rss", rss::CASES),
        ("wire", wire::CASES),
    ]);
}
