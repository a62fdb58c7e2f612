//! Measures what a piece of the program allocates, and compares it with a budget.
//!
//! A measurement is a scope of its own, with a number that no other has. A context that is captured in
//! the measured code is below that node, and stays there on every thread that enters it. So the
//! accounts need one rule: a context belongs to the innermost measurement around it. Reports show a
//! measurement as a scope of the same name.

mod budget;
mod measured;
#[cfg_attr(not(report), path = "../disabled/measure/session/mod.rs")]
mod session;

pub use budget::{Budget, BudgetError, budget};
pub use measured::measure;
