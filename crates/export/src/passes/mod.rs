//! Formats that see each block of a trace, for the command only: no interface.
#![expect(missing_debug_implementations, reason = "for our own crates only")]

mod csv;
pub mod firefox;
#[cfg(feature = "parquet")]
mod parquet;
mod rows;
mod tables;

pub use csv::CsvTables;
#[cfg(feature = "parquet")]
pub use parquet::ParquetTables;
pub use rows::{TableWriter, ToTables, actors};
pub use tables::{TABLES, Table};
