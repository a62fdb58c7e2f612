//! A report as something to read or to store, one file per format.
#![forbid(unsafe_code)]

pub mod json;
mod pretty;
pub mod text;
