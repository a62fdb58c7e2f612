//! A heap profile of the program while it runs.

use crate::error::{self, Error};
use crate::ledger::entry::{refuse_forked, request};
use crate::ledger::recording;
use crate::ledger::reports::functions::Functions;
use crate::platform::os;
use crate::trace::write::untracked;
use memledger_analysis::Frames;
use memledger_export::parts::heap_profile;

/// The profile as of now, in memory of the program.
pub(in crate::ledger) fn profile() -> Result<Vec<u8>, Error> {
    refuse_forked()?;
    let ours = request(make)?;
    let copy = ours.clone();
    untracked(move || drop(ours));
    Ok(copy)
}

/// The same for a client of the control server, in memory of the tracker. Only with the guard set.
pub(in crate::ledger) fn for_client() -> Result<Vec<u8>, String> {
    refuse_forked().and_then(|()| make()).map_err(|error| format!("{error:#}"))
}

/// Makes a profile. Neither the recording nor its analyzer is locked while functions are looked for
/// and the profile is encoded.
fn make() -> Result<Vec<u8>, Error> {
    let mut functions = Functions::lock()?;
    recording::collect(true);
    let taken_at = os::time_of_day();
    let analyzer = recording::current().as_ref().and_then(|recording| recording.analyzer.clone());
    let analyzer = analyzer.ok_or(error::not_analyzed())?;
    let mut report = analyzer.report_of("a profile", |analyzer| analyzer.report_by_bucket())?;
    functions.add_to(&mut report);
    Ok(heap_profile(&report, Frames::Folded, taken_at))
}
