//! What events a trace holds, and figures of one logger's: an analyzer of events by name, in one
//! file, beside the memory report in the same pass.
//!
//! ```sh
//! cargo run --release --example analyze_events -- run.utrace            # all kinds of events
//! cargo run --release --example analyze_events -- run.utrace Memory     # one logger's, with figures
//! ```

use memledger::analysis::Analyzer;
use memledger::trace::read::{EventAnalyzer, FieldValue, Occurrence, read};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;

/// What is known of all events of one name.
#[derive(Default)]
struct Kind {
    events: u64,
    /// How many came on each thread.
    threads: BTreeMap<String, u64>,
    /// The first and the last time, in nanoseconds since the start of the trace.
    first: Option<u64>,
    last: Option<u64>,
    fields: BTreeMap<String, Figures>,
}

/// What is known of a field: of a string or an array that is its length.
#[derive(Default)]
struct Figures {
    sum: f64,
    least: f64,
    most: f64,
    /// A text, to see what they look like.
    sample: String,
}

impl Kind {
    fn count(&mut self, event: &Occurrence<'_>) {
        self.events += 1;
        let thread = match event.thread() {
            Some(thread) if thread.name.is_empty() => thread.id.to_string(),
            Some(thread) => format!("{} ({})", thread.name, thread.id),
            None => "none".into(),
        };
        *self.threads.entry(thread).or_default() += 1;
        self.first = self.first.or(event.nanoseconds());
        self.last = event.nanoseconds().or(self.last);
        for field in event.fields() {
            match self.fields.get_mut(field.name()) {
                Some(figures) => figures.add(field),
                None => self.fields.entry(field.name().into()).or_default().begin(field),
            }
        }
    }
}

impl Figures {
    fn begin(&mut self, field: FieldValue<'_>) {
        let value = number(field);
        (self.least, self.most) = (value, value);
        self.add(field);
    }

    fn add(&mut self, field: FieldValue<'_>) {
        let value = number(field);
        self.sum += value;
        self.least = self.least.min(value);
        self.most = self.most.max(value);
        if self.sample.is_empty()
            && let Ok(text) = field.text()
        {
            self.sample = text.into_owned();
        }
    }
}

/// A number, or how many elements there are.
fn number(field: FieldValue<'_>) -> f64 {
    let length = || field.elements().map_or(0.0, |elements| elements.len() as f64);
    field.f64().unwrap_or_else(|_| length())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: analyze_events TRACE [LOGGER]")?;
    let logger = arguments.next();

    let mut kinds = EventAnalyzer::new(BTreeMap::<String, Kind>::new())
        .on(logger.as_deref().unwrap_or("*"), "*", [], |kinds, event, []| {
            kinds.entry(event.event.event_type.name()).or_default().count(event);
        })
        .on_damage(|_, damage| eprintln!("{}", damage.what));
    let mut memory = Analyzer::new();
    let summary = read(File::open(&path)?, &mut (&mut memory, &mut kinds))?;

    for problem in kinds.problems() {
        eprintln!("{problem}");
    }
    for (name, kind) in &kinds.state {
        let seconds = |time: Option<u64>| time.map_or(0.0, |time| time as f64 / 1e9);
        let (first, last) = (seconds(kind.first), seconds(kind.last));
        println!("{name}: {} events, {first:.3} s to {last:.3} s", kind.events);
        if logger.is_none() {
            continue;
        }
        for (thread, events) in &kind.threads {
            println!("    thread {thread}: {events}");
        }
        for (field, Figures { sum, least, most, sample }) in &kind.fields {
            let mean = sum / kind.events as f64;
            println!("    {field}: {least} to {most}, on average {mean:.1} {sample}");
        }
    }
    let totals = memory.report().totals;
    println!(
        "in all {} events; {} blocks live at the end, {} bytes at the peak",
        summary.counts.events, totals.live_blocks, totals.peak_bytes
    );
    Ok(())
}
