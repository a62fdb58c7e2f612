//! An observer on a thread of its own: what a trace costs beside its report is done on another processor.
//!
//! ```text
//! thread that reads       changes, in batches       thread of the observer
//!   observe ─────────────────────────────────────────► observe
//!   observer() ──────────── take ────────────────────►
//!      ◄─────────────────── the observer ───────────── waits for it
//! ```

use memledger_analysis::{BlockChange, BlockEvent, BlockObserver};
use std::mem;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

/// How many changes a batch has, of some 90 bytes: more than a processor's nearest cache would be slower.
const BATCH: usize = 1024;

/// How many batches may wait for the observer.
const AHEAD: usize = 16;

type Batch = Vec<(BlockEvent, BlockChange)>;

enum Job<O> {
    /// The observer, for the changes that follow.
    Have(O),
    Changes(Batch),
    Bookmark(u64),
    /// Give the observer back.
    Take,
}

/// Runs an observer on its own thread, in the same order; [`into_observer`](Self::into_observer) joins the
/// thread and returns the observer.
pub struct ObserverThread<O> {
    /// The observer, unless the thread has it.
    here: Option<O>,
    batch: Batch,
    thread: Option<Thread<O>>,
}

struct Thread<O> {
    jobs: SyncSender<Job<O>>,
    observer: Receiver<O>,
    /// Batches to be filled again.
    empty: Receiver<Batch>,
    handle: JoinHandle<()>,
}

impl<O: BlockObserver + Send + 'static> ObserverThread<O> {
    /// Starts the thread; without another processor, or without a thread, `observer` observes on this one.
    pub fn new(observer: O) -> Self {
        let is_alone = thread::available_parallelism().is_ok_and(|count| count.get() == 1);
        let thread = if is_alone { None } else { Thread::start() };
        Self { here: Some(observer), batch: Vec::with_capacity(BATCH), thread }
    }

    /// The observer, after it has seen all changes so far.
    pub fn observer(&mut self) -> &mut O {
        self.flush();
        if self.here.is_none() {
            self.send(Job::Take);
        }
        let Self { here, thread, .. } = self;
        here.get_or_insert_with(|| match thread.as_ref().map(|thread| thread.observer.recv()) {
            Some(Ok(observer)) => observer,
            _ => has_panicked(thread),
        })
    }

    /// The observer alone, after it has seen all changes.
    pub fn into_observer(mut self) -> O {
        self.observer();
        let Self { here, mut thread, .. } = self;
        here.unwrap_or_else(|| has_panicked(&mut thread))
    }

    /// Passes on what has been collected.
    #[inline(never)]
    fn flush(&mut self) {
        let Some(thread) = &self.thread else {
            let observer = self.here.iter_mut();
            return observer.for_each(|observer| observe(observer, &mut self.batch));
        };
        if self.batch.is_empty() {
            return;
        }
        let empty = thread.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
        let batch = mem::replace(&mut self.batch, empty);
        self.send(Job::Changes(batch));
    }

    fn send(&mut self, job: Job<O>) {
        let Self { here, thread, .. } = self;
        let Some(to) = thread.as_ref().map(|thread| &thread.jobs) else { return };
        let given = here.take().map_or(Ok(()), |observer| to.send(Job::Have(observer)));
        if given.and_then(|()| to.send(job)).is_err() {
            has_panicked(thread);
        }
    }
}

impl<O: BlockObserver + Send + 'static> Thread<O> {
    fn start() -> Option<Self> {
        let (jobs, work) = sync_channel::<Job<O>>(AHEAD);
        let (give, observer) = sync_channel(1);
        let (done, empty) = sync_channel(AHEAD + 2);
        let run = move || {
            let mut here = None;
            for job in work {
                match (job, &mut here) {
                    (Job::Have(observer), _) => here = Some(observer),
                    (Job::Changes(mut batch), Some(observer)) => {
                        observe(observer, &mut batch);
                        // A batch that cannot be filled again is freed.
                        let _ = done.try_send(batch);
                    }
                    (Job::Bookmark(event), Some(observer)) => observer.bookmark(event),
                    (Job::Take, _) => {
                        if here.take().is_none_or(|observer| give.send(observer).is_err()) {
                            return;
                        }
                    }
                    (_, None) => return,
                }
            }
        };
        let handle = thread::Builder::new().name("observer".to_owned()).spawn(run).ok()?;
        Some(Self { jobs, observer, empty, handle })
    }
}

fn observe<O: BlockObserver>(observer: &mut O, batch: &mut Batch) {
    batch.drain(..).for_each(|(event, change)| observer.observe(&event, change));
}

/// The thread has ended early, because the observer panicked: this thread panics with the same value.
fn has_panicked<O>(thread: &mut Option<Thread<O>>) -> ! {
    match thread.take().map(|thread| thread.handle.join()) {
        Some(Err(panic)) => resume_unwind(panic),
        _ => unreachable!("the thread of an observer has ended before the observer was given back"),
    }
}

impl<O: BlockObserver + Send + 'static> BlockObserver for ObserverThread<O> {
    #[inline]
    fn observe(&mut self, event: &BlockEvent, change: BlockChange) {
        self.batch.push((*event, change));
        if self.batch.len() == BATCH {
            self.flush();
        }
    }

    fn bookmark(&mut self, event: u64) {
        self.flush();
        match &mut self.here {
            Some(observer) => observer.bookmark(event),
            None => self.send(Job::Bookmark(event)),
        }
    }

    fn stop(&mut self, live: &mut dyn Iterator<Item = BlockEvent>) {
        self.observer().stop(live);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memledger_analysis::read::Reader;
    use memledger_analysis::{Analyzer, QueryIndex, QueryIndexer};
    use std::fs::File;
    use std::path::PathBuf;

    /// The indexes of a sample after each `packets` packets, and at its end.
    fn indexes<O: BlockObserver>(
        name: &str,
        packets: usize,
        observer: O,
        indexer: impl Fn(&mut O) -> &mut QueryIndexer,
    ) -> Vec<QueryIndex> {
        let sample = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/samples").join(name);
        let mut analyzer = Analyzer::observing(observer);
        let mut reader = Reader::open(File::open(sample).unwrap()).unwrap();
        let mut all = Vec::new();
        while (0..packets).all(|_| reader.packet(&mut analyzer)) {
            all.push(analyzer.query_index(&indexer));
        }
        reader.finish(&mut analyzer);
        all.push(analyzer.query_index(&indexer));
        all
    }

    #[test]
    fn the_index_of_a_thread_is_that_of_no_thread() {
        // With bookmarks, with reallocations, and with more changes than may wait.
        for (name, packets) in [
            ("mem-2t-40k.utrace", 7),
            ("memledger-small.utrace", 1),
            ("unreal4/p4-tid-trc2.utrace", 50),
        ] {
            let here = indexes(name, packets, QueryIndexer::default(), |indexer| indexer);
            let mut there = ObserverThread::new(QueryIndexer::default());
            there.thread = there.thread.or_else(Thread::start);
            assert_eq!(indexes(name, packets, there, ObserverThread::observer), here, "{name}");
            let alone =
                ObserverThread { thread: None, ..ObserverThread::new(QueryIndexer::default()) };
            assert_eq!(indexes(name, packets, alone, ObserverThread::observer), here, "{name}");
            assert!(here.len() > 1 && here.last().unwrap().rows.len() > 1, "{name}");
        }
    }

    #[test]
    #[should_panic(expected = "the observer has panicked")]
    fn a_panic_of_the_observer_is_one_here() {
        struct Panics;
        impl BlockObserver for Panics {
            fn observe(&mut self, _: &BlockEvent, _: BlockChange) {
                panic!("the observer has panicked");
            }
        }
        let mut there = ObserverThread::new(Panics);
        there.thread = there.thread.or_else(Thread::start);
        there.observe(&BlockEvent::default(), BlockChange::Returned);
        there.observer();
    }
}
