//! The tree of contexts in the stream.
//!
//! Each node is announced once as Unreal's `Memory.TagSpec`, so that Unreal's tools show the same
//! tree. Three fields of our own follow Unreal's: the kind of the node; its owner, which is the tag
//! of a context or the number of a measurement; and its name as the program gave it.
//!
//! Unreal's tools interpret a `Display` with a `/` as a path: they show the part after the last `/`
//! as the name. So the `Display` of a tag begins with its groups, and a `/` in a name is written as
//! `|`.

use super::entries;
use super::tree::{self, NewNode, NodeKind, Walk};
use crate::events::channel::Channel;
use crate::trace::worker::{EventProvider, Importants};
use memledger_format::encode::Declaration;
use memledger_format::schema::{
    FieldType::{AnsiString, I32, U8, U64},
    IMPORTANT, NO_SYNC,
};

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

/// Opens a scope on the thread's stream. The events on this stream are in this context until the
/// scope is left.
pub(crate) static MEMORY_SCOPE: Declaration = Declaration {
    uid: 49,
    logger: "Memory",
    event: "MemoryScope",
    flags: NO_SYNC,
    fields: &[("Tag", I32)],
};

/// The number of entries of a scope since the recording began. At the beginning of a late stream
/// are events with `Before` 1, which have the numbers up to that point.
pub(crate) static SCOPE_ENTRIES: Declaration = Declaration {
    uid: 50,
    logger: "Memledger",
    event: "ScopeEntries",
    flags: NO_SYNC,
    fields: &[("Tag", I32), ("Entries", U64), ("Before", U8)],
};

pub(crate) static TYPES: &[&Declaration] = &[&TAG_SPEC, &MEMORY_SCOPE, &SCOPE_ENTRIES];

/// The channel of scopes, groups and tags.
pub(crate) static CHANNEL: Channel = Channel::new("Scope", false);

/// The channel of the scopes of frees. Without it, the scope that is open on a stream at a free may be
/// that of the allocation before. It is on or off for a whole recording, so that a reader knows which.
pub(crate) static FREE_CHANNEL: Channel = Channel::ours("FreeScope");

/// The names of the first two nodes.
const GLOBAL_SCOPE: &str = "GlobalScope";
const OTHER_SCOPES: &str = "(other)";

/// No parent, no owner.
const NO_TAG: u32 = u32::MAX;

/// Announces new nodes of the tree, and reports the number of entries of each scope.
pub(crate) struct ScopeEvents {
    walk: Option<Walk>,
    /// By node: the number of all entries when they were last read.
    seen: Vec<u64>,
    /// By node: the number of entries while the channel was on.
    entries: Vec<u64>,
    /// By node: the number that was last written to the stream.
    reported: Vec<u64>,
    /// Whether the channel was off when the entries were last read.
    is_off: bool,
    /// In a watcher: the process has ended.
    has_ended: bool,
}

impl ScopeEvents {
    /// Counts the entries from now on, or all entries since the process started if
    /// `from_process_start`.
    pub(crate) fn new(from_process_start: bool) -> Self {
        let mut seen = Vec::new();
        if !from_process_start {
            entries::read(&mut seen);
        }
        let is_off = CHANNEL.is_off();
        // Adds the channel to the table, so that the stream says that it is off.
        FREE_CHANNEL.is_enabled();
        Self {
            walk: None,
            seen,
            entries: Vec::new(),
            reported: Vec::new(),
            is_off,
            has_ended: false,
        }
    }

    fn read(&mut self) {
        let mut now = self.seen.clone();
        entries::read(&mut now);
        for counts in [&mut self.seen, &mut self.entries, &mut self.reported] {
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
    let tag = tree::wire_id(node).into();
    SCOPE_ENTRIES.append(&[tag, entries.into(), u32::from(before).into()], &mut event);
    event
}

impl EventProvider for ScopeEvents {
    fn types(&self) -> &'static [&'static Declaration] {
        TYPES
    }

    fn announce(&mut self, importants: &mut Importants) {
        let is_off = CHANNEL.is_off();
        if is_off != self.is_off {
            self.read();
            self.is_off = is_off;
        }
        let walk = self.walk.get_or_insert_with(|| {
            let root = tree::wire_id(tree::ROOT);
            announce_node(importants, root, NO_TAG, &[GLOBAL_SCOPE], NodeKind::Scope, NO_TAG);
            let other = tree::wire_id(tree::OTHER);
            announce_node(importants, other, root, &[OTHER_SCOPES], NodeKind::Scope, NO_TAG);
            Walk::new()
        });
        walk.visit_new(|NewNode { number, kind, parent, owner, name }| {
            let mut path = match kind {
                NodeKind::Tag => tree::path_of(parent),
                NodeKind::Context => tree::path_of(tree::parent_of(owner)),
                _ => Vec::new(),
            };
            path.push(name);
            let parent = match (kind, parent) {
                (NodeKind::Group, tree::NONE) => NO_TAG,
                (_, parent) => tree::wire_id(parent),
            };
            let owner = match (kind, owner) {
                (NodeKind::Context, tag) => tree::wire_id(tag),
                (_, tree::NONE) => NO_TAG,
                (_, measurement) => measurement,
            };
            announce_node(importants, tree::wire_id(number), parent, &path, kind, owner);
        });
    }

    fn position(&self) -> u64 {
        self.walk.as_ref().map_or(0, |walk| walk.visited().into())
    }

    fn continue_after(&mut self, position: u64) -> bool {
        tree::take_all();
        self.walk = (position > 0).then(|| Walk::after(position as u32));
        // The counters of entries are not shared: the stream has those of at most a second before.
        self.has_ended = true;
        true
    }

    fn figures(&mut self, events: &mut Vec<Vec<u8>>) {
        if self.has_ended {
            return;
        }
        self.read();
        for (node, (entries, reported)) in (0..).zip(self.entries.iter().zip(&mut self.reported)) {
            if entries != reported {
                *reported = *entries;
                events.push(entries_event(node, *entries, false));
            }
        }
    }

    fn figures_before(&self, events: &mut Vec<Vec<u8>>) {
        let reported = (0..).zip(&self.reported).filter(|(_, count)| **count > 0);
        events.extend(reported.map(|(node, count)| entries_event(node, *count, true)));
    }
}

/// The names of the scopes of a context, whose id in the stream is `wire`, outermost first.
#[cfg(feature = "perfetto")]
pub(crate) fn scope_path(wire: u32) -> Vec<&'static str> {
    let mut names = vec![GLOBAL_SCOPE];
    match tree::node_of_wire(wire).map(tree::stack_of) {
        Some(tree::OTHER) => names.push(OTHER_SCOPES),
        Some(stack) => names.extend(tree::path_of(stack)),
        None => {}
    }
    names
}

/// Announces a node. `path` has the names of its groups, and then its own name.
fn announce_node(
    importants: &mut Importants,
    id: u32,
    parent: u32,
    path: &[&str],
    kind: NodeKind,
    owner: u32,
) {
    let display = path.iter().map(|name| name.replace('/', "|")).collect::<Vec<_>>().join("/");
    let name = path.last().copied().unwrap_or_default();
    let kind = (kind as u32).into();
    let values = [id.into(), parent.into(), (&*display).into(), kind, owner.into(), name.into()];
    importants.add(&TAG_SPEC, &values);
}
