//! A pass over a trace on its own thread.

use super::event::Visitor;
use super::packets::Reader;
use super::summary::Summary;
use memledger_format::{Error, ErrorKind};
use std::io::Read;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// A pass over a trace that runs on its own thread, while the program does something else or waits
/// for it. If the `Pass` is dropped, the pass still runs to its end, and its result is discarded.
///
/// ```
/// use memledger_analysis::read::{EventAnalyzer, Pass};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/samples/mem-2t-40k.utrace");
/// let frees = EventAnalyzer::new(0_u64).on("Memory", "Free*", [], |count, _, []| *count += 1);
/// let pass = Pass::start(std::fs::File::open(path)?, frees)?;
/// // ...
/// let (frees, summary) = pass.wait()?;
/// println!("{} frees in {} events", frees.state, summary.counts.events);
/// # assert!(frees.state > 1000 && summary.is_complete());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the result is what `wait` gives"]
pub struct Pass<V> {
    thread: JoinHandle<Result<(V, Summary), Error>>,
    stop: Arc<AtomicBool>,
}

impl<V: Visitor + Send + 'static> Pass<V> {
    /// Starts a thread that reads `source` as [`read`](super::read()) does.
    ///
    /// # Errors
    /// [`ErrorKind::ThreadNotStarted`] if the system refuses a thread.
    pub fn start(source: impl Read + Send + 'static, mut visitor: V) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let pass = move || {
            let mut reader = Reader::open(source)?;
            reader.packets(&mut visitor, || stopping.load(Ordering::Relaxed));
            let summary = reader.finish(&mut visitor);
            Ok((visitor, summary))
        };
        let thread = Builder::new().name("trace reader".into()).spawn(pass).map_err(|source| {
            Error::from_io(
                ErrorKind::ThreadNotStarted,
                "the thread of a pass could not be started",
                source,
            )
        })?;
        Ok(Self { thread, stop })
    }

    /// Ends the pass after the current packet. If the source blocks, such as a socket that receives
    /// nothing, the pass ends only when the source is closed.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the pass has ended, so that [`wait`](Self::wait) returns at once.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end of the pass. If the visitor has panicked, the panic continues here.
    ///
    /// # Errors
    /// Those of [`read`](super::read()).
    pub fn wait(self) -> Result<(V, Summary), Error> {
        self.thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}
