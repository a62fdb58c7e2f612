//! Prints each packet: one line, or one object of JSON.

use super::decoder::{Argument, Decoder, Item, Loss, Packet, TrackEvent, field};
use super::{Source, missing};
use crate::commands::Format;
use crate::error::{CliError, Outcome};
use crate::terminal::note;
use memledger::dump::text::escape;
use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use std::io::{self, Write};
use wildmatch::WildMatch;

/// The most places of damage that are named one by one.
const NAMED_DAMAGES: u64 = 10;

/// What is printed.
pub struct Choice<'a> {
    pub filters: &'a [String],
    /// The system's id of a thread.
    pub thread: Option<u32>,
    pub limit: Option<u64>,
    pub stacks: bool,
    pub format: Format,
}

/// Prints the packets of a file.
pub fn run(
    name: &str,
    source: Source,
    choice: &Choice<'_>,
    out: &mut dyn Write,
) -> Result<Outcome, CliError> {
    let filters = choice.filters.iter().map(|filter| WildMatch::new(filter)).collect();
    let mut printer = Printer { choice, filters, out, printed: 0, places: 0, bytes: 0, partly: 0 };
    let is_json = choice.format == Format::Json;
    let mut failed = None;
    if is_json {
        let start = br#"{"schema":"memledger.events/1","format":"perfetto","events":["#;
        failed = printer.out.write_all(start).err();
    }
    let mut decoder = Decoder::default();
    let mut is_done = failed.is_some() || choice.limit == Some(0);
    let (_, unread) = match is_done {
        true => (0, None),
        false => decoder.read(source, &mut |decoder, item| {
            match printer.item(decoder, item) {
                Ok(is_wanted) => is_done = !is_wanted,
                Err(error) => (is_done, failed) = (true, Some(error)),
            }
            !is_done
        }),
    };
    let Printer { places, bytes, partly, .. } = printer;
    if places > NAMED_DAMAGES {
        note(&format!("{} more places are damaged", places - NAMED_DAMAGES));
    }
    let missing = missing(name, places, bytes, partly, unread.as_ref());
    if is_json && failed.is_none() {
        failed = writeln!(out, "\n],\"damaged\":{}}}", missing.is_some()).err();
    }
    match failed {
        Some(error) => Err(CliError::output(error)),
        None => Ok(missing.map_or(Outcome::Done, Outcome::Incomplete)),
    }
}

struct Printer<'a> {
    choice: &'a Choice<'a>,
    filters: Vec<WildMatch>,
    out: &'a mut dyn Write,
    printed: u64,
    places: u64,
    bytes: u64,
    partly: u64,
}

impl Printer<'_> {
    /// Whether more is wanted.
    fn item(&mut self, decoder: &Decoder, item: Item) -> io::Result<bool> {
        let packet = match item {
            Item::Damage { offset, bytes, what } => {
                self.places += 1;
                self.bytes += bytes;
                if self.places <= NAMED_DAMAGES {
                    note(&format!("byte {offset}: {what}: {bytes} bytes are skipped"));
                }
                return Ok(true);
            }
            Item::Packet(packet) => packet,
        };
        self.partly += u64::from(packet.losses.contains(&Loss::Damaged));
        if !self.is_wanted(&packet, decoder) {
            return Ok(true);
        }
        match self.choice.format {
            Format::Text => {
                let line = text(&packet, decoder, self.choice.stacks);
                writeln!(self.out, "{line}")?;
            }
            Format::Json => {
                let separator = if self.printed == 0 { "" } else { "," };
                write!(self.out, "{separator}\n{}", json(&packet, decoder))?;
            }
        }
        self.printed += 1;
        Ok(self.choice.limit.is_none_or(|limit| self.printed < limit))
    }

    fn is_wanted(&self, packet: &Packet, decoder: &Decoder) -> bool {
        let event = packet.event.as_ref();
        let fits = |filter: &WildMatch| {
            filter.matches(&packet.kind)
                || event.is_some_and(|event| {
                    filter.matches(&event.kind)
                        || event.name.as_ref().is_some_and(|name| filter.matches(name))
                })
        };
        let of_thread = |id: u32| {
            let track = event.and_then(|event| event.track);
            let mut around = track.into_iter().flat_map(|track| decoder.around(track));
            around
                .any(|track| track.thread.as_ref().is_some_and(|thread| thread.1 == i64::from(id)))
        };
        (self.filters.is_empty() || self.filters.iter().any(fits))
            && self.choice.thread.is_none_or(of_thread)
    }
}

/// The name of a track with those around it, outermost first.
fn track_name(decoder: &Decoder, event: &TrackEvent) -> Option<String> {
    let track = event.track?;
    let mut names: Vec<_> = decoder.around(track).map(|track| track.name.clone()).collect();
    // The process has no more to say, if there is a track within it.
    if names.len() > 1 {
        names.pop();
    }
    names.reverse();
    Some(if names.is_empty() { format!("{track:#x}") } else { names.join("/") })
}

pub(super) fn text(packet: &Packet, decoder: &Decoder, with_stacks: bool) -> String {
    let time = packet.at_ns.map_or_else(|| "-".to_owned(), |time| time.to_string());
    let mut line = format!("{time:>16} {:>5}  {}", packet.sequence, packet.kind);
    match &packet.event {
        Some(event) => event_text(event, decoder, with_stacks, &mut line),
        None => {
            for (number, name, value) in &packet.message.fields {
                let is_content = name.is_none_or(|name| name == packet.kind);
                if is_content || matches!(*number, field::DEFAULTS | field::CLOCK_SNAPSHOT) {
                    _ = match name {
                        Some(name) if *name == packet.kind => write!(line, " "),
                        Some(name) => write!(line, " {name}="),
                        None => write!(line, " #{number}="),
                    };
                    value.print(&mut line);
                }
            }
        }
    }
    if packet.kind != "interned_data"
        && let Some(data) = packet.message.message(field::INTERNED_DATA)
    {
        line.push_str(" interned={");
        data.print(&mut line);
        line.push('}');
    }
    if packet.message.unread_bytes > 0 {
        _ = write!(line, " ({} bytes cannot be read)", packet.message.unread_bytes);
    }
    for loss in &packet.losses {
        _ = write!(line, " !{}", loss.name());
    }
    line
}

fn event_text(event: &TrackEvent, decoder: &Decoder, with_stacks: bool, line: &mut String) {
    _ = write!(line, " {}", event.kind);
    if let Some(name) = &event.name {
        _ = write!(line, " \"{}\"", escape(name));
    }
    if !event.categories.is_empty() {
        _ = write!(line, " [{}]", escape(&event.categories.join(",")));
    }
    if let Some(track) = track_name(decoder, event) {
        _ = write!(line, " track=\"{}\"", escape(&track));
    }
    if let Some(value) = &event.counter {
        line.push_str(" value=");
        value.print(line);
    }
    for (name, value) in &event.arguments {
        _ = write!(line, " {}=", escape(name));
        argument_text(value, line);
    }
    for (title, flows) in [("flow", &event.flows), ("end_flow", &event.terminating_flows)] {
        for flow in flows {
            _ = write!(line, " {title}={flow:#x}");
        }
    }
    if let Some(id) = &event.correlation {
        line.push_str(" correlation=");
        id.print(line);
    }
    if with_stacks && !event.callstack.is_empty() {
        _ = write!(line, " stack=\"{}\"", escape(&event.callstack.join(";")));
    }
}

fn argument_text(argument: &Argument, line: &mut String) {
    match argument {
        Argument::Value(value) => value.print(line),
        Argument::Dictionary(entries) => {
            line.push('{');
            for (nth, (name, value)) in entries.iter().enumerate() {
                _ = write!(line, "{}{}=", if nth > 0 { " " } else { "" }, escape(name));
                argument_text(value, line);
            }
            line.push('}');
        }
        Argument::List(values) => {
            line.push('[');
            for (nth, value) in values.iter().enumerate() {
                line.push_str(if nth > 0 { " " } else { "" });
                argument_text(value, line);
            }
            line.push(']');
        }
    }
}

fn argument_json(argument: &Argument) -> Json {
    match argument {
        Argument::Value(value) => value.json(),
        Argument::Dictionary(entries) => arguments_json(entries),
        Argument::List(values) => values.iter().map(argument_json).collect(),
    }
}

/// An object; a name that is there more than once has a list.
fn arguments_json(arguments: &[(String, Argument)]) -> Json {
    let mut object = serde_json::Map::new();
    for (name, value) in arguments {
        let value = argument_json(value);
        match object.get_mut(name) {
            None => _ = object.insert(name.clone(), value),
            Some(Json::Array(values)) => values.push(value),
            Some(first) => *first = json!([first.take(), value]),
        }
    }
    Json::Object(object)
}

pub(super) fn json(packet: &Packet, decoder: &Decoder) -> Json {
    let mut object = json!({
        "offset": packet.offset,
        "bytes": packet.bytes,
        "compressed": packet.is_compressed,
        "sequence": packet.sequence,
        "timestamp_ns": packet.at_ns,
        "kind": packet.kind,
        "losses": packet.losses.iter().map(|loss| loss.name()).collect::<Vec<_>>(),
        "packet": packet.message.json(),
    });
    let Some(event) = &packet.event else { return object };
    let hex = |ids: &[u64]| ids.iter().map(|id| format!("{id:#x}")).collect::<Vec<_>>();
    let track = event.track.map(|uuid| {
        let around = decoder.around(uuid);
        let thread = around.filter_map(|track| track.thread.as_ref()).next();
        json!({
            "uuid": format!("{uuid:#x}"),
            "name": track_name(decoder, event),
            "tid": thread.map(|thread| thread.1),
        })
    });
    let more = json!({
        "type": event.kind,
        "name": event.name,
        "categories": event.categories,
        "track": track,
        "arguments": arguments_json(&event.arguments),
        "value": event.counter.as_ref().map(|value| value.json()),
        "flows": hex(&event.flows),
        "terminating_flows": hex(&event.terminating_flows),
        "correlation_id": event.correlation.as_ref().map(|value| value.json()),
        "stack": event.callstack,
    });
    if let (Json::Object(object), Json::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}
