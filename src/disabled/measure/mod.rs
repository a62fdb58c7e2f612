//! Measurements, which without a tracker are errors.

#[path = "../../measure/budget.rs"]
mod budget;
#[path = "../../measure/measured.rs"]
mod measured;
mod session;

pub use budget::{Budget, BudgetError, budget};
pub use measured::measure;
