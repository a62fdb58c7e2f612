//! What each fuzzer does with one input, and what must hold whatever the input is.
//!
//! A body takes any bytes, works in memory only, and panics if a condition does not hold. libFuzzer
//! calls it ([`fuzz/README.md`]); `tests/replay.rs` calls it with the seeds and with all past
//! findings, as part of the ordinary tests.
//!
//! [`fuzz/README.md`]: https://github.com/memledger/memledger/blob/main/fuzz/README.md
#![forbid(unsafe_code)]

mod figures;
mod input;
mod log;
mod seeds;

/// One fuzzer.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also that of its program and of its folder in `fuzz/regressions`.
    pub name: &'static str,
    /// Processes one input.
    pub run: fn(&[u8]),
    /// The seeds.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

macro_rules! targets {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        $($(#[doc = $doc])* pub mod $name;)*

        /// All fuzzers.
        pub const TARGETS: &[Target] =
            &[$(Target { name: stringify!($name), run: $name::run, seeds: $name::seeds }),*];
    };
}

targets! {
    /// Memory events with any values: the accounts add up.
    account,
    /// From a whole trace to a report, as text and as JSON.
    analyzer,
    /// Any bytes as a compact packet.
    compact_decode,
    /// Any events to compact packets and back.
    compact_encode,
    /// Lines of the control server.
    control,
    /// A trace from one transport to the other and back.
    convert,
    /// Payloads of packets to events, of each protocol.
    events,
    /// `--fail-if` and `--at`.
    expressions,
    /// Names with `*` and `?`, lists of channels.
    filters,
    /// The CBOR of a store.
    messages,
    /// Any bytes as the body of a packed chunk.
    packed_decode,
    /// A whole trace to packets and events.
    packets,
    /// The first bytes that a program sends to a recorder.
    recorder,
    /// Flags, as `MEMLEDGER_*` variables; names of files, addresses.
    settings,
    /// Walks over any memory as a stack.
    stack_memory,
    /// Any bytes as the unwind information of a file.
    unwind_tables,
}
