//! `memledger info`: what a trace consists of.

use super::Format;
use super::completeness::{missing, outcome};
use super::input::{display_name, open_watched, unreadable};
use crate::error::{CliError, Outcome};
use memledger::dump::text::escape;
use memledger::trace::format::Transport;
use memledger::trace::format::packet::LAST_OWN;
use memledger::trace::format::schema::EventType;
use memledger::trace::read::{Damage, Event, Hole, Summary, Value, Visitor, read};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;

/// Places and holes that are listed one by one.
const LISTED: usize = 10;
/// Columns a name may take.
const NAME: usize = 44;

/// Arguments of `memledger info`.
#[derive(Debug, clap::Args)]
pub struct InfoArgs {
    /// The trace; - for standard input
    trace: PathBuf,
    /// Exit with status 0 though the trace is not whole: of a program that runs, or was killed
    #[arg(long)]
    allow_incomplete: bool,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub fn run(args: &InfoArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let mut facts = Facts::default();
    let summary = read(open_watched(&args.trace)?, &mut facts)
        .map_err(|error| unreadable(&args.trace, error))?;
    let name = display_name(&args.trace);
    match args.format {
        Format::Text => text(&name, &facts, &summary, out),
        Format::Json => json(&facts, &summary, out),
    }
    .map_err(CliError::output)?;
    Ok(outcome(missing(&args.trace, &summary), args.allow_incomplete))
}

/// Which events say something about the trace itself.
#[derive(Clone, Copy)]
enum Says {
    Nothing,
    Session,
    Process,
    Clock,
    Time,
    ThreadInfo,
    ThreadStart,
    Channel,
}

/// One thread that has used a stream.
struct Thread {
    /// `None` for one of the tracker's own streams.
    id: Option<u64>,
    system_id: Option<u64>,
    name: String,
}

struct Channel {
    name: Option<String>,
    enabled: bool,
    read_only: bool,
}

/// What the events say about the trace itself.
#[derive(Default)]
struct Facts {
    says: Vec<Says>,
    /// `AppName`, `Platform`, `CommandLine` ... of the session.
    session: BTreeMap<String, String>,
    pid: Option<u64>,
    /// Our writer made the trace.
    ours: bool,
    /// Start and ticks in a second.
    clock: Option<(u64, u64)>,
    last_cycle: u64,
    /// By stream: from `ThreadInfo`, and, if the writer reuses streams, all that used it.
    infos: BTreeMap<u64, Thread>,
    starts: BTreeMap<u64, Vec<Thread>>,
    channels: BTreeMap<u64, Channel>,
    holes: Vec<Hole>,
    damages: Vec<Damage>,
}

impl Facts {
    fn threads(&self, stream: u16) -> &[Thread] {
        let stream = u64::from(stream);
        match (self.starts.get(&stream), self.infos.get(&stream)) {
            (Some(threads), _) => threads,
            (None, info) => info.map_or(&[], std::slice::from_ref),
        }
    }

    fn duration_ns(&self) -> Option<u64> {
        let (start, frequency) = self.clock.filter(|&(_, frequency)| frequency > 0)?;
        let ticks = u128::from(self.last_cycle.checked_sub(start)?);
        u64::try_from(ticks * 1_000_000_000 / u128::from(frequency)).ok()
    }
}

impl Visitor for Facts {
    fn event_type(&mut self, _: usize, event_type: &EventType) {
        self.ours |= event_type.is("Memledger", "Trace");
        self.says.push(match (&*event_type.logger, &*event_type.event) {
            ("Diagnostics", "Session2") => Says::Session,
            ("Memledger", "Trace") => Says::Process,
            ("$Trace", "NewTrace") => Says::Clock,
            ("Memory", "Marker") => Says::Time,
            ("$Trace", "ThreadInfo") => Says::ThreadInfo,
            ("Memledger", "ThreadStart") => Says::ThreadStart,
            ("Trace", "ChannelAnnounce" | "ChannelToggle") => Says::Channel,
            _ => Says::Nothing,
        });
    }

    fn event(&mut self, event: &Event<'_>) {
        let says = self.says.get(event.type_index).copied().unwrap_or(Says::Nothing);
        let field = |name: &str| event.value(event.event_type.field(name)?);
        let number = |name: &str| match field(name) {
            Some(Value::Unsigned(number)) => number,
            Some(Value::Signed(number)) => number as u64,
            _ => 0,
        };
        let name = || match field("Name") {
            Some(Value::Text(name)) => name.into_owned(),
            _ => String::new(),
        };
        match says {
            Says::Nothing => {}
            Says::Session => {
                for (index, field) in event.event_type.fields.iter().enumerate() {
                    if let Some(Value::Text(text)) = event.value(index)
                        && !text.is_empty()
                    {
                        self.session.insert(field.name.to_string(), text.into_owned());
                    }
                }
            }
            Says::Process => self.pid = Some(number("Pid")),
            Says::Clock => self.clock = Some((number("StartCycle"), number("CycleFrequency"))),
            Says::Time => self.last_cycle = self.last_cycle.max(number("Cycle")),
            Says::ThreadInfo => {
                let stream = number("ThreadId");
                // The first streams of our writer belong to no thread, whatever their number.
                let is_thread = !self.ours || stream > LAST_OWN.into();
                let system_id = is_thread.then(|| number("SystemId"));
                let thread = Thread { id: is_thread.then_some(stream), system_id, name: name() };
                self.infos.insert(stream, thread);
            }
            Says::ThreadStart => {
                let (id, system_id) = (Some(number("Id")), Some(number("SystemId")));
                let thread = Thread { id, system_id, name: name() };
                self.starts.entry(event.stream.into()).or_default().push(thread);
            }
            Says::Channel => {
                let channel = self.channels.entry(number("Id")).or_insert(Channel {
                    name: None,
                    enabled: false,
                    read_only: false,
                });
                channel.enabled = number("IsEnabled") != 0;
                if event.event_type.field("Name").is_some() {
                    channel.name = Some(name());
                    channel.read_only = number("ReadOnly") != 0;
                }
            }
        }
    }

    fn hole(&mut self, hole: Hole) {
        if self.holes.len() < LISTED {
            self.holes.push(hole);
        }
    }

    fn damage(&mut self, damage: &Damage) {
        if self.damages.len() < LISTED {
            self.damages.push(damage.clone());
        }
    }
}

fn text(name: &str, facts: &Facts, summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let Summary { handshake, packets, counts, .. } = summary;
    writeln!(out, "{}", shown(name, 79))?;
    let line = |out: &mut dyn Write, key: &str, value: String| {
        let mut key = key;
        for row in wrapped(&value, 66) {
            writeln!(out, "  {key:<10}  {row}")?;
            key = "";
        }
        Ok::<(), io::Error>(())
    };
    let name = match handshake.transport {
        Transport::Compact => "Unreal Trace, compact (.memledger)",
        _ => "Unreal Trace",
    };
    let (transport, protocol) = (handshake.transport.version(), handshake.protocol);
    line(out, "format", format!("{name}, transport {transport}, protocol {protocol}"))?;
    for (key, guid) in [("session", handshake.session_guid), ("trace", handshake.trace_guid)] {
        if let Some(guid) = guid {
            line(out, key, hex(&guid))?;
        }
    }
    if let Some(program) = facts.session.get("AppName") {
        let platform = facts.session.get("Platform").map(|p| format!(", {}", escape(p)));
        let program = escape(program);
        line(out, "program", format!("{program}{}", platform.unwrap_or_default()))?;
    }
    if let Some(command) = facts.session.get("CommandLine") {
        line(out, "arguments", escape(command))?;
    }
    if let Some(pid) = facts.pid {
        line(out, "process", pid.to_string())?;
    }
    if let Some(port) = handshake.control_port {
        line(out, "control", format!("port {port}"))?;
    }
    if let Some(nanoseconds) = facts.duration_ns() {
        line(out, "duration", format!("{:.6} s", nanoseconds as f64 / 1e9))?;
    }
    let each = match counts.events {
        0 => String::new(),
        events => format!(", {:.1} for each event", summary.input_bytes as f64 / events as f64),
    };
    line(out, "bytes", format!("{}{each}", summary.input_bytes))?;
    let all = packets.plain + packets.encoded + packets.compact + packets.sync + packets.damaged;
    let compact = match packets.compact {
        0 => String::new(),
        compact => format!("{compact} compact, "),
    };
    line(
        out,
        "packets",
        format!(
            "{all}: {} plain, {} encoded, {compact}{} sync, {} damaged",
            packets.plain, packets.encoded, packets.sync, packets.damaged
        ),
    )?;
    line(out, "events", counts.events.to_string())?;
    let serials = match (counts.first_serial, counts.last_serial) {
        (Some(first), Some(last)) => format!("{first} to {last}, {} out of order", counts.late),
        _ => "none".to_owned(),
    };
    line(out, "serials", serials)?;
    let holes = match counts.holes {
        0 => "none".to_owned(),
        holes if counts.missing_unknown => {
            format!("{holes}, with an unknown number of events missing")
        }
        1 => format!("1, with {} events missing", counts.missing),
        holes => format!("{holes}, with {} events missing in all", counts.missing),
    };
    line(out, "holes", holes)?;
    for hole in &facts.holes {
        let last = hole.first.saturating_add(hole.count.saturating_sub(1));
        line(
            out,
            "",
            match hole.count {
                0 => format!("serials from {} on, up to an unknown one", hole.first),
                count => format!("serials {} to {last} ({count})", hole.first),
            },
        )?;
    }
    let damage = match (counts.damages, summary.skipped_bytes, summary.truncated_bytes) {
        (0, ..) => "none".to_owned(),
        (1, skipped, 0) => format!("in 1 place; {skipped} bytes cannot be read"),
        (places, skipped, 0) => format!("in {places} places; {skipped} bytes cannot be read"),
        (1, 0, cut) => format!("the last {cut} bytes are an unfinished packet"),
        (places, skipped, cut) => format!(
            "in {places} places; {skipped} bytes cannot be read, the last {cut} bytes are an \
             unfinished packet"
        ),
    };
    line(out, "damage", damage)?;
    for damage in &facts.damages {
        let at = damage.offset.map_or(String::new(), |offset| format!("byte {offset}: "));
        line(out, "", format!("{at}{}", damage.what))?;
    }

    writeln!(out, "\n{:>12}  {:>5}  event type", "events", "bytes")?;
    let mut types = summary.types.iter().collect::<Vec<_>>();
    types.sort_by_key(|t| (std::cmp::Reverse(t.events), t.event_type.name()));
    for t in types {
        let arrays = if t.event_type.has_aux() { "+" } else { "" };
        let size = format!("{}{arrays}", t.event_type.fixed_size());
        writeln!(out, "{:>12}  {size:>5}  {}", t.events, shown(&t.event_type.name(), 56))?;
    }

    writeln!(out, "\n{:>12}  {:>12}  {:>6}  thread", "events", "bytes", "stream")?;
    for stream in summary.streams.iter().filter(|stream| stream.stream >= 1) {
        let names = match stream.stream {
            1 => "(important events)".to_owned(),
            id => {
                let names = facts.threads(id).iter().map(|thread| thread.name.as_str());
                shown(&names.collect::<Vec<_>>().join(", "), NAME)
            }
        };
        let (events, bytes) = (stream.events, stream.bytes);
        writeln!(out, "{events:>12}  {bytes:>12}  {:>6}  {names}", stream.stream)?;
    }

    if !facts.channels.is_empty() {
        writeln!(out, "\nchannels")?;
        for (id, channel) in &facts.channels {
            let name = channel.name.as_ref().map_or(format!("(id {id:#010x})"), |n| shown(n, NAME));
            let state = if channel.enabled { "on" } else { "off" };
            let fixed = if channel.read_only { ", cannot be switched" } else { "" };
            writeln!(out, "  {state:<3}  {name}{fixed}")?;
        }
    }
    Ok(())
}

fn json(facts: &Facts, summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let Summary { handshake, packets, counts, .. } = summary;
    let thread = |thread: &Thread| json!({ "id": thread.id, "system_id": thread.system_id, "name": thread.name });
    let types = summary.types.iter().map(|t| {
        json!({
            "name": t.event_type.name(),
            "uid": t.event_type.uid,
            "events": t.events,
            "fixed_bytes": t.event_type.fixed_size(),
            "important": t.event_type.is_important(),
            "synchronised": t.event_type.is_synced(),
            "fields": t.event_type.fields.iter().map(|field| json!({
                "name": field.name,
                "type": format!("{:?}", field.field_type),
            })).collect::<Vec<_>>(),
        })
    });
    let streams = summary.streams.iter().map(|stream| {
        json!({
            "stream": stream.stream,
            "packets": stream.packets,
            "bytes": stream.bytes,
            "events": stream.events,
            "threads": facts.threads(stream.stream).iter().map(thread).collect::<Vec<_>>(),
        })
    });
    let channels = facts.channels.iter().map(|(id, channel)| {
        json!({
            "id": id,
            "name": channel.name,
            "enabled": channel.enabled,
            "read_only": channel.read_only,
        })
    });
    let holes = facts.holes.iter().map(|h| json!({ "first": h.first, "count": h.count }));
    let damages = facts.damages.iter().map(
        |damage| json!({ "offset": damage.offset, "skipped": damage.skipped, "what": damage.what }),
    );
    let document = json!({
        "schema": "memledger.info/1",
        "complete": summary.is_complete(),
        "header": {
            "transport": handshake.transport.version(),
            "protocol": handshake.protocol,
            "session_guid": handshake.session_guid.as_ref().map(|guid| hex(guid)),
            "trace_guid": handshake.trace_guid.as_ref().map(|guid| hex(guid)),
            "control_port": handshake.control_port,
        },
        "program": facts.session.get("AppName"),
        "pid": facts.pid,
        "session": facts.session,
        "duration_ns": facts.duration_ns(),
        "bytes": summary.input_bytes,
        "bytes_per_event": (counts.events > 0)
            .then(|| summary.input_bytes as f64 / counts.events as f64),
        "packets": {
            "plain": packets.plain,
            "encoded": packets.encoded,
            "compact": packets.compact,
            "sync": packets.sync,
            "damaged": packets.damaged,
        },
        "events": counts.events,
        "serials": {
            "first": counts.first_serial,
            "last": counts.last_serial,
            "late": counts.late,
            "holes": counts.holes,
            "missing": (!counts.missing_unknown).then_some(counts.missing),
            "first_holes": holes.collect::<Vec<_>>(),
        },
        "damage": {
            "places": counts.damages,
            "skipped_bytes": summary.skipped_bytes,
            "truncated_bytes": summary.truncated_bytes,
            "first_places": damages.collect::<Vec<_>>(),
        },
        "types": types.collect::<Vec<_>>(),
        "streams": streams.collect::<Vec<_>>(),
        "channels": channels.collect::<Vec<_>>(),
    });
    writeln!(out, "{document:#}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Text from the trace, which may hold anything, cut to so many columns.
fn shown(text: &str, columns: usize) -> String {
    let text = escape(text);
    match text.char_indices().nth(columns) {
        None => text,
        Some(_) => text.chars().take(columns.saturating_sub(3)).chain("...".chars()).collect(),
    }
}

/// Rows of at most `columns` characters, broken at spaces where there are some.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in text.split(' ') {
        let mut word = word.chars().collect::<Vec<_>>();
        while !word.is_empty() {
            let Some(row) = rows.last_mut() else { break };
            let used = row.chars().count();
            if used > 0 && used + 1 + word.len() > columns {
                rows.push(String::new());
                continue;
            }
            if used > 0 {
                row.push(' ');
            }
            let rest = word.split_off(word.len().min(columns));
            row.extend(word);
            word = rest;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: InfoArgs,
    }

    fn info(path: &str, arguments: &[&str]) -> (Result<Outcome, CliError>, String) {
        let arguments = ["info", path].into_iter().chain(arguments.iter().copied());
        let cli = Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
        let mut out = Vec::new();
        (run(&cli.args, &mut out), String::from_utf8_lossy(&out).into_owned())
    }

    fn sample(name: &str) -> String {
        format!("{}/../tests/samples/{name}.utrace", env!("CARGO_MANIFEST_DIR"))
    }

    #[test]
    fn text_says_what_is_in_the_trace_within_80_columns() {
        let (outcome, out) = info(&sample("mem-2t-40k"), &[]);
        assert!(matches!(outcome, Ok(Outcome::Done)));
        for part in [
            "  format      Unreal Trace, transport 4, protocol 6\n",
            "  program     ref, Linux\n",
            "  bytes       553036, 13.8 for each event\n",
            "  packets     210: 4 plain, 203 encoded, 3 sync, 0 damaged\n",
            "  events      40160\n",
            "  serials     0 to 40012, 0 out of order\n",
            "  holes       none\n",
            "  damage      none\n",
            "       20127     17  Memory.AllocSystem\n",
            "          63     4+  Memory.CallstackSpec\n",
            "       20005        390397       4  worker-1\n",
            "  on   Mem",
        ] {
            assert!(out.contains(part), "{part} in\n{out}");
        }
        for line in out.lines().skip(1) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn json_has_the_same_and_the_fields() {
        let (_, out) = info(&sample("ue511-smoke"), &["--format", "json"]);
        let value: serde_json::Value =
            serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(value["schema"], "memledger.info/1");
        assert_eq!(value["events"], 1149);
        assert_eq!(value["program"], "ref");
        assert_eq!(value["complete"], true);
        let streams = value["streams"].as_array().map_or(0, Vec::len);
        assert_eq!(streams, 4);
        assert_eq!(value["streams"][3]["threads"][0]["name"], "worker-0");
        assert_eq!(value["types"].as_array().map(|types| types.len() > 14), Some(true));
    }

    #[test]
    fn damage_is_printed_and_makes_it_incomplete() {
        let bytes = std::fs::read(sample("ue511-smoke")).unwrap_or_default();
        let path = std::env::temp_dir().join(format!("memledger-info-{}", std::process::id()));
        assert!(std::fs::write(&path, &bytes[..20_000]).is_ok());
        let (outcome, out) = info(&path.to_string_lossy(), &[]);
        let _ = std::fs::remove_file(&path);
        assert!(matches!(outcome, Ok(Outcome::Incomplete(_))), "{outcome:?}");
        assert!(
            out.contains("  damage      the last 2123 bytes are an unfinished packet\n"),
            "{out}"
        );
        assert!(out.contains("byte 17877: the trace ends inside a packet"), "{out}");
    }

    #[test]
    fn long_and_hostile_text_is_cut_and_escaped() {
        assert_eq!(shown("abcdef\u{1b}", 20), "abcdef\\u{1b}");
        assert_eq!(shown("abcdefgh", 6), "abc...");
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("", 4), [""]);
    }
}
