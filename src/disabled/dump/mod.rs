//! What a program says of its memory itself, in a build without the feature `report`: how many events it
//! has recorded. A program that asks for a report gets a problem instead, and the recording goes on.

#[cfg(tracking)]
mod report;
#[path = "../../dump/report_to.rs"]
mod report_to;
#[path = "../../dump/snapshot.rs"]
mod snapshot;

#[cfg(tracking)]
pub(crate) use report::*;
pub use report_to::ReportTo;
pub use snapshot::{Figures, Snapshot};

use crate::error::{Error, ErrorKind};

const WHY: &str = "the program was built without memledger's feature report";

/// Why there is no report, or nothing is recorded at all.
pub(crate) fn refusal() -> Error {
    if cfg!(tracking) {
        Error::new(ErrorKind::FeatureOff, WHY)
    } else if cfg!(feature = "enable") {
        Error::new(ErrorKind::UnsupportedPlatform, "memory cannot be tracked on this system")
    } else {
        let sentence = "nothing is recorded: memledger was compiled without its feature `enable`";
        Error::new(ErrorKind::FeatureOff, sentence)
    }
}

/// No snapshot is made.
mod own_report {
    #[derive(Debug)]
    pub(super) enum OwnReport {}

    impl OwnReport {
        pub(super) fn figures(&self) -> super::Figures {
            match *self {}
        }
    }
}
