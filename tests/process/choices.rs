//! Traces with some channels of another trace, each whole in itself.

use crate::harness::{Case, Outcome, TRACE, builder, case, check_with_another_reader};
use memledger::events::{channel, event, log, log_scope};
use memledger::{alloc_scope, bookmark, group, tag, tagged};
use memledger_analysis::read::{self, Damage, Event, Hole, Value, Visitor};
use memledger_analysis::{Analyzer, LiveBlock, Report};
use memledger_format::schema::EventType;
use std::collections::BTreeMap;
use std::fs::File;
use std::hint::black_box;
use std::sync::Barrier;

channel! {
    GAME = "Match";
    NETWORK = "Wire";
}

event! {
    /// `Site` says where it was logged.
    Number = "Choice"."Number" { Site: u8, Thread: u8, Number: u32 }
    Text = "Choice"."Text" { Number: u32, Text: AnsiString }
    Frame = "Choice"."Frame" [NoSync] { Number: u32 }
    Asset = "Choice"."Asset" [Important, NoSync] { Name: AnsiString, Id: DefinitionId<u32> }
    Note = "Choice"."Note" [Important, NoSync] { Text: AnsiString }
    Used = "Choice"."Used" { Asset: Reference<Asset> }
}

group! {
    KEPT = "Kept";
}

const THREADS: u8 = 4;
const ROUNDS: u32 = 600;

/// What `Site` says.
const ON_GAME: u8 = 1;
const ON_NETWORK: u8 = 2;
const ON_BOTH: u8 = 3;

pub(crate) const CASES: &[Case] =
    &[case("a part of a trace has the channels it was given and is whole", several, |run| {
        let outcome = run.run();
        outcome.quiet();
        let all = Stream::read(&outcome, TRACE);
        let own = u64::from(THREADS) * u64::from(ROUNDS);
        assert_eq!(kept(&all.report()), (own, own / 2));
        assert_eq!(all.logged.len(), THREADS as usize * ROUNDS as usize * 5 + 1);

        // All that was logged, in the same order, and nothing else.
        outcome.export_channels(TRACE, "-memory", "logs.utrace");
        let logs = Stream::read(&outcome, "logs.utrace");
        assert_eq!((&logs.logged, &logs.important), (&all.logged, &all.important));
        assert_eq!((logs.memory_events, logs.report().totals.allocations), (0, 0));
        assert_eq!(logs.report().trace.memory_recorded, Some(false));
        assert_eq!(all.report().trace.memory_recorded, Some(true));
        let ends = |on: u64| vec![on];
        assert_eq!((&logs.channels["Memory"], &logs.channels["Match"]), (&ends(0), &ends(1)));
        assert_eq!(logs.report().bookmarks.len(), 1);

        // From the midst: what is alive there, and all that follows.
        for (name, channels, scopes) in
            [("memory.utrace", "memory, scope", true), ("blocks.memledger", "MEMORY", false)]
        {
            outcome.export_channels("late.utrace", channels, name);
            let memory = Stream::read(&outcome, name);
            assert_eq!(memory.logged, [""; 0], "{name}");
            assert_eq!(memory.important.len(), 1, "{name}: definitions are in every stream");
            check_whole(&memory.report());
            let mut expected = all.blocks();
            if !scopes {
                for block in &mut expected {
                    block.path.truncate(1);
                    (block.group, block.name) = (vec!["Unknown".into()], "Unnamed".into());
                }
            }
            assert_eq!(memory.blocks(), expected, "{name}");
            assert_eq!(memory.channels["Scope"], ends(scopes.into()), "{name}");
            assert_eq!(
                (&memory.channels["Memory"], &memory.channels["Match"]),
                (&ends(1), &ends(0))
            );
        }

        // An event that two channels must be enabled for is in a stream that has both.
        for (name, channels, sites) in [
            ("game.utrace", "match", &[ON_GAME][..]),
            ("both.utrace", "match,wires,-bookmark", &[ON_GAME, ON_NETWORK, ON_BOTH]),
        ] {
            outcome.export_channels("late.memledger", channels, name);
            let stream = Stream::read(&outcome, name);
            let wanted = |event: &&String| match site_of(event) {
                Some(site) => sites.contains(&site),
                None => event.starts_with("Text") == (sites.len() > 1) || event.starts_with("Used"),
            };
            let expected = all.logged.iter().filter(wanted).collect::<Vec<_>>();
            assert!(stream.logged.len() > 100 && stream.logged.len() < expected.len(), "{name}");
            let from = expected.len() - stream.logged.len();
            assert!(stream.logged.iter().eq(expected[from..].iter().copied()), "{name}");
            assert_eq!(stream.important.len(), sites.len().min(2), "{name}");
            assert_eq!((stream.memory_events, stream.frames > 0), (0, true), "{name}");
        }
    })];

/// A stream that knows every block of its program.
#[track_caller]
fn check_whole(report: &Report) {
    assert_eq!(report.trace.from_process_start, Some(true));
    assert!(report.trace.complete);
    let losses = &report.losses;
    assert_eq!((losses.unmatched_frees, losses.duplicate_allocations), (0, 0), "{losses:?}");
}

/// How many blocks were allocated under [`KEPT`], and how many are live.
fn kept(report: &Report) -> (u64, u64) {
    let row = report.by_group.iter().find(|row| row.group == ["Kept"]).unwrap();
    (row.figures.allocations, row.figures.live_blocks)
}

fn site_of(event: &str) -> Option<u8> {
    event.strip_prefix("Number [")?.split(',').next()?.parse().ok()
}

/// What one trace says.
struct Stream {
    analyzer: Analyzer,
    types: Vec<EventType>,
    /// The events of this file in their order, those with a serial and important ones.
    logged: Vec<String>,
    important: Vec<String>,
    frames: usize,
    memory_events: usize,
    /// The reported states of each channel.
    channels: BTreeMap<String, Vec<u64>>,
    ids: BTreeMap<u64, String>,
    open: i64,
}

impl Stream {
    /// Reads a trace that is whole in itself.
    #[track_caller]
    fn read(outcome: &Outcome, name: &str) -> Self {
        let mut stream = Self {
            analyzer: Analyzer::new().largest_live(usize::MAX),
            types: Vec::new(),
            logged: Vec::new(),
            important: Vec::new(),
            frames: 0,
            memory_events: 0,
            channels: BTreeMap::new(),
            ids: BTreeMap::new(),
            open: 0,
        };
        let path = outcome.path(name);
        let summary = read::read(File::open(&path).unwrap(), &mut stream).unwrap();
        assert!(summary.is_complete(), "{name}");
        assert_eq!(stream.open, 0, "{name}: what is open is closed at the end");
        let report = stream.report();
        let losses = &report.losses;
        assert!(report.trace.complete, "{name}: {losses:?}");
        assert_eq!((losses.lost_events, losses.serial_holes), (0, 0), "{name}: {losses:?}");
        assert_eq!(stream.analyzer.problems(), [""; 0], "{name}");
        check_with_another_reader(&path);
        stream
    }

    fn report(&self) -> Report {
        self.analyzer.report()
    }

    /// What is live at the end, by address.
    fn blocks(&self) -> Vec<LiveBlock> {
        let mut blocks = self.report().largest_live;
        blocks.sort_by_key(|block| block.address);
        blocks
    }
}

impl Visitor for Stream {
    fn event_type(&mut self, index: usize, event_type: &EventType) {
        self.analyzer.event_type(index, event_type);
        self.types.push(event_type.clone());
    }

    fn event(&mut self, event: &Event<'_>) {
        self.analyzer.event(event);
        let values = || {
            (0..event.event_type.fields.len()).map(|index| match event.value(index).unwrap() {
                Value::Unsigned(number) => number.to_string(),
                Value::Text(text) => format!("{} bytes {:.20}", text.len(), text),
                other => format!("{other:?}"),
            })
        };
        let name = event.event_type.name();
        self.open += i64::from(event.enters_scope);
        let is_memory = name.starts_with("Memory.Alloc") || name == "Memory.MemoryScope";
        self.memory_events += usize::from(is_memory);
        match &*name {
            "Choice.Asset" | "Choice.Note" => self.important.push(values().collect()),
            "Choice.Frame" => self.frames += 1,
            "Trace.ChannelAnnounce" => {
                let values = values().collect::<Vec<_>>();
                let channel = values[3].rsplit(' ').next().unwrap().to_owned();
                self.ids.insert(values[0].parse().unwrap(), channel.clone());
                self.channels.entry(channel).or_default().push(values[1].parse().unwrap());
            }
            "Trace.ChannelToggle" => {
                let values = values().map(|value| value.parse().unwrap()).collect::<Vec<u64>>();
                self.channels.get_mut(&self.ids[&values[0]]).unwrap().push(values[1]);
            }
            _ => {
                if let Some(name) = name.strip_prefix("Choice.") {
                    let values = values().collect::<Vec<_>>().join(", ");
                    self.logged.push(format!("{name} [{values}]"));
                }
            }
        }
    }

    fn leave_scope(&mut self, stream: u16) {
        self.open -= 1;
        self.analyzer.leave_scope(stream);
    }

    fn hole(&mut self, hole: Hole) {
        self.analyzer.hole(hole);
    }

    fn damage(&mut self, damage: &Damage) {
        self.analyzer.damage(damage);
    }
}

fn work(thread: u8, meet: &Barrier) -> Vec<Vec<u8>> {
    let mut kept = Vec::with_capacity(ROUNDS as usize);
    let text = "text ".repeat(2000 * usize::from(thread));
    for round in 0..ROUNDS {
        // Between the two, destinations are added.
        if round == ROUNDS / 2 || round == ROUNDS * 3 / 4 {
            meet.wait();
        }
        log_scope!(GAME, Frame { Number: round }, {
            alloc_scope!("frame");
            let block = tagged(tag!(KEPT, "block"), || black_box(Vec::with_capacity(100)));
            kept.push(block);
            log!(GAME, Number { Site: ON_GAME, Thread: thread, Number: round });
            log!(NETWORK, Number { Site: ON_NETWORK, Thread: thread, Number: round });
            log_scope!(timed: NETWORK, Frame { Number: round }, {
                log!(GAME | NETWORK, Number { Site: ON_BOTH, Thread: thread, Number: round });
                drop(black_box(vec![1_u8; 10 + round as usize]));
            });
            log!(NETWORK, Text { Number: round, Text: if round % 50 == 0 { &text } else { "" } });
            log!(GAME, Used { Asset: 7 });
        });
        if round % 2 == 1 {
            kept.pop();
        }
    }
    kept
}

fn several() {
    let ledger = builder().channels(["memory", "scope", "match", "wire"]).start().unwrap();
    bookmark!("start");
    log!(GAME, Used { Asset: 7 });
    log!(NETWORK, Note { Text: "on the network" });
    let meet = Barrier::new(usize::from(THREADS) + 1);
    std::thread::scope(|scope| {
        let meet = &meet;
        let threads = (0..THREADS).map(|thread| scope.spawn(move || work(thread, meet)));
        let threads = threads.collect::<Vec<_>>();
        log_scope!(GAME, Frame { Number: 0 }, {
            // Its scope is open where they begin, and not in all of them.
            log!(GAME, Asset { Name: "tree", Id: 7 });
            meet.wait();
            for name in ["late.utrace", "late.memledger"] {
                ledger.trace_to_file(name).unwrap();
            }
            meet.wait();
        });
        // They stay.
        threads.into_iter().for_each(|thread| std::mem::forget(thread.join().unwrap()));
    });
    drop(ledger);
}
