//! What the events of a trace say about the trace itself.

use memledger_analysis::read::{Damage, Event, Hole, Value, Visitor};
use memledger_format::packet::LAST_OWN;
use memledger_format::schema::EventType;
use std::collections::BTreeMap;

/// At most this many damages and holes are listed one by one.
const LISTED: usize = 10;

/// The role of an event type for the facts.
#[derive(Clone, Copy)]
enum Role {
    None,
    Session,
    Process,
    Clock,
    Time,
    ThreadInfo,
    ThreadStart,
    Channel,
}

/// A thread that has used a stream.
pub struct ThreadFacts {
    /// `None` for one of the tracker's own streams.
    pub id: Option<u64>,
    pub system_id: Option<u64>,
    pub name: String,
}

impl ThreadFacts {
    /// Its number and its name.
    pub fn label(&self) -> String {
        match (self.id, &*self.name) {
            (None, name) => name.to_owned(),
            (Some(id), "") => id.to_string(),
            (Some(id), name) => format!("{id}: {name}"),
        }
    }
}

/// A channel, with its last state.
#[derive(Default)]
pub struct ChannelFacts {
    pub name: Option<String>,
    pub enabled: bool,
    pub read_only: bool,
}

/// What the events say about the trace itself.
#[derive(Default)]
pub struct Facts {
    roles: Vec<Role>,
    /// `AppName`, `Platform`, `CommandLine` ... of the session.
    pub session: BTreeMap<String, String>,
    pub pid: Option<u64>,
    /// Whether memledger wrote the trace.
    by_memledger: bool,
    /// The cycle at which the trace starts, and cycles per second.
    clock: Option<(u64, u64)>,
    last_cycle: u64,
    /// By stream, the thread of `ThreadInfo`.
    infos: BTreeMap<u64, ThreadFacts>,
    /// By stream, all threads that used it, if the writer reuses streams.
    starts: BTreeMap<u64, Vec<ThreadFacts>>,
    pub channels: BTreeMap<u64, ChannelFacts>,
    pub holes: Vec<Hole>,
    pub damages: Vec<Damage>,
}

impl Facts {
    pub fn threads(&self, stream: u16) -> &[ThreadFacts] {
        let stream = u64::from(stream);
        match (self.starts.get(&stream), self.infos.get(&stream)) {
            (Some(threads), _) => threads,
            (None, info) => info.map_or(&[], std::slice::from_ref),
        }
    }

    pub fn duration_ns(&self) -> Option<u64> {
        let (start, frequency) = self.clock.filter(|&(_, frequency)| frequency > 0)?;
        let cycles = u128::from(self.last_cycle.checked_sub(start)?);
        u64::try_from(cycles * 1_000_000_000 / u128::from(frequency)).ok()
    }
}

impl Visitor for Facts {
    fn event_type(&mut self, _: usize, event_type: &EventType) {
        self.by_memledger |= event_type.is("Memledger", "Trace");
        self.roles.push(match (&*event_type.logger, &*event_type.event) {
            ("Diagnostics", "Session2") => Role::Session,
            ("Memledger", "Trace") => Role::Process,
            // Unreal Engine 4 gives the clock in an event of its own.
            ("$Trace", "NewTrace" | "Timing") if event_type.field("StartCycle").is_some() => {
                Role::Clock
            }
            ("Memory", "Marker") | ("LLM", "TagValue") => Role::Time,
            ("$Trace", "ThreadInfo") => Role::ThreadInfo,
            ("Memledger", "ThreadStart") => Role::ThreadStart,
            ("Trace", "ChannelAnnounce" | "ChannelToggle") => Role::Channel,
            _ => Role::None,
        });
    }

    fn event(&mut self, event: &Event<'_>) {
        let role = self.roles.get(event.type_index).copied().unwrap_or(Role::None);
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
        match role {
            Role::None => {}
            Role::Session => {
                for (index, field) in event.event_type.fields.iter().enumerate() {
                    if let Some(Value::Text(text)) = event.value(index)
                        && !text.is_empty()
                    {
                        self.session.insert(field.name.to_string(), text.into_owned());
                    }
                }
            }
            Role::Process => self.pid = Some(number("Pid")),
            Role::Clock => self.clock = Some((number("StartCycle"), number("CycleFrequency"))),
            Role::Time => self.last_cycle = self.last_cycle.max(number("Cycle")),
            Role::ThreadInfo => {
                // Unreal Engine 4 has this event on the stream of the thread.
                let stream = match field("ThreadId") {
                    Some(_) => number("ThreadId"),
                    None => event.stream.into(),
                };
                // The first streams of a memledger trace belong to no thread, whatever its
                // `ThreadId` is.
                let is_thread = !self.by_memledger || stream > LAST_OWN.into();
                let system_id = is_thread.then(|| number("SystemId"));
                let thread =
                    ThreadFacts { id: is_thread.then_some(stream), system_id, name: name() };
                self.infos.insert(stream, thread);
            }
            Role::ThreadStart => {
                let (id, system_id) = (Some(number("Id")), Some(number("SystemId")));
                let thread = ThreadFacts { id, system_id, name: name() };
                self.starts.entry(event.stream.into()).or_default().push(thread);
            }
            Role::Channel => {
                let channel = self.channels.entry(number("Id")).or_default();
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

/// `bytes` in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
