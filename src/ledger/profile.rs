//! A heap profile of the program while it runs.

use super::entry::{refuse_forked, request};
use super::recording;
use super::report::find_functions;
use crate::dump::pprof::heap_profile;
use crate::error::Error;
use crate::trace::write::untracked;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// Held while a profile is made: one at a time limits the memory that several callers need.
static MAKING: Mutex<()> = Mutex::new(());

/// The profile as of now, in memory of the program.
pub(super) fn profile() -> Result<Vec<u8>, Error> {
    refuse_forked()?;
    let ours = request(make)?;
    let copy = ours.clone();
    untracked(move || drop(ours));
    Ok(copy)
}

/// The same for a client of the control server, in memory of the tracker. Only with the guard set.
pub(super) fn for_client() -> Result<Vec<u8>, String> {
    refuse_forked().and_then(|()| make()).map_err(|error| error.to_string())
}

/// Makes a profile. Neither the recording nor its analyzer is locked while functions are looked for
/// and the profile is encoded.
fn make() -> Result<Vec<u8>, Error> {
    let _turn = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    recording::collect(true);
    let taken_at = SystemTime::now();
    let analyzer = recording::current().as_ref().and_then(|recording| recording.analyzer.clone());
    let analyzer = analyzer.ok_or(Error::NotAnalyzed)?;
    // NOTE: checks first that there is enough memory, as for the report: if memory ran out while the
    // profile is made, the process would abort.
    let room = analyzer.with_analyzer(|analyzer| analyzer.report_bytes(Some(0)));
    if Vec::<u8>::new().try_reserve_exact(room).is_err() {
        return Err(Error::OutOfMemory(format!(
            "the system has no memory left for a profile, which takes about {} KiB",
            room >> 10
        )));
    }
    let mut report = analyzer.with_analyzer(|analyzer| {
        analyzer.flush();
        analyzer.report_by_bucket()
    });
    find_functions(&mut report);
    Ok(heap_profile(&report, false, Some(taken_at)))
}
