//! `memledger run` with programs that have the tracker, and with some that have not; `memledger top` on a
//! terminal.
//!
//! The tracked program is this one again: `TEST_SCENARIO` says what it does then.

#[cfg(target_os = "linux")]
mod before_start;
#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod harness;
#[cfg(target_os = "linux")]
mod progress;
#[cfg(target_os = "linux")]
mod scenarios;
#[cfg(target_os = "linux")]
mod screen;
#[cfg(target_os = "linux")]
mod top;

#[global_allocator]
static ALLOC: memledger::TrackingAllocator = memledger::TrackingAllocator::system();

fn main() {
    #[cfg(target_os = "linux")]
    {
        if let Ok(scenario) = std::env::var(scenarios::SCENARIO) {
            return scenarios::play(&scenario);
        }
        memledger_test_support::command::ignore_no_signal();
        let arguments = libtest_mimic::Arguments::from_args();
        let all = [cases::all(), before_start::all(), progress::all(), top::all()];
        libtest_mimic::run(&arguments, all.into_iter().flatten().collect()).exit();
    }
}
