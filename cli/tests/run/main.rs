//! `memledger run` with programs that have the tracker, and with some that have not.
//!
//! The tracked program is this one again: `TEST_SCENARIO` says what it does then.

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod harness;
#[cfg(target_os = "linux")]
mod scenarios;

#[global_allocator]
static ALLOC: memledger::TrackingAllocator = memledger::TrackingAllocator::system();

fn main() {
    #[cfg(target_os = "linux")]
    {
        if let Ok(scenario) = std::env::var(scenarios::SCENARIO) {
            return scenarios::play(&scenario);
        }
        harness::ignore_no_signal();
        let arguments = libtest_mimic::Arguments::from_args();
        libtest_mimic::run(&arguments, cases::all()).exit();
    }
}
