//! What is made of a report.

mod call_sums;
mod crates;
mod estimate;
mod names;
mod place;
mod sort;
mod statics;
