//! A sink with a queue and a thread of its own, so that a slow destination does not delay the
//! worker.
//!
//! ```text
//! worker ── packets of a cycle ──► queue, at most LIMIT bytes ──► thread ──► file or connection
//! ```
//! ```text
//! OPENING ──opened──► SENDING ──all sent──► ENDED
//!    └──failed──────────────┴──lost, or too slow──► ENDED, once the reason is reported
//! ```
//! If the queue is full, the stream ends with a message: a reader must not take a stream with a hole for a
//! whole one. A sink that can state what is missing goes on instead. Packets are dropped until half of the
//! queue is free; then each stream begins anew. Only the tracker's own code takes the locks here.

use super::{Shared, Sink};
use crate::error::{self, Error, ErrorKind};
use crate::platform::os::{self, Instant};
use crate::trace::write::ReentrancyGuard;
use memledger_format::packet::IMPORTANTS;
use memledger_format::words::escape;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// The most bytes that wait for one sink. A program that allocates without pause takes some seconds
/// to fill them.
pub(crate) const LIMIT: usize = 64 << 20;
/// How many ended sinks the list of all sinks keeps.
const REMEMBERED: usize = 64;

/// Work on the sink's own thread, between packets.
pub(crate) type Deferred = Box<dyn FnOnce(&mut dyn Sink) -> Result<(), Error> + Send>;
/// Opens the sink, on the sink's own thread. The flag is set if the sink is ended meanwhile.
pub(crate) type OpenSink = Box<dyn FnOnce(Arc<AtomicBool>) -> Result<Box<dyn Sink>, Error> + Send>;

/// Counts the events in a packet that is dropped.
pub(crate) type CountEvents = Box<dyn FnMut(&[u8]) -> u64 + Send>;

static ALL: Mutex<Vec<Arc<Queue>>> = Mutex::new(Vec::new());
static LAST_NUMBER: AtomicU64 = AtomicU64::new(0);
static FAILURES: AtomicU64 = AtomicU64::new(0);

/// How many sinks have failed since the start of the process.
pub(crate) fn failures() -> u64 {
    FAILURES.load(Ordering::Relaxed)
}

/// All sinks with a queue, oldest first. The last ones that have ended are among them.
pub(crate) fn all() -> Vec<Arc<Queue>> {
    registry().clone()
}

pub(crate) fn by_number(number: u64) -> Option<Arc<Queue>> {
    registry().iter().find(|queue| queue.number == number).cloned()
}

fn registry() -> MutexGuard<'static, Vec<Arc<Queue>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks the list of all sinks; held around a fork, so that the child finds the lock free.
pub(crate) fn lock_all() -> MutexGuard<'static, Vec<Arc<Queue>>> {
    registry()
}

/// The stage of a sink's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Opening,
    Sending,
    Ended,
}

/// What the worker and the sink's thread share.
pub(crate) struct Queue {
    pub(crate) number: u64,
    /// The file or the address.
    pub(crate) name: String,
    shared: OnceLock<Arc<dyn Shared>>,
    given_up: Arc<AtomicBool>,
    on_problem: fn(Error),
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    open: Option<OpenSink>,
    /// Whether the thread is to end without an end of the sink, which is then in `parked`.
    paused: bool,
    parked: Option<Box<dyn Sink>>,
    items: VecDeque<QueueItem>,
    /// Bytes of packets in `items`.
    bytes: usize,
    /// An empty buffer to be reused.
    spare: Vec<u8>,
    stage: Stage,
    /// The sink gets no more packets. Its stage is `Ended` only once the reason is reported.
    closed: bool,
    why: Option<String>,
    written: u64,
}

enum QueueItem {
    /// Packets of one cycle: `u16` stream, `u32` size, payload.
    Packets(Vec<u8>),
    Deferred(Deferred),
    /// This many events were dropped here.
    Gap(u64),
    End,
}

/// The state of a sink at one moment.
pub(crate) struct QueueStatus {
    pub(crate) stage: Stage,
    pub(crate) why: Option<String>,
    pub(crate) written: u64,
    pub(crate) waiting: usize,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What its sink shares with handles; `None` if that is nothing.
    pub(crate) fn shared(&self) -> Option<&dyn Shared> {
        self.shared.get().map(|shared| &**shared)
    }

    pub(crate) fn status(&self) -> QueueStatus {
        let state = self.state();
        let (stage, why) = (state.stage, state.why.clone());
        QueueStatus { stage, why, written: state.written, waiting: state.bytes }
    }

    /// Waits until everything has been sent. What is left at `deadline` is discarded, and the sink
    /// has then failed.
    pub(crate) fn wait_for_end(&self, deadline: Instant) {
        let mut state = self.state();
        while state.stage != Stage::Ended {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                drop(state);
                let why = "timed out while sending the rest at shutdown".into();
                return self.end(Some(why));
            };
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until nothing is in the queue or being written, or until `deadline`.
    pub(crate) fn wait_until_written(&self, deadline: Instant) {
        let mut state = self.state();
        while state.stage != Stage::Ended && (state.bytes > 0 || !state.items.is_empty()) {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return };
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the sink, if it has not ended; with a reason `why` if that is a failure.
    fn end(&self, why: Option<String>) {
        let mut state = self.state();
        if state.closed {
            return;
        }
        state.closed = true;
        state.why.clone_from(&why);
        let items = std::mem::take(&mut state.items);
        state.spare = Vec::new();
        state.bytes = 0;
        drop(state);
        drop(items);
        if let Some(what) = why {
            self.given_up.store(true, Ordering::Release);
            FAILURES.fetch_add(1, Ordering::Relaxed);
            // NOTE: reports the problem before the sink counts as ended, because a caller that sees
            // the end looks for the problem; and without the lock, because stderr can be a pipe
            // that is never read.
            let what = format!("{} gets no more of the trace: {what}", escape(&self.name));
            (self.on_problem)(Error::new(ErrorKind::Destination, what));
        }
        self.state().stage = Stage::Ended;
        self.changed.notify_all();
    }

    /// Runs the sink's thread from its start to its end; returns whether the sink has ended.
    fn drive(&self) -> Result<bool, Error> {
        let mut state = self.state();
        let (open, parked) = (state.open.take(), state.parked.take());
        drop(state);
        let mut sink = match (parked, open) {
            (Some(parked), _) => parked,
            (None, Some(open)) => open(Arc::clone(&self.given_up))?,
            (None, None) => return Ok(true),
        };
        {
            let mut state = self.state();
            if state.stage == Stage::Opening {
                state.stage = Stage::Sending;
            }
            state.written = sink.written();
        }
        loop {
            let item = match self.next() {
                Next::Item(item) => item,
                Next::Ended => return Ok(true),
                Next::Paused(mut state) => {
                    state.parked = Some(sink);
                    return Ok(false);
                }
            };
            let done = match item {
                QueueItem::Packets(batch) => {
                    let result = pass_on(&batch, &mut *sink);
                    let mut state = self.state();
                    state.bytes = state.bytes.saturating_sub(batch.len());
                    state.spare = batch;
                    state.spare.clear();
                    result
                }
                QueueItem::Deferred(work) => work(&mut *sink),
                QueueItem::Gap(events) => {
                    sink.gap(events);
                    Ok(())
                }
                QueueItem::End => {
                    let result = sink.finish();
                    self.state().written = sink.written();
                    return result.map(|()| true);
                }
            };
            self.state().written = sink.written();
            // For a thread that waits until all is written.
            self.changed.notify_all();
            done?;
            if sink.is_done() {
                return Ok(true);
            }
        }
    }

    /// Waits for the next item.
    fn next(&self) -> Next<'_> {
        let mut state = self.state();
        loop {
            if state.closed {
                return Next::Ended;
            }
            if state.paused {
                return Next::Paused(state);
            }
            if let Some(item) = state.items.pop_front() {
                return Next::Item(item);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What the sink's thread does next.
enum Next<'a> {
    Item(QueueItem),
    /// Another thread has ended the sink.
    Ended,
    /// The thread ends, with the lock held.
    Paused(MutexGuard<'a, State>),
}

/// Ends the threads of all sinks, each after what it is sending; the sinks stay.
pub(crate) fn pause_all() {
    for queue in all() {
        queue.state().paused = true;
        queue.changed.notify_all();
    }
}

/// Starts the threads that [`pause_all`] has ended. A sink whose thread cannot start has failed.
pub(crate) fn resume_all() {
    for queue in all() {
        let mut state = queue.state();
        state.paused = false;
        let is_parked = state.parked.is_some() || state.open.is_some();
        drop(state);
        if is_parked && let Err(error) = os::spawn(run, queue.number as usize) {
            queue.end(Some(format!("its thread cannot be started again: {error}")));
        }
    }
}

fn pass_on(batch: &[u8], sink: &mut dyn Sink) -> Result<(), Error> {
    packets_of(batch).for_each(|(stream, payload)| sink.packet(stream, payload));
    sink.sync()
}

/// The packets of a batch: stream and payload.
fn packets_of(batch: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = batch;
    std::iter::from_fn(move || {
        let (&[a, b, c, d, e, f], tail) = rest.split_first_chunk()?;
        let size = u32::from_le_bytes([c, d, e, f]) as usize;
        let (payload, next) = tail.split_at_checked(size)?;
        rest = next;
        Some((u16::from_le_bytes([a, b]), payload))
    })
}

extern "C" fn run(number: *mut c_void) -> *mut c_void {
    let _untracked = ReentrancyGuard::enter();
    os::name_thread(c"memledger sink");
    let Some(queue) = by_number(number.addr() as u64) else { return std::ptr::null_mut() };
    let result = catch_unwind(AssertUnwindSafe(|| queue.drive()));
    let why = match result {
        Ok(Ok(false)) => return std::ptr::null_mut(),
        Ok(Ok(true)) => None,
        Ok(Err(error)) => Some(format!("{error:#}")),
        Err(_) => Some("the tracker panicked".into()),
    };
    queue.end(why);
    std::ptr::null_mut()
}

/// The worker's side of a queue.
pub(crate) struct Queued {
    queue: Arc<Queue>,
    batch: Vec<u8>,
    ended: bool,
    /// Of a sink that goes on after a gap.
    count_dropped: Option<CountEvents>,
    /// How many events were dropped since the queue was full; `None` while none are.
    dropped: Option<u64>,
}

impl Queued {
    /// Starts the thread, which first calls `open`, and reports its failures to `on_problem`.
    ///
    /// # Errors
    /// [`ErrorKind::ThreadNotStarted`] if there can be no thread.
    pub(crate) fn start(
        name: String,
        open: OpenSink,
        on_problem: fn(Error),
    ) -> Result<Self, Error> {
        let queue = Arc::new(Queue {
            number: LAST_NUMBER.fetch_add(1, Ordering::Relaxed) + 1,
            name,
            shared: OnceLock::new(),
            given_up: Arc::new(AtomicBool::new(false)),
            on_problem,
            state: Mutex::new(State {
                open: Some(open),
                paused: false,
                parked: None,
                items: VecDeque::new(),
                bytes: 0,
                spare: Vec::new(),
                stage: Stage::Opening,
                closed: false,
                why: None,
                written: 0,
            }),
            changed: Condvar::new(),
        });
        {
            let mut all = registry();
            all.push(Arc::clone(&queue));
            let over = all.iter().filter(|queue| queue.state().stage == Stage::Ended).count();
            if over > REMEMBERED
                && let Some(oldest) = all.iter().position(|q| q.state().stage == Stage::Ended)
            {
                all.remove(oldest);
            }
        }
        if let Err(source) = os::spawn(run, queue.number as usize) {
            queue.end(None);
            let thread = format!("{}: its thread", queue.name);
            return Err(error::thread_not_started(&thread, source));
        }
        Ok(Self { queue, batch: Vec::new(), ended: false, count_dropped: None, dropped: None })
    }

    /// Drops packets instead of ending when the queue is full; `count` counts the events in them. `shared` is
    /// what its sink shares with handles.
    #[cfg(feature = "perfetto")]
    pub(crate) fn dropping(mut self, count: CountEvents, shared: Arc<dyn Shared>) -> Self {
        self.count_dropped = Some(count);
        let _ = self.queue.shared.set(shared);
        self
    }

    /// Drops the batch if it has no place; returns whether it does. Only for a sink that goes on after a gap.
    fn drop_batch(&mut self, waiting: usize) -> bool {
        let Some(count) = &mut self.count_dropped else { return false };
        if self.dropped.is_none() && waiting + self.batch.len() <= LIMIT {
            return false;
        }
        let dropped = self.dropped.get_or_insert(0);
        let events = packets_of(&self.batch).filter(|(stream, _)| *stream > IMPORTANTS);
        let packets = events.map(|(_, payload)| count(payload));
        *dropped += packets.sum::<u64>();
        self.batch.clear();
        true
    }

    /// Runs `work` on the sink's thread, after the packets so far.
    pub(crate) fn defer(&mut self, work: Deferred) {
        let _ = self.sync();
        if !self.ended {
            self.push(QueueItem::Deferred(work));
        }
    }

    fn push(&self, item: QueueItem) {
        let mut state = self.queue.state();
        if !state.closed {
            state.items.push_back(item);
            drop(state);
            self.queue.changed.notify_all();
        }
    }
}

impl Sink for Queued {
    fn packet(&mut self, stream: u16, payload: &[u8]) {
        if !self.ended {
            self.batch.extend_from_slice(&stream.to_le_bytes());
            self.batch.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            self.batch.extend_from_slice(payload);
        }
    }

    fn sync(&mut self) -> Result<(), Error> {
        if self.ended || self.batch.is_empty() {
            return Ok(());
        }
        let mut state = self.queue.state();
        if state.closed {
            self.ended = true;
            self.batch = Vec::new();
            return Ok(());
        }
        let waiting = state.bytes + self.batch.len();
        if self.count_dropped.is_some() {
            let before = state.bytes;
            drop(state);
            if self.drop_batch(before) {
                return Ok(());
            }
            state = self.queue.state();
        } else if waiting > LIMIT {
            drop(state);
            self.ended = true;
            self.batch = Vec::new();
            let why =
                format!("it is too slow: {} MiB were waiting for it, the maximum", waiting >> 20);
            self.queue.end(Some(why));
            return Ok(());
        }
        state.bytes += self.batch.len();
        let empty = std::mem::take(&mut state.spare);
        state.items.push_back(QueueItem::Packets(std::mem::replace(&mut self.batch, empty)));
        drop(state);
        self.queue.changed.notify_all();
        Ok(())
    }

    fn wants_to_rejoin(&self) -> bool {
        self.dropped.is_some() && self.queue.state().bytes <= LIMIT / 2
    }

    fn rejoin(&mut self, streams: &[(u16, Vec<u8>)]) {
        if let Some(dropped) = self.dropped.take() {
            self.push(QueueItem::Gap(dropped));
            streams.iter().for_each(|(stream, payload)| self.packet(*stream, payload));
        }
    }

    fn finish(&mut self) -> Result<(), Error> {
        let result = self.sync();
        self.rejoin(&[]);
        if !std::mem::replace(&mut self.ended, true) {
            self.push(QueueItem::End);
        }
        result
    }

    fn number(&self) -> u64 {
        self.queue.number
    }

    fn has_ended(&self) -> bool {
        self.ended || self.queue.state().closed
    }
}

impl Drop for Queued {
    /// Runs if a recording ends because of a fault of the tracker. The queued packets are still
    /// sent.
    fn drop(&mut self) {
        if !self.ended {
            self.push(QueueItem::End);
        }
    }
}

#[cfg(test)]
mod tests;
