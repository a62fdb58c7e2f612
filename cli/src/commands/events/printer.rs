//! Chooses the events to print while a trace is read.

use super::bookmarks::{BookmarkRole, Bookmarks};
use super::field::FieldFormat;
use super::stacks::Stacks;
use super::{EventsArgs, json, text};
use crate::commands::Format;
use crate::terminal::note;
use memledger_analysis::read::{Damage, Event, Hole, Value, Visitor};
use memledger_export::text::{escape, instead, nearest};
use memledger_format::packet::{FIRST_THREAD, LAST_OWN, LAST_THREAD};
use memledger_format::schema::EventType;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use wildmatch::WildMatch;

/// At most this many names are listed in a sentence.
const LISTED: usize = 6;
/// At most this many damages are reported one by one.
pub const NAMED_DAMAGES: u64 = 10;

/// How the events of a type are printed.
struct TypeFormat {
    /// The name as it is printed, or `None` if the filters leave the type out.
    name: Option<String>,
    fields: Vec<FieldFormat>,
    /// The field of `Memledger.ThreadStart` that says which thread this is.
    thread_id: Option<usize>,
    bookmark: Option<BookmarkRole>,
    /// The field with the id of a stack, of events that refer to one.
    stack: Option<usize>,
}

/// Prints events while a trace is read.
pub struct Printer<'a> {
    args: &'a EventsArgs,
    filters: Vec<WildMatch>,
    out: &'a mut dyn Write,
    types: Vec<TypeFormat>,
    /// The names of all types.
    names: BTreeSet<String>,
    bookmarks: Bookmarks,
    stacks: Option<Stacks>,
    /// The threads that have had events.
    seen: BTreeSet<u32>,
    /// The current thread of each stream whose thread id is not the number of the stream.
    threads: HashMap<u16, u32>,
    /// Whether memledger wrote the trace. Its first streams belong to no thread.
    by_memledger: bool,
    /// The first stream that belongs to a thread, in a trace of another writer.
    first_thread: u16,
    printed: u64,
    pub damages: u64,
    pub failed: Option<io::Error>,
}

impl<'a> Printer<'a> {
    pub fn new(args: &'a EventsArgs, stacks: Option<Stacks>, out: &'a mut dyn Write) -> Self {
        Self {
            args,
            filters: args.filter.iter().map(|filter| WildMatch::new(filter)).collect(),
            out,
            types: Vec::new(),
            names: BTreeSet::new(),
            bookmarks: Bookmarks::default(),
            stacks,
            threads: HashMap::new(),
            by_memledger: false,
            first_thread: FIRST_THREAD,
            seen: BTreeSet::new(),
            printed: 0,
            damages: 0,
            failed: None,
        }
    }

    /// Writes something other than an event, unless writing has failed before.
    pub fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.failed.is_none() {
            self.failed = write(self.out).err();
        }
    }

    /// Lists the existing names when a filter or a thread matches nothing.
    pub fn note_unmatched(&self) {
        if self.is_done() {
            return;
        }
        for filter in &self.args.filter {
            if !self.names.iter().any(|name| WildMatch::new(filter).matches(name)) {
                let names = self.names.iter().map(String::as_str);
                let plain: String = filter.chars().filter(|c| !matches!(c, '*' | '?')).collect();
                let loggers = names.clone().filter_map(|name| Some(name.split_once('.')?.0));
                let all_of = |near: &str| {
                    if near.contains('.') { near.to_owned() } else { format!("{near}.*") }
                };
                let instead = match nearest(&plain, names.clone().chain(loggers)) {
                    Some(near) => format!("{} is likely meant", all_of(near)),
                    None => instead(&plain, names),
                };
                note(&format!("no event type matches --filter {filter}; {instead}"));
            }
        }
        if let Some(thread) = self.args.thread.filter(|thread| !self.seen.contains(thread)) {
            let seen: Vec<_> = self.seen.iter().take(LISTED).map(u32::to_string).collect();
            let more = match self.seen.len().saturating_sub(LISTED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            note(&format!("no event is on thread {thread}; there are {}{more}", seen.join(", ")));
        }
    }

    fn thread(&self, stream: u16) -> Option<u32> {
        let first = if self.by_memledger { LAST_OWN + 1 } else { self.first_thread };
        let is_thread = (first..=LAST_THREAD).contains(&stream);
        self.threads.get(&stream).copied().or(is_thread.then_some(stream.into()))
    }
}

impl Visitor for Printer<'_> {
    fn is_done(&self) -> bool {
        self.failed.is_some() || self.args.limit.is_some_and(|limit| self.printed >= limit)
    }

    fn event_type(&mut self, _: usize, event_type: &EventType) {
        let name = event_type.name();
        self.by_memledger |= event_type.is("Memledger", "Trace");
        // Unreal Engine 4 counts threads from 0, or from 1 if stream 0 has the types.
        if event_type.is("$Trace", "NewTrace") && event_type.field("StartCycle").is_none() {
            self.first_thread = event_type.field("Serial").is_some().into();
        }
        let shown = self.filters.is_empty() || self.filters.iter().any(|f| f.matches(&name));
        self.names.insert(name.clone());
        self.types.push(TypeFormat {
            bookmark: BookmarkRole::of(event_type),
            stack: (event_type.field("CallstackId"))
                .filter(|_| name.starts_with("Memory.") && name.contains("Alloc")),
            name: shown.then(|| escape(&name)),
            fields: event_type.fields.iter().map(FieldFormat::of).collect(),
            thread_id: (event_type.field("Id"))
                .filter(|_| event_type.is("Memledger", "ThreadStart")),
        });
    }

    fn event(&mut self, event: &Event<'_>) {
        let Some(format) = self.types.get(event.type_index) else { return };
        if let Some(field) = format.thread_id
            && let Some(Value::Unsigned(id)) = event.value(field)
        {
            self.threads.insert(event.stream, id as u32);
        }
        let bookmark = format.bookmark.and_then(|role| self.bookmarks.text(role, event));
        let thread = self.thread(event.stream);
        self.seen.extend(thread);
        if self.is_done() || self.args.thread.is_some() && self.args.thread != thread {
            return;
        }
        let Some(TypeFormat { name: Some(name), fields, stack, .. }) =
            self.types.get(event.type_index)
        else {
            return;
        };
        let bookmark = bookmark.as_deref();
        let id = stack.and_then(|field| match event.value(field) {
            Some(Value::Unsigned(id)) => u32::try_from(id).ok(),
            _ => None,
        });
        let stack = self.stacks.as_mut().zip(id).and_then(|(stacks, id)| stacks.functions(id));
        let written = match self.args.format {
            Format::Text => text::write(event, thread, name, fields, bookmark, stack, self.out),
            Format::Json => {
                json::write(event, thread, fields, bookmark, stack, self.printed == 0, self.out)
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
