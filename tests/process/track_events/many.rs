//! Many events, threads and sessions, and unusual places.

use super::{CAT1, CAT2, CAT3, COUNTED, FILE, ledger, read, session};
use crate::harness::Run;
use memledger::events::{log, log_scope};
use memledger::perfetto::{Track, TrackEventConfig};
use memledger::perfetto::{instant, slice, track_event};
use memledger::{Ledger, alloc_scope, bookmark};
use memledger_test_support::packets::{Field, Trace};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) fn ring() {
    let ledger = ledger();
    let session = super::ring(&ledger, TrackEventConfig::all()).unwrap();
    session.dump("empty.pftrace").unwrap();
    for n in 0..20_000_u32 {
        track_event!(
            CAT1,
            instant("event"),
            arg("n", n),
            named_track("t", u64::from(n % 7), Track::process()),
        );
    }
    let bytes = session.dump(FILE).unwrap();
    assert!(bytes <= 80 << 10, "{bytes}");
    assert_eq!(session.status().events, 20_000);
}

pub(super) fn ring_test(run: Run) {
    let outcome = run.run();
    outcome.exited(0);
    let trace = |file| Trace::decode(&std::fs::read(outcome.path(file)).unwrap());
    assert_eq!(trace("empty.pftrace").events.len(), 0);
    let trace = trace(FILE);
    let numbers = trace.events.iter().map(|event| match event.arguments[0].1 {
        Field::Number(n) => n,
        ref other => panic!("{other:?}"),
    });
    let numbers = numbers.collect::<Vec<_>>();
    let first = 20_000 - numbers.len() as u64;
    assert!((500..19_000).contains(&numbers.len()), "{}", numbers.len());
    assert_eq!(numbers, (first..20_000).collect::<Vec<_>>(), "the last events, without a hole");
    assert!(trace.starts > 10);
}

static EMITTED: AtomicU64 = AtomicU64::new(0);

pub(super) fn places() {
    struct AtTheEnd;
    impl Drop for AtTheEnd {
        fn drop(&mut self) {
            instant!(CAT1, "destructor");
        }
    }
    thread_local! { static AT_THE_END: AtTheEnd = const { AtTheEnd }; }
    #[cfg(unix)]
    extern "C" fn on_signal(_: libc::c_int) {
        instant!(CAT1, "signal");
    }
    // SAFETY: the handler only emits an event.
    #[cfg(unix)]
    #[expect(unsafe_code, reason = "a system call")]
    unsafe {
        libc::signal(libc::SIGUSR1, on_signal as *const () as libc::sighandler_t)
    };
    let ledger = ledger();
    let session = session(&ledger, TrackEventConfig::all());
    std::thread::spawn(|| {
        AT_THE_END.with(|_| instant!(CAT1, "before the end"));
    })
    .join()
    .unwrap();
    #[cfg(unix)]
    #[expect(unsafe_code, reason = "a system call")]
    // SAFETY: it has a handler.
    unsafe {
        libc::raise(libc::SIGUSR1)
    };
    // A value whose expression emits an event: that event is first, and both are whole.
    let inner = || {
        instant!(CAT1, "inner");
        5
    };
    track_event!(CAT1, instant("outer"), arg("x", inner()));
    session.stop();
}

pub(super) fn places_test(run: Run) {
    let trace = read(run);
    let names = trace.events.iter().map(|event| event.name.as_deref().unwrap());
    let names = names.collect::<BTreeSet<_>>();
    let mut expected = BTreeSet::from(["before the end", "destructor", "inner", "outer"]);
    if cfg!(unix) {
        expected.insert("signal");
    }
    assert_eq!(names, expected);
    let order = |name| trace.events.iter().position(|event| event.name.as_deref() == Some(name));
    assert!(order("inner") < order("outer"));
}

/// Threads and sessions of the crowd.
const THREADS: u64 = 64;
const EACH: u64 = 2000;

pub(super) fn crowd() {
    let ledger = ledger();
    let all = session(&ledger, TrackEventConfig::default().enable("counted"));
    let done = AtomicBool::new(false);
    let (done, folder) = (&done, std::env::current_dir().unwrap());
    std::thread::scope(|scope| {
        let sessions = (0..8_u64).map(|n| {
            let (ledger, folder) = (&ledger, &folder);
            scope.spawn(move || {
                // The lives of sessions begin and end at random: xorshift, another row of numbers for each.
                let mut random = n + 1;
                for round in 0.. {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    (0..random % 50).for_each(|_| std::thread::yield_now());
                    let config =
                        TrackEventConfig::all().disable(if n % 2 == 0 { "cat1" } else { "cat2" });
                    let ring = super::ring(ledger, config).unwrap();
                    for _ in 0..random >> 8 & 63 {
                        instant!(CAT3, "a session runs", arg("n", n));
                    }
                    ring.dump(folder.join(format!("ring-{n}-{}.pftrace", round % 4))).unwrap();
                    ring.stop();
                    if done.load(Ordering::Relaxed) && round >= 4 {
                        break;
                    }
                }
            })
        });
        let sessions = sessions.collect::<Vec<_>>();
        let threads = (0..THREADS).map(|thread| {
            scope.spawn(move || {
                let around = Track::from_uuid(thread);
                for n in 0..EACH {
                    instant!(COUNTED, "counted", arg("thread", thread), arg("n", n));
                    slice!(CAT1, "first", arg("text", "some text"));
                    track_event!(CAT2, instant("second"), named_track("t", n % 5, around));
                }
                EMITTED.fetch_add(EACH, Ordering::Relaxed);
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        done.store(true, Ordering::Relaxed);
        sessions.into_iter().for_each(|session| session.join().unwrap());
    });
    assert_eq!(EMITTED.load(Ordering::Relaxed), THREADS * EACH);
    all.flush();
    assert_eq!(all.status().events + all.status().lost_events, THREADS * EACH);
    all.stop();
}

/// `ThreadLocalState`, `IncrementalState`.
pub(super) fn crowd_test(run: Run) {
    let outcome = run.deadline(300).run();
    outcome.exited(0);
    let trace = Trace::decode(&std::fs::read(outcome.path(FILE)).unwrap());
    assert_eq!(trace.events.len() as u64 + trace.lost, THREADS * EACH);
    // Each thread's events are on a sequence of its own, in their order and with times that never go
    // back.
    let mut last = std::collections::BTreeMap::new();
    for event in &trace.events {
        let value = |index: usize| match event.arguments[index].1 {
            Field::Number(value) => value,
            ref other => panic!("{other:?}"),
        };
        let next = (value(1), event.time, (event.track, event.sequence));
        if let Some((n, time, track)) = last.insert(value(0), next) {
            assert!(n < next.0 && time <= next.1 && track == next.2, "{next:?} after {n}, {time}");
        }
    }
    for n in 0..8 {
        for round in 0..4 {
            let name = format!("ring-{n}-{round}.pftrace");
            let ring = Trace::decode(&std::fs::read(outcome.path(&name)).unwrap());
            let excluded = if n % 2 == 0 { "cat1" } else { "cat2" };
            assert!(ring.events.iter().all(|event| event.categories != [excluded]), "{name}");
        }
    }
}

pub(super) fn collision() {
    let ledger = ledger();
    let session = session(&ledger, TrackEventConfig::all());
    // An exclusive or does not see an order.
    track_event!(CAT1, instant("a in b"), nested_tracks[named("b", 0), named("a", 0)]);
    for _ in 0..3 {
        track_event!(CAT1, instant("b in a"), nested_tracks[named("a", 0), named("b", 0)]);
    }
    session.stop();
    let problems = ledger.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].to_string().contains(r#"the tracks "a" and "b" have the same uuid"#),
        "{problems:?}"
    );
}

pub(super) fn collision_test(run: Run) {
    let outcome = run.run();
    assert!(outcome.status.success(), "{}", outcome.stderr);
}

pub(super) fn environment() {
    for n in 0..1000 {
        track_event!(CAT1, instant("first"), arg("n", n));
        instant!(CAT2, "second");
    }
}

pub(super) fn environment_test(run: Run) {
    let second = Run::of(&run);
    let outcome = run.env("MEMLEDGER_PERFETTO", FILE).env("MEMLEDGER_REPORT", "off").run();
    outcome.exited(0).quiet();
    let trace = Trace::decode(&std::fs::read(outcome.path(FILE)).unwrap());
    assert_eq!(trace.events.len(), 2000);

    let run = second.env("MEMLEDGER_PERFETTO", FILE);
    let run = run.env("MEMLEDGER_PERFETTO_CONFIG", "categories=cat1 duration=1000s");
    let again = Run::of(&run);
    let outcome = run.env("MEMLEDGER_REPORT", "off").run();
    outcome.exited(0).quiet();
    let trace = Trace::decode(&std::fs::read(outcome.path(FILE)).unwrap());
    assert_eq!(trace.events.len(), 1000);
    assert!(trace.events.iter().all(|event| event.categories == ["cat1"]));

    // A configuration that cannot be read is told. All categories are enabled then.
    let run = again.env("MEMLEDGER_PERFETTO", FILE).env("MEMLEDGER_REPORT", "off");
    let outcome = run.env("MEMLEDGER_PERFETTO_CONFIG", "config.txt").run();
    outcome.exited(0);
    let trace = Trace::decode(&std::fs::read(outcome.path(FILE)).unwrap());
    assert_eq!(trace.events.len(), 2000);
    let expected = "the configuration has \"config.txt\", but only categories=";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
}

pub(super) fn panics() {
    for n in 0..1000 {
        track_event!(CAT1, instant("before the panic"), arg("n", n));
    }
    panic!("on purpose");
}

pub(super) fn panics_test(run: Run) {
    let run = run.env("MEMLEDGER_PERFETTO", FILE).env("MEMLEDGER_PERFETTO_CONFIG", "ring=64KiB");
    let outcome = run.env("MEMLEDGER_REPORT", "off").run();
    outcome.exited(101);
    let trace = Trace::decode(&std::fs::read(outcome.path(FILE)).unwrap());
    let Field::Number(last) = trace.events.last().unwrap().arguments[0].1 else { panic!() };
    assert_eq!(last, 999);
}

memledger::events::channel! {
    GAME = "Arena";
    SECRET = "Secret";
}

memledger::events::event! {
    Spawned = "Game"."Spawned" { Id: u32, Depth: i8, Speed: f32, Name: WideString, Path: [u16] }
    Frame = "Game"."Frame" [NoSync] { Number: u64 }
    Hidden = "Secret"."Hidden" { Text: AnsiString }
}

pub(super) fn program() {
    let ledger =
        Ledger::builder().channels(["memory", "scope", "arena", "secret"]).start().unwrap();
    let session = session(&ledger, TrackEventConfig::all().disable("Secret"));
    for number in 0..2 {
        log_scope!(timed: GAME, Frame { Number: number });
        alloc_scope!("not a slice");
        drop(std::hint::black_box(vec![0_u8; 100]));
        instant!(CAT1, "inside");
        log!(GAME, Spawned { Id: 7, Depth: -2, Speed: 1.5, Name: "Ümit", Path: &[1, 2] });
        log!(SECRET, Hidden { Text: "hidden" });
        log_scope!(SECRET, Hidden { Text: "hidden scope" });
        log_scope!(GAME, Frame { Number: 100 });
    }
    bookmark!("after frame {}", 2);
    session.stop();
}

pub(super) fn program_test(run: Run) {
    let trace = read(run);
    let seen = trace.events.iter().map(|event| {
        let argument = match event.arguments.first() {
            Some((name, Field::Number(value), _)) => format!(" {name} {value}"),
            Some(other) => panic!("{other:?}"),
            None => String::new(),
        };
        let name = event.name.as_deref().unwrap_or("-");
        format!("{} {name}{argument} {}", event.kind, event.categories.concat())
    });
    let frame = |number| {
        [
            format!("1 Game.Frame Number {number} Arena"),
            "3 inside cat1".into(),
            "3 Game.Spawned Id 7 Arena".into(),
            "1 Game.Frame Number 100 Arena".into(),
            "2 - ".into(),
            "2 - ".into(),
        ]
    };
    let mut expected = [frame(0), frame(1)].concat();
    expected.push("3 after frame 2 Bookmark".into());
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    let spawned = &trace.events[2].arguments;
    let values = spawned.iter().map(|(name, value, field)| (name.as_str(), value.clone(), *field));
    let expected = [
        ("Id", Field::Number(7), 3),
        ("Depth", Field::Number(-2_i64 as u64), 4),
        ("Speed", Field::Fixed64(1.5_f64.to_bits()), 5),
        ("Name", Field::Bytes("Ümit".into()), 6),
        ("Path", Field::Bytes(vec![0x18, 1]), 12),
    ];
    assert_eq!(values.collect::<Vec<_>>(), expected);
    // The times of a timed scope are its own, and what is inside it lies between them.
    let times = trace.events.iter().map(|event| event.time).collect::<Vec<_>>();
    assert!(times[0] <= times[1] && times[1] <= times[5] && times[5] <= times[6], "{times:?}");
    assert!(times.iter().all(|time| *time >= times[0]), "{times:?}");
}

pub(super) fn spans() {
    use tracing_subscriber::prelude::*;
    let ledger = ledger();
    let config = TrackEventConfig::default().enable("shop*").disable("*");
    let session = session(&ledger, config);
    let layers = tracing_subscriber::registry().with(memledger::perfetto::SliceLayer::new());
    tracing::subscriber::with_default(layers, || {
        let order = tracing::info_span!(target: "shop::orders", "order", number = 7);
        order.in_scope(|| {
            tracing::info!(target: "shop::stock", item = "bread", "{} left", 3);
            tracing::info_span!(target: "other", "hidden").in_scope(|| {
                tracing::info!(target: "shop", "{}", "ü".repeat(200));
            });
        });
        order.in_scope(|| ());
    });
    session.stop();
}

pub(super) fn spans_test(run: Run) {
    let trace = read(run);
    let seen = trace.events.iter().map(|event| {
        let name = event.name.as_deref().unwrap_or("-");
        (event.kind, name.to_owned(), event.categories.concat())
    });
    let expected = [
        (1, "order".to_owned(), "shop::orders"),
        (3, "3 left".to_owned(), "shop::stock"),
        (3, "ü".repeat(128), "shop"),
        (2, "-".to_owned(), ""),
        (1, "order".to_owned(), "shop::orders"),
        (2, "-".to_owned(), ""),
    ];
    let expected = expected.map(|(kind, name, category)| (kind, name, category.to_owned()));
    assert_eq!(seen.collect::<Vec<_>>(), expected);
}
