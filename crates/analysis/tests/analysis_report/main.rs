//! The analyzer and the report formats, fed with events made by hand and with the samples.

mod buckets;
mod cost;
mod figures;
mod findings;
mod hostile;
mod index;
mod mappings;
mod model;
mod moments;
mod ops;
mod queries;
mod relative_stacks;
mod runs;
mod sampled;
mod samples;
mod spans;
mod stacks;
mod timeline;
mod untracked;
