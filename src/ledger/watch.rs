//! The watcher: a process that ends the trace and writes the report if this one ends without doing so, however it ends.
//!
//! ```text
//! this process                                    watcher
//!   shares its buffers, opens its files
//!   forks ───────────────────────────────────────► sleeps
//!   records: buffers ──► file, checkpoints
//!   ends by itself: the watcher is dismissed ─────► ends
//!   or is killed ─────────────────────────────────► continues the file at the last checkpoint with what
//!                                                   is in the buffers, makes the report of it, ends
//! ```
//! It is forked before the program has threads, so no lock is held in it, and it has the files and the state of the recording at
//! its start. Until its process has ended it only sleeps.
#![expect(unsafe_code, reason = "lays out memory that is shared")]

use super::in_process::InProcessAnalyzer;
use super::problems;
use super::recording::Recording;
use super::report::{ReportOutput, write_report};
use super::stats::trailer;
use crate::error::Error;
use crate::platform::os::{self, BlockedSignals, RawFd, Started};
use crate::scopes::tree::{self, SharedNodes};
use crate::stacks::tree::{self as stacks, SharedStacks};
use crate::trace::read::read;
use crate::trace::sink::file::FileSink;
use crate::trace::worker::{Checkpoints, Session, Stage};
use crate::trace::write::declared::{self, SharedTypes};
use crate::trace::write::{ReentrancyGuard, watch};
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set while the watcher is forked: the handlers of forks leave it as it is.
static IS_STARTING: AtomicBool = AtomicBool::new(false);

/// Whether this process is the watcher, or about to fork it.
pub(super) fn is_watcher() -> bool {
    IS_STARTING.load(Ordering::Relaxed)
}

/// The watcher of a recording, in the process that is watched.
pub(super) struct Watching {
    watcher: os::Watcher,
    checkpoints: &'static Checkpoints,
}

impl Watching {
    /// Notes that the trace has its end.
    pub(super) fn note_traced(&self) {
        self.checkpoints.set_stage(Stage::Traced);
    }

    /// The recording has ended, and its report is written.
    pub(super) fn dismiss(mut self) {
        self.checkpoints.set_stage(Stage::Ended);
        let _signals = BlockedSignals::new();
        self.watcher.dismiss();
    }
}

/// A file that a watcher can continue: the descriptor, and whether it is one that only the watcher needs.
pub(super) struct WatchedFile {
    pub(super) descriptor: RawFd,
    pub(super) own: Option<FileSink>,
}

/// Has a watcher continue `file`, if it is whole and can be cut. Otherwise, the trace also goes to a file without a name in the folder for
/// temporary files, which the system removes when both processes have ended.
///
/// # Errors
/// [`Error::File`].
pub(super) fn watched_file(
    file: Option<&mut FileSink>,
    is_whole: bool,
) -> Result<WatchedFile, Error> {
    if let Some(file) = file.filter(|_| is_whole)
        && let Some(descriptor) = file.set_watched()
    {
        return Ok(WatchedFile { descriptor, own: None });
    }
    let folder = std::env::temp_dir();
    let name = format!("memledger-watch-{}.memledger", os::process_id());
    let path = folder.join(&name);
    let failed = |source| Error::File { path: path.clone(), action: "create", source };
    let file = os::create_in(&folder, &name).map_err(failed)?;
    std::fs::remove_file(&path).map_err(failed)?;
    let mut file = FileSink::begin_unnamed(file, &path)?;
    let Some(descriptor) = file.set_watched() else {
        return Err(failed(io::Error::other("it is no regular file")));
    };
    Ok(WatchedFile { descriptor, own: Some(file) })
}

/// Starts the watcher of a recording that is about to run. `None`, which is reported, if there can be none.
pub(super) fn start(
    session: &mut Session,
    recording: &mut Recording,
    descriptor: RawFd,
    buffer_limit: usize,
) -> Option<Watching> {
    match try_start(session, recording, descriptor, buffer_limit) {
        Ok(watching) => Some(watching),
        Err(error) => {
            problems::add(format!("there is no watcher: {error}"));
            None
        }
    }
}

fn try_start(
    session: &mut Session,
    recording: &mut Recording,
    descriptor: RawFd,
    buffer_limit: usize,
) -> io::Result<Watching> {
    // NOTE: the one that starts the recording, which waits for this one.
    if !os::has_one_thread() {
        return Err(io::Error::other(
            "the process has more than one thread already; a recording that begins before main can have one (MEMLEDGER_WATCH=1)",
        ));
    }
    let parts = [
        size_of::<Checkpoints>().next_multiple_of(4096),
        size_of::<SharedNodes>().next_multiple_of(4096),
        size_of::<SharedTypes>().next_multiple_of(4096),
        size_of::<SharedStacks>(),
    ];
    // SAFETY: there is no other thread that runs; the parts are as large as what is in them, and start at pages.
    let checkpoints = unsafe {
        let start = watch::share(parts.iter().sum(), buffer_limit)?;
        tree::share(start.add(parts[0]));
        declared::share(start.add(parts[0] + parts[1]));
        stacks::share(start.add(parts[0] + parts[1] + parts[2]));
        Checkpoints::at(start)
    };
    checkpoints.set_stage(Stage::Running);
    session.watch(checkpoints, trailer);
    let mut kept = vec![descriptor];
    kept.extend(recording.report.iter().map(ReportOutput::descriptor));
    IS_STARTING.store(true, Ordering::Relaxed);
    let started = os::start_watcher(&kept);
    match started {
        Ok(Started::Watcher(watched)) => {
            if watched.wait_for_end() {
                let finish = || finish(session, recording, descriptor, checkpoints);
                let _ = catch_unwind(AssertUnwindSafe(finish));
            }
            os::end_watcher()
        }
        Ok(Started::Watched(watcher)) => {
            IS_STARTING.store(false, Ordering::Relaxed);
            Ok(Watching { watcher, checkpoints })
        }
        Err(error) => {
            IS_STARTING.store(false, Ordering::Relaxed);
            session.unwatch();
            Err(error)
        }
    }
}

/// In the watcher, whose process has ended: does what it has left to do.
fn finish(
    session: &mut Session,
    recording: &mut Recording,
    descriptor: RawFd,
    checkpoints: &Checkpoints,
) {
    let _untracked = ReentrancyGuard::enter();
    // NOTE: opened before the end of the stream closes the file. The name may be that of another file by now.
    let file = File::open(format!("/proc/self/fd/{descriptor}"));
    match checkpoints.stage() {
        Stage::Ended => return,
        Stage::Traced => {}
        Stage::Running => match session.finish_after_end() {
            Ok(true) => {}
            Ok(false) => {
                return problems::add(
                    "the process has ended without a report, after its recording had ended early"
                        .to_owned(),
                );
            }
            Err(error) => return problems::report(error),
        },
    }
    let Some(output) = recording.report.take() else { return };
    let analyzer = InProcessAnalyzer::late();
    output.prepare(&analyzer);
    let result = match file {
        Ok(file) => analyzer.with_analyzer(|analyzer| read(file, analyzer).map(|_| ())),
        Err(source) => {
            let path = "the trace".into();
            Err(Error::File { path, action: "read", source })
        }
    };
    match result {
        Ok(()) => write_report(output, recording.unlinked, Some(&analyzer)),
        Err(error) => problems::report(error),
    }
}
