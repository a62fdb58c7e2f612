//! Symbolizers, which find the source of an address: `stored.rs` has the symbols that a trace itself has,
//! `binaries/` finds them in the program's files.

#[cfg(feature = "symbols")]
mod binaries;
mod stored;

#[cfg(feature = "symbols")]
pub use binaries::Binaries;
pub(super) use stored::StoredSymbols;
#[cfg(feature = "read")]
pub(super) use stored::{AT_RUN_TIME, SYMBOL, SYMBOL_FUNCTION, SYMBOL_MODULE};
