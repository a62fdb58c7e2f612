//! The functions of a report's frames, in the program's files.

use crate::platform::os;
use crate::problems::{self, ProblemKind};
use crate::trace::write::untracked;
use memledger_analysis::{Binaries, Report};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Finds the functions of all frames of a report in the program's files. Where there are none, the
/// frames stay the module and an offset. Only with the guard set.
pub(crate) fn find_functions(report: &mut Report) {
    let notes = os::run_on_new_thread(SYMBOLS_STACK, || {
        untracked(|| {
            // NOTE: a damaged file must not cost the report.
            catch_unwind(AssertUnwindSafe(|| {
                let mut binaries = Binaries::new(&[]);
                report.symbolize(&mut binaries);
                binaries.take_notes()
            }))
        })
    });
    let panicked = "some functions of call stacks have no names: what reads debug information has \
                    failed on one of the program's files";
    notes
        .unwrap_or_else(|_| vec![panicked.to_owned()])
        .into_iter()
        .for_each(|why| problems::add(ProblemKind::Incomplete, why));
}

/// Bytes of stack for the thread that reads debug information.
///
/// NOTE: `addr2line` calls itself for each function that is inlined into another one: 1,000 levels
/// took more than 1 MiB without optimisation. Pages that are not used take no memory.
const SYMBOLS_STACK: usize = 64 << 20;
