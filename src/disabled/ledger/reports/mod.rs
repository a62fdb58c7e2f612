//! What a recording says in the process itself, in a build without the feature `report`: how many events it
//! has recorded. A program that asks for a report gets a problem instead, and the recording goes on.

pub(crate) mod in_process;
pub(super) mod profile;
pub(crate) mod report;
pub(super) mod snapshot;

use super::config::Config;
use super::problem::ProblemKind;
use super::problems;
use super::report_to::ReportTo;
use crate::error::{Error, ErrorKind};

/// Why there is no report, and nothing else that needs an analyzer in the process.
pub(super) const NOT_BUILT: &str = "the program was built without memledger's feature report";

pub(crate) fn refusal() -> Error {
    Error::new(ErrorKind::FeatureOff, NOT_BUILT)
}

/// Why this build cannot do what a setting asks for.
pub(super) fn check() -> Result<(), String> {
    Err(NOT_BUILT.to_owned())
}

/// Takes what this build does not have out of the settings of code, and says so.
pub(super) fn leave_out(config: &mut Config) {
    // NOTE: in place of the report, there is the line at the end.
    let report = config.report.as_mut().map(|report| *report = ReportTo::stderr());
    let analysis = std::mem::take(&mut config.analyze_in_process);
    let asked = [
        (report.is_some(), "there is no report"),
        (config.black_box.take().is_some(), "there is no black box"),
        (analysis, "no events are analyzed in this process"),
    ];
    for (_, why) in asked.into_iter().filter(|(is_asked, _)| *is_asked) {
        problems::add(ProblemKind::Setting, format!("{why}: {NOT_BUILT}"));
    }
}
