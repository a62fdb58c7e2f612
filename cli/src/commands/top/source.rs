//! Where the figures come from: a thread that asks a program.

pub mod control;

use super::sample::Sample;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// What a source sends to the screen.
#[derive(Debug)]
pub enum Message {
    /// Figures; `elapsed_ns` after the ones before if they are of now, and not those at the end of a program.
    Sample { sample: Box<Sample>, elapsed_ns: Option<u64> },
    /// What is not as it should be; `None`: all is well again.
    Problem(Option<String>),
    /// No figures for now, and why.
    Interrupted(String),
    /// No more figures but the last ones, and why.
    Ended(String),
}

/// What the screen wants of a source.
#[derive(Debug)]
pub struct Wishes {
    interval: Duration,
    functions: AtomicBool,
    is_over: AtomicBool,
    /// Whether something has changed since the source last waited.
    changed: Mutex<bool>,
    wake: Condvar,
}

impl Wishes {
    pub fn new(interval: Duration) -> Self {
        Self {
            interval,
            functions: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            changed: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    /// The time from one sample to the next.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Whether rows by function are wanted.
    pub fn functions(&self) -> bool {
        self.functions.load(Ordering::Relaxed)
    }

    /// Asks for rows by function, or no longer.
    pub fn set_functions(&self, wanted: bool) {
        if self.functions.swap(wanted, Ordering::Relaxed) != wanted {
            self.wake();
        }
    }

    /// Whether the source has to end.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Ends the source.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Ends the wait of the source.
    pub fn wake(&self) {
        *self.changed.lock() = true;
        self.wake.notify_all();
    }

    /// Waits until `timeout` is over or the wishes have changed.
    pub fn wait(&self, timeout: Duration) {
        let mut changed = self.changed.lock();
        self.wake.wait_while_for(&mut changed, |changed| !*changed, timeout);
        *changed = false;
    }
}

/// A source that runs on a thread of its own.
#[derive(Debug)]
pub struct Source {
    pub wishes: Arc<Wishes>,
    pub messages: Receiver<Message>,
    thread: Option<JoinHandle<()>>,
}

impl Source {
    /// Runs `body` until it ends. If it panics, the screen says so.
    pub fn start(
        wishes: Arc<Wishes>,
        body: impl FnOnce(&Arc<Wishes>, &Sender<Message>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (sender, messages) = channel();
        let its = Arc::clone(&wishes);
        let thread = Builder::new().name("figures".to_owned()).spawn(move || {
            let run = std::panic::AssertUnwindSafe(|| body(&its, &sender));
            if std::panic::catch_unwind(run).is_err() {
                let sentence = "a bug in memledger has ended the reading of figures";
                let _ = sender.send(Message::Ended(sentence.to_owned()));
            }
        })?;
        Ok(Self { wishes, messages, thread: Some(thread) })
    }

    /// Ends the source, and waits for that: at most as long as a report of the trace takes.
    pub fn join(mut self) {
        self.wishes.end();
        if let Some(thread) = self.thread.take() {
            // NOTE: its panics are caught, and were shown.
            let _ = thread.join();
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.wishes.end();
    }
}
