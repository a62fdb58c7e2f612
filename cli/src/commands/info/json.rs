//! What a trace consists of, as JSON.

use super::engines;
use super::facts::{ChannelFacts, Facts, ThreadFacts, hex};
use memledger_analysis::read::{StreamCounts, Summary, TypeCount};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Writes `facts`, `summary` and what the figures lack as one document of the schema `memledger.info/1`.
pub fn write(
    facts: &Facts,
    summary: &Summary,
    lacks: &[(&str, String)],
    out: &mut dyn Write,
) -> io::Result<()> {
    let Summary { handshake, packets, counts, .. } = summary;
    let holes = facts.holes.iter().map(|h| json!({ "first": h.first, "count": h.count }));
    let damages = facts.damages.iter().map(
        |damage| json!({ "offset": damage.offset, "skipped": damage.skipped, "what": damage.what }),
    );
    let document = json!({
        "schema": "memledger.info/1",
        "complete": summary.is_complete() && lacks.is_empty(),
        "lacks": lacks.iter().map(|(kind, sentence)| json!({ "kind": kind, "sentence": sentence })).collect::<Vec<_>>(),
        "header": {
            "transport": handshake.transport.version(),
            "protocol": handshake.protocol,
            "engines": engines(handshake),
            "signs_known": handshake.protocol > 4,
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
            "packed": packets.packed,
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
        "types": types(summary),
        "streams": streams(facts, summary),
        "channels": channels(facts),
    });
    writeln!(out, "{document:#}")
}

fn types(summary: &Summary) -> Value {
    let event_type = |t: &TypeCount| {
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
    };
    summary.types.iter().map(event_type).collect()
}

fn streams(facts: &Facts, summary: &Summary) -> Value {
    let thread = |thread: &ThreadFacts| json!({ "id": thread.id, "system_id": thread.system_id, "name": thread.name });
    let stream = |stream: &StreamCounts| {
        json!({
            "stream": stream.stream,
            "packets": stream.packets,
            "bytes": stream.bytes,
            "events": stream.events,
            "threads": facts.threads(stream.stream).iter().map(thread).collect::<Vec<_>>(),
        })
    };
    summary.streams.iter().map(stream).collect()
}

fn channels(facts: &Facts) -> Value {
    let channel = |(id, channel): (&u64, &ChannelFacts)| {
        json!({
            "id": id,
            "name": channel.name,
            "enabled": channel.enabled,
            "read_only": channel.read_only,
        })
    };
    facts.channels.iter().map(channel).collect()
}
