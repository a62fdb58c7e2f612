//! Sums over all packets of a file.

use super::decoder::{Decoder, Item, Loss, Packet, field};
use super::{Source, missing};
use crate::commands::Format;
use crate::error::{CliError, Outcome};
use memledger::dump::text::{self, escape};
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

/// The most places of damage that are listed.
const LISTED: usize = 20;

#[derive(Default)]
struct Counted {
    packets: u64,
    bytes: u64,
}

#[derive(Default)]
struct SequenceFacts {
    packets: u64,
    from_ns: Option<u64>,
    to_ns: Option<u64>,
    losses: BTreeMap<Loss, u64>,
    track: Option<u64>,
}

/// A heap of a process.
#[derive(Default)]
struct Heap {
    dumps: u64,
    last_dump: Option<u64>,
    /// By sequence and callstack: allocated and freed bytes, and how often.
    sums: HashMap<(u64, u64), [u64; 4]>,
}

#[derive(Default)]
struct Facts {
    bytes: u64,
    packets: u64,
    compressed: u64,
    kinds: BTreeMap<String, Counted>,
    sequences: BTreeMap<u64, SequenceFacts>,
    events: BTreeMap<String, u64>,
    categories: BTreeMap<String, u64>,
    unknown: BTreeMap<(&'static str, u32), u64>,
    heaps: BTreeMap<(u64, String), Heap>,
    damages: Vec<(u64, u64, &'static str)>,
    places: u64,
    damaged_bytes: u64,
    /// The last packet of a heap profile of each sequence says that more follows.
    is_continued: BTreeMap<u64, bool>,
}

/// Prints what a file consists of.
pub fn run(
    name: &str,
    source: Source,
    format: Format,
    allow_incomplete: bool,
    out: &mut dyn Write,
) -> Result<Outcome, CliError> {
    let mut facts = Facts::default();
    let mut decoder = Decoder::default();
    let (bytes, error) = decoder.read(source, &mut |_, item| {
        match item {
            Item::Packet(packet) => facts.packet(&packet),
            Item::Damage { offset, bytes, what } => {
                facts.places += 1;
                facts.damaged_bytes += bytes;
                if facts.damages.len() < LISTED {
                    facts.damages.push((offset, bytes, what));
                }
            }
        }
        true
    });
    facts.bytes = bytes;
    let partly = facts.losses().get(&Loss::Damaged).copied().unwrap_or(0);
    let missing = missing(name, facts.places, facts.damaged_bytes, partly, error.as_ref());
    match format {
        Format::Text => facts.text(name, &decoder, out),
        Format::Json => {
            let document = facts.json(&decoder, missing.is_none());
            writeln!(out, "{document:#}")
        }
    }
    .map_err(CliError::output)?;
    Ok(crate::commands::outcome(missing, allow_incomplete))
}

impl Facts {
    fn packet(&mut self, packet: &Packet) {
        self.packets += 1;
        self.compressed += u64::from(packet.is_compressed);
        let kind = self.kinds.entry(packet.kind.clone()).or_default();
        kind.packets += 1;
        kind.bytes += packet.bytes as u64;
        let sequence = self.sequences.entry(packet.sequence).or_default();
        sequence.packets += 1;
        if let Some(at) = packet.at_ns {
            sequence.from_ns = Some(sequence.from_ns.map_or(at, |from| from.min(at)));
            sequence.to_ns = Some(sequence.to_ns.map_or(at, |to| to.max(at)));
        }
        for &loss in &packet.losses {
            *sequence.losses.entry(loss).or_default() += 1;
        }
        let defaults = packet.message.message(field::DEFAULTS).and_then(|found| found.message(11));
        sequence.track = defaults.and_then(|event| event.number(11)).or(sequence.track);
        if let Some(event) = &packet.event {
            *self.events.entry(event.kind.clone()).or_default() += 1;
            for category in &event.categories {
                *self.categories.entry(category.clone()).or_default() += 1;
            }
        }
        packet.message.walk("packet", &mut |name, message| {
            for (number, ..) in message.fields.iter().filter(|field| field.1.is_none()) {
                *self.unknown.entry((name, *number)).or_default() += 1;
            }
        });
        for profile in packet.message.messages(field::PROFILE_PACKET) {
            self.is_continued.insert(packet.sequence, profile.number(6) == Some(1));
            for dump in profile.messages(5) {
                let pid = dump.number(1).unwrap_or(0);
                let name = dump.text(11).unwrap_or("unknown").to_owned();
                let heap = self.heaps.entry((pid, name)).or_default();
                let at = dump.number(9);
                heap.dumps += u64::from(heap.dumps == 0 || heap.last_dump != at);
                heap.last_dump = at;
                for sample in dump.messages(2) {
                    let sums = [2, 3, 5, 6].map(|field| sample.number(field).unwrap_or(0));
                    heap.sums.insert((packet.sequence, sample.number(1).unwrap_or(0)), sums);
                }
            }
        }
    }

    fn losses(&self) -> BTreeMap<Loss, u64> {
        let mut all = BTreeMap::new();
        for (&loss, count) in self.sequences.values().flat_map(|sequence| &sequence.losses) {
            *all.entry(loss).or_default() += count;
        }
        all
    }

    /// Sequences whose last dump of a heap profile is not finished.
    fn unfinished(&self) -> usize {
        self.is_continued.values().filter(|continued| **continued).count()
    }

    fn span(&self) -> Option<(u64, u64)> {
        let from = self.sequences.values().filter_map(|sequence| sequence.from_ns).min()?;
        let to = self.sequences.values().filter_map(|sequence| sequence.to_ns).max()?;
        Some((from, to))
    }

    fn text(&self, name: &str, decoder: &Decoder, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{name}")?;
        writeln!(out, "  format      Perfetto")?;
        let processes = decoder.tracks.values().filter_map(|track| track.process.as_ref());
        for (pid, name) in processes {
            writeln!(out, "  process     {}, {pid}", escape(name))?;
        }
        writeln!(out, "  bytes       {}", self.bytes)?;
        let compressed = match self.compressed {
            0 => String::new(),
            count => format!(", {count} of them compressed"),
        };
        writeln!(out, "  packets     {}{compressed}", self.packets)?;
        if let Some((from, to)) = self.span() {
            writeln!(out, "  time        {from} to {to} ns, {}", text::duration(to - from))?;
        }
        writeln!(out, "  tracks      {}", decoder.tracks.len())?;
        let losses = self.losses();
        if losses.is_empty() && self.unfinished() == 0 {
            writeln!(out, "  losses      none")?;
        }
        for (loss, count) in &losses {
            let packets = text::counted(*count, "packet", "packets");
            writeln!(out, "  losses      {packets}: {}", loss.name())?;
        }
        if self.unfinished() > 0 {
            let count = self.unfinished();
            writeln!(out, "  losses      {count} last dumps of a heap profile: not finished")?;
        }
        match self.places {
            0 => writeln!(out, "  damage      none")?,
            places => {
                let places = text::counted(places, "place", "places");
                writeln!(out, "  damage      {places}, {} bytes", self.damaged_bytes)?;
            }
        }
        for (offset, bytes, what) in &self.damages {
            writeln!(out, "    byte {offset}: {what}, {bytes} bytes are skipped")?;
        }
        writeln!(out, "\n     packets         bytes  kind")?;
        for (kind, Counted { packets, bytes }) in &self.kinds {
            writeln!(out, "  {packets:>10}  {bytes:>12}  {}", escape(kind))?;
        }
        writeln!(out, "\n  sequence     packets  of")?;
        for (id, sequence) in &self.sequences {
            let track = sequence.track.and_then(|track| decoder.tracks.get(&track));
            let track = track.map_or("-", |track| &track.name);
            writeln!(out, "  {id:>8}  {:>10}  {}", sequence.packets, escape(track))?;
        }
        self.lists(out)
    }

    fn lists(&self, out: &mut dyn Write) -> io::Result<()> {
        for (title, rows) in [("type", &self.events), ("category", &self.categories)] {
            if !rows.is_empty() {
                writeln!(out, "\n      events  {title}")?;
            }
            for (name, count) in rows {
                writeln!(out, "  {count:>10}  {}", escape(name))?;
            }
        }
        if !self.heaps.is_empty() {
            writeln!(out, "\n  heap: process, dumps, callstacks, allocated bytes, live bytes")?;
        }
        for ((pid, name), heap) in &self.heaps {
            let [allocated, freed, ..] = heap.totals();
            let live = allocated.wrapping_sub(freed);
            let (dumps, stacks) = (heap.dumps, heap.sums.len());
            writeln!(out, "  {}: {pid}, {dumps}, {stacks}, {allocated}, {live}", escape(name))?;
        }
        if !self.unknown.is_empty() {
            writeln!(out, "\n  unknown fields, by message")?;
        }
        for ((message, number), count) in &self.unknown {
            writeln!(out, "  {count:>10}  {message} #{number}")?;
        }
        Ok(())
    }

    fn json(&self, decoder: &Decoder, is_complete: bool) -> Json {
        let kinds = self.kinds.iter().map(
            |(kind, found)| json!({ "kind": kind, "packets": found.packets, "bytes": found.bytes }),
        );
        let losses = |losses: &BTreeMap<Loss, u64>| {
            let all = losses.iter().map(|(loss, count)| (loss.name().to_owned(), json!(count)));
            Json::Object(all.collect())
        };
        let sequences = self.sequences.iter().map(|(id, sequence)| {
            let track = sequence.track.and_then(|track| decoder.tracks.get(&track));
            json!({
                "id": id,
                "packets": sequence.packets,
                "from_ns": sequence.from_ns,
                "to_ns": sequence.to_ns,
                "track": track.map(|track| &track.name),
                "losses": losses(&sequence.losses),
            })
        });
        let heaps = self.heaps.iter().map(|((pid, name), heap)| {
            let [allocated, freed, allocations, frees] = heap.totals();
            json!({
                "pid": pid, "name": name, "dumps": heap.dumps, "callstacks": heap.sums.len(),
                "allocated_bytes": allocated, "freed_bytes": freed,
                "allocations": allocations, "frees": frees,
            })
        });
        let tracks = decoder.tracks.iter().map(|(uuid, track)| {
            json!({
                "uuid": format!("{uuid:#x}"),
                "name": track.name,
                "parent": track.parent.map(|parent| format!("{parent:#x}")),
                "pid": track.process.as_ref().map(|process| process.0),
                "tid": track.thread.as_ref().map(|thread| thread.1),
                "counter": track.is_counter,
            })
        });
        let unknown = self.unknown.iter().map(|((message, number), count)| {
            json!({ "message": message, "number": number, "count": count })
        });
        let damages = self.damages.iter().map(
            |(offset, bytes, what)| json!({ "offset": offset, "skipped": bytes, "what": what }),
        );
        json!({
            "schema": "memledger.info/1",
            "format": "perfetto",
            "complete": is_complete,
            "bytes": self.bytes,
            "packets": self.packets,
            "compressed_packets": self.compressed,
            "kinds": kinds.collect::<Vec<_>>(),
            "sequences": sequences.collect::<Vec<_>>(),
            "tracks": tracks.collect::<Vec<_>>(),
            "events": self.events,
            "categories": self.categories,
            "heaps": heaps.collect::<Vec<_>>(),
            "losses": losses(&self.losses()),
            "unfinished_dumps": self.unfinished(),
            "unknown_fields": unknown.collect::<Vec<_>>(),
            "damage": {
                "places": self.places,
                "skipped_bytes": self.damaged_bytes,
                "first_places": damages.collect::<Vec<_>>(),
            },
        })
    }
}

impl Heap {
    /// The sums of all callstacks.
    fn totals(&self) -> [u64; 4] {
        let mut totals = [0_u64; 4];
        for sums in self.sums.values() {
            std::iter::zip(&mut totals, sums)
                .for_each(|(total, sum)| *total = total.wrapping_add(*sum));
        }
        totals
    }
}
