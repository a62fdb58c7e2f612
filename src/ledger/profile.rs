//! A heap profile of the program while it runs.

use super::entry::{refuse_forked, request};
use super::recording::{self, WORKER_TIMEOUT};
use super::report::find_functions;
use crate::analysis::{CodeRange, Module, Report, SourceFrame};
use crate::dump::pprof::heap_profile;
use crate::error::Error;
use crate::trace::worker;
use crate::trace::write::untracked;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};
use std::time::SystemTime;

/// The functions that earlier profiles have looked for. Held while a profile is made: one at a time
/// limits the memory that several callers need.
///
/// PERF: a program that is profiled every 10 s would read its debug information each time. What is
/// kept are the frames of the program's stacks, a few hundred bytes each.
static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

type Known = HashMap<Module, KnownModule>;

/// What was found in the file of a module.
#[derive(Default)]
struct KnownModule {
    code: Vec<CodeRange>,
    /// By offset; without functions if there are none.
    functions: HashMap<u64, Vec<SourceFrame>>,
}

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
    // NOTE: with a deadline. In a child that was forked while a profile was made, the lock stays taken.
    let known = worker::lock_within(&KNOWN, WORKER_TIMEOUT);
    let mut known = known.ok_or(Error::ProfileUnderWay { waited: WORKER_TIMEOUT })?;
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
    add_functions(&mut report, &mut known);
    Ok(heap_profile(&report, false, Some(taken_at)))
}

/// Adds the functions of all frames; looks for those only that are not known yet.
fn add_functions(report: &mut Report, known: &mut Known) {
    let is_new = |module: &Module, offset: u64| {
        known.get(module).is_none_or(|module| !module.functions.contains_key(&offset))
    };
    let mut new = Report { modules: report.modules.clone(), ..Report::default() };
    new.frames = (report.frames.iter())
        .filter(|frame| {
            let module = frame.module.and_then(|module| report.modules.get(module));
            module.is_some_and(|module| is_new(module, frame.offset))
        })
        .cloned()
        .collect();
    if !new.frames.is_empty() {
        find_functions(&mut new);
    }
    for frame in new.frames {
        if let Some(module) = frame.module.and_then(|module| new.modules.get(module)) {
            let module = known.entry(module.clone()).or_default();
            module.functions.insert(frame.offset, frame.functions);
        }
    }
    for (number, range) in new.code {
        let module = known.entry(new.modules[number].clone()).or_default();
        if !module.code.contains(&range) {
            module.code.push(range);
        }
    }
    for (number, module) in report.modules.iter().enumerate() {
        let Some(module) = known.get(module) else { continue };
        report.code.extend(module.code.iter().map(|&range| (number, range)));
        for frame in report.frames.iter_mut().filter(|frame| frame.module == Some(number)) {
            if let Some(functions) = module.functions.get(&frame.offset) {
                frame.functions.clone_from(functions);
            }
        }
    }
}
