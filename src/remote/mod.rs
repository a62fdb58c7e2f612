//! Communication with other processes: [`control`] steers a running program.

pub mod control;
