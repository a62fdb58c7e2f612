//! The settings of track events in a build without the feature `perfetto`: there are none.

use crate::ledger::config::Config;
use std::ffi::OsStr;

pub(crate) const NOT_BUILT: &str =
    "the program was built without memledger's feature perfetto, so there are no track events";

pub(super) fn file(_: &OsStr, _: &mut Config) -> Result<(), String> {
    Err(NOT_BUILT.into())
}

pub(super) fn config(_: &OsStr, _: &mut Config) -> Result<(), String> {
    Err(NOT_BUILT.into())
}
