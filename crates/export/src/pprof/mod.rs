//! A heap profile in the format of pprof, as Go's runtime writes it: `profile.proto` in a file of gzip.
//!
//! A sample is one combination of stack, scope, group, name and thread. Calls are folded as in all
//! reports. NOTE: `drop_frames` of the format, which Go uses, is not: it removes all frames below the
//! outermost one that fits, so a closure that an iterator of `core` calls would be gone; and Parca
//! and Pyroscope do not follow it.

mod profile;

use crate::format::{ReportFormat, Sealed};
use crate::options::Options;
use flate2::Compression;
use flate2::write::GzEncoder;
use memledger_document::{Frames, Report};
use std::io::{self, Write};
use std::time::SystemTime;

/// As a heap profile.
#[derive(Debug)]
pub struct Format;

impl Sealed for Format {}
impl ReportFormat for Format {
    fn name(&self) -> &'static str {
        "pprof"
    }

    fn about(&self) -> &'static str {
        "A heap profile for go tool pprof, Parca and Pyroscope, with scopes and names as labels"
    }

    fn endings(&self) -> &'static [&'static str] {
        &["pb.gz"]
    }

    fn needs_buckets(&self) -> bool {
        true
    }

    fn is_binary(&self) -> bool {
        true
    }

    fn write(&self, report: &Report, options: &Options, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&heap_profile(report, options.frames, None))
    }
}

/// The profile of a report with buckets. `taken_at`: when, if the program still runs.
pub fn heap_profile(report: &Report, frames: Frames, taken_at: Option<SystemTime>) -> Vec<u8> {
    let profile = profile::encode(report, frames, taken_at);
    // The level that Go's runtime takes.
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory does not fail.
    let _ = gzip.write_all(&profile);
    gzip.finish().unwrap_or_default()
}
