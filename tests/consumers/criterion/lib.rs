//! A crate with a bench.
