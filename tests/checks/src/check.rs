//! What a check is.

use crate::needs::Need;
use std::time::Duration;

/// One check. It passes if each of its commands ends with status 0. Where a command ends with
/// [`NOT_CHECKED`], its last line says why nothing was checked.
#[derive(Debug)]
pub struct Check {
    /// How it is asked for.
    pub name: &'static str,
    /// What is true if it passes.
    pub what: &'static str,
    /// Which runs have it; any has it by its name.
    pub when: When,
    /// What it may run beside.
    pub lane: Lane,
    /// After this time it has failed: some twenty times what it takes on two idle cores.
    pub deadline: Duration,
    /// What must be on the machine.
    pub needs: &'static [Need],
    /// Lines of bash. `$short` is `--short`, or nothing in a full run.
    pub commands: &'static [&'static str],
}

/// A time of whole minutes.
#[must_use]
pub const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

/// The status of a command that could not check anything here.
pub const NOT_CHECKED: i32 = 77;

/// When a check runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// For each change.
    Always,
    /// For a change of a path that [`crate::paths::ROWS`] has for it, and in a full run.
    ByPath,
    /// In a full run only.
    Full,
    /// Only if its name is given: it takes too long, or measures.
    ByName,
}

/// Checks of one lane run one after the other, in the order of the table; lanes run beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Compiles in the folder of the workspace, which cargo locks.
    Workspace,
    /// Compiles in folders of its own, often on one core only.
    Own,
    /// Runs what [`BUILD`] has built, and waits for it.
    Programs,
}

/// The check that builds the command and the examples for all of [`Lane::Programs`].
pub const BUILD: &str = "build";

impl Lane {
    /// How many of its checks run at once: programs wait for each other more than they compute.
    #[must_use]
    pub const fn width(self) -> usize {
        match self {
            Self::Workspace | Self::Own => 1,
            Self::Programs => 2,
        }
    }
}

/// Which checks run, and what it means if one of them could not check anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Those that a change can break. What could not be checked is named.
    Change,
    /// All but those by name. What could not be checked has failed.
    Full,
    /// Those that were asked for. What could not be checked has failed.
    Named,
}

impl Tier {
    /// As it is in the list of times.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Full => "full",
            Self::Named => "named",
        }
    }
}
