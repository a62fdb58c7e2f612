//! The rows that an allocation counts in: scopes, groups and names, from the trace's `TagSpec`s.
//!
//! A *context* is a scope stack and a tag in a root heap. Our writer gives each scope, group, tag and context
//! an id in one tree of ids; the `Kind` of a `TagSpec` says what an id refers to. In a trace of Unreal's
//! writer every id is a scope. A scope with an `Owner` is a measurement: the rows of a report do not
//! distinguish it from a scope of the same name, but each measurement has its own figures. Ids are looked up
//! when they are first used; by then the trace has normally announced them and their parents. An id that was
//! never announced gets a row that shows its number.

use super::entries::Entries;
use super::measurements::{Measurements, NO_MEASUREMENT};
use super::root_heaps::RootHeaps;
use super::tree::{MAX_DEPTH, NO_PEAK, ROOT, Tree};
use crate::accounts::Accounts;
use crate::hash::IntMap;
use memledger_document::internal::GLOBAL_SCOPE;
use std::collections::HashMap;

/// The group of an allocation without a tag.
const UNKNOWN: &str = "Unknown";
/// The name of an allocation without a tag.
const UNNAMED: &str = "Unnamed";
/// The context of a thread outside every scope and tag.
pub(crate) const OUTERMOST: u32 = 0;
/// The root heap of the context that a scope opens; an allocation in another heap has a context of its
/// own.
const FIRST_HEAP: u8 = 0;

/// What an id refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdKind {
    Scope,
    Group,
    Tag,
    Context,
}

impl IdKind {
    /// The kind that our writer calls `kind`; an unknown number is taken for a scope.
    pub(crate) fn from_wire(kind: u8) -> Self {
        match kind {
            1 => Self::Group,
            2 => Self::Tag,
            3 => Self::Context,
            _ => Self::Scope,
        }
    }
}

/// The fields of a `TagSpec`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TagSpec {
    pub(crate) kind: IdKind,
    pub(crate) parent: i32,
    pub(crate) owner: i32,
    pub(crate) name: Box<str>,
}

/// An id that was announced.
#[derive(Clone, Debug)]
struct Announced {
    spec: TagSpec,
    /// Its node, if the id was used.
    node: Option<u32>,
    /// The innermost measurement around it, if the id was used as a scope.
    measurement: u32,
    /// Whether it is on the path to the root that `Contexts::node` is walking.
    walked: bool,
}

/// A scope stack and a tag in a root heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    /// The node of its scope.
    pub(crate) scope: u32,
    /// The number of its name.
    pub(crate) name: u32,
    /// The innermost measurement around it.
    pub(crate) measurement: u32,
    /// The root heap of its blocks.
    pub(crate) heap: u8,
}

/// A name within a group.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    /// The node of its group.
    pub(crate) group: u32,
    pub(crate) text: Box<str>,
    pub(crate) peak: u32,
}

/// All contexts that were used.
#[derive(Clone, Debug)]
pub(crate) struct Contexts {
    scopes: Tree,
    groups: Tree,
    names: Vec<Name>,
    contexts: Vec<Context>,
    names_by_text: HashMap<(u32, Box<str>), u32>,
    measurements: Measurements,
    heaps: RootHeaps,
    by_parts: IntMap<(u32, u32, u32, u8), u32>,
    by_id: IntMap<i32, u32>,
    announced: IntMap<i32, Announced>,
    entries: Entries,
    /// Whether the writer distinguishes scopes and tags.
    has_kinds: bool,
}

impl Contexts {
    pub(crate) fn new(accounts: &mut Accounts) -> Self {
        let mut contexts = Self {
            scopes: Tree::new(GLOBAL_SCOPE, accounts.add_peak()),
            groups: Tree::new("", NO_PEAK),
            names: Vec::new(),
            contexts: Vec::new(),
            measurements: Measurements::default(),
            heaps: RootHeaps::default(),
            names_by_text: HashMap::new(),
            by_parts: IntMap::default(),
            by_id: IntMap::default(),
            announced: IntMap::default(),
            entries: Entries::default(),
            has_kinds: false,
        };
        let unnamed = contexts.unnamed(accounts);
        contexts.intern((ROOT, unnamed, NO_MEASUREMENT, FIRST_HEAP), accounts);
        contexts
    }

    /// The writer distinguishes scopes and tags.
    pub(crate) fn set_has_kinds(&mut self) {
        self.has_kinds = true;
    }

    /// Notes what `id` refers to. The last announcement of an id is valid.
    pub(crate) fn announce(&mut self, id: i32, spec: TagSpec) {
        if self.announced.get(&id).is_some_and(|announced| announced.spec == spec) {
            return;
        }
        self.by_id.remove(&id);
        let announced = Announced { spec, node: None, measurement: NO_MEASUREMENT, walked: false };
        self.announced.insert(id, announced);
    }

    /// Sets the total number of entries of the scope `id`, or the number before the trace began.
    pub(crate) fn entered(&mut self, id: i32, entries: u64, before: bool) {
        self.entries.set(id, entries, before);
    }

    /// The number of entries by scope node; ids without a row are left out.
    pub(crate) fn entries(&self) -> HashMap<u32, u64> {
        self.entries.by_node(|id| self.find_scope(id))
    }

    /// The node of the scope `id`, if it exists: the node of this id, or of another id with the
    /// same names.
    fn find_scope(&self, id: i32) -> Option<u32> {
        let mut names = Vec::new();
        let mut at = id;
        let mut node = loop {
            match self.announced.get(&at).filter(|announced| announced.spec.kind == IdKind::Scope) {
                Some(Announced { node: Some(node), .. }) => break *node,
                // NOTE: no node is this deep, so no node has this path. The check also ends a cycle
                // of parents.
                Some(_) if names.len() > usize::from(MAX_DEPTH) => return None,
                Some(announced) => {
                    names.push(&*announced.spec.name);
                    at = announced.spec.parent;
                }
                None => break ROOT,
            }
        };
        for name in names.into_iter().rev() {
            if !(node == ROOT && name == GLOBAL_SCOPE) {
                node = self.scopes.find(node, name)?;
            }
        }
        Some(node)
    }

    /// The innermost measurement around the context.
    fn measurement_of(&self, context: u32) -> u32 {
        self.contexts[context as usize].measurement
    }

    /// A block of the context `owner` was reallocated in the context `here` (`by` 1), or a
    /// reallocation that was counted has failed (-1).
    #[inline]
    pub(crate) fn count_foreign(&mut self, here: u32, owner: u32, by: i64) {
        if !self.measurements.is_empty() {
            let (here, owner) = (self.measurement_of(here), self.measurement_of(owner));
            self.measurements.count_foreign(here, owner, by);
        }
    }

    /// The numbers in the accounts of all measurements around the context.
    pub(crate) fn measured_around(&self, context: u32) -> impl Iterator<Item = u32> {
        self.measurements.with_enclosing(self.measurement_of(context))
    }

    /// The context outside all measurements with the scope and the name of this one; `None` if it
    /// is in no measurement.
    pub(crate) fn outside_measurements(
        &mut self,
        context: u32,
        accounts: &mut Accounts,
    ) -> Option<u32> {
        let Context { scope, name, measurement, heap } = self.contexts[context as usize];
        let is_inside = measurement != NO_MEASUREMENT;
        is_inside.then(|| self.intern((scope, name, NO_MEASUREMENT, heap), accounts))
    }

    /// The context of a block of the context `old` that gets the tag of the context `current`. If
    /// the writer distinguishes scopes from tags, the block keeps its scope stack.
    pub(crate) fn retagged(&mut self, old: u32, current: u32, accounts: &mut Accounts) -> u32 {
        let Context { scope, measurement, heap, .. } = self.contexts[old as usize];
        if !self.has_kinds {
            return self.in_heap(current, heap, accounts);
        }
        let name = self.contexts[current as usize].name;
        self.intern((scope, name, measurement, heap), accounts)
    }

    /// The context that differs from this one in its root heap only.
    pub(crate) fn in_heap(&mut self, context: u32, heap: u8, accounts: &mut Accounts) -> u32 {
        let Context { scope, name, measurement, heap: present } = self.contexts[context as usize];
        if heap == present {
            return context;
        }
        self.intern((scope, name, measurement, heap), accounts)
    }

    /// The root heap `id` has this name.
    pub(crate) fn name_heap(&mut self, id: u32, name: &str) {
        self.heaps.set_name(id, name);
    }

    /// The context that a `MemoryScope` with this id opens.
    #[inline]
    pub(crate) fn by_id(&mut self, id: i32, accounts: &mut Accounts) -> u32 {
        match self.by_id.get(&id) {
            Some(&context) => context,
            None => self.resolve(id, accounts),
        }
    }

    /// The ids in use, each with its context.
    pub(crate) fn ids(&self) -> impl Iterator<Item = (i32, u32)> {
        self.by_id.iter().map(|(&id, &context)| (id, context))
    }

    /// The context with this scope, this name and this root heap in this measurement.
    fn intern(&mut self, parts: (u32, u32, u32, u8), accounts: &mut Accounts) -> u32 {
        let (scope, name, measurement, heap) = parts;
        if let Some(&context) = self.by_parts.get(&parts) {
            return context;
        }
        let context = self.contexts.len() as u32;
        self.by_parts.insert(parts, context);
        self.contexts.push(Context { scope, name, measurement, heap });
        self.scopes.add_context(scope, context);
        let group = self.names[name as usize].group;
        self.groups.add_context(group, context);
        if self.heaps.add(heap, accounts) {
            (0..context).for_each(|context| self.list(context, accounts));
        }
        self.list(context, accounts);
        context
    }

    #[cold]
    #[inline(never)]
    fn resolve(&mut self, id: i32, accounts: &mut Accounts) -> u32 {
        let spec = self.announced.get(&id).map(|announced| &announced.spec);
        let parts = spec.map(|spec| (spec.kind, spec.parent, spec.owner));
        let (scope, name, measurement) = match parts {
            Some((IdKind::Context, parent, owner)) => {
                let scope = self.scope(parent, accounts);
                (scope, self.name(owner, accounts), self.measurement(parent))
            }
            Some((IdKind::Tag | IdKind::Group, ..)) => {
                (ROOT, self.name(id, accounts), NO_MEASUREMENT)
            }
            Some((IdKind::Scope, ..)) => {
                (self.scope(id, accounts), self.unnamed(accounts), self.measurement(id))
            }
            None => {
                let scope = self.scope_child(ROOT, &format!("(tag {id})"), accounts);
                (scope, self.unnamed(accounts), NO_MEASUREMENT)
            }
        };
        let context = self.intern((scope, name, measurement, FIRST_HEAP), accounts);
        if parts.is_some() {
            self.by_id.insert(id, context);
        }
        context
    }

    fn unnamed(&mut self, accounts: &mut Accounts) -> u32 {
        let group = self.group_child(ROOT, UNKNOWN, accounts);
        self.named(group, UNNAMED, accounts)
    }

    /// The name with this text in `group`.
    fn named(&mut self, group: u32, text: &str, accounts: &mut Accounts) -> u32 {
        let key = (group, Box::from(text));
        if let Some(&name) = self.names_by_text.get(&key) {
            return name;
        }
        let name = self.names.len() as u32;
        self.names.push(Name { group, text: text.into(), peak: accounts.add_peak() });
        self.names_by_text.insert(key, name);
        name
    }

    /// The name that the tag (or group) `id` refers to.
    fn name(&mut self, id: i32, accounts: &mut Accounts) -> u32 {
        match self.announced.get(&id).map(|announced| (announced.spec.kind, announced.spec.parent))
        {
            Some((IdKind::Tag, parent)) => {
                let group = match self.node(parent, IdKind::Group, accounts) {
                    ROOT => self.group_child(ROOT, UNKNOWN, accounts),
                    group => group,
                };
                let text = self
                    .announced
                    .get(&id)
                    .map_or(Box::default(), |announced| announced.spec.name.clone());
                self.named(group, &text, accounts)
            }
            Some((IdKind::Group, _)) => {
                let group = self.node(id, IdKind::Group, accounts);
                self.named(group, UNNAMED, accounts)
            }
            _ => self.unnamed(accounts),
        }
    }

    /// The scope that `id` refers to; the outermost if it refers to none.
    fn scope(&mut self, id: i32, accounts: &mut Accounts) -> u32 {
        self.node(id, IdKind::Scope, accounts)
    }

    /// The names down to the scope `id`, if it was used.
    pub(crate) fn path_of(&self, id: i32) -> Vec<String> {
        let node = self.announced.get(&id).and_then(|announced| announced.node);
        self.scopes.path(node.unwrap_or(ROOT))
    }

    /// The innermost measurement around the scope `id`, which was looked up before.
    fn measurement(&self, id: i32) -> u32 {
        self.announced.get(&id).map_or(NO_MEASUREMENT, |announced| announced.measurement)
    }

    /// The node of `id` in the tree of its `kind`, made with all nodes above it. Parents that
    /// were never announced, have another kind or form a circle end the path at the root.
    fn node(&mut self, id: i32, kind: IdKind, accounts: &mut Accounts) -> u32 {
        let mut path = Vec::new();
        let mut at = id;
        let mut node = ROOT;
        let mut measurement = NO_MEASUREMENT;
        while let Some(announced) = self.announced.get_mut(&at) {
            if announced.spec.kind != kind || announced.walked {
                break;
            }
            if let Some(found) = announced.node {
                (node, measurement) = (found, announced.measurement);
                break;
            }
            announced.walked = true;
            path.push(at);
            at = announced.spec.parent;
        }
        for id in path.into_iter().rev() {
            let Some(announced) = self.announced.get(&id) else { continue };
            let outermost = self.has_kinds && node == ROOT && &*announced.spec.name == GLOBAL_SCOPE;
            if !(kind == IdKind::Scope && outermost) {
                let name = announced.spec.name.clone();
                node = match kind {
                    IdKind::Group => self.group_child(node, &name, accounts),
                    _ => self.scope_child(node, &name, accounts),
                };
            }
            if let Some(announced) = self.announced.get_mut(&id) {
                if kind == IdKind::Scope && self.has_kinds && announced.spec.owner > 0 {
                    measurement = self.measurements.add(id, measurement, accounts);
                }
                (announced.node, announced.measurement, announced.walked) =
                    (Some(node), measurement, false);
            }
        }
        node
    }

    fn scope_child(&mut self, parent: u32, name: &str, accounts: &mut Accounts) -> u32 {
        let (node, changed) = self.scopes.child(parent, name, accounts);
        if changed {
            self.list_again(self.scopes.contexts(parent), accounts);
        }
        node
    }

    fn group_child(&mut self, parent: u32, name: &str, accounts: &mut Accounts) -> u32 {
        let (node, changed) = self.groups.child(parent, name, accounts);
        if changed {
            self.list_again(self.groups.contexts(parent), accounts);
        }
        node
    }

    /// Replaces the lists of peak trackers of `contexts`. This happens at most twice to each
    /// context.
    fn list_again(&self, contexts: &[u32], accounts: &mut Accounts) {
        for &context in contexts {
            self.list(context, accounts);
        }
    }

    /// Sets the peak trackers of a context.
    fn list(&self, context: u32, accounts: &mut Accounts) {
        let Context { scope, name, heap, .. } = self.contexts[context as usize];
        let Name { group, peak, .. } = self.names[name as usize];
        let mut list = Vec::from_iter(self.heaps.peak(heap));
        self.scopes.list_peaks(scope, &mut list);
        self.groups.list_peaks(group, &mut list);
        list.push(peak);
        accounts.set_peaks(context, &list);
    }
}

/// What reports are made from.
impl Contexts {
    pub(crate) fn scopes(&self) -> &Tree {
        &self.scopes
    }

    pub(crate) fn heaps(&self) -> &RootHeaps {
        &self.heaps
    }

    pub(crate) fn groups(&self) -> &Tree {
        &self.groups
    }

    /// All names, by their numbers.
    pub(crate) fn names(&self) -> &[Name] {
        &self.names
    }

    pub(crate) fn get(&self, context: u32) -> Context {
        self.contexts[context as usize]
    }

    /// The number of contexts.
    pub(crate) fn len(&self) -> usize {
        self.contexts.len()
    }

    /// The context that differs from this one in its root heap only, in the first heap.
    pub(crate) fn in_first_heap(&self, context: u32) -> Option<u32> {
        let Context { scope, name, measurement, .. } = self.get(context);
        self.by_parts.get(&(scope, name, measurement, FIRST_HEAP)).copied()
    }

    pub(crate) fn measurements(&self) -> &Measurements {
        &self.measurements
    }
}
