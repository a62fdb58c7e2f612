//! What Unreal's readers need of a stream in addition to its layout, and what our readers make of
//! it.

use crate::harness::{Case, TRACE, case, leave, start};
use memledger::{Tag, alloc_scope, group, tag, tagged};
use memledger_analysis::read::{Event, EventAnalyzer, Visitor, read};
use memledger_format::schema::EventType;
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

/// The types that a trace declares.
#[derive(Default)]
struct Types(Vec<EventType>);

impl Visitor for Types {
    fn event_type(&mut self, _: usize, event_type: &EventType) {
        self.0.push(event_type.clone());
    }
    fn event(&mut self, _: &Event<'_>) {}
}

const LATE: &str = "late.utrace";

group! {
    NET = "net/http";
    CACHE = "cache" in NET;
}

const SLASH: Tag = tag!(CACHE, "a/b");
const WIDE: Tag = tag!(CACHE, "größe");

pub(crate) const CASES: &[Case] = &[
    case("names with a slash are whole for us and no path for Unreal", names, |run| {
        let outcome = run.run();
        let report = outcome.quiet().whole();
        let blocks = |path: &[&str]| {
            let row = report.by_scope.iter().find(|row| row.path == path);
            row.map_or(0, |row| row.figures.live_blocks)
        };
        assert_eq!(blocks(&["GlobalScope", "http/1.1"]), 2);
        assert_eq!(blocks(&["GlobalScope", "http/1.1", "größe"]), 1);
        assert_eq!(blocks(&["GlobalScope", "http/1.1", ""]), 1);
        let group = ["net/http", "cache"];
        let name = |name: &str| {
            let row = report.by_name.iter().find(|row| row.group == group && row.name == name);
            row.map_or(0, |row| row.figures.live_blocks)
        };
        assert_eq!((name("a/b"), name("größe")), (2, 1));
        // The tree in Unreal: a tag below its groups, and no other paths.
        let shown = displays(&outcome.path(TRACE));
        assert_eq!(shown["http/1.1"], ["http|1.1"]);
        assert_eq!(shown["net/http"], ["net|http"]);
        // The tag, and each context that has it.
        assert_eq!(shown["a/b"], ["net|http/cache/a|b"; 3]);
        assert!(shown["größe"].contains(&"net|http/cache/größe".to_owned()));
        assert!(shown["größe"].contains(&"größe".to_owned()));
        assert_eq!(shown[""], [""]);
    }),
    case(
        "docs/formats.md has every event of the tracker and every field of its own",
        names,
        |run| {
            let outcome = run.run();
            let mut types = Types::default();
            read(File::open(outcome.path(LATE)).unwrap(), &mut types).unwrap();
            let page = include_str!("../../docs/formats.md");
            let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
            let row_of = |event: &str| {
                let named =
                    [format!("`{event}`"), format!("`{}`", event.rsplit('.').next().unwrap())];
                let has = |row: &&&str| {
                    let cell = row.split('|').nth(1).unwrap();
                    named.iter().any(|name| cell.contains(name))
                };
                *rows.iter().find(has).unwrap_or_else(|| panic!("docs/formats.md has no {event}"))
            };
            assert!(types.0.len() >= 20, "{}", types.0.len());
            for declared in &types.0 {
                let row = row_of(&declared.name());
                for field in declared.fields.iter().filter(|_| declared.logger == "Memledger") {
                    let name = format!("`{}`", field.name);
                    assert!(row.contains(&name), "{} has no {name}", declared.name());
                }
            }
            for row in rows.iter().filter(|row| row.starts_with("| `Memledger.")) {
                let name = row.split('`').nth(1).unwrap();
                // `memledger symbolize` adds these to a trace.
                let is_added = name.starts_with("Memledger.Symbol");
                assert!(
                    is_added || types.0.iter().any(|t| t.name() == name),
                    "there is no event {name}"
                );
            }
        },
    ),
    case("the tracker's own streams are no threads of the program", names, |run| {
        let outcome = run.run();
        outcome.quiet().whole();
        for trace in [TRACE, LATE] {
            let path = outcome.path(trace);
            let (systems, on_threads, on_none) = own_streams(&path);
            let own = if trace == LATE { 3 } else { 2 };
            assert_eq!(systems.len(), own, "{trace}: {systems:?}");
            for (stream, system) in systems {
                // Linux gives no thread this number.
                assert!(system >= 1 << 22, "stream {stream} has {system}");
            }
            assert_eq!(on_threads, 0, "{trace}: markers on threads");
            assert!(on_none > 0, "{trace}: nothing is on no thread");
        }
    }),
];

/// The `Display` of each name.
fn displays(trace: &Path) -> HashMap<String, Vec<String>> {
    let mut specs = EventAnalyzer::new(HashMap::<String, Vec<String>>::new()).on(
        "Memory",
        "TagSpec",
        ["Name", "Display"],
        |names, _, [name, display]| {
            let text = |field: &memledger_analysis::read::FieldValue<'_>| {
                field.text().unwrap_or_default().into_owned()
            };
            names.entry(text(&name)).or_default().push(text(&display));
        },
    );
    read(File::open(trace).unwrap(), &mut specs).unwrap();
    std::mem::take(&mut specs.state)
}

/// The system ids of streams 2 to 4, and how many `Memledger.Settled` are on threads and not.
fn own_streams(trace: &Path) -> (Vec<(u64, u64)>, u64, u64) {
    let mut seen = EventAnalyzer::new((Vec::new(), 0, 0))
        .on("$Trace", "ThreadInfo", ["ThreadId", "SystemId"], |seen, _, [stream, system]| {
            let stream = stream.u64().unwrap();
            if stream <= 4 {
                seen.0.push((stream, system.u64().unwrap()));
            }
        })
        .on("Memledger", "Settled", [], |seen, event, []| match event.thread() {
            Some(_) => seen.1 += 1,
            None => seen.2 += 1,
        });
    read(File::open(trace).unwrap(), &mut seen).unwrap();
    std::mem::take(&mut seen.state)
}

fn names() {
    let ledger = start();
    alloc_scope!("http/1.1", {
        leave(1_000_003);
        alloc_scope!("größe", { leave(1_000_005) });
        alloc_scope!("", { leave(1_000_007) });
        tagged(SLASH, || leave(1_000_009));
    });
    tagged(SLASH, || leave(1_000_011));
    tagged(WIDE, || leave(1_000_013));
    ledger.trace_to_file(LATE).unwrap().stop();
}
