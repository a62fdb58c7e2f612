//! Which rows an allocation counts in: scopes, groups and names, from the trace's `TagSpec`s.
//!
//! A *context* is a scope stack and a tag. Our writer gives each an id in one tree of ids; the
//! `Kind` of a `TagSpec` says what an id stands for. In a trace of Unreal's writer every id is a
//! scope. A scope with an `Owner` is a measurement: the rows of a report do not tell it from a scope
//! of that name, but each counts for itself. Ids are looked up when they are first used, when all that belongs to them has
//! normally been announced; one that never was gets a row that shows its number.

use super::hash::IntMap;
use super::measured::{Measurements, NO_MEASUREMENT};
use super::rows::Book;
use super::tree::{NO_SERIES, ROOT, Tree};
use std::collections::HashMap;

/// The outermost scope.
pub(super) const GLOBAL_SCOPE: &str = "GlobalScope";
/// The group of an allocation without a tag.
const UNKNOWN: &str = "Unknown";
/// The name of an allocation without a tag.
const UNNAMED: &str = "Unnamed";
/// The context of a thread outside every scope and tag.
pub(super) const OUTERMOST: u32 = 0;

/// What an id stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Scope,
    Group,
    Tag,
    Context,
}

impl Kind {
    /// The kind our writer gives; anything unknown is taken for a scope.
    pub(super) fn from_wire(kind: u8) -> Self {
        match kind {
            1 => Self::Group,
            2 => Self::Tag,
            3 => Self::Context,
            _ => Self::Scope,
        }
    }
}

/// A `TagSpec` as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) kind: Kind,
    pub(super) parent: i32,
    pub(super) owner: i32,
    pub(super) name: Box<str>,
}

#[derive(Clone, Debug)]
struct Known {
    spec: Spec,
    /// Its node, once it was used.
    node: Option<u32>,
    /// The innermost measurement it stands in, once it was used as a scope.
    measurement: u32,
    /// On the way from a node to the root that is being walked just now.
    walked: bool,
}

/// A scope stack and a tag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    pub(super) scope: u32,
    /// Number of the name.
    pub(super) name: u32,
    /// The innermost measurement around it.
    pub(super) measurement: u32,
}

/// A name within a group.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) group: u32,
    pub(super) text: Box<str>,
    pub(super) series: u32,
}

/// All contexts that were used.
#[derive(Clone, Debug)]
pub(super) struct Contexts {
    pub(super) scopes: Tree,
    pub(super) groups: Tree,
    pub(super) names: Vec<Name>,
    pub(super) contexts: Vec<Context>,
    names_by_text: HashMap<(u32, Box<str>), u32>,
    pub(super) measurements: Measurements,
    by_parts: IntMap<(u32, u32, u32), u32>,
    by_id: IntMap<i32, u32>,
    specs: IntMap<i32, Known>,
    /// How often each scope was entered, by id: at all, and before the trace began.
    entries: IntMap<i32, (u64, u64)>,
    /// Whether the writer tells scopes from tags.
    pub(super) has_kinds: bool,
}

impl Contexts {
    pub(super) fn new(book: &mut Book) -> Self {
        let mut contexts = Self {
            scopes: Tree::new(GLOBAL_SCOPE, book.new_series()),
            groups: Tree::new("", NO_SERIES),
            names: Vec::new(),
            contexts: Vec::new(),
            measurements: Measurements::default(),
            names_by_text: HashMap::new(),
            by_parts: IntMap::default(),
            by_id: IntMap::default(),
            specs: IntMap::default(),
            entries: IntMap::default(),
            has_kinds: false,
        };
        let unnamed = contexts.unnamed(book);
        contexts.intern(ROOT, unnamed, NO_MEASUREMENT, book);
        contexts
    }

    /// Notes what `id` stands for. The last announcement of an id holds.
    pub(super) fn announce(&mut self, id: i32, spec: Spec) {
        if self.specs.get(&id).is_some_and(|known| known.spec == spec) {
            return;
        }
        self.by_id.remove(&id);
        let known = Known { spec, node: None, measurement: NO_MEASUREMENT, walked: false };
        self.specs.insert(id, known);
    }

    /// Sets the total number of entries of the scope `id`, or the number before the trace began.
    pub(super) fn entered(&mut self, id: i32, entries: u64, before: bool) {
        let known = self.entries.entry(id).or_default();
        if before {
            known.1 = entries;
        }
        known.0 = entries;
    }

    /// The number of entries by scope node; ids without a row are left out.
    pub(super) fn entries(&self) -> HashMap<u32, u64> {
        let mut sums = HashMap::<u32, u64>::new();
        for (&id, &(entries, before)) in &self.entries {
            if let Some(node) = self.find_scope(id) {
                let sum = sums.entry(node).or_default();
                *sum = sum.saturating_add(entries.saturating_sub(before));
            }
        }
        sums
    }

    /// The node of the scope `id`, if it exists: the node of this id, or of another id with the
    /// same names.
    fn find_scope(&self, id: i32) -> Option<u32> {
        let mut names = Vec::new();
        let mut at = id;
        let mut node = loop {
            match self.specs.get(&at).filter(|known| known.spec.kind == Kind::Scope) {
                Some(Known { node: Some(node), .. }) => break *node,
                // NOTE: the bound ends a cycle of parents, too.
                Some(known) if names.len() <= self.specs.len() => {
                    names.push(&*known.spec.name);
                    at = known.spec.parent;
                }
                _ => break ROOT,
            }
        };
        for name in names.into_iter().rev() {
            if !(node == ROOT && name == GLOBAL_SCOPE) {
                node = self.scopes.find(node, name)?;
            }
        }
        Some(node)
    }

    /// The context that a `MemoryScope` with this id opens.
    #[inline]
    pub(super) fn by_id(&mut self, id: i32, book: &mut Book) -> u32 {
        match self.by_id.get(&id) {
            Some(&context) => context,
            None => self.resolve(id, book),
        }
    }

    /// The ids in use, each with its context.
    #[cfg(feature = "enable")]
    pub(super) fn ids(&self) -> impl Iterator<Item = (i32, u32)> {
        self.by_id.iter().map(|(&id, &context)| (id, context))
    }

    /// The context with this scope and this name in this measurement.
    pub(super) fn intern(
        &mut self,
        scope: u32,
        name: u32,
        measurement: u32,
        book: &mut Book,
    ) -> u32 {
        let parts = (scope, name, measurement);
        if let Some(&context) = self.by_parts.get(&parts) {
            return context;
        }
        let context = self.contexts.len() as u32;
        self.by_parts.insert(parts, context);
        self.contexts.push(Context { scope, name, measurement });
        self.scopes.nodes[scope as usize].contexts.push(context);
        let group = self.names[name as usize].group;
        self.groups.nodes[group as usize].contexts.push(context);
        self.list(context, book);
        context
    }

    #[cold]
    #[inline(never)]
    fn resolve(&mut self, id: i32, book: &mut Book) -> u32 {
        let known = self.specs.get(&id).map(|known| &known.spec);
        let parts = known.map(|spec| (spec.kind, spec.parent, spec.owner));
        let (scope, name, measurement) = match parts {
            Some((Kind::Context, parent, owner)) => {
                let scope = self.scope(parent, book);
                (scope, self.name(owner, book), self.measurement(parent))
            }
            Some((Kind::Tag | Kind::Group, ..)) => (ROOT, self.name(id, book), NO_MEASUREMENT),
            Some((Kind::Scope, ..)) => {
                (self.scope(id, book), self.unnamed(book), self.measurement(id))
            }
            None => {
                let scope = self.scope_child(ROOT, &format!("(tag {id})"), book);
                (scope, self.unnamed(book), NO_MEASUREMENT)
            }
        };
        let context = self.intern(scope, name, measurement, book);
        if parts.is_some() {
            self.by_id.insert(id, context);
        }
        context
    }

    fn unnamed(&mut self, book: &mut Book) -> u32 {
        let group = self.group_child(ROOT, UNKNOWN, book);
        self.named(group, UNNAMED, book)
    }

    /// The name with this text in `group`.
    fn named(&mut self, group: u32, text: &str, book: &mut Book) -> u32 {
        let key = (group, Box::from(text));
        if let Some(&name) = self.names_by_text.get(&key) {
            return name;
        }
        let name = self.names.len() as u32;
        self.names.push(Name { group, text: text.into(), series: book.new_series() });
        self.names_by_text.insert(key, name);
        name
    }

    /// The name that the tag (or group) `id` stands for.
    fn name(&mut self, id: i32, book: &mut Book) -> u32 {
        match self.specs.get(&id).map(|known| (known.spec.kind, known.spec.parent)) {
            Some((Kind::Tag, parent)) => {
                let group = match self.node(parent, Kind::Group, book) {
                    ROOT => self.group_child(ROOT, UNKNOWN, book),
                    group => group,
                };
                let text = self.specs.get(&id).map_or(Box::default(), |k| k.spec.name.clone());
                self.named(group, &text, book)
            }
            Some((Kind::Group, _)) => {
                let group = self.node(id, Kind::Group, book);
                self.named(group, UNNAMED, book)
            }
            _ => self.unnamed(book),
        }
    }

    /// The scope that `id` stands for; the outermost if it stands for none.
    fn scope(&mut self, id: i32, book: &mut Book) -> u32 {
        self.node(id, Kind::Scope, book)
    }

    /// The names down to the scope `id`, if it was used.
    #[cfg(feature = "enable")]
    pub(super) fn path_of(&self, id: i32) -> Vec<String> {
        let node = self.specs.get(&id).and_then(|known| known.node);
        self.scopes.path(node.unwrap_or(ROOT))
    }

    /// The innermost measurement around the scope `id`, which was looked up before.
    fn measurement(&self, id: i32) -> u32 {
        self.specs.get(&id).map_or(NO_MEASUREMENT, |known| known.measurement)
    }

    /// The node of `id` in the tree of its `kind`, made with all nodes above it. Parents that
    /// were never announced, have another kind or form a circle end the way up at the root.
    fn node(&mut self, id: i32, kind: Kind, book: &mut Book) -> u32 {
        let mut way = Vec::new();
        let mut at = id;
        let mut node = ROOT;
        let mut measurement = NO_MEASUREMENT;
        while let Some(known) = self.specs.get_mut(&at) {
            if known.spec.kind != kind || known.walked {
                break;
            }
            if let Some(found) = known.node {
                (node, measurement) = (found, known.measurement);
                break;
            }
            known.walked = true;
            way.push(at);
            at = known.spec.parent;
        }
        for id in way.into_iter().rev() {
            let Some(known) = self.specs.get(&id) else { continue };
            let outermost = self.has_kinds && node == ROOT && &*known.spec.name == GLOBAL_SCOPE;
            if !(kind == Kind::Scope && outermost) {
                let name = known.spec.name.clone();
                node = match kind {
                    Kind::Group => self.group_child(node, &name, book),
                    _ => self.scope_child(node, &name, book),
                };
            }
            if let Some(known) = self.specs.get_mut(&id) {
                if kind == Kind::Scope && self.has_kinds && known.spec.owner > 0 {
                    measurement = self.measurements.add(id, measurement, book);
                }
                (known.node, known.measurement, known.walked) = (Some(node), measurement, false);
            }
        }
        node
    }

    fn scope_child(&mut self, parent: u32, name: &str, book: &mut Book) -> u32 {
        let (node, changed) = self.scopes.child(parent, name, book);
        if changed {
            self.list_again(self.scopes.nodes[parent as usize].contexts.clone(), book);
        }
        node
    }

    fn group_child(&mut self, parent: u32, name: &str, book: &mut Book) -> u32 {
        let (node, changed) = self.groups.child(parent, name, book);
        if changed {
            self.list_again(self.groups.nodes[parent as usize].contexts.clone(), book);
        }
        node
    }

    /// Makes the lists of `contexts` anew, which happens at most twice per context.
    fn list_again(&self, contexts: Vec<u32>, book: &mut Book) {
        for context in contexts {
            self.list(context, book);
        }
    }

    fn list(&self, context: u32, book: &mut Book) {
        let Context { scope, name, .. } = self.contexts[context as usize];
        let Name { group, series, .. } = self.names[name as usize];
        let mut list = Vec::new();
        self.scopes.list_series(scope, &mut list);
        self.groups.list_series(group, &mut list);
        list.push(series);
        book.set_series(context, &list);
    }
}
