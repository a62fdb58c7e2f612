//! What the benches share. `README.md` in this folder explains each group.
//!
//! - [`workload`]: what allocators are asked to do.
//! - [`bursts`]: two things run in turn, burst by burst, on some threads; what each costs.
//! - [`recording`]: where events go, and the check that every one of them came there once.
//! - [`analyze`]: reading a trace in a process of its own.
//! - [`peers`]: other allocators that track; [`counter`]: what one of them calls. `framehop` and
//!   `frame_pointers`: two that only take stacks.
//! - [`targets`]: what the figures are to be.
//!
//! The real programs that the `overhead` command runs are a package of their own, `programs/`:
//! their binaries do not use this library, which would link memledger.

pub mod analyze;
pub mod bursts;
pub mod clock;
pub mod counter;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod frame_pointers;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub mod framehop;
pub mod nops;
pub mod peers;
pub mod recording;
pub mod targets;
pub mod workload;
