//! What runs before `main`, once the system has called it.

use crate::platform::os::before_main::{Process, StartBeforeMain};
use std::sync::atomic::{AtomicBool, Ordering};

static IS_BEFORE_MAIN: AtomicBool = AtomicBool::new(false);

/// Starts what the environment asks for.
pub(in crate::platform::os) fn start() {
    IS_BEFORE_MAIN.store(true, Ordering::Release);
    Process::start_before_main();
    IS_BEFORE_MAIN.store(false, Ordering::Release);
}

/// Whether a recording that starts now starts before `main`.
pub(in crate::platform::os) fn is_before_main() -> bool {
    IS_BEFORE_MAIN.load(Ordering::Acquire)
}
