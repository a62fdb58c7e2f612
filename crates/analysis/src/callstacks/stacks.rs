//! The stack of each id.

use super::modules::{BaseField, Location, Modules};
use super::spec::{SpecForm, read_frames};
use super::tree::{StackEnd, StackTree};
use crate::hash::IntMap;
use crate::symbols::Module;
use std::sync::Arc;

/// The stack of a block that was allocated without one. Its id is 0, too.
pub(crate) const NO_STACK: u32 = 0;

/// In place of a node: the spec of the stack is not known.
const NO_NODE: u32 = u32::MAX;

/// What is known of an id.
#[derive(Clone, Copy, Debug)]
struct Known {
    stack: u32,
    /// A bucket of this stack, the bucket without a stack that it belongs to, and the rate of
    /// sampling: what was looked up last.
    without: u32,
    rate: u32,
    with: u32,
}

/// In place of a bucket.
const NO_BUCKET: u32 = u32::MAX;

impl Known {
    const NOTHING: Self = Self { stack: NO_STACK, without: NO_BUCKET, rate: 0, with: NO_BUCKET };
}

/// The ids that are at most this much larger than the number of specs are in a list.
const SPARE_IDS: usize = 1 << 16;

/// The stacks of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Callstacks {
    modules: Modules,
    /// Reports share it: what is added while one is kept goes to a copy.
    tree: Arc<StackTree>,
    children: IntMap<(u32, u32), u32>,
    /// By stack: its node. The first is [`NO_STACK`].
    stacks: Vec<u32>,
    by_node: IntMap<u32, u32>,
    /// By id. Writers count their ids; those of any other trace are in `other_ids`.
    ids: Vec<Known>,
    other_ids: IntMap<u32, Known>,
    specs: usize,
    /// The frames of the spec that is read.
    frames: Vec<u64>,
    /// The addresses of the last whole spec and their nodes, outermost first. PERF: most specs share
    /// all outer frames with the one before, so these need no look-up. Empty when modules change.
    last: Vec<(u64, u32)>,
}

impl Default for Callstacks {
    fn default() -> Self {
        Self {
            modules: Modules::default(),
            tree: Arc::default(),
            children: IntMap::default(),
            stacks: vec![NO_NODE],
            by_node: IntMap::default(),
            ids: Vec::new(),
            other_ids: IntMap::default(),
            specs: 0,
            frames: Vec::new(),
            last: Vec::new(),
        }
    }
}

/// Modules.
impl Callstacks {
    /// See [`Modules::set_shift`].
    pub(crate) fn set_module_shift(&mut self, shift: Option<u8>) {
        self.last.clear();
        self.modules.set_shift(shift);
    }

    /// See [`Modules::set_in_order`].
    pub(crate) fn set_modules_in_order(&mut self) {
        self.modules.set_in_order();
    }

    /// See [`Modules::load`].
    pub(crate) fn load_module(&mut self, module: Module, field: BaseField) {
        self.last.clear();
        self.modules.load(module, field);
    }

    /// See [`Modules::unload`].
    pub(crate) fn unload_module(&mut self, base: u64, field: BaseField) {
        self.last.clear();
        self.modules.unload(base, field);
    }
}

/// Specs.
impl Callstacks {
    /// The spec of an id: its frames, innermost first. Returns whether all of `bytes` could be read.
    pub(crate) fn add_spec(&mut self, id: u32, form: SpecForm, bytes: &[u8]) -> bool {
        let mut frames = std::mem::take(&mut self.frames);
        let whole = read_frames(form, bytes, &mut frames);
        let end = if whole { StackEnd::Complete } else { StackEnd::FrameLimit };
        let mut node = end as u32;
        let mut last = std::mem::take(&mut self.last);
        if !whole {
            last.clear();
        }
        for (depth, &address) in frames.iter().rev().enumerate() {
            if let Some(&(_, known)) = last.get(depth).filter(|&&(last, _)| last == address) {
                node = known;
                continue;
            }
            last.truncate(depth);
            let location = self.modules.location_of(address);
            node = self.child(node, location);
            last.push((address, node));
        }
        if whole {
            self.last = last;
        }
        self.frames = frames;
        self.specs += 1;
        self.set_node(id, node);
        whole
    }

    /// The stack of an id is not whole for this reason; its spec came before.
    pub(crate) fn end_spec(&mut self, id: u32, reason: u8) {
        const INNER_FRAMES: u8 = 5;
        let node = self.known(id).map_or(NO_NODE, |known| self.stacks[known.stack as usize]);
        if node == NO_NODE || id == 0 {
            return;
        }
        let node = if reason == INNER_FRAMES {
            let not_kept = self.modules.not_kept();
            self.child(node, not_kept)
        } else {
            let end = StackEnd::from_reason(reason);
            let locations = self.locations(node).collect::<Vec<_>>();
            locations.iter().rev().fold(end as u32, |node, &at| self.child(node, at))
        };
        self.set_node(id, node);
    }

    /// The frames of an id from an index on, counted from the innermost one, are a guess; its spec came before.
    pub(crate) fn guess_spec(&mut self, id: u32, from: u8) {
        let node = self.known(id).map_or(NO_NODE, |known| self.stacks[known.stack as usize]);
        if node == NO_NODE || id == 0 {
            return;
        }
        let locations = self.locations(node).enumerate().collect::<Vec<_>>();
        let mut node = self.tree.end(node) as u32;
        for (index, location) in locations.into_iter().rev() {
            let is_guess = index >= from.into();
            let location = if is_guess { self.modules.guess(location) } else { location };
            node = self.child(node, location);
        }
        self.set_node(id, node);
    }

    fn child(&mut self, parent: u32, location: u32) -> u32 {
        let add = || Arc::make_mut(&mut self.tree).add(parent, location);
        *self.children.entry((parent, location)).or_insert_with(add)
    }

    fn set_node(&mut self, id: u32, node: u32) {
        if id == 0 {
            return;
        }
        // An id that events had before its spec has a stack already. It may have the same frames as
        // another: the report joins the two.
        let early = self.known(id).map(|known| known.stack);
        if let Some(stack) = early.filter(|&stack| self.stacks[stack as usize] == NO_NODE) {
            self.stacks[stack as usize] = node;
            self.by_node.entry(node).or_insert(stack);
            return;
        }
        let next = self.stacks.len() as u32;
        let stack = *self.by_node.entry(node).or_insert(next);
        if stack == next {
            self.stacks.push(node);
        }
        self.set(id, Known { stack, ..Known::NOTHING });
    }

    fn known(&self, id: u32) -> Option<&Known> {
        let known = self.ids.get(id as usize).filter(|known| known.stack != NO_STACK);
        known.or_else(|| self.other_ids.get(&id))
    }

    fn set(&mut self, id: u32, known: Known) {
        let index = id as usize;
        if index < self.ids.len() {
            self.ids[index] = known;
        } else if index <= 2 * self.specs + SPARE_IDS && !self.other_ids.contains_key(&id) {
            self.ids.resize(index + 1, Known::NOTHING);
            self.ids[index] = known;
        } else {
            self.other_ids.insert(id, known);
        }
    }
}

/// Events.
impl Callstacks {
    /// The bucket of the stack `id` that belongs to the bucket `without` a stack, if it was the last
    /// one that was looked up.
    #[inline(always)]
    pub(crate) fn cached(&self, id: u32, without: u32, rate: u32) -> Option<u32> {
        let known = self.ids.get(id as usize)?;
        ((known.without, known.rate) == (without, rate)).then_some(known.with)
    }

    /// The stack of an id. One that is not announced yet has a stack of its own.
    pub(crate) fn stack(&mut self, id: u32) -> u32 {
        if id == 0 {
            return NO_STACK;
        }
        if let Some(known) = self.known(id) {
            return known.stack;
        }
        let stack = self.stacks.len() as u32;
        self.stacks.push(NO_NODE);
        self.set(id, Known { stack, ..Known::NOTHING });
        stack
    }

    /// Keeps a bucket for [`cached`](Self::cached).
    pub(crate) fn cache(&mut self, id: u32, without: u32, rate: u32, with: u32) {
        if let Some(known) = self.ids.get_mut(id as usize) {
            (known.without, known.rate, known.with) = (without, rate, with);
        }
    }
}

/// What reports are made from.
impl Callstacks {
    /// The number of stacks, including [`NO_STACK`].
    pub(crate) fn len(&self) -> usize {
        self.stacks.len()
    }

    /// The tree that stacks are nodes of.
    pub(crate) fn tree(&self) -> &Arc<StackTree> {
        &self.tree
    }

    /// Whether a stack lacks its inner frames: then its node is at [`Modules::not_kept`].
    pub(crate) fn is_cut(&self, node: u32) -> bool {
        let is_not_kept = |number| self.modules.location(number).is_not_kept();
        StackTree::root(node).is_none() && is_not_kept(self.tree.location(node))
    }

    /// By node: whether its stack has frames that are a guess; empty if none has.
    pub(crate) fn guesses(&self) -> Vec<bool> {
        if !self.modules.has_guesses() {
            return Vec::new();
        }
        // NOTE: the outermost frame of such a stack is a guess, and a parent comes before its children.
        let mut guesses = vec![false; StackTree::ROOTS];
        for node in StackTree::ROOTS as u32..self.tree.len() as u32 {
            let is_guess = self.modules.location(self.tree.location(node)).is_guess;
            guesses.push(is_guess || guesses[self.tree.parent(node) as usize]);
        }
        guesses
    }

    /// The number of the node of a stack: equal for stacks with the same frames. `None` if no spec
    /// said what they are.
    pub(crate) fn node(&self, stack: u32) -> Option<u32> {
        Some(self.stacks[stack as usize]).filter(|&node| node != NO_NODE)
    }

    /// The stack of an id that the trace describes.
    pub(crate) fn find(&self, id: u32) -> Option<u32> {
        let stack = self.known(id)?.stack;
        self.node(stack).map(|_| stack)
    }

    /// The numbers of the locations of a node's frames, innermost first. Allocates nothing.
    pub(crate) fn locations(&self, node: u32) -> impl Iterator<Item = u32> {
        self.tree.path(node).map(|node| self.tree.location(node))
    }

    /// See [`Modules::location`].
    pub(crate) fn location(&self, number: u32) -> Location {
        self.modules.location(number)
    }

    /// See [`Modules::files`].
    pub(crate) fn files(&self) -> &[Module] {
        self.modules.files()
    }

    /// By stack: an id that the trace has for it, 0 if none.
    pub(crate) fn ids(&self) -> Vec<u32> {
        let mut ids = vec![0; self.stacks.len()];
        let listed = self.ids.iter().enumerate().map(|(id, known)| (id as u32, known));
        for (id, known) in listed.chain(self.other_ids.iter().map(|(&id, known)| (id, known))) {
            ids[known.stack as usize] = id;
        }
        ids[NO_STACK as usize] = 0;
        ids
    }
}
