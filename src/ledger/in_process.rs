//! The analyzer of the process itself, which makes the report.
//!
//! It is a sink like any other, and gets the same bytes as the trace file, so its figures cannot differ
//! from those of the file.

use crate::analysis::{Analyzer, InitialBlock, InitialLiveSet};
use crate::error::Error;
use crate::trace::format::handshake::PROTOCOL;
use crate::trace::read::Decoder;
use crate::trace::sink::Sink;
use std::sync::{Arc, Mutex, PoisonError};

/// The analyzer of this process's own events, shared by the worker and calls of the program.
#[derive(Clone)]
pub(crate) struct InProcessAnalyzer(Arc<Mutex<State>>);

struct State {
    decoder: Decoder,
    analyzer: Analyzer,
}

impl InProcessAnalyzer {
    pub(super) fn new() -> Self {
        let (decoder, analyzer) = (Decoder::new(PROTOCOL), Analyzer::measuring());
        Self(Arc::new(Mutex::new(State { decoder, analyzer })))
    }

    /// The report as of the last collection.
    pub(super) fn report(&self) -> crate::analysis::Report {
        self.look(|analyzer| {
            analyzer.flush();
            analyzer.report()
        })
    }

    /// Calls `look` with the analyzer, which is as of the last collection.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&mut Analyzer) -> R) -> R {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).analyzer)
    }

    /// The live set; `None` in the child of a fork whose parent was reading it at the fork.
    pub(super) fn try_initial_live_set(&self) -> Option<InitialLiveSet> {
        Some(self.0.try_lock().ok()?.analyzer.initial_live_set(Vec::new()))
    }

    /// Memory for a copy of the live set, some more blocks included, whose pages are mapped already.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] if the system has no memory for it.
    pub(super) fn room(&self) -> Result<Vec<InitialBlock>, Error> {
        let count =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).analyzer.live_block_count();
        let count = count + count / 16;
        let mut room = Vec::new();
        room.try_reserve_exact(count).map_err(|_| {
            Error::OutOfMemory(format!(
                "the system has no memory left for a list of {count} live blocks"
            ))
        })?;
        // NOTE: not all zero, for which the system would reserve addresses only.
        room.resize(count, InitialBlock { owner: 1, ..InitialBlock::default() });
        Ok(room)
    }

    /// The live set as of the last collection, copied into `room`.
    pub(super) fn initial_live_set(&self, room: Vec<InitialBlock>) -> InitialLiveSet {
        let State { analyzer, .. } = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        analyzer.initial_live_set(room)
    }
}

impl Sink for InProcessAnalyzer {
    fn packet(&mut self, stream: u16, payload: &[u8]) {
        let State { decoder, analyzer } =
            &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        decoder.packet(stream, payload, analyzer);
    }

    fn wants_order(&self) -> bool {
        true
    }

    fn sync(&mut self) -> Result<(), Error> {
        let State { decoder, analyzer } =
            &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        decoder.sync(analyzer);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        let State { decoder, analyzer } =
            &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        decoder.finish(analyzer);
        Ok(())
    }
}
