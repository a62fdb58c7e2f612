//! What a trace consists of, for people.

use super::engines;
use super::facts::{Facts, ThreadFacts, hex};
use memledger_analysis::read::{Hole, Summary};
use memledger_export::text::{escape, wrapped};
use memledger_format::handshake::Magic;
use memledger_format::handshake::Transport;
use std::cmp::Reverse;
use std::io::{self, Write};

/// Columns of a name.
const NAME: usize = 44;

/// Writes `facts`, `summary` and what the figures lack in lines of at most 80 columns.
pub fn write(
    name: &str,
    facts: &Facts,
    summary: &Summary,
    lacks: &[(&str, String)],
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{}", shown(name, 79))?;
    header(facts, summary, out)?;
    counts(summary, out)?;
    problems(facts, summary, out)?;
    for (title, sentence) in lacks {
        line(out, title, sentence)?;
    }
    event_types(summary, out)?;
    threads(facts, summary, out)?;
    channels(facts, out)
}

/// Writes `value` in as many rows as it needs, the first of them with `key`.
fn line(out: &mut dyn Write, mut key: &str, value: &str) -> io::Result<()> {
    for row in wrapped(value, 66, 66) {
        writeln!(out, "  {key:<10}  {row}")?;
        key = "";
    }
    Ok(())
}

/// The format of the trace, and the program that wrote it.
fn header(facts: &Facts, summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let handshake = &summary.handshake;
    let name = match handshake.transport {
        Transport::Compact => "Unreal Trace, compact (.memledger)",
        Transport::Packed => "Unreal Trace, packed (.memledger)",
        _ => "Unreal Trace",
    };
    let (transport, protocol) = (handshake.transport.version(), handshake.protocol);
    line(out, "format", &format!("{name}, transport {transport}, protocol {protocol}"))?;
    if let Some(engines) = engines(handshake) {
        line(out, "writer", engines)?;
        line(out, "", "integers are shown as unsigned, because their types have no sign bit")?;
    }
    for (key, guid) in [("session", handshake.session_guid), ("trace", handshake.trace_guid)] {
        if let Some(guid) = guid {
            line(out, key, &hex(&guid))?;
        }
    }
    if let Some(program) = facts.session.get("AppName") {
        let platform = facts.session.get("Platform").map(|p| format!(", {}", escape(p)));
        let program = escape(program);
        line(out, "program", &format!("{program}{}", platform.unwrap_or_default()))?;
    }
    if let Some(command) = facts.session.get("CommandLine") {
        line(out, "arguments", &escape(command))?;
    }
    if let Some(pid) = facts.pid {
        line(out, "process", &pid.to_string())?;
    }
    if let Some(port) = handshake.control_port {
        line(out, "control", &format!("port {port}"))?;
    }
    let of = |logger: &str, event: &str| {
        let types = summary.types.iter().filter(|t| t.event_type.logger == logger);
        types.filter(|t| t.event_type.event.starts_with(event)).map(|t| t.events).sum::<u64>()
    };
    if of("LLM", "TagValue") > 0 && of("Memory", "Alloc") + of("Memory", "ReallocAlloc") == 0 {
        line(out, "memory", "values of the engine's memory tags (LLM), no single allocations")?;
    }
    if let Some(nanoseconds) = facts.duration_ns() {
        line(out, "duration", &format!("{:.6} s", nanoseconds as f64 / 1e9))?;
    }
    Ok(())
}

/// Bytes, packets, events and serials.
fn counts(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let Summary { packets, counts, .. } = summary;
    let each = match counts.events {
        0 => String::new(),
        events => format!(", {:.1} for each event", summary.input_bytes as f64 / events as f64),
    };
    line(out, "bytes", &format!("{}{each}", summary.input_bytes))?;
    let ours = packets.compact + packets.packed;
    let all = packets.plain + packets.encoded + ours + packets.sync + packets.damaged;
    let counted = |number: u64, what: &str| match number {
        0 => String::new(),
        number => format!("{number} {what}, "),
    };
    let packets = format!(
        "{all}: {} plain, {} encoded, {}{}{} sync, {} damaged",
        packets.plain,
        packets.encoded,
        counted(packets.compact, "compact"),
        counted(packets.packed, "packed"),
        packets.sync,
        packets.damaged
    );
    line(out, "packets", &packets)?;
    line(out, "events", &counts.events.to_string())?;
    let serials = match (counts.first_serial, counts.last_serial) {
        (Some(first), Some(last)) => format!("{first} to {last}, {} out of order", counts.late),
        _ => "none".to_owned(),
    };
    line(out, "serials", &serials)
}

/// The missing parts, and the parts that cannot be read.
fn problems(facts: &Facts, summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    let counts = &summary.counts;
    let holes = match counts.holes {
        0 => "none".to_owned(),
        holes if counts.missing_unknown => {
            format!("{holes}, with an unknown number of events missing")
        }
        1 => format!("1, with {} events missing", counts.missing),
        holes => format!("{holes}, with {} events missing in all", counts.missing),
    };
    line(out, "holes", &holes)?;
    for &Hole { first, count, .. } in &facts.holes {
        let last = first.saturating_add(count.saturating_sub(1));
        let serials = match count {
            0 => format!("serials from {first} on, up to an unknown one"),
            count => format!("serials {first} to {last} ({count})"),
        };
        line(out, "", &serials)?;
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
    line(out, "damage", &damage)?;
    for damage in &facts.damages {
        let offset = damage.offset.map_or(String::new(), |offset| format!("byte {offset}: "));
        line(out, "", &format!("{offset}{}", damage.what))?;
    }
    Ok(())
}

/// The table of event types, the most frequent first.
fn event_types(summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\n{:>12}  {:>5}  event type", "events", "bytes")?;
    let mut types = summary.types.iter().collect::<Vec<_>>();
    types.sort_by_key(|t| (Reverse(t.events), t.event_type.name()));
    for t in types {
        let arrays = if t.event_type.has_aux() { "+" } else { "" };
        let size = format!("{}{arrays}", t.event_type.fixed_size());
        writeln!(out, "{:>12}  {size:>5}  {}", t.events, shown(&t.event_type.name(), 56))?;
    }
    Ok(())
}

/// The table of streams, with the threads that used them.
fn threads(facts: &Facts, summary: &Summary, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\n{:>12}  {:>12}  {:>6}  thread, as events --thread takes it",
        "events", "bytes", "stream"
    )?;
    // Up to protocol 4, the stream of types has events, too.
    let first = u16::from(summary.handshake.protocol > 4);
    for stream in summary.streams.iter().filter(|s| s.stream >= first) {
        let names = match stream.stream {
            1 if summary.handshake.magic == Magic::Trc2 => "(important events)".to_owned(),
            id => {
                let names = facts.threads(id).iter().map(ThreadFacts::label);
                shown(&names.collect::<Vec<_>>().join(", "), NAME)
            }
        };
        let (events, bytes) = (stream.events, stream.bytes);
        writeln!(out, "{events:>12}  {bytes:>12}  {:>6}  {names}", stream.stream)?;
    }
    Ok(())
}

/// The list of channels, if the trace has any.
fn channels(facts: &Facts, out: &mut dyn Write) -> io::Result<()> {
    if facts.channels.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nchannels")?;
    for (id, channel) in &facts.channels {
        let name = channel.name.as_ref().map_or(format!("(id {id:#010x})"), |n| shown(n, NAME));
        let state = if channel.enabled { "on" } else { "off" };
        let fixed = if channel.read_only { ", cannot be switched" } else { "" };
        writeln!(out, "  {state:<3}  {name}{fixed}")?;
    }
    Ok(())
}

/// Text from the trace, escaped, and cut to `columns` characters.
fn shown(text: &str, columns: usize) -> String {
    let text = escape(text);
    match text.char_indices().nth(columns) {
        None => text,
        Some(_) => text.chars().take(columns.saturating_sub(3)).chain("...".chars()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_and_hostile_text_is_cut_and_escaped() {
        assert_eq!(shown("abcdef\u{1b}", 20), "abcdef\\u{1b}");
        assert_eq!(shown("abcdefgh", 6), "abc...");
    }
}
