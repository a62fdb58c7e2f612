//! Reads a trace, and what is written to it while it is read.

use super::{Message, Wishes};
use crate::commands::top::functions::Functions;
use crate::commands::top::sample::Sample;
use memledger::analysis::{Analyzer, Report};
use memledger::trace::format::schema::EventType;
use memledger::trace::read::{Damage, Event, Hole, Reader, Row, Stamp, Visitor, read};
use std::cell::{Cell, RefCell};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// The time after which the end of a trace is read again.
const POLL: Duration = Duration::from_millis(50);
/// The time from one sign of progress to the next.
const PROGRESS: Duration = Duration::from_millis(100);
/// A trace without new bytes for this long gets a sentence.
const SILENT: Duration = Duration::from_secs(5);

/// Follows the trace that `find` finds until the screen is closed. It need not be there yet.
pub fn follow(
    find: impl Fn() -> Option<PathBuf>,
    functions: Functions,
    wishes: &Arc<Wishes>,
    to: &Sender<Message>,
) {
    let ended = |sentence: String| drop(to.send(Message::Ended(sentence)));
    let path = loop {
        match (find(), wishes.no_more()) {
            (Some(path), _) => break path,
            (None, Some(why)) => return ended(why),
            (None, None) => wishes.wait(POLL),
        }
        if wishes.is_over() {
            return;
        }
    };
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) => return ended(format!("cannot open {}: {error}", path.display())),
    };
    let bytes = file.metadata().map_or(0, |metadata| metadata.len());
    let pass = Rc::new(Pass {
        analyzer: RefCell::new(Analyzer::new().largest_live(0)),
        functions: RefCell::new(functions),
        wishes: Arc::clone(wishes),
        to: to.clone(),
        bytes: Cell::new(bytes),
        position: Cell::new(0),
        sampled: Cell::new(None),
        had_functions: Cell::new(false),
        shown: Cell::new(Instant::now()),
        points: RefCell::new(Vec::new()),
        report_type: Cell::new(None),
        has_end: Cell::new(false),
        why: RefCell::new(None),
    });
    let source = Growing {
        file,
        path: path.clone(),
        pass: Rc::clone(&pass),
        grown: Instant::now(),
        looked: Instant::now(),
        is_silent: false,
    };
    let mut visitor = PassVisitor(Rc::clone(&pass));
    let mut reader = match Reader::open(source) {
        Ok(reader) => reader,
        Err(_) if wishes.is_over() => return,
        Err(error) => {
            let why = pass.why.take().unwrap_or_else(|| error.to_string());
            return ended(format!("{}: {why}", path.display()));
        }
    };
    while reader.packet(&mut visitor) && !wishes.is_over() {
        pass.after_packet();
    }
    let summary = reader.finish(&mut visitor);
    if wishes.is_over() {
        return;
    }
    let why = pass.why.take();
    let why = why.or_else(|| Some(format!("reading it failed: {}", summary.error.as_ref()?)));
    let why = why.unwrap_or_else(|| "the program has ended its trace".to_owned());
    ended(format!("{why}. These are the last figures"));
    pass.sample(None);
    // Rows by function may be asked for later.
    while !wishes.is_over() {
        wishes.wait(Duration::from_secs(3600));
        if wishes.functions() && !pass.had_functions.get() {
            pass.sample(None);
        }
    }
}

/// The state of reading, which the input and the visitor of the events share: all is on one thread.
struct Pass {
    analyzer: RefCell<Analyzer>,
    functions: RefCell<Functions>,
    wishes: Arc<Wishes>,
    to: Sender<Message>,
    /// The size of the trace when it was last looked at, and how much of it was read.
    bytes: Cell<u64>,
    position: Cell<u64>,
    /// When the last sample was made.
    sampled: Cell<Option<Instant>>,
    had_functions: Cell<bool>,
    /// When progress was last shown.
    shown: Cell<Instant>,
    points: RefCell<Vec<(u64, u64)>>,
    /// The type of the event that ends a trace.
    report_type: Cell<Option<usize>>,
    has_end: Cell<bool>,
    /// Why no more can be read.
    why: RefCell<Option<String>>,
}

impl Pass {
    /// Sends the figures as of now.
    fn sample(&self, elapsed: Option<Duration>) {
        let mut analyzer = self.analyzer.borrow_mut();
        analyzer.flush();
        self.send_sample(analyzer.report(), elapsed);
    }

    fn send_sample(&self, mut report: Report, elapsed: Option<Duration>) {
        let wanted = self.wishes.functions();
        let mut functions = self.functions.borrow_mut();
        if wanted {
            functions.find(&mut report);
            let _ = self.to.send(Message::Problem(functions.note()));
        }
        self.send_points();
        let elapsed_ns = elapsed.map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        let sample = Box::new(Sample::of(&report, wanted));
        let _ = self.to.send(Message::Sample { sample, elapsed_ns });
        self.sampled.set(Some(Instant::now()));
        self.had_functions.set(wanted);
    }

    /// Sends the figures of all that is in the trace. NOTE: a reader that may get more lets events wait for
    /// earlier ones of other threads, which in the trace of a killed program never come. So this is another
    /// pass.
    fn sample_whole(&self, path: &Path) {
        let mut analyzer = Analyzer::new().largest_live(0);
        let is_read = File::open(path).is_ok_and(|file| read(file, &mut analyzer).is_ok());
        if is_read {
            self.send_sample(analyzer.report(), None);
        }
    }

    fn send_points(&self) {
        let points = self.points.take();
        if !points.is_empty() {
            let _ = self.to.send(Message::Points(points));
        }
    }

    /// Between two packets: the chart gets a point, and the screen some progress.
    fn after_packet(&self) {
        let analyzer = self.analyzer.borrow();
        let point = (analyzer.duration_ns(), analyzer.live_and_peak_bytes().0);
        drop(analyzer);
        let mut points = self.points.borrow_mut();
        match points.last_mut() {
            Some(last) if last.0 == point.0 => last.1 = last.1.max(point.1),
            _ => points.push(point),
        }
        drop(points);
        if self.shown.get().elapsed() >= PROGRESS {
            self.shown.set(Instant::now());
            self.send_points();
            if self.sampled.get().is_none() {
                let part = self.position.get() as f64 / self.bytes.get().max(1) as f64;
                let _ = self.to.send(Message::Reading(part.min(1.0)));
            }
        }
        // A trace that grows faster than it can be read has no end to wait at.
        if self.sampled.get().is_some_and(|at| at.elapsed() >= 2 * self.wishes.interval()) {
            self.sample(None);
        }
    }

    /// At the end of what there is: the figures, if they are due. Not while the trace is silent: the program may
    /// have been killed, so the clock of the screen stops.
    fn at_end(&self) {
        let wants_more = self.wishes.functions() && !self.had_functions.get();
        match self.sampled.get() {
            None => self.sample(None),
            Some(last) if wants_more || last.elapsed() >= self.wishes.interval() => {
                self.sample(Some(last.elapsed()));
            }
            Some(_) => {}
        }
    }
}

/// A file that may still grow: a read waits for more at its end.
struct Growing {
    file: File,
    path: PathBuf,
    pass: Rc<Pass>,
    /// When there was last something to read.
    grown: Instant,
    /// When the name of the file was last looked at.
    looked: Instant,
    is_silent: bool,
}

impl Read for Growing {
    /// No bytes are the end: of the trace, of the file under this name, or of the wish to read it.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let pass = Rc::clone(&self.pass);
        loop {
            let count = self.file.read(buffer)?;
            if count > 0 {
                pass.position.set(pass.position.get() + count as u64);
                self.grown = Instant::now();
                if std::mem::take(&mut self.is_silent) {
                    let _ = pass.to.send(Message::Problem(None));
                }
                return Ok(count);
            }
            if pass.has_end.get() || pass.wishes.is_over() {
                return Ok(0);
            }
            if let Some(why) = self.is_other().or_else(|| self.is_left()) {
                *pass.why.borrow_mut() = Some(why);
                return Ok(0);
            }
            if pass.position.get() > 0 {
                if self.is_silent {
                    // Rows by function may be asked for now.
                    if pass.wishes.functions() && !pass.had_functions.get() {
                        pass.sample_whole(&self.path);
                    }
                } else {
                    pass.at_end();
                }
            }
            if pass.wishes.is_once() {
                return Ok(0);
            }
            if !self.is_silent && self.is_quiet() {
                self.is_silent = true;
                pass.sample_whole(&self.path);
                let sentence = "nothing new in the trace: the program does nothing, or was killed";
                let _ = pass.to.send(Message::Problem(Some(sentence.to_owned())));
            }
            pass.wishes.wait(POLL);
        }
    }
}

impl Growing {
    /// Whether nothing was written for a while, also before the trace was opened.
    fn is_quiet(&self) -> bool {
        let written = || self.file.metadata().ok()?.modified().ok()?.elapsed().ok();
        self.grown.elapsed() >= SILENT || written().is_some_and(|age| age >= SILENT)
    }

    /// Whether the program has ended without an end in its trace, and how.
    fn is_left(&mut self) -> Option<String> {
        let why = self.pass.wishes.no_more()?;
        // What it wrote last may have come since the last read.
        let bytes = self.file.metadata().ok()?.len();
        (bytes <= self.pass.position.get()).then_some(why)
    }

    /// Whether the trace is no longer the one that was read so far, and why.
    fn is_other(&mut self) -> Option<String> {
        let name = self.path.display();
        let metadata = self.file.metadata().ok()?;
        if metadata.is_file() && metadata.len() < self.pass.position.get() {
            return Some(format!("{name} was cut to {} bytes, or is written anew", metadata.len()));
        }
        if self.looked.elapsed() < Duration::from_millis(500) {
            return None;
        }
        self.looked = Instant::now();
        match fs::metadata(&self.path) {
            Ok(named) if !is_same(&metadata, &named) => {
                Some(format!("{name} was replaced by another file"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Some(format!("{name} was removed"))
            }
            _ => None,
        }
    }
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}

/// Passes events on to the analyzer, which is free while the input waits for more.
struct PassVisitor(Rc<Pass>);

impl Visitor for PassVisitor {
    fn event_type(&mut self, index: usize, event_type: &EventType) {
        if event_type.name() == "Memledger.Report" {
            self.0.report_type.set(Some(index));
        }
        self.0.analyzer.borrow_mut().event_type(index, event_type);
    }

    fn event(&mut self, event: &Event<'_>) {
        if self.0.report_type.get() == Some(event.type_index) {
            self.0.has_end.set(true);
        }
        self.0.analyzer.borrow_mut().event(event);
    }

    fn row(&mut self, row: &mut Row<'_>) {
        self.0.analyzer.borrow_mut().row(row);
    }

    fn stamp(&mut self, stream: u16, stamp: Stamp) {
        self.0.analyzer.borrow_mut().stamp(stream, stamp);
    }

    fn leave_scope(&mut self, stream: u16) {
        self.0.analyzer.borrow_mut().leave_scope(stream);
    }

    fn settle(&mut self) {
        self.0.analyzer.borrow_mut().settle();
    }

    fn end(&mut self, whole: bool) {
        Visitor::end(&mut *self.0.analyzer.borrow_mut(), whole);
    }

    fn hole(&mut self, hole: Hole) {
        self.0.analyzer.borrow_mut().hole(hole);
    }

    fn damage(&mut self, damage: &Damage) {
        self.0.analyzer.borrow_mut().damage(damage);
    }
}
