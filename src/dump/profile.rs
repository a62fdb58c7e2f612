//! A heap profile of the program while it runs.

use crate::dump::InProcessAnalyzer;
use crate::dump::functions::Functions;
use crate::error::Error;
use crate::platform::os;
use memledger_analysis::Frames;
use memledger_export::parts::heap_profile;

/// Makes a profile; `analyzed` collects, and returns the analyzer. Neither the recording nor its analyzer is
/// locked while functions are looked for and the profile is encoded.
pub(crate) fn make_profile(
    analyzed: impl FnOnce() -> Result<InProcessAnalyzer, Error>,
) -> Result<Vec<u8>, Error> {
    let mut functions = Functions::lock()?;
    let analyzer = analyzed()?;
    let taken_at = os::time_of_day();
    let mut report = analyzer.report_of("a profile", |analyzer| analyzer.report_by_bucket())?;
    functions.add_to(&mut report);
    Ok(heap_profile(&report, Frames::Folded, taken_at))
}
