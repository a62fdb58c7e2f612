//! The watcher: a process that ends the trace and writes the report if this one ends without doing so,
//! however it ends.
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
//! It is forked before the program has threads, so no lock is held in it, and it has the files and the state
//! of the recording at its start. Until its process has ended it only sleeps.
//!
//! The children of forks, if they are recorded, get theirs from a second process, the *family's*, which is
//! forked at the same time: a child shares its memory by a file without a name, and sends that, its trace and
//! its report to the family's process, which forks a watcher for it. That one has the recording of the first
//! process at its start, and makes it that of the child.
//!
//! The alternatives are a worker in the other process, which would need all of the analyzer's answers
//! through another process, and one that copies buffers to the file before it numbers them, which would
//! write each event twice.
//!
//! Tables (nodes of the tree of contexts, types of the program, call stacks) are not shared, because
//! the child of a fork needs its own: each fork would copy them (4 ms with 200,000 frames of stacks;
//! the kernel's copy on write takes 0.2 ms), and a child that is forked without handlers would write to
//! its parent's. What is added to them is logged in shared memory instead, on cold paths. The state and
//! the clocks are in pages that the kernel clears in each child (`MADV_WIPEONFORK`), so that no hook of
//! a child writes to its parent's buffers.
#![expect(unsafe_code, reason = "shares memory")]

use crate::dump::ReportTo;
use crate::dump::{ReportOutput, write_report_of};
use crate::error::{self, Error};
use crate::ledger::recording::Recording;
use crate::ledger::recording::stats::trailer;
use crate::platform::delays::delay;
use crate::platform::os::{self, BlockedSignals, RawFd, Started, StartedFamily};
use crate::problems::{self, ProblemKind};
use crate::scopes::tree;
use crate::trace::sink::file::{FileSink, beside_of};
use crate::trace::worker::{Checkpoints, Session, Stage};
use crate::trace::write::{ReentrancyGuard, declared, watch};
use memledger_format::handshake::Transport;
use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

/// Set while the watcher is forked: the handlers of forks leave it as it is.
static IS_STARTING: AtomicBool = AtomicBool::new(false);

/// Whether this process is the watcher, or about to fork it.
pub(crate) fn is_watcher() -> bool {
    IS_STARTING.load(Ordering::Relaxed)
}

/// The watcher of a recording, in the process that is watched.
pub(crate) struct Watching {
    watcher: os::Watcher,
    checkpoints: &'static Checkpoints,
    /// What gives watchers to the children of forks, if they are recorded.
    family: Option<os::Family>,
}

impl Watching {
    /// Notes that the trace has its end.
    pub(crate) fn note_traced(&self) {
        self.checkpoints.set_stage(Stage::Traced);
    }

    /// The recording has ended, and its report is written.
    pub(crate) fn dismiss(mut self) {
        self.checkpoints.set_stage(Stage::Ended);
        let _signals = BlockedSignals::new();
        self.watcher.dismiss();
    }
}

/// What the child of a fork shares with the watcher that it is about to get.
pub(crate) struct SharedChild {
    family: os::Family,
    checkpoints: &'static Checkpoints,
    /// The file that has its memory.
    memory: File,
}

impl SharedChild {
    /// Moves the file from the program's table into the tracker's, until what is returned is dropped.
    pub(crate) fn take_from_program(&self) -> os::InProgramTable {
        os::InProgramTable::new(&self.memory)
    }
}

/// In the child of a fork, which has what its parent had: shares its memory, before anything is there. `None`
/// if that is not possible, which is reported, or if no child gets a watcher.
pub(crate) fn share(Watching { watcher, checkpoints, family }: Watching) -> Option<SharedChild> {
    watcher.forget();
    let family = family?;
    match watch::share_in_child() {
        Ok(memory) => Some(SharedChild { family, checkpoints, memory }),
        Err(error) => {
            problems::add(ProblemKind::Tracker, format!("there is no watcher: {error}"));
            None
        }
    }
}

/// A file that a watcher can continue: the descriptor, and whether it is one that only the watcher needs.
pub(crate) struct WatchedFile {
    pub(crate) descriptor: RawFd,
    pub(crate) own: Option<FileSink>,
    /// Where the next program of the process writes its trace; `None` if that is not known.
    pub(crate) next: Option<PathBuf>,
}

/// Makes a watcher continue `file`, if it can be cut. Otherwise, the trace also goes to a file without a name
/// in the folder for temporary files, which the system removes when both processes have ended.
///
/// # Errors
/// `ErrorKind::File`.
pub(crate) fn watched_file(file: Option<&mut FileSink>) -> Result<WatchedFile, Error> {
    if let Some(file) = file
        && let Some(descriptor) = file.set_watched()
    {
        return Ok(WatchedFile { descriptor, own: None, next: Some(file.next_path().to_owned()) });
    }
    let folder = std::env::temp_dir();
    let name = format!("memledger-watch-{}.memledger", os::process_id());
    let path = folder.join(&name);
    let failed = |source| error::file("create", &path, source);
    let file = os::create_in(&folder, &name).map_err(failed)?;
    std::fs::remove_file(&path).map_err(failed)?;
    let mut file = FileSink::begin_unnamed(file, &path)?;
    let Some(descriptor) = file.set_watched() else {
        return Err(failed(io::Error::other("it is not a regular file")));
    };
    Ok(WatchedFile { descriptor, own: Some(file), next: None })
}

/// Starts the watcher of a recording that is about to run.
///
/// # Errors
/// There can be none, and why.
pub(crate) fn start(
    session: &mut Session,
    recording: &mut Recording,
    (descriptor, next): (RawFd, Option<PathBuf>),
    buffer_limit: usize,
) -> io::Result<Watching> {
    if !os::HAS_WATCHERS {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "this system has none"));
    }
    // NOTE: the one that starts the recording, which waits for this one.
    if !os::has_one_thread() {
        return Err(io::Error::other(
            "the process has more than one thread already; a recording that begins before main can have one (MEMLEDGER_WATCH=1)",
        ));
    }
    // SAFETY: there is no other thread that runs, and this is the only call.
    let checkpoints: &'static Checkpoints = unsafe { watch::share(buffer_limit)? };
    checkpoints.set_stage(Stage::Running);
    checkpoints.executed.begin(recording.follow.is_some());
    session.watch(checkpoints, trailer);
    let mut kept = vec![descriptor];
    kept.extend(recording.report.iter().map(ReportOutput::descriptor));
    IS_STARTING.store(true, Ordering::Relaxed);
    let started = os::start_watcher(&kept);
    match started {
        Ok(Started::Watcher(watched)) => {
            let began = SystemTime::now();
            if watched.wait_for_end(&checkpoints.executed) {
                delay();
                if next.is_some_and(|next| !was_written(&next, began)) {
                    checkpoints.executed.set_last();
                }
                let (report, unlinked) = (recording.report.take(), recording.unlinked);
                let finish = || finish(session, report, unlinked, descriptor, checkpoints);
                let _ = catch_unwind(AssertUnwindSafe(finish));
            }
            os::end_watcher()
        }
        Ok(Started::Watched(watcher)) => {
            let family = start_family(session, recording, checkpoints);
            IS_STARTING.store(false, Ordering::Relaxed);
            Ok(Watching { watcher, checkpoints, family })
        }
        Err(error) => {
            IS_STARTING.store(false, Ordering::Relaxed);
            session.unwatch();
            Err(error)
        }
    }
}

/// Whether a file was written after a time, to the second.
fn was_written(path: &Path, after: SystemTime) -> bool {
    let written = fs::metadata(path).and_then(|found| found.modified());
    written.is_ok_and(|written| written + Duration::from_secs(1) >= after)
}

/// Starts the process that gives watchers to the children of forks, if the recording follows them. `None`,
/// which is reported, if there can be none.
fn start_family(
    session: &mut Session,
    recording: &Recording,
    checkpoints: &Checkpoints,
) -> Option<os::Family> {
    let follow = recording.follow.as_ref()?;
    // NOTE: without a file of its own, see `watch_child`.
    follow.config.file.as_ref()?;
    match os::start_family() {
        Ok(StartedFamily::Program(family)) => Some(family),
        Ok(StartedFamily::Watcher(request)) => {
            let settings = follow.config.report.as_ref();
            let unlinked = recording.unlinked;
            let serve = || watch_child(session, request, settings, unlinked, checkpoints);
            let _ = catch_unwind(AssertUnwindSafe(serve));
            os::end_watcher()
        }
        Err(error) => {
            problems::add(
                ProblemKind::Tracker,
                format!("the children of forks have no watcher: {error}"),
            );
            None
        }
    }
}

/// In the child of a fork: asks for a watcher. `None`, which is reported, if there can be none.
pub(crate) fn follow(
    session: &mut Session,
    report: Option<&ReportOutput>,
    shared: SharedChild,
    descriptor: RawFd,
    transport: Transport,
) -> Option<Watching> {
    tree::share_all();
    declared::share_all();
    let checkpoints = shared.checkpoints;
    checkpoints.executed.begin(true);
    session.watch(checkpoints, trailer);
    let request = || {
        let (watcher, watched) = os::connection()?;
        // A report that cannot be handed over costs no trace.
        let report = report.and_then(|report| report.hand_over().ok());
        let (path, name, file) = match &report {
            Some((path, name, file)) => (&path[..], &name[..], Some(os::descriptor(file))),
            None => (&[][..], &[][..], None),
        };
        let is_compact = u8::from(transport == Transport::Compact);
        // Neither has a NUL.
        let bytes = [&[is_compact], path, &[0], name].concat();
        let mut descriptors = vec![os::descriptor(&shared.memory), descriptor];
        descriptors.extend(file);
        match shared.family.request(&watched, &bytes, &descriptors) {
            Ok(()) => Ok(watcher),
            Err(error) => {
                watcher.forget();
                Err(error)
            }
        }
    };
    let requested: io::Result<_> = request();
    match requested {
        Ok(watcher) => {
            os::lock_for_watcher(descriptor);
            Some(Watching { watcher, checkpoints, family: Some(shared.family) })
        }
        Err(error) => {
            session.unwatch();
            problems::add(ProblemKind::Tracker, format!("there is no watcher: {error}"));
            None
        }
    }
}

/// In the watcher of a child, to its end.
fn watch_child(
    session: &mut Session,
    request: os::Request,
    settings: Option<&ReportTo>,
    unlinked: bool,
    checkpoints: &Checkpoints,
) {
    let os::Request { watched, bytes, descriptors } = request;
    let mut descriptors = descriptors.into_iter();
    let (Some(memory), Some(file)) = (descriptors.next(), descriptors.next()) else { return };
    let Some((is_compact, names)) = bytes.split_first() else { return };
    let transport = if *is_compact == 1 { Transport::Compact } else { Transport::Unreal };
    let Some(end) = names.iter().position(|byte| *byte == 0) else { return };
    let (path, name) = (&names[..end], &names[end + 1..]);
    let report = descriptors
        .next()
        .zip(settings)
        .and_then(|(file, settings)| ReportOutput::received(settings, (path, name), file));
    let (executed, began) = (&checkpoints.executed, SystemTime::now());
    if os::map_shared_file(&memory).is_err() || !watched.wait_for_end(executed) {
        return;
    }
    delay();
    // NOTE: without a name, the process has replaced itself by `exec`, and the new program writes a trace of
    // its own under that name, or beside it if it may not take the name.
    if os::has_no_name(&file) {
        return;
    }
    let path = os::path_of_descriptor(os::descriptor(&file)).canonicalize().unwrap_or_default();
    if !was_written(&beside_of(&path, executed.process()), began) {
        executed.set_last();
    }
    let sink = FileSink::received(file, transport);
    let Ok(mut sink) = sink else { return };
    let Some(descriptor) = sink.set_watched() else { return };
    session.adopt(Box::new(sink));
    finish(session, report, unlinked, descriptor, checkpoints);
}

/// In the watcher, whose process has ended: does what it has left to do.
fn finish(
    session: &mut Session,
    output: Option<ReportOutput>,
    unlinked: bool,
    descriptor: RawFd,
    checkpoints: &Checkpoints,
) {
    let _untracked = ReentrancyGuard::enter();
    // NOTE: opened before the end of the stream closes the file. The name may be that of another file by now.
    let file = File::open(os::path_of_descriptor(descriptor));
    match checkpoints.stage() {
        Stage::Ended => return,
        Stage::Traced => {}
        Stage::Running => match session.finish_after_end() {
            Ok(true) => {}
            Ok(false) => {
                return problems::add(
                    ProblemKind::Tracker,
                    "the process has ended without a report, after its recording had ended early"
                        .to_owned(),
                );
            }
            Err(error) => return problems::report(error),
        },
    }
    if let Some(output) = output {
        write_report_of(file, output, unlinked);
    }
}
