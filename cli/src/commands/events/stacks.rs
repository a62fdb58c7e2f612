//! The functions of the stacks that events refer to.

use super::EventsArgs;
use crate::commands::input::{is_stdin, open_watched, unreadable};
use crate::commands::output::frames;
use crate::error::CliError;
use crate::symbols::WithProgress;
use memledger_analysis::read::read;
use memledger_analysis::{Analyzer, Frames};
use std::collections::HashMap;

/// The stacks of a trace, by id.
pub struct Stacks {
    analyzer: Analyzer,
    symbolizer: WithProgress,
    frames: Frames,
    known: HashMap<u32, Option<Vec<String>>>,
}

impl Stacks {
    /// Reads the whole trace: symbols can be at its end.
    pub fn read(args: &EventsArgs) -> Result<Self, CliError> {
        if is_stdin(&args.trace) {
            return Err(CliError::Usage(
                "--stacks needs to read the trace twice, which standard input does not allow; give a \
                 file"
                .to_owned(),
            ));
        }
        let mut analyzer = Analyzer::new().largest_live(0);
        read(open_watched(&args.trace)?, &mut analyzer)
            .map_err(|error| unreadable(&args.trace, error))?;
        let symbolizer = WithProgress::new(&args.symbols);
        Ok(Self { analyzer, symbolizer, frames: frames(args.all_frames), known: HashMap::new() })
    }

    /// The functions of a stack, innermost first; `None` if the trace does not describe it.
    pub fn functions(&mut self, id: u32) -> Option<&[String]> {
        let Self { analyzer, symbolizer, frames, known } = self;
        let find = || {
            let mut report = analyzer.callstack(id)?;
            report.symbolize(symbolizer);
            Some(report.functions_of(0, *frames))
        };
        known.entry(id).or_insert_with(find).as_deref()
    }
}
