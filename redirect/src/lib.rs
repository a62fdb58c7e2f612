//! How to redirect a function of a running program: where it is, and which of its instructions make room for
//! a jump.
//!
//! `memledger run` loads a library into programs, which sees the calls of `malloc` because the loader binds
//! them to it. An allocator inside of the executable, and functions that only an allocator has (`mallocx`,
//! C++'s `operator new`), are called at their own addresses. This crate [finds](functions) them in the file,
//! and [plans](Room) the change of their code; the library makes it.
//!
//! Nothing here changes memory, and nothing depends on the machine: x86-64 code is read as bytes.

mod room;
mod symbols;

pub use room::{JUMP, Refusal, Room, branches, jump};
pub use symbols::{Function, build_id, functions};
