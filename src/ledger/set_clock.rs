//! The time, where the system has none.

/// Gives the tracker a clock on `wasm32-unknown-unknown`, where only the host knows the time: a function that
/// returns nanoseconds since any moment, and never goes back.
///
/// A program calls this before it starts a ledger. Without it, all times there are 0, and all else is as it
/// is with a clock. The function is called within allocations of the program, so it must not allocate. On
/// other systems this does nothing: they have a clock.
///
/// ```
/// use memledger::{Ledger, Worker};
///
/// fn now() -> u64 {
///     # const fn host_now() -> f64 { 0.0 }
///     // A function that the program imports from its host: `() => performance.now()`.
///     let milliseconds: f64 = host_now();
///     (milliseconds * 1e6) as u64
/// }
///
/// memledger::set_clock(now);
/// let ledger = Ledger::builder().worker(Worker::Manual).start()?;
/// # Ok::<(), memledger::Error>(())
/// ```
pub fn set_clock(clock: fn() -> u64) {
    #[cfg(all(tracking, wasm))]
    crate::platform::os::set_clock(clock);
    let _ = clock;
}
