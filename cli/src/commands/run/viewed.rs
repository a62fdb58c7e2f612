//! `memledger run --view`: the page of `memledger view`, from the program's first events on until Ctrl-C
//! after its end.

use crate::commands::view::{Viewer, runtime};
use crate::error::CliError;
use crate::stop_signal::stop_signal;
use crate::symbols::SymbolArgs;
use crate::terminal::note;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The time after which the trace is looked for again.
const POLL: Duration = Duration::from_millis(50);

/// The page of a program that runs, or has run.
pub struct ProgramPage {
    thread: JoinHandle<()>,
    has_ended: Arc<AtomicBool>,
}

impl ProgramPage {
    /// Serves the page once `find` finds the trace. `keeps_index`: the trace stays, and so may its index.
    ///
    /// Signals must be blocked, and stay so on the threads of the server: until the program has ended they
    /// are the program's.
    pub fn open(
        find: impl Fn() -> Option<PathBuf> + Send + 'static,
        symbols: SymbolArgs,
        keeps_index: bool,
    ) -> Result<Self, CliError> {
        let runtime = runtime()?;
        let stop = {
            let _entered = runtime.enter();
            stop_signal()?
        };
        let has_ended = Arc::new(AtomicBool::new(false));
        let stop = after_program(stop, Arc::clone(&has_ended));
        let ended = Arc::clone(&has_ended);
        let body = move || {
            let trace = loop {
                // NOTE: first, so that a trace that was written before the end is found.
                let is_last = ended.load(Ordering::Acquire);
                match find() {
                    Some(trace) => break trace,
                    None if is_last => return,
                    None => thread::sleep(POLL),
                }
            };
            note("the page of the program, in a browser of this machine:");
            let viewer = Viewer { port: 0, opens: false, keeps_index };
            let viewed = viewer.view(&runtime, &trace, &symbols, stop, &mut io::stderr());
            if let Err(error) = viewed {
                note(&error.to_string());
            }
        };
        let thread = thread::Builder::new().name("page".to_owned()).spawn(body);
        let thread = thread
            .map_err(|error| CliError::Failed(format!("no thread can be started: {error}")))?;
        Ok(Self { thread, has_ended })
    }

    /// The program has ended, and signals are no longer blocked: serves the page until Ctrl-C or SIGTERM; if
    /// there is a trace.
    pub fn close(self, has_trace: bool) {
        self.has_ended.store(true, Ordering::Release);
        if has_trace {
            note("the program has ended; Ctrl-C ends its page");
        }
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Completes at a signal that is not the program's any more. Windows cannot block those that are.
async fn after_program(stop: impl Future<Output = ()>, has_ended: Arc<AtomicBool>) {
    stop.await;
    while cfg!(windows) && !has_ended.load(Ordering::Acquire) {
        match stop_signal() {
            Ok(stop) => stop.await,
            Err(_) => return,
        }
    }
}
