//! Events that a program logs itself, as they come back from its trace.

mod channels;
mod texts;

use crate::counts::reported;
#[cfg(unix)]
use crate::harness::kill;
use crate::harness::{Case, Outcome, TRACE, builder, case, leave, left};
use memledger::events::{channel, channel_presets, event, log, log_scope};
use memledger::{Ledger, alloc_scope, bookmark};
use memledger_analysis::read::{self, Event, Value, Visitor};
use memledger_analysis::{Analyzer, Position};
use memledger_format::schema::{EventType, FieldFamily, FieldType};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::sync::{Arc, Barrier};

channel! {
    GAME = "Game";
    NETWORK = "Network";
    /// For whole runs.
    ASSETS = "Assets" [ReadOnly];
}

channel_presets! {
    "gameplay" = "default,game";
}

event! {
    Every = "Test"."Every" [NoSync] {
        A: u8, B: u16, C: u32, D: u64, E: i8, F: i16, G: i32, H: i64,
        I: f32, J: f64, K: bool, L: Pointer,
        M: [u8], N: [u16], O: [u32], P: [u64], Q: [i8], R: [i16], S: [i32], T: [i64],
        U: [f32], V: [f64], W: [bool], X: [Pointer], Y: AnsiString, Z: WideString,
    }
    Bare = "Test"."Bare" {}
    Small = "Test"."Small" { Id: u8 }
    Number = "Test"."Number" { Thread: u16, Number: u64 }
    Unordered = "Test"."Unordered" [NoSync] { Thread: u16, Number: u64 }
    Text = "Test"."Text" { Number: u32, Ansi: AnsiString, Wide: WideString, Bytes: [u64] }
    Frame = "Test"."Frame" [NoSync] { Number: u32 }
    Asset = "Test"."Asset" [Important, NoSync] { Name: AnsiString, Id: DefinitionId<u32> }
    Used = "Test"."Used" [NoSync] { Asset: Reference<Asset> }
    Huge = "Test"."Huge" [Important, NoSync] { Name: WideString }
}

pub(crate) const CASES: &[Case] = &[
    case("every type of field comes back equal", every_field, |run| {
        let log = Log::of(run.run().quiet());
        let all = log.values("Test.Every");
        assert_eq!(all.len(), 2);
        let unsigned = |numbers: &[u64]| {
            Value::Array(numbers.iter().map(|&number| Value::Unsigned(number)).collect())
        };
        let signed = |numbers: &[i64]| {
            Value::Array(numbers.iter().map(|&number| Value::Signed(number)).collect())
        };
        let floats = Value::Array(vec![Value::Float(0.5), Value::Float(-1.0)]);
        let expected = vec![
            Value::Unsigned(0xfe),
            Value::Unsigned(0xfedc),
            Value::Unsigned(0xfedc_ba98),
            Value::Unsigned(u64::MAX),
            Value::Signed(-1),
            Value::Signed(-2),
            Value::Signed(-3),
            Value::Signed(i64::MIN),
            Value::Float(0.5),
            Value::Float(f64::MIN_POSITIVE),
            Value::Unsigned(1),
            Value::Unsigned(0x1234),
            unsigned(&[1, 2, 255]),
            unsigned(&[0xffff]),
            unsigned(&[0xffff_ffff, 0]),
            unsigned(&[u64::MAX]),
            signed(&[-128, 127]),
            signed(&[-1]),
            signed(&[i32::MIN.into()]),
            signed(&[i64::MIN, i64::MAX]),
            floats.clone(),
            floats,
            unsigned(&[1, 0]),
            unsigned(&[0xdead]),
            Value::Text("\\mit".into()),
            Value::Text("a€𝄞".into()),
        ];
        assert_eq!(all[0], expected);
        for (value, expected) in all[1].iter().zip(expected) {
            let zero = match expected {
                Value::Unsigned(_) => Value::Unsigned(0),
                Value::Signed(_) => Value::Signed(0),
                Value::Float(_) => Value::Float(0.0),
                Value::Text(_) => Value::Text("".into()),
                _ => Value::Array(vec![]),
            };
            assert_eq!(*value, zero);
        }
        let asset = log.types.iter().find(|t| t.name() == "Test.Asset").unwrap();
        assert_eq!(asset.fields[1].family, FieldFamily::DefinitionId);
        let used = log.types.iter().find(|t| t.name() == "Test.Used").unwrap();
        assert_eq!(used.fields[0].family, FieldFamily::Reference(asset.uid));
        assert_eq!(used.fields[0].field_type, FieldType::U32);
        assert_eq!(log.values("Test.Used"), [[Value::Unsigned(77)]]);
        let asset = [Value::Text("tree.mesh".into()), Value::Unsigned(77)];
        assert_eq!(log.values("Test.Asset"), [asset]);
        assert_eq!(log.values("Test.Bare").len(), 3);
        let small = log.values("Test.Small");
        assert_eq!(
            small.iter().flatten().collect::<Vec<_>>(),
            [1, 2, 3].map(Value::Unsigned).iter().collect::<Vec<_>>()
        );
        assert!(log.is_complete);
    }),
    case("a text is written the same from every type that holds it", texts::spellings, |run| {
        let log = Log::of(run.run().quiet());
        let text = |text: &str| Value::Text(text.to_owned().into());
        // Of Ü (DC), € (20AC) and 𝄞 (D834 DD1E), seven bits of each unit.
        let ansi = text("\u{5c},4\u{1e}");
        let values = log.values("Test.Text");
        assert_eq!(values.len(), 4);
        for (at, values) in values.iter().enumerate() {
            assert_eq!(values[1], if at == 3 { text("Ü€𝄞") } else { ansi.clone() }, "{at}");
            assert_eq!(values[2], text(if at == 3 { "a\u{fffd}b" } else { "Ü€𝄞" }), "{at}");
        }
    }),
    case("texts and arrays of any length come back equal", texts::texts, |run| {
        let log = Log::of(run.run().quiet());
        assert!(log.is_complete);
        let mut next = [0; 4];
        for values in log.values("Test.Text") {
            let [Value::Unsigned(number), ansi, wide, bytes] = &values[..] else { panic!() };
            let (thread, step) = ((number >> 16) as usize, *number as usize & 0xffff);
            assert_eq!(step, next[thread], "in the order of its thread");
            next[thread] += 1;
            let size = texts::LENGTHS[step % texts::LENGTHS.len()];
            assert_eq!(*ansi, Value::Text(texts::ansi_text(size).into()), "{size}");
            assert_eq!(*wide, Value::Text(texts::wide_text(size).into()), "{size}");
            let Value::Array(bytes) = bytes else { panic!() };
            assert_eq!(bytes.len(), size);
            let mut numbers = bytes.iter().zip(0..);
            assert!(numbers.all(|(value, number)| *value == Value::Unsigned(number)));
        }
        assert_eq!(next, [3 * texts::LENGTHS.len(); 4]);
    }),
    case("synchronised events of all threads are in their true order", true_order, |run| {
        let log = Log::of(run.run().quiet());
        let numbers = log.values("Test.Number").into_iter().map(|values| match values[..] {
            [_, Value::Unsigned(number)] => number,
            _ => panic!(),
        });
        assert!(numbers.eq(0..4 * STEPS), "threads that take turns");
        for thread in 0..4 {
            let own = log.values("Test.Unordered").into_iter();
            let own = own.filter(|values| values[0] == Value::Unsigned(thread));
            assert!(own.map(|values| values[1].clone()).eq((0..STEPS).map(Value::Unsigned)));
        }
        assert!(log.is_complete);
    }),
    case("scopes of the program lie around those of allocations", scopes, |run| {
        let outcome = run.run();
        let log = Log::of(outcome.quiet());
        let frames = |path: &[u64]| path.iter().map(|&n| Value::Unsigned(n)).collect::<Vec<_>>();
        let expected: &[(u64, &[u64])] = &[
            (1, &[]),
            (2, &[1]),
            (3, &[1, 2]),
            (4, &[1]),
            (5, &[]),
            (6, &[10]),
            (9, &[10, 11]),
            (7, &[]),
            (8, &[20]),
        ];
        let found = log.numbers.iter().map(|(number, path)| (number.clone(), path.clone()));
        let expected = expected.iter().map(|(n, path)| (Value::Unsigned(*n), frames(path)));
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        assert_eq!(log.open, 0, "what is opened is closed, though one guard was forgotten");
        assert!(log.is_complete);
        let file = File::open(outcome.path(TRACE)).unwrap();
        let mut analyzer = Analyzer::new();
        read::read(file, &mut analyzer).unwrap();
        let report = analyzer.report();
        let row = crate::harness::scope(&report, &["GlobalScope", "inside"]).unwrap();
        assert_eq!(row.figures.allocations, 3);
    }),
    case("a stream that begins within scopes of the program closes as many", late_scopes, |run| {
        let outcome = run.run();
        let log = Log::read(outcome.quiet(), "late.utrace");
        let depths = log.numbers.iter().map(|(number, path)| (number.clone(), path.len()));
        let numbers = |&(number, depth): &(u64, usize)| (Value::Unsigned(number), depth);
        // Of the scopes from before it is not known which they were, but how many.
        assert!(depths.eq([(2, 0), (3, 0), (4, 1), (5, 0)].iter().map(numbers)));
        assert_eq!(log.depths, [2, 1, 2, 0], "of all scopes, around each number");
        assert_eq!(log.open, 0);
        assert!(log.is_complete);
    }),
    #[cfg(unix)]
    case("a type that was first logged a moment before a kill is known", killed, |run| {
        let run =
            run.tracked().env("MEMLEDGER_CHANNELS", "memory,game").env("MEMLEDGER_WATCH", "1");
        let log = Log::of(&reported(run.spawn()));
        assert_eq!(log.values("Test.Small"), [[Value::Unsigned(7)]]);
        assert!(log.is_complete);
    }),
    case("channels say what is logged", channels::by_setting, |run| {
        let run = run.env("MEMLEDGER_TRACE", TRACE).env("MEMLEDGER_REPORT", "off");
        let outcome = run.env("MEMLEDGER_CHANNELS", "game,ASSET,gmae").run();
        let line = "\"gmae\"";
        assert!(
            outcome.stderr.lines().count() == 1 && outcome.stderr.contains(line),
            "{}",
            outcome.stderr
        );
        let log = Log::of(outcome.exited(0));
        let numbers = log.values("Test.Number").into_iter().map(|values| values[1].clone());
        assert!(numbers.eq([1, 4, 5].map(Value::Unsigned)));
        let states = |name: &str| log.channels.get(name).unwrap();
        assert_eq!(states("Game"), &[1]);
        assert_eq!(states("Memory"), &[0]);
        assert_eq!(states("Network"), &[0, 1, 0]);
        assert_eq!(states("Assets"), &[1]);
    }),
    case("channels are listed and switched by name", channels::by_name, |run| {
        let log = Log::of(run.run().quiet());
        let numbers = log.values("Test.Number").into_iter().map(|values| values[1].clone());
        assert!(numbers.eq([1, 2].map(Value::Unsigned)));
        assert_eq!(log.channels["Game"], [1, 0, 1]);
    }),
    case("a setting names a channel as the sources of Unreal do", channels::spelling, |run| {
        let run = run.env("MEMLEDGER_CHANNELS", "gameCHANNEL,NetworksChannel");
        let outcome = run.env("MEMLEDGER_TRACE", TRACE).env("MEMLEDGER_REPORT", "off").run();
        assert_eq!(Log::of(outcome.quiet()).values("Test.Number").len(), 1);
    }),
    case("a preset stands for its channels", channels::spelling, |run| {
        let run = run.env("MEMLEDGER_CHANNELS", "GamePlay,network");
        let outcome = run.env("MEMLEDGER_TRACE", TRACE).env("MEMLEDGER_REPORT", "off").run();
        let log = Log::of(outcome.quiet());
        assert_eq!(log.values("Test.Number").len(), 1);
        let states = ["Memory", "Scope", "Game", "Network", "Assets", "FreeScope"];
        assert_eq!(states.map(|name| &log.channels[name][..]), [[1], [1], [1], [1], [0], [0]]);
    }),
    case("important events come first to every reader", important, |run| {
        let outcome = run.run();
        outcome.exited(0);
        let lines = outcome.stderr.lines().collect::<Vec<_>>();
        assert!(lines.len() == 1 && lines[0].contains("Test.Huge with 80005 bytes"), "{lines:?}");
        for (name, assets) in [("first.utrace", 1002), ("second.utrace", 1003)] {
            let log = Log::read(&outcome, name);
            let ids = log.values("Test.Asset").into_iter().map(|values| values[1].clone());
            assert!(ids.eq((0..assets).map(Value::Unsigned)), "{name}");
            // A reader of a reference has seen its definition.
            assert_eq!(log.values("Test.Used").len(), 1);
            assert_eq!(log.values("Test.Huge"), [[Value::Text("x".repeat(MAX_TEXT_UNITS).into())]]);
        }
        // What is refused is no event that figures lack.
        assert!(
            ["first.utrace", "second.utrace"].iter().all(|it| Log::read(&outcome, it).is_complete)
        );
    }),
    case("important events have the room that they take compressed", many_important, |run| {
        let outcome = run.run();
        outcome.quiet();
        for name in ["first.utrace", "second.utrace"] {
            assert_eq!(Log::read(&outcome, name).values("Test.Huge").len(), MANY, "{name}");
        }
    }),
    case("an event that is lost is lost whole and counted", lost, |run| {
        let outcome = run.run();
        let log = Log::of(outcome.quiet());
        let (report, summary) = outcome.trace(TRACE);
        assert_eq!(summary.counts.damages, 0);
        let whole = log.values("Test.Text").len() as u64;
        assert!(whole < 2000 && report.losses.lost_events > 0);
        assert_eq!(whole + report.losses.lost_events, 2000 + 1);
        assert!(
            log.values("Test.Text")
                .iter()
                .all(|values| values[1] == Value::Text("x".repeat(5000).into()))
        );
    }),
    case("values that log are no danger", nested, |run| {
        let log = Log::of(run.run().quiet());
        let numbers = log.values("Test.Number").into_iter().map(|values| values[1].clone());
        assert!(numbers.eq([3, 3, 1].map(Value::Unsigned)));
        assert!(log.is_complete);
    }),
    case("bookmarks are in the report and a time", bookmarks, |run| {
        let outcome = run.run();
        let report = outcome.quiet().whole();
        let names = report.bookmarks.iter().map(|bookmark| bookmark.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["before", "level 7: 100% of Ümit", "after"]);
        assert!(report.bookmarks.is_sorted_by_key(|bookmark| bookmark.at_ns));
        let read = |until| {
            let mut analyzer = Analyzer::new().until(until);
            read::read(File::open(outcome.path(TRACE)).unwrap(), &mut analyzer).unwrap();
            analyzer
        };
        let whole = read(Position::End);
        assert_eq!(whole.bookmark_event("nowhere"), None);
        for (bookmark, blocks) in report.bookmarks.iter().zip([0, 1, 2]) {
            let event = whole.bookmark_event(&bookmark.name).unwrap();
            let then = read(Position::Event(event)).report();
            assert_eq!(left(&then, 1_000_003), blocks, "{}", bookmark.name);
            assert_eq!(then.trace.duration_ns, bookmark.at_ns);
        }
        // The program ends before the worker's second tick: only the order shows when each event
        // happened.
        let peak = &report.peak;
        assert_eq!(peak.after_bookmark.as_deref(), Some("level 7: 100% of Ümit"));
        assert_eq!(peak.before_bookmark.as_deref(), Some("after"));
        let at = [0, 1, 2].map(|bookmark| report.bookmarks[bookmark].at_ns);
        assert!(at[1] <= peak.from_ns && peak.to_ns.unwrap() <= at[2], "{peak:?} {at:?}");
        let mut blocks = report.largest_live.iter().filter(|block| block.bytes == 1_000_003);
        let [first, second] = [(); 2].map(|()| blocks.next().unwrap().allocated_at_ns);
        assert!(at[0] <= first && first < at[1], "{first} {at:?}");
        assert!(at[1] <= second && second < at[2], "{second} {at:?}");
    }),
];

/// What a trace says of the events of this file.
#[derive(Default)]
struct Log {
    types: Vec<EventType>,
    events: Vec<(String, Vec<Value<'static>>)>,
    /// `Number` events with the numbers of the frames around them.
    numbers: Vec<(Value<'static>, Vec<Value<'static>>)>,
    scopes: HashMap<u16, Vec<Option<Value<'static>>>>,
    open: usize,
    /// How many scopes were open around each number.
    depths: Vec<usize>,
    /// The reported states of each channel, by its name.
    channels: BTreeMap<String, Vec<u64>>,
    ids: HashMap<u64, String>,
    is_complete: bool,
}

impl Log {
    #[track_caller]
    fn of(outcome: &Outcome) -> Self {
        Self::read(outcome, TRACE)
    }

    #[track_caller]
    fn read(outcome: &Outcome, name: &str) -> Self {
        let mut log = Self::default();
        let summary = read::read(File::open(outcome.path(name)).unwrap(), &mut log).unwrap();
        log.is_complete = summary.is_complete();
        log.open = log.scopes.values().map(Vec::len).sum();
        log
    }

    fn values(&self, name: &str) -> Vec<Vec<Value<'static>>> {
        let events = self.events.iter().filter(|(event, _)| event == name);
        events.map(|(_, values)| values.clone()).collect()
    }
}

impl Visitor for Log {
    fn event_type(&mut self, _: usize, event_type: &EventType) {
        self.types.push(event_type.clone());
    }

    fn event(&mut self, event: &Event<'_>) {
        let name = event.event_type.name();
        let values = (0..event.event_type.fields.len()).map(|index| owned(event.value(index)));
        let values = values.collect::<Vec<_>>();
        let scopes = self.scopes.entry(event.stream).or_default();
        if name == "Test.Number" {
            let frames = scopes.iter().flatten().cloned().collect();
            self.numbers.push((values[1].clone(), frames));
            self.depths.push(scopes.len());
        }
        if event.enters_scope {
            scopes.push((name == "Test.Frame").then(|| values[0].clone()));
        }
        match (&*name, &values[..]) {
            (
                "Trace.ChannelAnnounce",
                [Value::Unsigned(id), Value::Unsigned(on), _, Value::Text(name)],
            ) => {
                self.ids.insert(*id, name.to_string());
                self.channels.entry(name.to_string()).or_default().push(*on);
            }
            ("Trace.ChannelToggle", [Value::Unsigned(id), Value::Unsigned(on)]) => {
                self.channels.get_mut(&self.ids[id]).unwrap().push(*on);
            }
            _ => {}
        }
        if name.starts_with("Test.") {
            self.events.push((name, values));
        }
    }

    fn leave_scope(&mut self, stream: u16) {
        self.scopes.entry(stream).or_default().pop().unwrap();
    }
}

fn owned(value: Option<Value<'_>>) -> Value<'static> {
    match value.unwrap() {
        Value::Unsigned(number) => Value::Unsigned(number),
        Value::Signed(number) => Value::Signed(number),
        Value::Float(number) => Value::Float(number),
        Value::Text(text) => Value::Text(text.into_owned().into()),
        Value::Array(values) => Value::Array(values.into_iter().map(|v| owned(Some(v))).collect()),
        other => panic!("{other:?}"),
    }
}

fn start() -> Ledger {
    builder().channels(["memory", "scope", "game"]).start().unwrap()
}

#[cfg(unix)]
fn killed() {
    log!(GAME, Small { Id: 7 });
    kill(std::process::id() as libc::pid_t, libc::SIGKILL);
}

fn every_field() {
    let _ledger = start();
    log!(
        GAME,
        Every {
            A: 0xfe,
            B: 0xfedc,
            C: 0xfedc_ba98,
            D: u64::MAX,
            E: -1,
            F: -2,
            G: -3,
            H: i64::MIN,
            I: 0.5,
            J: f64::MIN_POSITIVE,
            K: true,
            L: std::ptr::without_provenance::<u32>(0x1234),
            M: &[1, 2, 255],
            N: &[0xffff],
            O: &[0xffff_ffff, 0],
            P: &[u64::MAX],
            Q: &[-128, 127],
            R: &[-1],
            S: &[i32::MIN],
            T: &[i64::MIN, i64::MAX],
            U: &[0.5, -1.0],
            V: &[0.5, -1.0],
            W: &[true, false],
            X: &[0xdead],
            Y: &String::from("Ümit"),
            Z: "a€𝄞",
        }
    );
    log!(GAME, Every {});
    for id in 1..4 {
        log!(GAME, Bare {});
        log!(GAME, Small { Id: id });
    }
    log!(GAME, Used { Asset: 77 });
    log!(GAME, Asset { Name: "tree.mesh", Id: 77 });
}

const STEPS: u64 = 300;

fn true_order() {
    let _ledger = start();
    let turn = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let barrier = Arc::new(Barrier::new(4));
    let threads = (0..4_u16).map(|thread| {
        let (turn, barrier) = (turn.clone(), barrier.clone());
        std::thread::spawn(move || {
            use std::sync::atomic::Ordering;
            barrier.wait();
            for step in 0..STEPS {
                let number = step * 4 + u64::from(thread);
                while turn.load(Ordering::Acquire) != number {
                    // Threads that allocate all at once stop looking where the others are; but
                    // not at where they log.
                    (0..50).for_each(|size| drop(std::hint::black_box(vec![0_u8; 16 + size])));
                    std::thread::yield_now();
                }
                log!(GAME, Number { Thread: thread, Number: number });
                log!(GAME, Unordered { Thread: thread, Number: step });
                turn.store(number + 1, Ordering::Release);
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
}

fn allocate_inside() {
    alloc_scope!("inside");
    std::mem::forget(std::hint::black_box(Box::new(1_u64)));
}

fn scopes() {
    let _ledger = start();
    let number = |number| log!(GAME, Number { Number: number });
    number(1);
    log_scope!(GAME, Frame { Number: 1 }, {
        allocate_inside();
        number(2);
        log_scope!(timed: GAME, Frame { Number: 2 }, {
            allocate_inside();
            number(3);
        });
        allocate_inside();
        number(4);
    });
    number(5);
    {
        log_scope!(GAME, Frame { Number: 10 });
        number(6);
        let inner = memledger::__event!(Frame { Number: 11 });
        memledger::__log_site! { GAME, Frame {} }
        std::mem::forget(__MEMLEDGER_LOG_SITE.enter(inner, false));
        number(9);
    }
    number(7);
    std::thread::spawn(move || {
        // A thread that ends in a scope.
        log_scope!(timed: GAME, Frame { Number: 20 });
        log!(GAME, Number { Number: 8 });
        log_scope!(NETWORK, Frame { Number: 21 });
    })
    .join()
    .unwrap();
}

fn late_scopes() {
    let ledger =
        builder().channels(["memory", "scope", "game"]).analyze_in_process(true).start().unwrap();
    let number = |number| log!(GAME, Number { Number: number });
    log_scope!(GAME, Frame { Number: 1 }, {
        log_scope!(timed: GAME, Frame { Number: 2 }, {
            alloc_scope!("inside");
            // Several blocks of the buffer.
            let kept: Vec<_> = (0..20_000_u64).map(Box::new).collect();
            ledger.trace_to_file("late.utrace").unwrap();
            drop(kept);
            number(2);
        });
        ledger.flush();
        number(3);
        log_scope!(GAME, Frame { Number: 3 }, {
            number(4);
        });
    });
    number(5);
}

/// The units of the largest text of an important event: with its head, a packet cannot carry it.
const MAX_TEXT_UNITS: usize = 32_765;

fn important() {
    GAME.set_enabled(true).unwrap();
    log!(GAME, Asset { Name: "before any recording", Id: 0 });
    let recording =
        |name: &str| Ledger::builder().trace_to_file(name).channels(["game"]).start().unwrap();
    let first = recording("first.utrace");
    let threads = (0..2).map(|_| std::thread::spawn(|| ()));
    threads.for_each(|thread| thread.join().unwrap());
    for id in 1..1001 {
        log!(GAME, Asset { Name: &"name ".repeat(id as usize % 7), Id: id });
    }
    log!(GAME, Asset { Id: 1001 });
    log!(GAME, Used { Asset: 1001 });
    log!(GAME, Huge { Name: &"x".repeat(40_000) });
    log!(GAME, Huge { Name: &"x".repeat(MAX_TEXT_UNITS) });
    drop(first);
    let second = recording("second.utrace");
    log!(GAME, Asset { Id: 1002 });
    log!(GAME, Used { Asset: 0 });
    drop(second);
}

/// Of 64 KiB: 25 MiB together.
const MANY: usize = 400;

fn many_important() {
    for name in ["first.utrace", "second.utrace"] {
        let ledger = Ledger::builder().trace_to_file(name).channels(["game"]).start().unwrap();
        let missing = if name == "first.utrace" { MANY } else { 0 };
        (0..missing).for_each(|_| log!(GAME, Huge { Name: &"x".repeat(MAX_TEXT_UNITS) }));
        drop(ledger);
    }
}

fn lost() {
    let ledger =
        builder().channels(["game"]).worker(memledger::Worker::Manual).buffer_limit(1 << 20);
    let ledger = ledger.start().unwrap();
    let text = "x".repeat(5000);
    for number in 0..2000 {
        log!(GAME, Text { Number: number, Ansi: &text });
        if number == 1000 {
            ledger.collect();
        }
    }
    // More than any buffers have room for.
    log!(GAME, Text { Number: 2001, Bytes: &vec![0; 1 << 20] });
}

fn nested() {
    let _ledger = start();
    fn value(number: u64) -> u64 {
        log!(GAME, Number { Number: if number < 3 { value(number + 1) } else { 3 } });
        std::hint::black_box(number)
    }
    log!(GAME, Number { Number: value(2) - 1 });
}

fn bookmarks() {
    let _ledger = builder().start().unwrap();
    bookmark!("before");
    leave(1_000_003);
    bookmark!("level {}: {}% of {name}", 7, 100, name = "Ümit");
    leave(1_000_003);
    bookmark!("after");
}
