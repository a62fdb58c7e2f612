//! The traces of the folder: their sizes, the limits of the sizes, and which traces are growing.

use super::directory::{Directory, stem};
use super::recording::Recording;
use memledger_analysis::read::ending;
use memledger_export::text;
use memledger_format::framing::Start;
use memledger_format::handshake::Transport;
use parking_lot::{Mutex, MutexGuard};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;

/// The shortest time between two scans of the folder.
const RESCAN: Duration = Duration::from_millis(250);
/// A new trace is refused when the store has room for fewer bytes than this: the longest start of a
/// trace, and a packet.
const MIN_ROOM_BYTES: u64 = 128 << 10;

/// The limits for the size of traces, in bytes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The limit for one trace.
    pub trace: u64,
    /// The limit for all traces in the folder.
    pub store: u64,
}

/// All traces of a folder. Calls wait for the disk, so no thread of the runtime may make them.
#[derive(Debug)]
pub struct Catalogue {
    directory: Directory,
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Sorted by the name of the file, so that a new trace does not change the index of another
    /// one.
    traces: Vec<Trace>,
    /// Bytes of all traces.
    used: u64,
    change_serial: u32,
    sessions: u32,
    next_scan: Instant,
}

/// A trace.
#[derive(Clone, Debug)]
pub struct Trace {
    pub file: String,
    pub id: u32,
    /// Bytes in the file.
    size: u64,
    pub modified: SystemTime,
    /// The program that sends the trace, while the trace grows.
    pub live: Option<SendingProgram>,
    /// Why the recording ended before its program did.
    pub ended: Option<String>,
    /// The size of the file when `has_end` last read it, and the answer of `has_end`.
    known_end: Option<(u64, Option<bool>)>,
}

/// A program that is sending.
#[derive(Clone, Debug)]
pub struct SendingProgram {
    pub session: u32,
    pub peer: IpAddr,
    pub control_port: Option<u16>,
    pub guid: Option<[u8; 16]>,
    /// The readable bytes of the trace: up to the end of its last whole packet. The channel closes
    /// when the trace ends.
    readable: watch::Receiver<u64>,
}

/// Sums over all traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CatalogueTotals {
    pub traces: usize,
    pub sessions: usize,
    pub bytes: u64,
    pub change_serial: u32,
}

/// A trace that is open for reading.
#[derive(Debug)]
pub struct OpenTrace {
    pub file: File,
    /// The readable bytes, if the trace no longer grows.
    pub size: u64,
    /// The readable bytes, while the trace grows. The last value is final once the channel is
    /// closed.
    pub live: Option<watch::Receiver<u64>>,
}

impl Trace {
    /// The name of the trace.
    pub fn name(&self) -> &str {
        stem(&self.file)
    }

    /// Bytes that can be read.
    pub fn size(&self) -> u64 {
        self.live.as_ref().map_or(self.size, |live| *live.readable.borrow())
    }
}

impl Catalogue {
    /// Scans the folder.
    pub fn new(directory: Directory, limits: Limits) -> io::Result<Self> {
        let state = State {
            traces: Vec::new(),
            used: 0,
            change_serial: 1,
            sessions: 0,
            next_scan: Instant::now(),
        };
        let catalogue = Self { directory, limits, state: Mutex::new(state) };
        catalogue.scan(&mut catalogue.lock())?;
        Ok(catalogue)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The totals of the folder, scanned again if the last scan is old.
    pub fn totals(&self) -> CatalogueTotals {
        let mut state = self.lock();
        self.rescan(&mut state);
        CatalogueTotals {
            traces: state.traces.len(),
            sessions: state.traces.iter().filter(|trace| trace.live.is_some()).count(),
            bytes: state.used,
            change_serial: state.change_serial,
        }
    }

    /// The trace with this index.
    pub fn by_index(&self, index: usize) -> Option<Trace> {
        self.lock().traces.get(index).cloned()
    }

    /// The first trace for which `wanted` is true.
    pub fn find(&self, wanted: impl Fn(&Trace) -> bool) -> Option<Trace> {
        self.lock().traces.iter().find(|trace| wanted(trace)).cloned()
    }

    /// The trace with this index among the growing traces.
    pub fn live_by_index(&self, index: usize) -> Option<Trace> {
        self.lock().traces.iter().filter(|trace| trace.live.is_some()).nth(index).cloned()
    }

    /// Whether a trace that no longer grows has its end, if known. Reads the file at most once for
    /// each size of it.
    pub fn has_end(&self, trace: &Trace) -> Option<bool> {
        if trace.live.is_some() {
            return None;
        }
        let size = trace.size;
        if let Some((_, end)) = trace.known_end.filter(|(known, _)| *known == size) {
            return end;
        }
        let end = self.directory.read(&trace.file).and_then(|file| ending(&file)).ok()?;
        let end = end.map(|ending| ending.is_there);
        if let Some(trace) = self.lock().find(&trace.file) {
            trace.known_end = Some((size, end));
        }
        end
    }

    /// Opens a trace; `None` if there is none with this id.
    pub fn read(&self, id: u32) -> Option<io::Result<OpenTrace>> {
        let trace = self.find(|trace| trace.id == id)?;
        let file = self.directory.read(&trace.file);
        Some(file.and_then(|file| {
            let size = file.metadata()?.len();
            Ok(OpenTrace { file, size, live: trace.live.map(|live| live.readable) })
        }))
    }

    /// Begins the trace of a program that has connected. The error is the reason for a refusal.
    pub fn begin(self: &Arc<Self>, start: &Start, peer: IpAddr) -> Result<Recording, String> {
        let mut state = self.lock();
        if self.room(&state) < MIN_ROOM_BYTES {
            self.rescan(&mut state);
        }
        if self.room(&state) < MIN_ROOM_BYTES {
            return Err(format!("the store is full: {}", self.fullness(&state)));
        }
        let ours = [Transport::Compact, Transport::Packed].map(Transport::version);
        let compact = ours.contains(&start.transport);
        let (file, opened) = self
            .directory
            .create(compact)
            .map_err(|error| format!("no file can be created: {error}"))?;
        let (readable, receiver) = watch::channel(0);
        state.sessions = state.sessions.wrapping_add(1).max(1);
        let live = SendingProgram {
            session: state.sessions,
            peer,
            control_port: start.control_port,
            guid: start.trace_guid,
            readable: receiver,
        };
        let modified = SystemTime::now();
        state.insert(Trace {
            file: file.clone(),
            id: 0,
            size: 0,
            modified,
            live: Some(live),
            ended: None,
            known_end: None,
        });
        state.change_serial = state.change_serial.wrapping_add(1);
        drop(state);
        Ok(Recording::new(Arc::clone(self), file, opened, readable))
    }

    /// Reserves up to `bytes` more for the trace. Returns how many it gets, and which limit is
    /// reached if it does not get all.
    pub(super) fn grant(&self, file: &str, bytes: u64) -> (u64, Option<String>) {
        let mut state = self.lock();
        let (limits, room) = (self.limits, self.room(&state));
        let Some(trace) = state.find(file) else { return (bytes, None) };
        let own = limits.trace.saturating_sub(trace.size);
        let granted = bytes.min(own).min(room);
        trace.size += granted;
        trace.modified = SystemTime::now();
        state.used += granted;
        let reason = (granted < bytes).then(|| match own <= room {
            true => {
                format!("it has reached the {} allowed for one trace", text::bytes(limits.trace))
            }
            false => format!("the store is full: {}", self.fullness(&state)),
        });
        (granted, reason)
    }

    /// Sets the size of the trace to that of its file.
    pub(super) fn correct(&self, file: &str, size: u64) {
        let mut state = self.lock();
        let Some(trace) = state.find(file) else { return };
        let old = std::mem::replace(&mut trace.size, size);
        state.used = (state.used + size).saturating_sub(old);
    }

    /// The trace no longer grows. An empty trace is removed.
    pub(super) fn end(&self, file: &str, ended: Option<String>) {
        let mut state = self.lock();
        state.change_serial = state.change_serial.wrapping_add(1);
        let Some(trace) = state.find(file) else { return };
        trace.live = None;
        trace.ended = ended;
        if trace.size == 0 && self.directory.remove(file).is_ok() {
            state.traces.retain(|trace| trace.file != file);
        }
    }

    fn room(&self, state: &State) -> u64 {
        self.limits.store.saturating_sub(state.used)
    }

    fn fullness(&self, state: &State) -> String {
        let (used, limit) = (text::bytes(state.used), text::bytes(self.limits.store));
        format!("{used} of {limit} are used")
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Scans the folder again if the last scan is old enough. An error leaves the list as it is.
    fn rescan(&self, state: &mut State) {
        if Instant::now() >= state.next_scan {
            let _ = self.scan(state);
        }
    }

    fn scan(&self, state: &mut State) -> io::Result<()> {
        let begun = Instant::now();
        let found = self.directory.list()?;
        let mut changed = false;
        // The size of a growing trace is known from its recording.
        state.traces.retain(|trace| {
            let stays = trace.live.is_some()
                || found.binary_search_by(|found| found.file.cmp(&trace.file)).is_ok();
            changed |= !stays;
            stays
        });
        for found in found {
            match state.find(&found.file) {
                Some(trace) if trace.live.is_some() => {}
                Some(trace) => {
                    changed |= trace.size != found.size;
                    (trace.size, trace.modified) = (found.size, found.modified);
                }
                None => {
                    changed = true;
                    let (file, size, modified) = (found.file, found.size, found.modified);
                    let (live, ended, known_end) = (None, None, None);
                    state.insert(Trace { file, id: 0, size, modified, live, ended, known_end });
                }
            }
        }
        state.used = state.traces.iter().map(|trace| trace.size).sum();
        state.change_serial = state.change_serial.wrapping_add(u32::from(changed));
        // Scans of a large folder take at most a tenth of the server's time.
        state.next_scan = Instant::now() + RESCAN.max(begun.elapsed() * 10);
        Ok(())
    }
}

impl State {
    fn find(&mut self, file: &str) -> Option<&mut Trace> {
        let place = self.traces.binary_search_by(|trace| trace.file.as_str().cmp(file)).ok()?;
        self.traces.get_mut(place)
    }

    /// Gives the trace its id and adds it. The id is a hash of the trace's file name, so it is the
    /// same after a restart, unless two names have the same hash.
    fn insert(&mut self, mut trace: Trace) {
        trace.id = fnv1a(trace.file.as_bytes());
        while trace.id == 0 || self.traces.iter().any(|other| other.id == trace.id) {
            trace.id = trace.id.wrapping_add(1);
        }
        if let Err(place) = self.traces.binary_search_by(|other| other.file.cmp(&trace.file)) {
            self.traces.insert(place, trace);
        }
    }
}

fn fnv1a(bytes: &[u8]) -> u32 {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step)
}
