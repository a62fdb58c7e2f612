//! Measures what a piece of the program allocates, and compares it with a budget.
//!
//! A measurement is a scope of its own, with a number that no other has. A context that is captured in
//! the measured code is below that node, and stays there on every thread that enters it. So the
//! accounts need one rule: a context belongs to the innermost measurement around it. Reports show a
//! measurement as a scope of the same name.

mod budget;
mod check;
mod measured;
mod node;
mod session;

pub use budget::{Budget, BudgetError, budget};
pub use measured::measure;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_measured_of_the_trackers_own() {
        let mut has_run = false;
        let ((), measured) = crate::trace::write::untracked(|| measure(|| has_run = true));
        assert_eq!(
            measured.unwrap_err().to_string(),
            "memory could not be measured: this is the tracker's own code, whose memory is not recorded"
        );
        assert!(has_run);
    }
}
