//! `memledger events`: every event, decoded from the stream alone.

use super::Format;
use super::completeness::damaged;
use super::input::{open, unreadable};
use crate::error::{CliError, Outcome};
use crate::terminal::note;
use memledger::analysis::bookmark_text;
use memledger::dump::text::{escape, nearest};
use memledger::trace::format::packet::{FIRST_THREAD, LAST_OWN, LAST_THREAD};
use memledger::trace::format::schema::EventType;
use memledger::trace::read::{Damage, Event, Hole, Reader, Value, Visitor};
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::path::PathBuf;
use wildmatch::WildMatch;

/// At most this many names are listed in a sentence.
const LISTED: usize = 12;
/// At most this many bookmark sites of the program have their text kept.
const MOST_FORMATS: usize = 1 << 16;
/// Places that could not be read that are named one by one.
const NAMED_DAMAGES: u64 = 10;

const EXAMPLES: &str = "\
Examples:
  memledger events run.utrace --limit 100
  memledger events run.utrace --filter 'Memory.*Alloc*' --thread 2
  memledger events run.utrace --format json | jq '.events[].name'

A line has the serial (- if the event has none), the thread (- if it belongs to none, as what the
tracker itself says), the name, and the fields. Addresses are hexadecimal. A bookmark has its text
in place of its arguments. { stands after an event that opens a scope.";

/// Arguments of `memledger events`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct EventsArgs {
    /// The trace; - for standard input
    trace: PathBuf,
    /// Only events whose name fits, with * and ?; may be given more than once
    #[arg(long, value_name = "GLOB")]
    filter: Vec<String>,
    /// Only events of the thread with this id
    #[arg(long, value_name = "ID")]
    thread: Option<u32>,
    /// Stop after so many events
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// How to print them
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

/// Runs the command.
pub fn run(args: &EventsArgs, out: &mut dyn Write) -> Result<Outcome, CliError> {
    let mut reader = Reader::open(open(&args.trace)?).map_err(|e| unreadable(&args.trace, e))?;
    let mut printer = Printer {
        args,
        filters: args.filter.iter().map(|filter| WildMatch::new(filter)).collect(),
        out,
        types: Vec::new(),
        names: BTreeSet::new(),
        formats: HashMap::new(),
        threads: HashMap::new(),
        ours: false,
        seen: BTreeSet::new(),
        printed: 0,
        damages: 0,
        failed: None,
    };
    let json = args.format == Format::Json;
    if json {
        printer.write(|out| out.write_all(br#"{"schema":"memledger.events/1","events":["#));
    }
    while !printer.is_done() && reader.packet(&mut printer) {}
    let missing = if printer.is_done() {
        None
    } else {
        let summary = reader.finish(&mut printer);
        damaged(&args.trace, &summary)
    };
    if json {
        let damaged = missing.is_some();
        printer.write(|out| writeln!(out, "\n],\"damaged\":{damaged}}}"));
    }
    printer.note_what_fits_nothing();
    if printer.damages > NAMED_DAMAGES {
        note(&format!("{} more places are damaged", printer.damages - NAMED_DAMAGES));
    }
    match printer.failed {
        Some(error) => Err(CliError::output(error)),
        None => Ok(missing.map_or(Outcome::Done, Outcome::Incomplete)),
    }
}

/// What is known of a type before its first event.
struct Shown {
    /// The name as it is printed, or `None` if the filters leave the type out.
    name: Option<String>,
    /// The names of the fields as they are printed, and whether the values are addresses.
    fields: Vec<(String, bool)>,
    /// The field of `Memledger.ThreadStart` that says which thread this is.
    thread_id: Option<usize>,
    bookmark: Option<Bookmark>,
}

/// The role of an event type for bookmarks.
#[derive(Clone, Copy)]
enum Bookmark {
    /// It declares the text of a bookmark site: the fields of the site and of the text.
    Spec { point: usize, format: usize },
    /// It is a bookmark: the fields of the site and of the values.
    Set { point: usize, arguments: usize },
}

impl Bookmark {
    fn of(event_type: &EventType) -> Option<Self> {
        let point = event_type.field("BookmarkPoint");
        if event_type.is("Misc", "BookmarkSpec") {
            Some(Self::Spec { point: point?, format: event_type.field("FormatString")? })
        } else if event_type.is("Misc", "Bookmark") {
            Some(Self::Set { point: point?, arguments: event_type.field("FormatArgs")? })
        } else {
            None
        }
    }
}

struct Printer<'a> {
    args: &'a EventsArgs,
    filters: Vec<WildMatch>,
    out: &'a mut dyn Write,
    types: Vec<Shown>,
    /// The names of all types.
    names: BTreeSet<String>,
    /// The format string of each bookmark site of the program.
    formats: HashMap<u64, String>,
    /// The threads that have had events.
    seen: BTreeSet<u32>,
    /// The thread that a stream belongs to at the moment, where that is not its own number.
    threads: HashMap<u16, u32>,
    /// Our writer made the trace: its first streams belong to no thread.
    ours: bool,
    printed: u64,
    damages: u64,
    failed: Option<io::Error>,
}

impl Printer<'_> {
    fn is_done(&self) -> bool {
        self.failed.is_some() || self.args.limit.is_some_and(|limit| self.printed >= limit)
    }

    fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.failed.is_none() {
            self.failed = write(self.out).err();
        }
    }

    /// Lists the existing names when a filter or a thread matches nothing.
    fn note_what_fits_nothing(&self) {
        if self.is_done() {
            return;
        }
        for filter in &self.args.filter {
            if !self.names.iter().any(|name| WildMatch::new(filter).matches(name)) {
                let names = self.names.iter().map(String::as_str);
                let plain: String = filter.chars().filter(|c| !matches!(c, '*' | '?')).collect();
                let loggers = names.clone().filter_map(|name| Some(name.split_once('.')?.0));
                let instead = match nearest(&plain, names.clone().chain(loggers)) {
                    Some(near) if near.contains('.') => format!("{near} is likely meant"),
                    Some(near) => format!("{near}.* is likely meant"),
                    None => format!("there are {}", list(names)),
                };
                note(&format!("no type of events fits --filter {filter}; {instead}"));
            }
        }
        if let Some(thread) = self.args.thread.filter(|thread| !self.seen.contains(thread)) {
            let threads: Vec<_> = self.seen.iter().map(u32::to_string).collect();
            let threads = list(threads.iter().map(String::as_str));
            note(&format!("no event is of thread {thread}; there are {threads}"));
        }
    }

    /// The text of a bookmark.
    fn bookmark(&mut self, event: &Event<'_>) -> Option<String> {
        match self.types.get(event.type_index)?.bookmark? {
            Bookmark::Spec { point, format } => {
                if let (Some(Value::Unsigned(point)), Some(Value::Text(format))) =
                    (event.value(point), event.value(format))
                    && self.formats.len() < MOST_FORMATS
                {
                    self.formats.insert(point, format.into_owned());
                }
                None
            }
            Bookmark::Set { point, arguments } => {
                let Some(Value::Unsigned(point)) = event.value(point) else { return None };
                let format = self.formats.get(&point)?;
                let Some(Value::Array(values)) = event.value(arguments) else { return None };
                let byte = |value: &Value<'_>| match value {
                    Value::Unsigned(byte) => Some(*byte as u8),
                    _ => None,
                };
                let bytes: Vec<u8> = values.iter().filter_map(byte).collect();
                Some(bookmark_text(format, &bytes))
            }
        }
    }

    fn thread(&self, stream: u16) -> Option<u32> {
        let first = if self.ours { LAST_OWN + 1 } else { FIRST_THREAD };
        let is_thread = (first..=LAST_THREAD).contains(&stream);
        self.threads.get(&stream).copied().or(is_thread.then_some(stream.into()))
    }
}

impl Visitor for Printer<'_> {
    fn event_type(&mut self, _: usize, event_type: &EventType) {
        let name = event_type.name();
        self.ours |= event_type.is("Memledger", "Trace");
        let shown = self.filters.is_empty() || self.filters.iter().any(|f| f.matches(&name));
        let fields = event_type.fields.iter();
        self.names.insert(name.clone());
        self.types.push(Shown {
            bookmark: Bookmark::of(event_type),
            name: shown.then(|| escape(&name)),
            fields: fields.map(|f| (escape(&f.name), is_address(&f.name))).collect(),
            thread_id: (event_type.field("Id"))
                .filter(|_| event_type.is("Memledger", "ThreadStart")),
        });
    }

    fn event(&mut self, event: &Event<'_>) {
        let Some(shown) = self.types.get(event.type_index) else { return };
        if let Some(field) = shown.thread_id
            && let Some(Value::Unsigned(id)) = event.value(field)
        {
            self.threads.insert(event.stream, id as u32);
        }
        let bookmark = self.bookmark(event);
        let thread = self.thread(event.stream);
        self.seen.extend(thread);
        if self.is_done() || self.args.thread.is_some() && self.args.thread != thread {
            return;
        }
        let Some(Shown { name: Some(name), fields, .. }) = self.types.get(event.type_index) else {
            return;
        };
        let written = match self.args.format {
            Format::Text => text(event, thread, name, fields, bookmark.as_deref(), self.out),
            Format::Json => {
                json(event, thread, fields, bookmark.as_deref(), self.printed == 0, self.out)
            }
        };
        self.printed += 1;
        self.failed = self.failed.take().or(written.err());
    }

    fn hole(&mut self, hole: Hole) {
        if self.args.format == Format::Text && !self.is_done() {
            let last = hole.first.saturating_add(hole.count.saturating_sub(1));
            self.write(|out| match hole.count {
                0 => writeln!(out, "# an unknown number of serials from {last} on is missing"),
                1 => writeln!(out, "# serial {last} is missing"),
                _ => writeln!(out, "# serials {} to {last} are missing", hole.first),
            });
        }
    }

    fn damage(&mut self, damage: &Damage) {
        self.damages += 1;
        if self.damages <= NAMED_DAMAGES && !self.is_done() {
            note(&match damage.offset {
                Some(offset) => format!("in the packet at byte {offset}: {}", damage.what),
                None => damage.what.clone(),
            });
        }
    }
}

fn text(
    event: &Event<'_>,
    thread: Option<u32>,
    name: &str,
    fields: &[(String, bool)],
    bookmark: Option<&str>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let or_none = |number: Option<String>| number.unwrap_or_else(|| "-".to_owned());
    let serial = or_none(event.serial.map(|serial| serial.to_string()));
    let thread = or_none(thread.map(|thread| thread.to_string()));
    write!(out, "{serial:>8} {thread:>5}  {name}")?;
    for (index, (field, address)) in fields.iter().enumerate() {
        if let Some(text) = bookmark.filter(|_| field == "FormatArgs") {
            write!(out, " Text=\"{}\"", text.escape_debug())?;
        } else if let Some(value) = event.value(index) {
            write!(out, " {field}=")?;
            text_value(&value, *address, width(event, index), out)?;
        }
    }
    writeln!(out, "{}", if event.enters_scope { " {" } else { "" })
}

fn text_value(
    value: &Value<'_>,
    address: bool,
    digits: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    match value {
        Value::Unsigned(number) if address => write!(out, "0x{number:x}"),
        Value::Unsigned(number) => write!(out, "{number}"),
        // What Unreal declares signed may still be an address.
        Value::Signed(number) if address => write!(out, "0x{:x}", number & mask(digits)),
        Value::Signed(number) => write!(out, "{number}"),
        Value::Float(number) => write!(out, "{number}"),
        Value::Text(text) => write!(out, "\"{}\"", text.escape_debug()),
        Value::Array(values) => {
            out.write_all(b"[")?;
            for (index, value) in values.iter().enumerate() {
                out.write_all(if index > 0 { b", " } else { b"" })?;
                text_value(value, address, digits, out)?;
            }
            out.write_all(b"]")
        }
        _ => out.write_all(b"?"),
    }
}

fn json(
    event: &Event<'_>,
    thread: Option<u32>,
    fields: &[(String, bool)],
    bookmark: Option<&str>,
    first: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let quoted = |text: &str| serde_json::Value::from(text);
    let number = |number: Option<u64>| number.map_or(serde_json::Value::Null, Into::into);
    // By hand, so that the fields stand in the order of their declaration.
    write!(
        out,
        "{}\n{{\"serial\":{},\"thread\":{},\"name\":{},\"enters_scope\":{},\"fields\":{{",
        if first { "" } else { "," },
        number(event.serial),
        number(thread.map(u64::from)),
        quoted(&event.event_type.name()),
        event.enters_scope
    )?;
    for (index, (field, (_, address))) in event.event_type.fields.iter().zip(fields).enumerate() {
        if let Some(value) = event.value(index) {
            let value = json_value(&value, *address, width(event, index));
            write!(out, "{}{}:{value}", if index > 0 { "," } else { "" }, quoted(&field.name))?;
        }
    }
    out.write_all(b"}")?;
    if let Some(text) = bookmark {
        write!(out, ",\"text\":{}", quoted(text))?;
    }
    out.write_all(b"}")
}

/// The first names of a long list, for a sentence.
fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    let shown = names.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED) {
        0 if names.is_empty() => "none".to_owned(),
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn json_value(value: &Value<'_>, address: bool, digits: usize) -> serde_json::Value {
    match value {
        Value::Unsigned(number) if address => format!("0x{number:x}").into(),
        Value::Unsigned(number) => (*number).into(),
        Value::Signed(number) if address => format!("0x{:x}", number & mask(digits)).into(),
        Value::Signed(number) => (*number).into(),
        // Not every float is a number in JSON.
        Value::Float(number) => (*number).into(),
        Value::Text(text) => text.as_ref().into(),
        Value::Array(values) => {
            values.iter().map(|value| json_value(value, address, digits)).collect()
        }
        _ => serde_json::Value::Null,
    }
}

/// Bytes of one element of a field.
fn width(event: &Event<'_>, index: usize) -> usize {
    event.event_type.fields.get(index).map_or(8, |field| field.field_type.element_size())
}

fn mask(bytes: usize) -> i64 {
    if bytes >= 8 { -1 } else { (1 << (8 * bytes)) - 1 }
}

/// Whether the field holds addresses, going by its name.
fn is_address(name: &str) -> bool {
    matches!(name, "Address" | "Ptr" | "Frames" | "Base")
        || name.ends_with("Pointer")
        || name.ends_with("Point")
        || name.ends_with("Address")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: EventsArgs,
    }

    fn sample(name: &str) -> String {
        format!("{}/../tests/samples/{name}.utrace", env!("CARGO_MANIFEST_DIR"))
    }

    fn events(arguments: &[&str]) -> (Result<Outcome, CliError>, String) {
        let smoke = sample("ue511-smoke");
        let arguments = ["events", &smoke].into_iter().chain(arguments.iter().copied());
        let cli = Cli::try_parse_from(arguments).unwrap_or_else(|error| panic!("{error}"));
        let mut out = Vec::new();
        (run(&cli.args, &mut out), String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn one_line_for_each_event() {
        let (outcome, out) = events(&[]);
        assert!(matches!(outcome, Ok(Outcome::Done)));
        assert_eq!(out.lines().count(), 1149);
        let line = out.lines().find(|line| line.contains("Memory.Init"));
        let expected = "       -     -  Memory.Init PageSize=4096 MarkerPeriod=4096 Version=2 \
                        MinAlignment=16 SizeShift=3";
        assert_eq!(line, Some(expected));
        assert!(out.contains("\n       1     2  Memory.AllocSystem Address=0x1000 CallstackId=1 "));
        assert!(out.contains(r#" Name="worker-0""#));
        assert_eq!(out.lines().filter(|line| line.ends_with(" {")).count(), 1);
    }

    #[test]
    fn filters_threads_and_limits() {
        let lines = |arguments: &[&str]| events(arguments).1.lines().count();
        assert_eq!(lines(&["--filter", "Memory.*System"]), 568 + 434);
        assert_eq!(lines(&["--filter", "Memory.Init", "--filter", "*.TagSpe?"]), 65);
        assert_eq!(lines(&["--thread", "2"]), 69);
        assert_eq!(lines(&["--thread", "4", "--filter", "$Trace.*"]), 1);
        assert_eq!(lines(&["--limit", "7"]), 7);
        assert_eq!(lines(&["--limit", "0"]), 0);
    }

    #[test]
    fn json_is_one_document() {
        for arguments in [&["--format", "json"][..], &["--format", "json", "--limit", "2"]] {
            let (_, out) = events(arguments);
            let value: serde_json::Value =
                serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
            assert_eq!(value["schema"], "memledger.events/1");
            let events = value["events"].as_array().map_or(0, Vec::len);
            assert_eq!(events, if arguments.len() == 2 { 1149 } else { 2 });
            assert_eq!(value["events"][0]["name"], "$Trace.NewTrace");
            assert_eq!(value["events"][0]["serial"], serde_json::Value::Null);
            assert_eq!(value["damaged"], false);
        }
    }

    #[test]
    fn what_a_trace_says_cannot_reach_the_terminal() {
        assert_eq!(escape("a\u{1b}[2J\n\u{202e}"), "a\\u{1b}[2J\\n\\u{202e}");
        let mut out = Vec::new();
        let value = Value::Text("\u{7}\"\\".into());
        assert!(text_value(&value, false, 8, &mut out).is_ok());
        assert_eq!(String::from_utf8_lossy(&out), r#""\u{7}\"\\""#);
    }

    /// An output that is closed after its first bytes.
    struct Closed(usize);

    impl Write for Closed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_output_ends_it() {
        for writes in 0..20 {
            let cli = Cli::try_parse_from(["events", &sample("mem-2t-40k")]);
            let cli = cli.unwrap_or_else(|error| panic!("{error}"));
            match run(&cli.args, &mut Closed(writes)) {
                Err(CliError::Output(error)) => assert_eq!(error.kind(), io::ErrorKind::BrokenPipe),
                other => panic!("{other:?}"),
            }
        }
    }
}
