//! The functions of call stacks, for reports of a program that runs.

use crate::dump::symbols::find_functions;
use crate::error::{Error, ErrorKind};
use crate::trace::worker::{self, WORKER_TIMEOUT};
use memledger_analysis::{CodeRange, Module, Report, SourceFrame};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard};

/// The functions that were looked for. Locked while a profile or a dump of a session is made: one at a time
/// limits the memory that several callers need.
///
/// PERF: a program that is profiled every 10 s would read its debug information each time. What is
/// kept are the frames of the program's stacks, a few hundred bytes each.
static KNOWN: LazyLock<Mutex<KnownModules>> = LazyLock::new(Mutex::default);

type KnownModules = HashMap<Module, KnownModule>;

/// What was found in the file of a module.
#[derive(Default)]
struct KnownModule {
    code: Vec<CodeRange>,
    /// By offset; without functions if there are none.
    functions: HashMap<u64, Vec<SourceFrame>>,
}

/// The functions that are known, which only one caller at a time has.
pub(crate) struct Functions(MutexGuard<'static, KnownModules>);

impl Functions {
    /// # Errors
    /// [`ErrorKind::TimedOut`] if another caller has them for too long.
    pub(crate) fn lock() -> Result<Self, Error> {
        // NOTE: with a deadline. In a child that was forked while a profile was made, the lock stays taken.
        let known = worker::lock_within(&KNOWN, WORKER_TIMEOUT);
        known.map(Self).ok_or_else(|| {
            Error::new(
                ErrorKind::TimedOut,
                format!(
                    "there is no profile now, because another one has been in progress for {} s",
                    WORKER_TIMEOUT.as_secs()
                ),
            )
        })
    }

    /// Adds the functions of all frames; looks for those only that are not known yet.
    pub(crate) fn add_to(&mut self, report: &mut Report) {
        let known = &mut self.0;
        let is_new = |module: &Module, offset: u64| {
            known.get(module).is_none_or(|module| !module.functions.contains_key(&offset))
        };
        let mut new = Report::default();
        new.modules = report.modules.clone();
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
}
