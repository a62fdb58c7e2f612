//! The thread that reads the trace, makes pictures of it, and follows it while it grows.
//!
//! ```text
//!              ┌──────────── the file has changed ────────────┐
//!              ▼                                               │
//! start ─► one pass ──► at the end of what is there            │
//!              ▲            ├─ the trace has its end, or the file has not changed for 10 s:
//!              │            │  the last picture, the index file ──► watch the file
//!              └─ it grows ─┴─ otherwise: a picture of what there is
//! ```

use super::index_file;
use super::kept::Identity;
use super::lives_file::{self, LivesFile};
use super::picture::{BlockObservers, Picture};
use crate::commands::completeness::incomplete;
use crate::commands::input::{open, unreadable};
use crate::commands::observer_thread::ObserverThread;
use crate::error::CliError;
use crate::progress;
use crate::symbols::{SymbolArgs, WithProgress};
use crate::terminal::note;
use memledger_analysis::Analyzer;
use memledger_analysis::read::Reader;
use memledger_format::handshake::Handshake;
use parking_lot::Mutex;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;

/// How often the file is looked at.
const INTERVAL: Duration = Duration::from_millis(200);

/// A trace without its end that has not changed for this time does not grow any more.
const SETTLED: Duration = Duration::from_secs(10);

/// How often pictures of a trace that grows are made; less often if one takes a tenth of that.
const PICTURES: Duration = Duration::from_secs(1);

/// What the server knows of the trace.
#[derive(Clone, Debug, Default)]
pub struct Status {
    pub trace: PathBuf,
    /// How much of the trace was read, in billionths, and how many events.
    pub read: u32,
    pub events: u64,
    /// The last picture, and how many there were before it.
    pub picture: Option<Arc<Picture>>,
    pub number: u64,
    /// All blocks of a picture; it can be another one.
    pub lives: Option<Arc<LivesFile>>,
    /// Why there is nothing more to be had from the trace.
    pub failed: Option<Arc<str>>,
}

/// The thread that reads a trace.
pub struct Reading {
    status: watch::Receiver<Status>,
    shared: Arc<Shared>,
}

/// What the command shares with the thread.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// Locked while the index file is written.
    writing: Mutex<()>,
    /// Locked while the file of lives is written.
    keeping: Mutex<()>,
}

/// Whether the trace can be read. A file that is empty may be written yet.
pub fn check(trace: &Path) -> Result<(), CliError> {
    let mut source = open(trace)?;
    match fs::metadata(trace) {
        Ok(file) if file.is_file() && file.len() > 0 => {
            Handshake::decode(&mut source).map(drop).map_err(|error| unreadable(trace, error))
        }
        _ => Ok(()),
    }
}

impl Reading {
    /// Starts to read.
    pub fn start(trace: &Path, symbols: &SymbolArgs, keeps_index: bool) -> Result<Self, CliError> {
        let status = Status { trace: trace.to_owned(), ..Status::default() };
        let (sender, status) = watch::channel(status);
        let shared = Arc::new(Shared::default());
        let reader = Follower {
            trace: trace.to_owned(),
            symbols: symbols.clone(),
            keeps_index,
            sender,
            shared: Arc::clone(&shared),
        };
        thread::Builder::new()
            .name("trace reader".to_owned())
            .spawn(move || reader.run())
            .map_err(|error| CliError::Failed(format!("no thread can be started: {error}")))?;
        Ok(Self { status, shared })
    }

    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Ends the threads, after the index file that one may be writing; no file of lives is finished. They
    /// write nothing from here on.
    pub fn stop(self) {
        self.shared.stop.store(true, Ordering::Release);
        for lock in [&self.shared.writing, &self.shared.keeping] {
            // The process ends: the threads can wait for the lock until then.
            std::mem::forget(lock.lock());
        }
    }
}

/// What is needed on the threads.
#[derive(Clone)]
struct Follower {
    trace: PathBuf,
    symbols: SymbolArgs,
    keeps_index: bool,
    sender: watch::Sender<Status>,
    shared: Arc<Shared>,
}

/// Why a pass has ended.
enum ReadingEnd {
    /// The command ends.
    Stopped,
    /// The trace was read to its end, when the file was like this.
    Read(Metadata),
}

impl Follower {
    fn run(self) {
        if let Err(error) = self.follow() {
            let sentence: Arc<str> = error.to_string().into();
            self.sender.send_modify(|status| status.failed = Some(sentence));
        }
    }

    fn follow(&self) -> Result<(), CliError> {
        let mut symbolizer = WithProgress::new(&self.symbols);
        loop {
            let file = File::open(&self.trace).map_err(|error| self.gone(&error.to_string()))?;
            let before = file.metadata().map_err(|error| self.gone(&error.to_string()))?;
            let kept = match self.keeps_index {
                true => index_file::load(&self.trace, &self.symbols),
                false => None,
            };
            // PERF: a third processor reads the blocks while one reads for the picture and another indexes.
            let has_third = thread::available_parallelism().is_ok_and(|count| count.get() > 2);
            let keeps_early = is_settled(&before) && has_third;
            if keeps_early {
                self.keep_lives();
            }
            let seen = match kept {
                Some(picture) => {
                    self.publish(Arc::new(picture));
                    before
                }
                None => match self.pass(file, &before, &mut symbolizer)? {
                    ReadingEnd::Stopped => return Ok(()),
                    ReadingEnd::Read(seen) => seen,
                },
            };
            if !keeps_early {
                self.keep_lives();
            }
            if !self.wait_for_change(&seen)? {
                return Ok(());
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Acquire)
    }

    /// Reads the trace to its end, and makes pictures at the end of what there is until then.
    fn pass(
        &self,
        file: File,
        before: &Metadata,
        symbolizer: &mut WithProgress,
    ) -> Result<ReadingEnd, CliError> {
        let mut identity = Identity::of(&self.trace);
        let Some(mut reader) = self.open_reader(file, before)? else {
            return Ok(ReadingEnd::Stopped);
        };
        let seen = ObserverThread::new(BlockObservers::default());
        let mut analyzer = Analyzer::observing(seen).by_bucket();
        let mut pictures = Pictures::default();
        let seen = loop {
            let mut packets = 0_u32;
            while reader.is_packet_ahead() {
                reader.packet(&mut analyzer);
                packets = packets.wrapping_add(1);
                if packets.is_multiple_of(256) {
                    self.note_progress(reader.bytes_read(), before.len());
                    if self.is_stopped() {
                        return Ok(ReadingEnd::Stopped);
                    }
                }
            }
            let now = fs::metadata(&self.trace).map_err(|error| self.gone(&error.to_string()))?;
            self.check_same(before, &now, reader.bytes_read())?;
            if reader.has_ended() || is_settled(&now) {
                break now;
            }
            if packets > 0 && pictures.is_due() {
                let picture = Picture::of_growing(&mut analyzer, symbolizer)?;
                symbolizer.end_report();
                self.publish(Arc::new(picture));
                pictures.made();
            }
            if self.is_stopped() {
                return Ok(ReadingEnd::Stopped);
            }
            if !pictures.is_due() || packets == 0 {
                thread::sleep(INTERVAL);
            }
            identity = None;
        };
        // What is left is no whole packet: it is damage now.
        while reader.packet(&mut analyzer) {}
        let summary = reader.finish(&mut analyzer);
        let (mut picture, report, problems) = Picture::of_whole(analyzer, symbolizer)?;
        symbolizer.end_report();
        picture.notes.extend(incomplete(&self.trace, &report, &summary));
        picture.notes.extend(problems);
        let picture = Arc::new(picture);
        self.publish(Arc::clone(&picture));
        drop(report);
        let identity = identity.or_else(|| Identity::of(&self.trace));
        self.keep(identity.filter(|identity| identity.bytes == summary.input_bytes), &picture);
        Ok(ReadingEnd::Read(seen))
    }

    /// The reader of the trace; `None` if the command ends before the trace has begun.
    fn open_reader(
        &self,
        file: File,
        before: &Metadata,
    ) -> Result<Option<Reader<Box<dyn Read>>>, CliError> {
        let mut file = Some(file);
        loop {
            let source = match file.take() {
                Some(file) => file,
                None => File::open(&self.trace).map_err(|error| self.gone(&error.to_string()))?,
            };
            let length = is_settled(before).then_some(before.len());
            let source: Box<dyn Read> = match length {
                Some(length) => progress::watch(Box::new(source), Some(length)),
                None => Box::new(source),
            };
            match Reader::open(source) {
                Ok(reader) => return Ok(Some(reader)),
                Err(error) => {
                    let now = fs::metadata(&self.trace);
                    let now = now.map_err(|error| self.gone(&error.to_string()))?;
                    if is_settled(&now) || now.len() > 4096 {
                        return Err(unreadable(&self.trace, error));
                    }
                }
            }
            if self.is_stopped() {
                return Ok(None);
            }
            thread::sleep(INTERVAL);
        }
    }

    fn note_progress(&self, bytes: u64, length: u64) {
        let share = u128::from(bytes) * 1_000_000_000 / u128::from(length.max(1));
        let share = share.min(1_000_000_000) as u32;
        // Each change wakes the pages that wait, so there is one for each percent.
        self.sender.send_if_modified(|status| {
            let is_more = share / 10_000_000 != status.read / 10_000_000;
            if is_more {
                status.read = share;
            }
            is_more
        });
    }

    fn publish(&self, picture: Arc<Picture>) {
        let events = picture.index.steps.last().map_or(0, |step| step.before.event);
        self.sender.send_modify(|status| {
            status.number += 1;
            (status.read, status.events) = (1_000_000_000, events);
            status.picture = Some(picture);
        });
    }

    /// Writes the index file, if the trace has not changed.
    fn keep(&self, identity: Option<Identity>, picture: &Picture) {
        let Some(identity) = identity.filter(|_| self.keeps_index) else { return };
        let _guard = self.shared.writing.lock();
        if !self.is_stopped()
            && Identity::of(&self.trace).as_ref() == Some(&identity)
            && let Err(error) = index_file::save(&self.trace, &self.symbols, &identity, picture)
        {
            note(&format!("the next view has to read the trace again: {error}"));
        }
    }

    /// Starts a thread that reads all blocks, if they are not kept.
    fn keep_lives(&self) {
        let this = self.clone();
        let keep = move || {
            let _guard = this.shared.keeping.lock();
            let Some(identity) = Identity::of(&this.trace) else { return };
            let mut lives = LivesFile::load(&this.trace);
            if lives.is_none() && !this.is_stopped() {
                let is_stopped = || this.is_stopped();
                match lives_file::build(&this.trace, &identity, &is_stopped) {
                    Ok(()) => lives = LivesFile::load(&this.trace),
                    Err(_) if this.is_stopped() => {}
                    Err(error) => note(&format!("single blocks take a pass each: {error}")),
                }
            }
            if let Some(lives) = lives {
                this.sender.send_modify(|status| status.lives = Some(Arc::new(lives)));
            }
        };
        if self.keeps_index {
            // Without the thread, single blocks take a pass each.
            let _ = thread::Builder::new().name("block reader".to_owned()).spawn(keep);
        }
    }

    /// Waits until the file has changed; `false` if the command ends before that.
    fn wait_for_change(&self, before: &Metadata) -> Result<bool, CliError> {
        loop {
            if self.is_stopped() {
                return Ok(false);
            }
            thread::sleep(INTERVAL);
            let now = fs::metadata(&self.trace).map_err(|error| self.gone(&error.to_string()))?;
            self.check_same(before, &now, before.len())?;
            if now.len() != before.len() || now.modified().ok() != before.modified().ok() {
                return Ok(true);
            }
        }
    }

    /// The file is the one that was opened, and not shorter than what was read.
    fn check_same(&self, before: &Metadata, now: &Metadata, read: u64) -> Result<(), CliError> {
        let name = self.trace.display();
        if !is_same_file(before, now) {
            return Err(CliError::Failed(format!(
                "{name} was replaced by another file while it was viewed; view it again"
            )));
        }
        if now.len() < read {
            return Err(CliError::Failed(format!(
                "{name} was cut to {} bytes after {read} had been read; view it again",
                now.len()
            )));
        }
        Ok(())
    }

    fn gone(&self, why: &str) -> CliError {
        let name = self.trace.display();
        CliError::Failed(match self.trace.try_exists() {
            Ok(false) => format!("{name} was removed while it was viewed"),
            _ => format!("{name} cannot be read any more: {why}"),
        })
    }
}

/// When pictures of a growing trace are made.
#[derive(Default)]
struct Pictures {
    next: Option<Instant>,
    asked: Option<Instant>,
}

impl Pictures {
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = self.next.is_none_or(|next| now >= next);
        if is_due {
            self.asked = Some(now);
        }
        is_due
    }

    fn made(&mut self) {
        let took = self.asked.map_or(Duration::ZERO, |asked| asked.elapsed());
        self.next = Some(Instant::now() + PICTURES.max(took * 10));
    }
}

/// Whether the file has not changed for some time.
fn is_settled(metadata: &Metadata) -> bool {
    let age = metadata.modified().ok().map(|at| SystemTime::now().duration_since(at));
    // A time in the future is that of a file from another machine.
    age.is_none_or(|age| age.unwrap_or(SETTLED) >= SETTLED)
}

fn is_same_file(one: &Metadata, other: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        (one.dev(), one.ino()) == (other.dev(), other.ino())
    }
    #[cfg(not(unix))]
    {
        one.created().ok() == other.created().ok()
    }
}
