//! Measures what a piece of the program allocates, and compares it with a budget.

mod budget;
mod check;
mod measured;
mod node;
mod session;

pub use budget::{Budget, budget};
pub use measured::{Measured, measure};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn nothing_is_measured_of_the_trackers_own() {
        let mut has_run = false;
        let measured = crate::trace::write::untracked(|| measure(|| has_run = true));
        let Err(Error::Unmeasured(why)) = measured else { panic!("it was measured") };
        assert_eq!(why.to_string(), "this is the tracker's own code, whose memory is not recorded");
        assert!(has_run);
    }
}
