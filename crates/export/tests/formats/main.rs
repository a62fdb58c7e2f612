//! The formats of reports, each compared with the figures of the report.

mod exports;
mod pages;
mod text;
