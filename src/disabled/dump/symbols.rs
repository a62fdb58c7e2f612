//! The functions of a report's frames in a build without the feature `symbols`: their places alone.

use crate::problems::{self, ProblemKind};
use memledger_analysis::Report;

/// The frames stay the module and an offset.
pub(crate) fn find_functions(report: &mut Report) {
    without_functions(report)
        .into_iter()
        .for_each(|why| problems::add(ProblemKind::Incomplete, why));
}

/// Why the frames of a report have no functions, if it has frames.
fn without_functions(report: &Report) -> Option<String> {
    report.frames.iter().any(|frame| frame.module.is_some()).then(|| {
        "the functions of call stacks have no names: memledger was built without its feature \
         symbols. In a trace (MEMLEDGER_TRACE=run.memledger), `memledger report` finds them"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use memledger_analysis::Frame;

    #[test]
    fn a_build_without_symbols_says_how_to_get_names() {
        let mut report = Report::default();
        find_functions(&mut report);
        assert_eq!(without_functions(&report), None);
        let mut frame = Frame::default();
        frame.offset = 0x10;
        report.frames.push(frame);
        assert_eq!(without_functions(&report), None, "no module, so no file has its name");
        report.frames[0].module = Some(0);
        let sentence = without_functions(&report).unwrap();
        for part in ["memledger was built without its feature symbols", "`memledger report`"] {
            assert!(sentence.contains(part), "{sentence}");
        }
    }
}
