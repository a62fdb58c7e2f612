//! How the tree of contexts looks in the stream.
//!
//! Every node is announced once as Unreal's `Memory.TagSpec`, so that its readers show the same
//! tree, with three fields of ours at the end: the kind of node, for a context the tag that
//! owns it, for a measurement its number, and its name as the program gave it.
//!
//! Unreal's tools take a `Display` with a `/` for a path: they show what follows the last one, and the
//! whole as where it lies. So a tag has its groups before it there, and a `/` that is part of a name is
//! written as `|`.

use super::context::{self, Announced, Kind, Walk};
use crate::events::channel::Channel;
use crate::trace::format::encode::Declaration;
use crate::trace::format::schema::{
    FieldType::{AnsiString, I32, U8, U64},
    IMPORTANT, NO_SYNC,
};
use crate::trace::worker::{Importants, Instrument};

pub(crate) static TAG_SPEC: Declaration = Declaration {
    uid: 48,
    logger: "Memory",
    event: "TagSpec",
    flags: IMPORTANT | NO_SYNC,
    fields: &[
        ("Tag", I32),
        ("Parent", I32),
        ("Display", AnsiString),
        ("Kind", U8),
        ("Owner", I32),
        ("Name", AnsiString),
    ],
};

/// The context the thread's stream stands in until the scope that this event opens is left.
pub(crate) static MEMORY_SCOPE: Declaration = Declaration {
    uid: 49,
    logger: "Memory",
    event: "MemoryScope",
    flags: NO_SYNC,
    fields: &[("Tag", I32)],
};

/// The number of entries of a scope since the recording began. `Before` is 1 at the beginning of a
/// late stream: the number before that point.
pub(crate) static SCOPE_ENTRIES: Declaration = Declaration {
    uid: 50,
    logger: "Memledger",
    event: "ScopeEntries",
    flags: NO_SYNC,
    fields: &[("Tag", I32), ("Entries", U64), ("Before", U8)],
};

static TYPES: &[&Declaration] = &[&TAG_SPEC, &MEMORY_SCOPE, &SCOPE_ENTRIES];

/// The scopes that allocations are made in.
pub(crate) static CHANNEL: Channel = Channel::new("Scope", false);

/// No parent, no owner.
const NO_TAG: u32 = u32::MAX;

/// Announces new nodes of the tree, and reports how often scopes were entered.
pub(crate) struct ScopeEvents {
    walk: Option<Walk>,
    /// By node: all entries at the last look, those of them that count, and those that the stream
    /// already reports.
    seen: Vec<u64>,
    entries: Vec<u64>,
    told: Vec<u64>,
    /// Whether the channel was off at the last look: entries do not count while it is.
    is_off: bool,
}

impl ScopeEvents {
    /// Counts entries from here on, or from the start of the process.
    pub(crate) fn new(from_process_start: bool) -> Self {
        let mut seen = Vec::new();
        if !from_process_start {
            context::read_entries(&mut seen);
        }
        let is_off = CHANNEL.is_off();
        Self { walk: None, seen, entries: Vec::new(), told: Vec::new(), is_off }
    }

    fn look(&mut self) {
        let mut now = self.seen.clone();
        context::read_entries(&mut now);
        for counts in [&mut self.seen, &mut self.entries, &mut self.told] {
            counts.resize(now.len(), 0);
        }
        for ((now, seen), entries) in now.iter().zip(&mut self.seen).zip(&mut self.entries) {
            *entries += if self.is_off { 0 } else { now - *seen };
            *seen = *now;
        }
    }
}

fn entries_event(node: u32, entries: u64, before: bool) -> Vec<u8> {
    let mut event = Vec::new();
    let tag = context::wire_id(node).into();
    SCOPE_ENTRIES.append(&[tag, entries.into(), u32::from(before).into()], &mut event);
    event
}

impl Instrument for ScopeEvents {
    fn types(&self) -> &'static [&'static Declaration] {
        TYPES
    }

    fn announce(&mut self, importants: &mut Importants) {
        let is_off = CHANNEL.is_off();
        if is_off != self.is_off {
            self.look();
            self.is_off = is_off;
        }
        let walk = self.walk.get_or_insert_with(|| {
            let root = context::wire_id(context::ROOT);
            spec(importants, root, NO_TAG, &["GlobalScope"], Kind::Scope, NO_TAG);
            let other = context::wire_id(context::OTHER);
            spec(importants, other, root, &["(other)"], Kind::Scope, NO_TAG);
            Walk::new()
        });
        walk.visit_new(|Announced { number, kind, parent, owner, name }| {
            let mut path = match kind {
                Kind::Tag => context::names_up_from(parent),
                Kind::Context => context::names_up_from(context::parent_of(owner)),
                _ => Vec::new(),
            };
            path.push(name);
            let parent = match (kind, parent) {
                (Kind::Group, context::NONE) => NO_TAG,
                (_, parent) => context::wire_id(parent),
            };
            let owner = match (kind, owner) {
                (Kind::Context, tag) => context::wire_id(tag),
                (_, context::NONE) => NO_TAG,
                (_, measurement) => measurement,
            };
            spec(importants, context::wire_id(number), parent, &path, kind, owner);
        });
    }

    fn figures(&mut self, events: &mut Vec<Vec<u8>>) {
        self.look();
        for (node, (entries, told)) in (0..).zip(self.entries.iter().zip(&mut self.told)) {
            if entries != told {
                *told = *entries;
                events.push(entries_event(node, *entries, false));
            }
        }
    }

    fn figures_before(&self, events: &mut Vec<Vec<u8>>) {
        let told = (0..).zip(&self.told).filter(|(_, told)| **told > 0);
        events.extend(told.map(|(node, told)| entries_event(node, *told, true)));
    }
}

/// Announces a node, whose name is the last of `path`; the names of its groups precede it.
fn spec(importants: &mut Importants, id: u32, parent: u32, path: &[&str], kind: Kind, owner: u32) {
    let display = path.iter().map(|name| name.replace('/', "|")).collect::<Vec<_>>().join("/");
    let name = path.last().copied().unwrap_or_default();
    let kind = (kind as u32).into();
    let values = [id.into(), parent.into(), (&*display).into(), kind, owner.into(), name.into()];
    importants.add(&TAG_SPEC, &values);
}
