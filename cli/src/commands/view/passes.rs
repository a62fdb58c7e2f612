//! Answers that need a pass over the trace.

use crate::commands::input::{open, unreadable};
use crate::error::CliError;
use memledger_analysis::read::Reader;
use memledger_analysis::{Answer, Query};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a pass is still wanted. Dropping the guard ends the pass.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

/// Ends a pass when it is dropped.
pub struct CancelOnDrop(Cancel);

impl Cancel {
    pub fn guard(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }

    /// An error if the request was cancelled.
    pub fn check(&self) -> Result<(), CliError> {
        match self.0.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(CliError::Failed("the request was cancelled".to_owned())),
        }
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// What a query finds. Its positions are times and events.
pub fn answer(trace: &Path, query: Query, cancel: &Cancel) -> Result<Answer, CliError> {
    let mut analyzer = query.analyzer();
    let mut reader = Reader::open(open(trace)?).map_err(|error| unreadable(trace, error))?;
    while !analyzer.observer().is_over() && reader.packet(&mut analyzer) {
        cancel.check()?;
    }
    reader.finish(&mut analyzer);
    analyzer.answer().map_err(|why| CliError::Usage(why.to_string()))
}
