//! The analyzer and the report formats, fed with events made by hand and with the samples.
#![cfg(feature = "analysis")]

mod buckets;
mod cost;
mod exports;
mod feed;
mod figures;
mod findings;
mod hostile;
mod index;
mod mappings;
mod model;
mod moments;
mod ops;
#[cfg(feature = "html")]
mod pages;
mod queries;
mod runs;
mod sampled;
mod samples;
mod spans;
mod stacks;
mod text;
mod timeline;
mod untracked;
