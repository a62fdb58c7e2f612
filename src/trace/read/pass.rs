//! A pass over a trace on a thread of its own.

use super::event::Visitor;
use super::packets::Reader;
use super::summary::Summary;
use crate::error::Error;
use std::io::Read;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// A pass over a trace that runs on a thread of its own, while the program does something else or
/// waits for it. Dropped, it runs to its end without a result.
///
/// ```
/// use memledger::trace::read::{EventAnalyzer, Pass};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples/mem-2t-40k.utrace");
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
    /// Starts a thread that does what [`read`](super::read()) does.
    ///
    /// # Errors
    /// [`Error::ThreadNotStarted`] if the system refuses a thread.
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
            Error::ThreadNotStarted { thread: "the thread of a pass".into(), source }
        })?;
        Ok(Self { thread, stop })
    }

    /// Ends the pass after the packet that it has in hand. A source that gives nothing, as a
    /// socket, has to be closed for that.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether [`wait`](Self::wait) returns at once.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end of the pass. A visitor that panicked panics here.
    ///
    /// # Errors
    /// Those of [`read`](super::read()).
    pub fn wait(self) -> Result<(V, Summary), Error> {
        self.thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}
