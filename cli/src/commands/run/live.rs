//! `memledger run --top`: the screen of `memledger top` while the program runs.
//!
//! The screen has a thread of its own, because this thread waits for the program. What the program writes to
//! the terminal would tear the screen: it goes to a file, and to the terminal when the screen is closed. The
//! program has no input from the terminal, whose keys are the screen's.

use super::child::interrupt;
use crate::commands::top::screen::{Closed, ending_signals, show};
use crate::commands::top::source::Wishes;
use crate::commands::top::{OfProgram, screen};
use crate::error::CliError;
use crate::terminal::note;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::NamedTempFile;

/// The time after which output of the program is looked for again.
const POLL: Duration = Duration::from_millis(50);

/// What the program has in the place of the terminal.
pub struct Aside {
    output: NamedTempFile,
    input: File,
}

impl Aside {
    pub fn new() -> Result<Self, CliError> {
        if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            return Err(CliError::Usage(
                "--top needs a terminal for its screen and its keys".to_owned(),
            ));
        }
        let failed =
            |error| CliError::Failed(format!("the program's output cannot be kept: {error}"));
        let output =
            tempfile::Builder::new().prefix("memledger-run-").tempfile().map_err(failed)?;
        Ok(Self { output, input: File::open("/dev/null").map_err(failed)? })
    }

    /// The files in the place of streams that are the terminal. What is redirected stays so.
    pub fn streams(&self) -> Vec<(i32, &File)> {
        let output = self.output.as_file();
        let mut streams = vec![(0, &self.input), (1, output)];
        streams.extend(io::stderr().is_terminal().then_some((2, output)));
        streams
    }
}

/// The screen of a program that runs.
pub struct Live {
    thread: JoinHandle<Result<(), CliError>>,
    wishes: Arc<Wishes>,
    ends: Arc<AtomicBool>,
    has_ended: Arc<AtomicBool>,
}

impl Live {
    /// Opens the screen. Signals are blocked, and stay so on its thread.
    pub fn open(of: OfProgram, pid: u32, aside: &Aside) -> Result<Self, CliError> {
        let failed =
            |error: io::Error| CliError::Failed(format!("the screen cannot be opened: {error}"));
        let mut output = aside.output.reopen().map_err(failed)?;
        let (mut model, source) = of.start().map_err(failed)?;
        let wishes = Arc::clone(&source.wishes);
        let ends = ending_signals().map_err(failed)?;
        let has_ended = Arc::new(AtomicBool::new(false));
        let (its_ends, its_ended) = (Arc::clone(&ends), Arc::clone(&has_ended));
        let body = move || {
            let closed = show(&mut model, &source, &its_ends);
            source.join();
            if matches!(closed, Ok(Closed::ByInterrupt)) && !its_ended.load(Ordering::Acquire) {
                interrupt(pid);
            }
            pass_on(&mut output, &its_ended);
            closed.map(drop)
        };
        let thread = std::thread::Builder::new().name("screen".to_owned()).spawn(body);
        Ok(Self { thread: thread.map_err(failed)?, wishes, ends, has_ended })
    }

    /// The program has ended with this status: waits until the user has closed the screen.
    pub fn close(self, status: u8) {
        self.has_ended.store(true, Ordering::Release);
        // What has asked this command to end has reached the program.
        let was_asked = [Some(1), Some(15)].contains(&status.checked_sub(128));
        self.ends.fetch_or(was_asked, Ordering::Relaxed);
        self.wishes.set_no_more(match status {
            0..=128 => format!("the program has ended with status {status}"),
            _ => format!("signal {} has ended the program", status - 128),
        });
        match self.thread.join() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => note(&error.to_string()),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Writes what the program has written, and what it still writes, to the terminal, until it has ended.
fn pass_on(output: &mut File, has_ended: &AtomicBool) {
    let Ok(mut terminal) = screen::duplicate_stdout() else { return };
    let mut bytes = vec![0; 64 << 10];
    loop {
        // NOTE: first, so that what was written before the end is seen.
        let is_over = has_ended.load(Ordering::Acquire);
        match output.read(&mut bytes) {
            Ok(0) if is_over => return,
            Ok(0) => std::thread::sleep(POLL),
            Ok(count) => {
                if terminal.write_all(&bytes[..count]).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
