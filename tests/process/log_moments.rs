//! `log!` at awkward moments: in values of other events, in signal handlers, in children of forks.

#[cfg(unix)]
use crate::fork::{fork, wait};
use crate::harness::{Case, Outcome, TRACE, builder, case};
#[cfg(unix)]
use crate::signals::set_timer;
use memledger::events::{channel, event, log, log_scope};
use memledger::{Ledger, bookmark};
use memledger_analysis::Analyzer;
use memledger_analysis::read::{self, Event, Value, Visitor};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

channel! {
    MOMENTS = "Moments";
}

event! {
    Step = "Test"."Step" { Thread: u64, Number: u64 }
    Note = "Test"."Note" [NoSync] { Thread: u64, Number: u64, Text: AnsiString }
    Span = "Test"."Span" [NoSync] { Number: u64 }
    Caught = "Test"."Caught" { Number: u64, Check: u64 }
    Long = "Test"."Long" [NoSync] { Number: u64, Data: [u64] }
    Kept = "Test"."Kept" [Important, NoSync] { Number: u64 }
}

pub(crate) const CASES: &[Case] = &[
    case("a value that logs leaves both events whole and in order", nested, |run| {
        let outcome = run.run();
        let seen = Seen::of(outcome.quiet());
        let order = seen.order.iter().map(|(name, number)| (&name[5..], *number));
        // Important events have no thread: they come before the events of the cycle in which they are
        // collected.
        let (kept, order): (Vec<_>, Vec<_>) = order.partition(|(name, _)| *name == "Kept");
        assert_eq!(kept, [("Kept", 1), ("Kept", 2)]);
        let expected = [
            ("Step", 3),
            ("Note", 4),
            ("Note", 5),
            ("Span", 6),
            ("Step", 7),
            ("Span", 8),
            ("Step", 9),
        ];
        assert_eq!(order, expected);
        assert_eq!(seen.around[&7], [6], "the inner one is left before the outer is entered");
        assert_eq!(seen.around[&9], [8]);
        assert_eq!(outcome.whole().losses.lost_events, 0);
    }),
    #[cfg(unix)]
    case(
        "a handler that logs at any moment loses whole events and each is counted",
        handlers,
        |run| {
            let outcome = run.deadline(120).run();
            let seen = Seen::of(outcome.quiet());
            let mut analyzer = Analyzer::new();
            let file = File::open(outcome.path(TRACE)).unwrap();
            let summary = read::read(file, &mut analyzer).unwrap();
            assert_eq!((summary.counts.damages, summary.counts.holes), (0, 0));
            let report = analyzer.report();
            let mut printed =
                outcome.stdout.split_whitespace().map(|word| word.parse::<u64>().unwrap());
            let handled = printed.next().unwrap();
            // What the threads themselves log is all there.
            let mut own = 0;
            for (thread, steps) in printed.enumerate() {
                assert_eq!(seen.steps[&(thread as u64)], steps);
                assert_eq!(seen.notes[&(thread as u64)], steps);
                own += steps;
            }
            let mut caught = ["Test.Caught", "Test.Long", "Test.Span"].map(|name| seen.count(name));
            // A span of its own is around each note.
            caught[2] -= own;
            assert_eq!(caught.iter().sum::<u64>() + report.losses.lost_events, 4 * handled);
            assert!(caught.iter().all(|&caught| caught > handled / 10), "{caught:?} of {handled}");
            assert!(report.losses.lost_events > 0, "no handler has come in the midst of anything");
        },
    ),
    #[cfg(unix)]
    case("a forked child that logs is silent and harms nobody", silent, |run| {
        let outcome = run.deadline(120).run();
        let seen = Seen::of(outcome.quiet());
        outcome.whole();
        for (thread, steps) in outcome.stdout.lines().enumerate() {
            assert_eq!(seen.steps[&(thread as u64)], steps.parse::<u64>().unwrap());
        }
        assert!(!seen.steps.contains_key(&CHILD) && !seen.notes.contains_key(&CHILD));
        assert_eq!((seen.count("Test.Kept"), seen.count("Misc.Bookmark")), (1, 0));
    }),
    #[cfg(unix)]
    case("a forked child that follows logs to a file of its own", follows, |run| {
        let outcome = run.deadline(120).run();
        let parent = Seen::of(outcome.quiet());
        outcome.whole();
        assert!(!parent.steps.contains_key(&CHILD) && !parent.notes.contains_key(&CHILD));
        assert_eq!((parent.count("Test.Kept"), parent.open), (1, 0));
        let children: Vec<_> = outcome.stdout.lines().collect();
        assert_eq!(children.len(), 10);
        for child in children {
            let child = Seen::read(&outcome, &format!("trace.{child}.utrace"));
            assert_eq!(child.steps.into_iter().collect::<Vec<_>>(), [(CHILD, 1000)]);
            assert_eq!(child.notes.into_iter().collect::<Vec<_>>(), [(CHILD, 1000)]);
            assert_eq!((child.order[0].1, child.order[1].1), (1, 2), "what was kept, and its own");
            assert_eq!((child.open, child.is_complete), (0, true));
        }
    }),
];

/// The thread that a child says it is.
const CHILD: u64 = 99;
/// What a long text consists of: some blocks of the buffer.
const TEXT: &str = "0123456789";
const DATA: usize = 700;

/// What a trace holds of these events, each of them looked at.
#[derive(Default)]
struct Seen {
    /// Names and first numbers of the first hundred.
    order: Vec<(String, u64)>,
    counts: HashMap<String, u64>,
    /// How many of each thread, which are in order and without a gap.
    steps: BTreeMap<u64, u64>,
    notes: BTreeMap<u64, u64>,
    /// The spans that are open in each stream, and other scopes.
    scopes: HashMap<u16, Vec<Option<u64>>>,
    /// The spans around the steps of each thread, the last time.
    around: HashMap<u64, Vec<u64>>,
    open: usize,
    is_complete: bool,
}

impl Seen {
    #[track_caller]
    fn of(outcome: &Outcome) -> Self {
        Self::read(outcome, TRACE)
    }

    #[track_caller]
    fn read(outcome: &Outcome, name: &str) -> Self {
        let mut seen = Self::default();
        let summary = read::read(File::open(outcome.path(name)).unwrap(), &mut seen).unwrap();
        seen.is_complete = summary.is_complete();
        seen.open = seen.scopes.values().map(Vec::len).sum();
        seen
    }

    fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }
}

impl Visitor for Seen {
    fn event(&mut self, event: &Event<'_>) {
        let name = event.event_type.name();
        let ours = name.starts_with("Test.");
        let number = |index| match event.value(index) {
            Some(Value::Unsigned(number)) => number,
            other => panic!("{name}: {other:?}"),
        };
        let next = |threads: &mut BTreeMap<u64, u64>| {
            let next = threads.entry(number(0)).or_default();
            assert_eq!(number(1), *next, "{name} of thread {}", number(0));
            *next += 1;
        };
        let scopes = self.scopes.entry(event.stream).or_default();
        match &*name {
            "Test.Step" => {
                self.around.insert(number(0), scopes.iter().flatten().copied().collect());
                next(&mut self.steps);
            }
            "Test.Note" => {
                let Some(Value::Text(text)) = event.value(2) else { panic!("{name}") };
                assert_eq!(text, TEXT.repeat(text.len() / TEXT.len()));
                next(&mut self.notes);
            }
            "Test.Caught" => assert_eq!(number(1), !number(0)),
            "Test.Long" => {
                let Some(Value::Array(data)) = event.value(1) else { panic!("{name}") };
                assert_eq!(data.len(), DATA);
                assert!(data.iter().all(|value| *value == Value::Unsigned(number(0))));
            }
            _ => {}
        }
        if event.enters_scope {
            scopes.push(ours.then(|| number(0)));
        }
        if ours && self.order.len() < 100 {
            self.order.push((name.clone(), number(0)));
        }
        *self.counts.entry(name).or_default() += 1;
    }

    fn leave_scope(&mut self, stream: u16) {
        self.scopes.entry(stream).or_default().pop().unwrap();
    }
}

fn start() -> Ledger {
    builder().channels(["memory", "scope", "moments", "bookmark"]).start().unwrap()
}

fn nested() {
    let _ledger = start();
    let step = |thread| {
        log!(MOMENTS, Step { Thread: thread, Number: 0 });
        thread
    };
    let note = |thread, pieces| {
        log!(MOMENTS, Note { Thread: thread, Number: 0, Text: &TEXT.repeat(pieces) });
        0
    };
    let kept = |number| {
        log!(MOMENTS, Kept { Number: number });
        number
    };
    let span = |number: u64| {
        log_scope!(timed: MOMENTS, Span { Number: number });
        step(number + 1) + 1
    };
    // Short and long, into each other.
    log!(
        MOMENTS,
        Note { Thread: { step(3) + 2 }, Number: note(4, 4000), Text: &TEXT.repeat(9000) }
    );
    log!(MOMENTS, Kept { Number: { kept(1) + 1 } });
    log_scope!(MOMENTS, Span { Number: span(6) }, {
        step(9);
    });
}

#[cfg(unix)]
static HANDLED: AtomicU64 = AtomicU64::new(0);

#[cfg(unix)]
extern "C" fn handler(_: libc::c_int) {
    let number = HANDLED.fetch_add(1, Relaxed);
    let caught = || log!(MOMENTS, Caught { Number: number, Check: !number });
    caught();
    log!(MOMENTS, Long { Number: number, Data: &[number; DATA] });
    log_scope!(MOMENTS, Span { Number: number }, { caught() });
}

/// Logs until `enough` says so; returns how often.
fn log_until(mut enough: impl FnMut(u64) -> bool, thread: u64) -> u64 {
    let text = TEXT.repeat(300);
    let mut number = 0;
    while !enough(number) {
        log!(MOMENTS, Step { Thread: thread, Number: number });
        log_scope!(timed: MOMENTS, Span { Number: u64::MAX }, {
            log!(MOMENTS, Note { Thread: thread, Number: number, Text: &text });
        });
        number += 1;
    }
    number
}

#[cfg(unix)]
fn handlers() {
    let ledger = builder().channels(["moments"]).start().unwrap();
    set_timer(200, handler);
    let enough = |_| {
        // Without a pause the signals would nearly always interrupt the logging, or a wait.
        (0..3000).for_each(|_| std::hint::spin_loop());
        HANDLED.load(Relaxed) >= 3000
    };
    let threads: Vec<_> =
        (1..4).map(|thread| std::thread::spawn(move || log_until(enough, thread))).collect();
    let own = log_until(
        |number| {
            // A handler that interrupts this interrupts the tracker's own code.
            if number % 100 == 0 {
                ledger.flush();
            }
            enough(number)
        },
        0,
    );
    let steps: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    set_timer(0, handler);
    // A pending signal must not arrive while the recording ends, when events are not counted.
    // SAFETY: plain calls on a local.
    #[expect(unsafe_code)]
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut()), 0);
    }
    println!("{} {own}", HANDLED.load(Relaxed));
    steps.iter().for_each(|steps| println!("{steps}"));
    drop(ledger);
}

/// Four threads that log while `body` runs; prints how much each of them has.
#[cfg(unix)]
fn beside_threads(print: bool, body: impl FnOnce()) {
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                log_until(
                    |_| {
                        // Without a pause, four threads fill the machine and the file.
                        std::thread::sleep(std::time::Duration::from_micros(200));
                        stop.load(Relaxed)
                    },
                    thread,
                )
            })
        })
        .collect();
    body();
    stop.store(true, Relaxed);
    for thread in threads {
        let steps = thread.join().unwrap();
        if print {
            println!("{steps}");
        }
    }
}

#[cfg(unix)]
fn log_as_child(kept: u64) {
    log!(MOMENTS, Kept { Number: kept });
    let mut left = 1000;
    log_until(
        |_| {
            left -= 1;
            left < 0
        },
        CHILD,
    );
}

/// A scope that can be dropped where the test wants it.
#[cfg(unix)]
fn span(round: u64) -> memledger::events::LogScope {
    memledger::__log_site! { MOMENTS, Span {} }
    __MEMLEDGER_LOG_SITE.enter(memledger::__event!(Span { Number: round }), true)
}

#[cfg(unix)]
fn silent() {
    let ledger = start();
    log!(MOMENTS, Kept { Number: 1 });
    beside_threads(true, || {
        for round in 0..100 {
            let mut open = Some(span(round));
            let child = fork(|| {
                log_as_child(2);
                bookmark!("in a child");
                drop(open.take());
                if round % 2 == 0 {
                    std::process::exit(0);
                }
            });
            drop(open);
            assert_eq!(wait(child), 0);
        }
    });
    drop(ledger);
}

#[cfg(unix)]
fn follows() {
    let ledger =
        builder().channels(["memory", "scope", "moments"]).follow_forks(true).start().unwrap();
    log!(MOMENTS, Kept { Number: 1 });
    beside_threads(false, || {
        for round in 0..10 {
            let mut open = Some(span(round));
            let child = fork(|| {
                log_as_child(2);
                drop(open.take());
                std::process::exit(0);
            });
            drop(open);
            println!("{child}");
            assert_eq!(wait(child), 0);
        }
    });
    drop(ledger);
}
