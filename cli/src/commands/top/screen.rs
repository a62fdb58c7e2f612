//! The terminal while the screen is shown, and afterwards as it was before.

use super::draw::draw;
use super::keys::action;
use super::model::{Model, NextStep, Status};
use super::source::{Message, Source};
use super::theme::Theme;
use crate::error::CliError;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{Event, KeyEventKind, poll, read};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

/// The longest time until a message of the source or a signal is seen.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The time to wait for a key that is there already.
///
/// NOTE: crossterm (0.29) says that there is none when the time is zero.
const AT_ONCE: Duration = Duration::from_millis(1);

/// How the screen was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    ByUser,
    /// By Ctrl-C, and a program is to get it.
    ByInterrupt,
    BySignal,
}

/// The screen's terminal.
pub type ScreenTerminal = Terminal<CrosstermBackend<File>>;

/// Lets `body` use the terminal and restores it afterwards, even if `body` panics; the text of the
/// panic is then seen.
///
/// # Errors
/// Those of the terminal.
pub fn in_terminal<T>(body: impl FnOnce(&mut ScreenTerminal) -> T) -> io::Result<T> {
    // NOTE: not `io::stdout()`, which another thread may have locked.
    let (out, second) = (duplicate_stdout()?, duplicate_stdout()?);
    let mut terminal = Terminal::new(CrosstermBackend::new(out))?;
    let _raw = RawTerminal::enter(second)?;
    let screen = std::thread::current().id();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // A panic of another thread is caught there, and its text would tear the screen.
        if std::thread::current().id() == screen {
            if let Ok(mut out) = duplicate_stdout() {
                restore(&mut out);
            }
            before(info);
        }
    }));
    let result = body(&mut terminal);
    // The hook before is part of this one. It was the default one.
    drop(std::panic::take_hook());
    Ok(result)
}

/// The terminal in the state of the screen. Dropping it restores the state before.
struct RawTerminal(File);

impl RawTerminal {
    fn enter(out: File) -> io::Result<Self> {
        enable_raw_mode()?;
        IS_OPEN.store(true, Ordering::Release);
        let mut raw = Self(out);
        execute!(raw.0, EnterAlternateScreen)?;
        Ok(raw)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore(&mut self.0);
    }
}

/// Whether the screen is there: it is left once, or the text of a panic would be overwritten.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// What is refused here cannot be mended, and the other steps are still to be tried.
fn restore(out: &mut File) {
    if !IS_OPEN.swap(false, Ordering::AcqRel) {
        return;
    }
    let _ = execute!(out, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

#[cfg(unix)]
pub fn duplicate_stdout() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

#[cfg(windows)]
pub fn duplicate_stdout() -> io::Result<File> {
    use std::os::windows::io::AsHandle;
    Ok(File::from(io::stdout().as_handle().try_clone_to_owned()?))
}

/// Sets a flag when a signal asks this process to end, so that the terminal is restored first. The second
/// signal of the same kind ends it at once. On Windows, these are Ctrl-Break and the end of the console.
pub fn ending_signals() -> io::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    for signal in
        [signal_hook::consts::SIGHUP, signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM]
    {
        // In this order: the first signal finds the flag as it was.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag))?;
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    #[cfg(windows)]
    {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let stop = crate::stop_signal::stop_signal().map_err(io::Error::other)?;
        let flag = Arc::clone(&flag);
        let wait = move || {
            runtime.block_on(stop);
            flag.store(true, Ordering::Relaxed);
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
    }
    Ok(flag)
}

/// Waits for a key, at most for `patience`. Returns whether the terminal is gone.
///
/// NOTE: crossterm (0.29) reads the end of such a terminal again and again, and never returns.
#[cfg(unix)]
fn is_hung_up(patience: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec};
    let stdin = io::stdin();
    let mut streams = [PollFd::new(&stdin, PollFlags::IN)];
    let patience = Timespec::try_from(patience).ok();
    // A signal, such as that of another size, ends the wait early.
    let _ = rustix::event::poll(&mut streams, patience.as_ref());
    streams[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

#[cfg(not(unix))]
fn is_hung_up(patience: Duration) -> bool {
    let _ = poll(patience);
    false
}

/// Shows the model until the user closes the screen.
pub fn show(model: &mut Model, source: &Source, ends: &AtomicBool) -> Result<Closed, CliError> {
    let shown = in_terminal(|terminal| run(model, source, ends, terminal));
    shown
        .and_then(|closed| closed)
        .map_err(|error| CliError::Failed(format!("the terminal cannot be used: {error}")))
}

fn run(
    model: &mut Model,
    source: &Source,
    ends: &AtomicBool,
    terminal: &mut ScreenTerminal,
) -> io::Result<Closed> {
    let theme = Theme::from_environment();
    let mut is_changed = true;
    loop {
        is_changed |= take_messages(model, source);
        source.wishes.set_functions(model.wants_functions());
        if is_changed {
            terminal.draw(|frame| draw(model, theme, frame))?;
        }
        is_changed = false;
        if ends.load(Ordering::Relaxed) {
            return Ok(Closed::BySignal);
        }
        if is_hung_up(LOOK_EVERY) {
            return Ok(Closed::BySignal);
        }
        while poll(AT_ONCE)? {
            match read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let Some(action) = action(&key, model.typing.is_some()) else { continue };
                    match model.act(action) {
                        NextStep::Continue => is_changed = true,
                        NextStep::Quit => return Ok(Closed::ByUser),
                        NextStep::Interrupt => return Ok(Closed::ByInterrupt),
                    }
                }
                Event::Resize(..) => is_changed = true,
                _ => {}
            }
        }
    }
}

/// Takes in what the source has sent; returns whether there was something.
pub fn take_messages(model: &mut Model, source: &Source) -> bool {
    let mut any = false;
    loop {
        match source.messages.try_recv() {
            Ok(message) => take(model, message),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => return any,
        }
        any = true;
    }
}

/// Takes in one message.
pub fn take(model: &mut Model, message: Message) {
    match message {
        Message::Sample { sample, elapsed_ns } => {
            if !matches!(model.status, Status::Ended(_)) {
                model.status = Status::Live;
            }
            model.add(*sample, elapsed_ns);
        }
        Message::Problem(problem) => model.problem = problem,
        Message::Interrupted(sentence) => model.status = Status::Interrupted(sentence),
        Message::Ended(sentence) => model.status = Status::Ended(sentence),
    }
}
