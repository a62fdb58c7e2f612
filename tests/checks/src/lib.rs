//! Runs the checks of the project: each is a value with its needs, its lane, its deadline and its commands.
//!
//! ```text
//! main ──► paths (what runs) ──► needs (installs) ──► run (lanes, deadlines, times) ──► what failed, last
//! ```

pub mod check;
pub mod needs;
pub mod paths;
pub mod run;
pub mod table;
