//! The resident memory of the program (RSS), as events: how much it is, and what it is.
//!
//! The first is looked at each 50 ms, and is an event where it has changed notably. The second takes
//! milliseconds in a large program, so it is read where the first has become larger than ever or has risen,
//! at the end, and when the last reading is a sixteenth of the run ago: a process that is killed, or asked in
//! the middle, has no end of its own. A thread that is about to end the process by `_exit`, or to execute
//! another program, waits a moment for it. What the allocators say of themselves is read at the end only, and
//! for a bounded time: glibc holds the lock of an arena while it walks through its free blocks, which takes
//! 0.5 s for four million.

#![expect(unsafe_code, reason = "passes a pointer to a thread")]

use crate::alloc::stats;
use crate::platform::os::Instant;
use crate::platform::{clock, os};
use crate::trace::worker::{self, EventProvider, Importants};
use crate::trace::write::ReentrancyGuard;
use memledger_format::encode::{Declaration, Value};
use memledger_format::schema::{
    FieldType::{AnsiString, U8, U8Array, U64, U64Array},
    NO_SYNC,
};
use std::cmp::Reverse;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The time from one reading of RSS to the next, by default.
pub(crate) const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);

/// The time from one look at RSS to the next: a look takes some 20 µs. A peak that lasts less is seen in
/// `MostBytes` only.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// RSS, or the most that it was, is an event if it differs by more than this, and by this share.
const NOTABLE_BYTES: u64 = 256 << 10;
const NOTABLE_SHARE: u64 = 100;

/// How much memory is resident, in bytes, how much was at most, how much the control groups of the process
/// allow (the largest number if that is not limited), what of the first is anonymous, and all that the
/// program has mapped so far and that is in no block.
static RSS: Declaration = Declaration {
    uid: 27,
    logger: "Memledger",
    event: "Rss",
    flags: NO_SYNC,
    fields: &[
        ("Cycle", U64),
        ("Bytes", U64),
        ("MostBytes", U64),
        ("LimitBytes", U64),
        ("Anonymous", U64),
        ("MappedBytes", U64),
    ],
};

/// What the resident memory is: parts, whose sum is `Rss` where the system states it. The first three arrays
/// are anonymous memory: where, and how much of it is resident. `OwnBytes` are the tracker's blocks, which
/// are in it; 0 if they are in `Tracker`. `Allocators` says of each range whether an allocator has mapped it
/// whose functions are recorded. The other arrays say where `Shared` and `ChangedFiles` are; `HugePages`,
/// `Swap`, `Private` (what no other process has) and `Risen` (by how much `Stacks`, `EndedStacks` and `Data`
/// are larger than at the last reading before this recording, which was in the parent of a forked process)
/// are no parts.
static RESIDENT_MEMORY: Declaration = Declaration {
    uid: 28,
    logger: "Memledger",
    event: "ResidentMemory",
    flags: NO_SYNC,
    fields: &[
        ("Cycle", U64),
        ("OwnBytes", U64),
        ("Tracker", U64),
        ("Stacks", U64),
        ("Binaries", U64),
        ("Files", U64),
        ("Shared", U64),
        ("Other", U64),
        ("OtherAnonymous", U64),
        ("MostOwnBytes", U64),
        ("Starts", U64Array),
        ("Sizes", U64Array),
        ("Resident", U64Array),
        ("Rss", U64),
        ("EndedStacks", U64),
        ("ChangedFiles", U64),
        ("Data", U64),
        ("HugePages", U64),
        ("Swap", U64),
        ("SharedStarts", U64Array),
        ("SharedSizes", U64Array),
        ("SharedResident", U64Array),
        ("ChangedStarts", U64Array),
        ("ChangedSizes", U64Array),
        ("ChangedResident", U64Array),
        ("IsLast", U8),
        ("Allocators", U8Array),
        ("Private", U64),
        ("Risen", U64),
    ],
};

/// Which pages of a file's static variables are resident at the reading of that time, where they are many: a
/// bit for each page from `Address` on, the first one the lowest.
static RESIDENT_PAGES: Declaration = Declaration {
    uid: 60,
    logger: "Memledger",
    event: "ResidentPages",
    flags: NO_SYNC,
    fields: &[("Cycle", U64), ("Address", U64), ("PageBytes", U64), ("Bits", U8Array)],
};

/// What an allocator says of itself: figures in bytes, and their names with a comma between each two.
static ALLOCATOR_STATISTICS: Declaration = Declaration {
    uid: 29,
    logger: "Memledger",
    event: "AllocatorStatistics",
    flags: NO_SYNC,
    fields: &[("Allocator", AnsiString), ("Names", AnsiString), ("Bytes", U64Array)],
};

pub(crate) static TYPES: &[&Declaration] =
    &[&RSS, &RESIDENT_MEMORY, &RESIDENT_PAGES, &ALLOCATOR_STATISTICS];

/// How long the end of a recording waits for what the allocators say of themselves.
const ALLOCATORS_TIMEOUT: Duration = Duration::from_millis(500);
/// The time between two looks at how much processor time they have taken.
const ALLOCATORS_INTERVAL: Duration = Duration::from_millis(1);
/// The most processor time that they may take: this, or one hundredth of the time since the start if that is
/// more.
const ALLOCATORS_TIME: Duration = Duration::from_millis(10);
const ALLOCATORS_PART: u32 = 100;

/// The maximum number of ranges in an event. What the smaller ones have is in `OtherAnonymous`.
const MAX_RANGES: usize = 2048;
/// The same of shared memory, and of changed files.
const MAX_NAMED_RANGES: usize = 256;
/// The maximum number of bytes of bits in an event: one fits into a buffer.
const MAX_PAGE_BITS: usize = 16 << 10;
/// A new maximum of RSS is of interest from this share of the last one on.
const GROWTH: u64 = 100;
/// The same, if the last one was just now.
const FAST_GROWTH: u64 = 8;
/// The time between two readings of what the memory is, as a multiple of the processor time of the last one.
const REST: u32 = 500;
/// The same, if RSS grows or falls fast, or has risen since.
const SHORT_REST: u32 = 20;
/// The time between two readings if RSS does not grow, as a share of the run so far: so an hour has at
/// most 150.
const RUN_SHARE: u32 = 16;
/// What the memory is is read soon if RSS has risen by this since the last reading, and by this share.
const RISEN_BYTES: u64 = 1 << 20;
const RISEN_SHARE: u64 = 50;

/// How long a thread waits for a reading before it ends the process. A debug build takes ten times as long
/// for one.
const END_TIMEOUT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 1_000 } else { 5 });

/// Whether a worker has ever read RSS.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// What stacks and static variables had at the last reading, which a forked child inherits. It is 0 before
/// the first one: all of both then counts as risen in the child, and what is in no block is a lower bound.
static IN_STACKS_AND_DATA: AtomicU64 = AtomicU64::new(0);
/// How many threads have asked for that, and how many of them have it in the file.
static ASKED: AtomicU32 = AtomicU32::new(0);
static ANSWERED: AtomicU32 = AtomicU32::new(0);

/// The process is about to end without its handlers, or to become another program: what its memory is is read
/// before, if that does not take long.
///
/// NOTE: the child of a `vfork` calls this, too, which has its parent's memory.
fn read_before_end() {
    if !IS_ON.load(Ordering::Acquire) || os::is_filtered() || !worker::is_here() {
        return;
    }
    let asked = ASKED.fetch_add(1, Ordering::AcqRel) + 1;
    worker::wake();
    let begin = clock::now();
    loop {
        let answered = ANSWERED.load(Ordering::Acquire);
        let left = nanos(END_TIMEOUT).saturating_sub(clock::now() - begin);
        if answered.wrapping_sub(asked) < u32::MAX / 2 || left == 0 {
            return;
        }
        os::wait(&ANSWERED, answered, left);
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

/// Reads the resident memory.
pub(crate) struct RssEvents {
    interval: Duration,
    /// When the interval began, and when RSS was last looked at.
    read_at: Option<Instant>,
    looked_at: Option<Instant>,
    /// The figures in the last event, and the RSS when it was last looked at.
    sums: [u64; 3],
    looked: u64,
    /// Whether the maximum in the last event was a new one. The next look is an event, too: it says that the
    /// blocks of that moment are in the events before it.
    is_new_most: bool,
    /// The figures before the first cycle, and their time.
    first: Option<([u64; 3], u64)>,
    /// How much it may be.
    limit: Option<u64>,
    /// How many threads have asked for a reading.
    asked: u32,
    parts: Parts,
}

/// When it was last read what the memory is.
struct Parts {
    began: Instant,
    at: Instant,
    took: Duration,
    /// The RSS for which that was read, the largest one, and the largest that the kernel had counted then.
    bytes: u64,
    most: u64,
    counted: u64,
    /// What stacks and static variables had before this recording.
    before: u64,
}

impl RssEvents {
    /// Reads RSS at this interval, in cycles of the worker.
    pub(crate) fn every(interval: Duration) -> Self {
        let now = Instant::now();
        let before = IN_STACKS_AND_DATA.load(Ordering::Relaxed);
        let took = Duration::ZERO;
        let parts = Parts { began: now, at: now, took, bytes: 0, most: 0, counted: 0, before };
        os::set_before_end(read_before_end);
        IS_ON.store(true, Ordering::Release);
        let first = os::rss_sums().map(|sums| (sums, clock::now_since_start()));
        let asked = ASKED.load(Ordering::Acquire);
        let (read_at, looked_at, limit) = (None, None, None);
        Self {
            interval,
            read_at,
            looked_at,
            sums: [0; 3],
            looked: 0,
            is_new_most: false,
            first,
            limit,
            asked,
            parts,
        }
    }

    /// An event of the figures of this time.
    fn sum(&mut self, (sums, at): ([u64; 3], u64)) -> Vec<u8> {
        let [bytes, most, anonymous] = sums;
        self.is_new_most = most > self.sums[1] + NOTABLE_BYTES;
        self.sums = sums;
        let limit = self.limit.unwrap_or(u64::MAX);
        let mut event = Vec::new();
        let mapped = stats::mapped_beside().into();
        let values = [at.into(), bytes.into(), most.into(), limit.into(), anonymous.into(), mapped];
        RSS.append(&values, &mut event);
        event
    }

    /// Whether these figures are others than those of the last event.
    fn is_notable(&self, sums: [u64; 3]) -> bool {
        let mut pairs = self.sums.into_iter().zip(sums);
        pairs.any(|(last, now)| last.abs_diff(now) > NOTABLE_BYTES.max(last / NOTABLE_SHARE))
    }
}

impl Parts {
    /// Whether it should be read what the memory is, now that `rss` bytes are resident.
    fn is_due(&self, rss: u64) -> bool {
        let grew_by = |part| rss > self.most + self.most / part;
        let rested = |times| self.at.elapsed() >= self.took * times;
        grew_by(GROWTH) && rested(REST) || grew_by(FAST_GROWTH) && rested(SHORT_REST)
    }

    /// Whether the last reading is old, as this run goes, now that `rss` bytes are resident.
    fn is_old(&self, rss: u64) -> bool {
        let fell = rss < self.bytes - self.bytes / FAST_GROWTH;
        let rest = self.took * if fell { SHORT_REST } else { REST };
        let share = self.began.elapsed() / RUN_SHARE;
        self.at.elapsed() >= share.max(LOOK_INTERVAL).max(rest)
    }

    /// Whether RSS has risen to `rss` bytes since the last reading, or had risen to the maximum `counted`.
    fn has_risen(&self, rss: u64, counted: u64) -> bool {
        let by = |now, before: u64| now > before + RISEN_BYTES.max(before / RISEN_SHARE);
        let has_risen = by(rss, self.bytes) || by(counted, self.counted);
        has_risen && self.at.elapsed() >= self.took * SHORT_REST
    }

    /// The events; `is_last`: the program ends. None if the system does not say.
    fn read(&mut self, [rss, counted, _]: [u64; 3], is_last: bool) -> Vec<Vec<u8>> {
        self.at = Instant::now();
        // Each part of the reading is progress of the worker, so that no thread gives up waiting for it.
        let memory = os::resident_memory(worker::note_progress);
        (self.bytes, self.most, self.counted) = (rss, self.most.max(rss), counted);
        let Ok(memory) = memory else { return Vec::new() };
        self.took = memory.took;
        let at = clock::now_since_start();
        let mut events: Vec<_> =
            memory.static_pages.iter().flat_map(|pages| page_events(at, pages)).collect();
        // The library of `preload/` has its blocks in pages that are known.
        let own =
            if cfg!(preload) { [0; 2] } else { [stats::own_bytes(), stats::most_own_bytes()] };
        let known = memory.stacks + memory.ended_stacks + memory.data;
        IN_STACKS_AND_DATA.store(known, Ordering::Relaxed);
        let risen = known.saturating_sub(self.before);
        events.push(event(memory, at, own, is_last, risen));
        events
    }
}

/// How much processor time the allocators may take to say something of themselves, this long after the start.
fn allocators_time(since_start: Duration) -> Duration {
    (since_start / ALLOCATORS_PART).max(ALLOCATORS_TIME)
}

/// What the allocators say of themselves, one event for each; none if they have not said it in time.
///
/// PERF: glibc reads each free block, and most of them are in no cache. A program that has freed four million
/// blocks ran for 1.2 s, and its end waited 0.5 s. So the processor time counts, by which a busy machine
/// changes nothing.
///
/// They take their locks for it. A thread of the program can hold one and never give it back: one that waits
/// in a signal handler within `malloc`. So they are asked on a thread that may wait forever, and after a
/// crash not at all.
fn allocators() -> Vec<Vec<u8>> {
    if os::is_report_awaited() {
        return Vec::new();
    }
    let answer = Arc::new(Answer::default());
    let asked = Arc::into_raw(answer.clone());
    if os::spawn(ask_allocators, asked.expose_provenance()).is_err() {
        // SAFETY: made above, and no thread has it.
        drop(unsafe { Arc::from_raw(asked) });
        return Vec::new();
    }
    let begin = Instant::now();
    let since_start = Duration::from_nanos(clock::now_since_start() - clock::process_start());
    let time = allocators_time(since_start);
    let mut all = answer.all.lock().unwrap_or_else(PoisonError::into_inner);
    while all.is_none() && begin.elapsed() < ALLOCATORS_TIMEOUT {
        let thread = answer.thread.load(Ordering::Relaxed);
        // NOTE: the clock of number 0 is that of this thread.
        if thread != 0 && os::processor_time_of(thread).is_some_and(|taken| taken > time) {
            break;
        }
        let waited = answer.is_there.wait_timeout(all, ALLOCATORS_INTERVAL);
        (all, _) = waited.unwrap_or_else(PoisonError::into_inner);
    }
    all.take().unwrap_or_default().iter().map(statistics_event).collect()
}

/// What a thread has asked the allocators, for another one that waits for it.
///
/// NOTE: not a channel, whose receiver needs one of the thread keys of the process. The program may have
/// taken all, and std would end it.
#[derive(Default)]
struct Answer {
    /// The number of the asked thread; 0 before it has begun.
    thread: AtomicU32,
    all: Mutex<Option<Vec<os::AllocatorStatistics>>>,
    is_there: Condvar,
}

extern "C" fn ask_allocators(answer: *mut c_void) -> *mut c_void {
    let _untracked = ReentrancyGuard::enter();
    os::name_thread(c"memledger-rss");
    let answer = std::ptr::with_exposed_provenance::<Answer>(answer.addr());
    // SAFETY: the thread was started with it, and nothing else has it.
    let answer = unsafe { Arc::from_raw(answer) };
    answer.thread.store(os::thread_id(), Ordering::Relaxed);
    let all = os::allocator_statistics();
    *answer.all.lock().unwrap_or_else(PoisonError::into_inner) = Some(all);
    answer.is_there.notify_one();
    std::ptr::null_mut()
}

fn statistics_event(of: &os::AllocatorStatistics) -> Vec<u8> {
    let names: Vec<_> = of.figures.iter().map(|(name, _)| *name).collect();
    let bytes: Vec<_> = of.figures.iter().flat_map(|(_, bytes)| bytes.to_le_bytes()).collect();
    let mut event = Vec::new();
    ALLOCATOR_STATISTICS.append(
        &[of.allocator.into(), names.join(",").as_str().into(), Value::Elements(&bytes, 8)],
        &mut event,
    );
    event
}

/// The events of the pages of a range.
fn page_events(cycle: u64, pages: &os::PageBits) -> Vec<Vec<u8>> {
    let page_bytes = os::page_bytes() as u64;
    let event = |(part, bits): (usize, &[u8])| {
        let address = pages.start + (part * MAX_PAGE_BITS * 8) as u64 * page_bytes;
        let mut event = Vec::new();
        let bits = Value::Elements(bits, 1);
        RESIDENT_PAGES.append(&[cycle.into(), address.into(), page_bytes.into(), bits], &mut event);
        event
    };
    pages.bits.chunks(MAX_PAGE_BITS).enumerate().map(event).collect()
}

fn event(
    memory: os::ResidentMemory,
    cycle: u64,
    [own, most_own]: [u64; 2],
    is_last: bool,
    risen: u64,
) -> Vec<u8> {
    let of = |ranges: Vec<_>, allocator| ranges.into_iter().map(move |range| (range, allocator));
    let anonymous = of(memory.anonymous, 0).chain(of(memory.of_allocators, 1)).collect();
    let (anonymous, rest) = largest(anonymous, MAX_RANGES);
    let allocators: Vec<u8> = anonymous.iter().map(|(_, allocator)| *allocator).collect();
    let named = |ranges| largest(of(ranges, 0).collect(), MAX_NAMED_RANGES).0;
    let [anonymous, shared, changed] =
        [anonymous, named(memory.shared_ranges), named(memory.changed_ranges)]
            .map(|ranges| arrays(&ranges));
    let array = |bytes| Value::Elements(bytes, 8);
    let mut event = Vec::new();
    RESIDENT_MEMORY.append(
        &[
            cycle.into(),
            own.into(),
            memory.tracker.into(),
            memory.stacks.into(),
            memory.binaries.into(),
            memory.files.into(),
            memory.shared.into(),
            memory.other.into(),
            rest.into(),
            most_own.into(),
            array(&anonymous[0]),
            array(&anonymous[1]),
            array(&anonymous[2]),
            memory.rss.into(),
            memory.ended_stacks.into(),
            memory.changed_files.into(),
            memory.data.into(),
            memory.huge_pages.into(),
            memory.swap.into(),
            array(&shared[0]),
            array(&shared[1]),
            array(&shared[2]),
            array(&changed[0]),
            array(&changed[1]),
            array(&changed[2]),
            u32::from(is_last).into(),
            Value::Elements(&allocators, 1),
            memory.private.into(),
            risen.into(),
        ],
        &mut event,
    );
    event
}

/// The ranges of which most is resident, in the order of their addresses, and what the others have.
fn largest(mut ranges: Vec<Marked>, most: usize) -> (Vec<Marked>, u64) {
    ranges.sort_unstable_by_key(|(range, _)| Reverse(range.resident_bytes));
    let rest = ranges.split_off(ranges.len().min(most));
    ranges.sort_unstable_by_key(|(range, _)| range.start);
    (ranges, rest.iter().map(|(range, _)| range.resident_bytes).sum())
}

/// A range, and 1 if it is an allocator's.
type Marked = (os::AnonymousRange, u8);

/// Starts, sizes and resident bytes.
fn arrays(ranges: &[Marked]) -> [Vec<u8>; 3] {
    let array = |of: fn(&os::AnonymousRange) -> u64| {
        ranges.iter().flat_map(|(range, _)| of(range).to_le_bytes()).collect::<Vec<_>>()
    };
    [array(|range| range.start), array(|range| range.bytes), array(|range| range.resident_bytes)]
}

impl EventProvider for RssEvents {
    fn types(&self) -> &'static [&'static Declaration] {
        TYPES
    }

    fn announce(&mut self, _: &mut Importants) {}

    fn readings(&mut self, is_end: bool, events: &mut Vec<Vec<u8>>) {
        let is_over = |since: Option<Instant>, time| since.is_none_or(|at| at.elapsed() >= time);
        let is_due = is_end || is_over(self.read_at, self.interval);
        let asked = ASKED.load(Ordering::Acquire);
        let is_asked = asked != std::mem::replace(&mut self.asked, asked);
        if !is_due && !is_asked && !is_over(self.looked_at, LOOK_INTERVAL) {
            return;
        }
        self.looked_at = Some(Instant::now());
        let Some(sums) = os::rss_sums() else { return };
        let bytes = sums[0];
        let grows = bytes > std::mem::replace(&mut self.looked, bytes);
        if self.read_at.is_none() || is_end {
            self.limit = os::memory_limit();
        }
        if let Some(first) = self.first.take() {
            events.push(self.sum(first));
        }
        let is_changed = is_due && bytes != self.sums[0] || self.is_notable(sums);
        if is_end || self.is_new_most || is_changed {
            events.push(self.sum((sums, clock::now_since_start())));
        }
        if is_due {
            self.read_at = Some(Instant::now());
        }
        // The first reading is what the program begins with.
        if self.parts.most == 0 {
            (self.parts.bytes, self.parts.most, self.parts.counted) = (bytes, bytes, sums[1]);
        }
        if is_end {
            events.extend(allocators());
        }
        // NOTE: not while memory grows to a peak: blocks that come while its pages are looked at would be in
        // none.
        let parts = &mut self.parts;
        let is_changed = || is_due && parts.is_due(bytes);
        let is_old = || !grows && (parts.is_old(bytes) || parts.has_risen(bytes, sums[1]));
        let is_last = is_end || is_asked;
        if is_last || is_changed() || is_old() {
            events.extend(parts.read(sums, is_last));
        }
    }

    fn committed(&mut self) {
        if ANSWERED.swap(self.asked, Ordering::AcqRel) != self.asked {
            os::wake_all(&ANSWERED);
        }
    }
}

#[cfg(test)]
mod tests;
