//! The analyzer of the process itself, which makes the report.
//!
//! It is a sink like any other, and gets the same bytes as a trace file that gets all channels, so
//! its figures cannot differ from those of that file.

use crate::dump::black_box::BlackBox;
use crate::error::{Error, ErrorKind};
use crate::trace::sink::Sink;
use memledger_analysis::Analyzer;
use memledger_analysis::read::Decoder;
use memledger_format::handshake::PROTOCOL;
use memledger_format::initial_live_set::{InitialBlock, InitialLiveSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The analyzer of this process's own events, shared by the worker and calls of the program.
#[derive(Clone)]
pub(crate) struct InProcessAnalyzer(Arc<Mutex<State>>);

struct State {
    decoder: Decoder,
    analyzer: Analyzer,
    /// Whether [`heap_figures`] returns the figures of this analyzer.
    published: bool,
    black_box: Option<BlackBox>,
}

/// The figures of the recording's analyzer, as of the last collection; [`NONE`] while there is no such
/// analyzer.
static FIGURES: [AtomicU64; 5] = [const { AtomicU64::new(NONE) }; 5];
const NONE: u64 = u64::MAX;

/// The live bytes, their peak, the live blocks, those at that peak, and the most blocks, as of the last
/// collection, without a lock; `None` if there is no such analyzer.
pub(crate) fn heap_figures() -> [Option<u64>; 5] {
    let load = |figure: &AtomicU64| Some(figure.load(Ordering::Relaxed)).filter(|&n| n != NONE);
    FIGURES.each_ref().map(load)
}

fn publish_figures(figures: [u64; 5]) {
    FIGURES.iter().zip(figures).for_each(|(of, figure)| of.store(figure, Ordering::Relaxed));
}

impl State {
    fn publish(&mut self) {
        if self.published {
            let (live_bytes, peak_bytes) = self.analyzer.live_and_peak_bytes();
            let [live_blocks, at_peak, most] = self.analyzer.blocks();
            publish_figures([live_bytes, peak_bytes, live_blocks, at_peak, most]);
        }
        if let Some(black_box) = &mut self.black_box {
            black_box.check(&self.analyzer);
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if self.published {
            publish_figures([NONE; 5]);
        }
    }
}

impl InProcessAnalyzer {
    /// The analyzer of a recording, whose [`heap_figures`] are published. A build without one has `None`.
    pub(crate) fn new() -> Option<Self> {
        let analyzer = Self::late();
        analyzer.state().published = true;
        Some(analyzer)
    }

    /// An analyzer that does not know the blocks that are live already; its figures are not
    /// published.
    pub(crate) fn late() -> Self {
        let (decoder, analyzer) = (Decoder::new(PROTOCOL), Analyzer::measuring());
        Self(Arc::new(Mutex::new(State { decoder, analyzer, published: false, black_box: None })))
    }

    /// From now on, writes the black box when `bytes` are live, and when the program's allocator returns
    /// null.
    pub(crate) fn set_limit(&self, bytes: u64) {
        let mut state = self.state();
        // NOTE: an earlier one ends before this one begins.
        state.black_box = None;
        state.black_box = Some(BlackBox::new(bytes));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The report as of the last collection. `largest_live` sets the number of the largest live
    /// blocks in it.
    pub(crate) fn report(&self, largest_live: Option<usize>) -> memledger_analysis::Report {
        self.with_analyzer(|analyzer| {
            analyzer.flush();
            largest_live.into_iter().for_each(|blocks| analyzer.set_largest_live(blocks));
            analyzer.report()
        })
    }

    /// A report without single blocks as of the last collection, as `make` makes it.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] if the system has no memory for `what` is made of it.
    pub(crate) fn report_of(
        &self,
        what: &str,
        make: impl FnOnce(&mut Analyzer) -> memledger_analysis::Report,
    ) -> Result<memledger_analysis::Report, Error> {
        // NOTE: checks first that there is enough memory, as for the report: if memory ran out while the
        // report is made, the process would abort.
        let room = self.with_analyzer(|analyzer| analyzer.report_bytes(Some(0)));
        if Vec::<u8>::new().try_reserve_exact(room).is_err() {
            let room = room >> 10;
            let why =
                format!("the system has no memory left for {what}: it takes about {room} KiB");
            return Err(Error::new(ErrorKind::OutOfMemory, why));
        }
        Ok(self.with_analyzer(|analyzer| {
            analyzer.flush();
            make(analyzer)
        }))
    }

    /// Calls `body` with the analyzer, in its state as of the last collection.
    pub(crate) fn with_analyzer<R>(&self, body: impl FnOnce(&mut Analyzer) -> R) -> R {
        body(&mut self.state().analyzer)
    }

    /// The live set; `None` in the child of a fork whose parent was reading it at the fork.
    pub(crate) fn try_initial_live_set(&self) -> Option<InitialLiveSet> {
        Some(self.0.try_lock().ok()?.analyzer.initial_live_set(Vec::new()))
    }

    /// Memory for a copy of the live set and a sixteenth more blocks, whose pages are mapped
    /// already.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] if the system has no memory for it.
    pub(crate) fn reserve_blocks(&self) -> Result<Vec<InitialBlock>, Error> {
        let count = self.state().analyzer.live_block_count();
        let count = count + count / 16;
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(count).map_err(|_| {
            Error::new(
                ErrorKind::OutOfMemory,
                format!("the system has no memory left for a list of {count} live blocks"),
            )
        })?;
        // NOTE: the blocks are not all zero: for zeroed memory the system would only reserve
        // addresses.
        blocks.resize(count, InitialBlock { owner: 1, ..InitialBlock::default() });
        Ok(blocks)
    }

    /// The live set as of the last collection, copied into `room`.
    pub(crate) fn initial_live_set(&self, room: Vec<InitialBlock>) -> InitialLiveSet {
        let State { analyzer, .. } = &mut *self.state();
        analyzer.initial_live_set(room)
    }
}

impl Sink for InProcessAnalyzer {
    fn packet(&mut self, stream: u16, payload: &[u8]) {
        let State { decoder, analyzer, .. } = &mut *self.state();
        decoder.packet(stream, payload, analyzer);
    }

    fn wants_order(&self) -> bool {
        true
    }

    fn sync(&mut self) -> Result<(), Error> {
        let mut state = self.state();
        let State { decoder, analyzer, .. } = &mut *state;
        decoder.sync(analyzer);
        state.publish();
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        let mut state = self.state();
        let State { decoder, analyzer, .. } = &mut *state;
        decoder.finish(analyzer);
        state.publish();
        Ok(())
    }
}
