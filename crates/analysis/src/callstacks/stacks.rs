//! The stack of each id.

use super::modules::{BaseField, Location, Modules};
use super::spec::{SpecForm, read_frames};
use crate::hash::IntMap;
use memledger_document::internal::StackTree;
use memledger_document::{Module, StackEnd};
use memledger_format::callstacks::{
    self, Callstack, GUESS, INNER_NOT_KEPT, Inner, MAX_FRAMES, OUTER_LOST, Outer,
};
use std::sync::Arc;

/// The stack of a block that was allocated without one. Its id is also 0.
pub(crate) const NO_STACK: u32 = 0;

/// In place of a node: the spec of the stack is not known.
const NO_NODE: u32 = u32::MAX;

/// The end with this reason in `Memledger.CallstackEnd`. An unknown one is taken for a limit.
fn end_of(reason: u8) -> StackEnd {
    let known = &StackEnd::ALL[..StackEnd::Lost as usize];
    match reason {
        OUTER_LOST => StackEnd::Lost,
        _ => *known.get(usize::from(reason)).unwrap_or(&StackEnd::FrameLimit),
    }
}

/// What is known of an id.
#[derive(Clone, Copy, Debug)]
struct StackOfId {
    stack: u32,
    /// A bucket of this stack, the bucket without a stack that it belongs to, and the rate of
    /// sampling: what was looked up last.
    without: u32,
    rate: u32,
    with: u32,
    /// How many frames of its own a `Memledger.Callstacks` gave it, and how many it has.
    own: u8,
    depth: u8,
}

/// In place of a bucket.
const NO_BUCKET: u32 = u32::MAX;

impl StackOfId {
    const NOTHING: Self =
        Self { stack: NO_STACK, without: NO_BUCKET, rate: 0, with: NO_BUCKET, own: 0, depth: 0 };
}

/// What finds the frames of a stack that are known already.
#[derive(Clone, Debug)]
struct Index {
    /// By node and location: the child.
    children: IntMap<(u32, u32), u32>,
    by_node: IntMap<u32, u32>,
}

/// The ids that are at most this much larger than the number of specs are in a list.
const SPARE_IDS: usize = 1 << 16;

/// The stacks of a trace.
#[derive(Clone, Debug)]
pub(crate) struct Callstacks {
    modules: Modules,
    /// Reports share it: what is added while one is kept goes to a copy.
    tree: Arc<StackTree>,
    /// `None` while no stack can have the frames of another: in `Memledger.Callstacks`, none has, as long as
    /// each address is that of the same code.
    index: Option<Index>,
    /// By stack: its node. The first is [`NO_STACK`].
    stacks: Vec<u32>,
    /// By id. Writers count their ids; those of any other trace are in `other_ids`.
    ids: Vec<StackOfId>,
    other_ids: IntMap<u32, StackOfId>,
    specs: usize,
    /// The frames of the spec that is read.
    frames: Vec<u64>,
    /// The locations that a stack shares with another.
    inner: Vec<u32>,
    /// The addresses of the last whole spec and their nodes, outermost first. PERF: most specs share
    /// all outer frames with the one before, so these need no look-up. Empty when modules change.
    last: Vec<(u64, u32)>,
}

impl Default for Callstacks {
    fn default() -> Self {
        Self {
            modules: Modules::default(),
            tree: Arc::default(),
            index: None,
            stacks: vec![NO_NODE],
            ids: Vec::new(),
            other_ids: IntMap::default(),
            specs: 0,
            frames: Vec::new(),
            inner: Vec::new(),
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
        // The tracker gives stacks in code of no file other numbers from here on.
        if self.index.is_none() && self.modules.has_code_in_no_file() {
            self.make_index();
        }
        self.modules.load(module, field);
    }

    /// See [`Modules::unload`].
    pub(crate) fn unload_module(&mut self, base: u64, field: BaseField) {
        self.last.clear();
        self.make_index();
        self.modules.unload(base, field);
    }
}

/// Specs.
impl Callstacks {
    /// The spec of an id: its frames, innermost first. Returns whether all of `bytes` could be read.
    pub(crate) fn add_spec(&mut self, id: u32, form: SpecForm, bytes: &[u8]) -> bool {
        self.make_index();
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
        let depth = frames.len().min(MAX_FRAMES) as u8;
        self.frames = frames;
        self.specs += 1;
        self.set_node(id, node);
        if let Some(known) = self.known_mut(id) {
            known.depth = depth;
        }
        whole
    }

    /// The stacks of a `Memledger.Callstacks`. Returns whether all of `bytes` could be read.
    pub(crate) fn add_all(&mut self, first: u32, bytes: &[u8]) -> bool {
        let mut frames = std::mem::take(&mut self.frames);
        let is_whole = callstacks::visit(first, bytes, &mut frames, |stack| self.add(&stack));
        self.frames = frames;
        is_whole
    }

    fn add(&mut self, stack: &Callstack<'_>) {
        // The end of a killed process can have stacks that were there before.
        if self.node_of_id(stack.id).is_some() {
            self.make_index();
        }
        let (mut node, depth) = self.outer(stack.outer);
        // NOTE: a few bytes must not make many frames.
        let room = MAX_FRAMES - depth;
        let own = match stack.inner {
            Inner::Frames(frames) => {
                let frames = &frames[..frames.len().min(room)];
                for &address in frames {
                    let mut location = self.modules.location_of(address & !GUESS);
                    if address & GUESS != 0 {
                        location = self.modules.guess(location);
                    }
                    node = self.child(node, location);
                }
                frames.len()
            }
            Inner::SameAs(id) => {
                // Where the trace lacks the other stack, this one stays unknown.
                let Some(other) = self.node_of_id(id) else { return };
                let own = self.known(id).map_or(0, |known| usize::from(known.own));
                let mut locations = std::mem::take(&mut self.inner);
                locations.clear();
                locations.extend(self.locations(other).take(own));
                let shared = locations.iter().rev().take(room);
                node = shared.fold(node, |node, &at| self.child(node, at));
                self.inner = locations;
                own.min(room)
            }
            Inner::NotKept => {
                let not_kept = self.modules.not_kept();
                node = self.child(node, not_kept);
                0
            }
        };
        self.specs += 1;
        self.set_node(stack.id, node);
        if let Some(known) = self.known_mut(stack.id) {
            (known.own, known.depth) = (own as u8, (depth + own) as u8);
        }
    }

    /// The node of the outer frames of a stack, and how many they are.
    fn outer(&mut self, outer: Outer) -> (u32, usize) {
        let (id, without) = match outer {
            Outer::End(reason) => return (end_of(reason) as u32, 0),
            Outer::Of { id, without } => (id, without),
        };
        let Some((node, known)) = self.node_of_id(id).zip(self.known(id).copied()) else {
            self.make_index();
            return (StackEnd::Lost as u32, 0);
        };
        let depth = u32::from(known.depth);
        let without = without.min(depth);
        let of_cut = u32::from(self.is_cut(node));
        (self.tree.outwards(node, without + of_cut), (depth - without) as usize)
    }

    /// The node of an id that the trace describes.
    fn node_of_id(&self, id: u32) -> Option<u32> {
        self.node(self.known(id)?.stack)
    }

    /// The stack of an id is not whole for this reason; its spec came before.
    pub(crate) fn end_spec(&mut self, id: u32, reason: u8) {
        let Some(node) = self.node_of_id(id).filter(|_| id != 0) else { return };
        let node = if reason == INNER_NOT_KEPT {
            let not_kept = self.modules.not_kept();
            self.child(node, not_kept)
        } else {
            self.make_index();
            let end = end_of(reason);
            let locations = self.locations(node).collect::<Vec<_>>();
            locations.iter().rev().fold(end as u32, |node, &at| self.child(node, at))
        };
        self.set_node(id, node);
    }

    /// The frames of an id from an index on, counted from the innermost one, are a guess; its spec came
    /// before.
    pub(crate) fn guess_spec(&mut self, id: u32, from: u8) {
        let Some(node) = self.node_of_id(id).filter(|_| id != 0) else { return };
        self.make_index();
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
        let mut add = || Arc::make_mut(&mut self.tree).add(parent, location);
        match &mut self.index {
            Some(index) => *index.children.entry((parent, location)).or_insert_with(add),
            None => add(),
        }
    }

    /// From here on, ids with the same frames have the same stack.
    fn make_index(&mut self) {
        let (tree, stacks) = (&self.tree, &self.stacks);
        self.index.get_or_insert_with(|| {
            let nodes = StackTree::ROOTS as u32..tree.len() as u32;
            Index {
                children: nodes.map(|at| ((tree.parent(at), tree.location(at)), at)).collect(),
                by_node: stacks.iter().copied().zip(0..).filter(|(at, _)| *at != NO_NODE).collect(),
            }
        });
    }

    fn set_node(&mut self, id: u32, node: u32) {
        if id == 0 {
            return;
        }
        // An id that events had before its spec has a stack already. It may have the same frames as
        // another: the report joins the two.
        let early = self.known(id).map(|known| known.stack);
        let early = early.filter(|&stack| self.stacks[stack as usize] == NO_NODE);
        let next = early.unwrap_or(self.stacks.len() as u32);
        let stack = match &mut self.index {
            Some(index) => *index.by_node.entry(node).or_insert(next),
            None => next,
        };
        if let Some(early) = early {
            self.stacks[early as usize] = node;
            return;
        }
        if stack == next {
            self.stacks.push(node);
        }
        self.set(id, StackOfId { stack, ..StackOfId::NOTHING });
    }

    fn known(&self, id: u32) -> Option<&StackOfId> {
        let known = self.ids.get(id as usize).filter(|known| known.stack != NO_STACK);
        known.or_else(|| self.other_ids.get(&id))
    }

    fn known_mut(&mut self, id: u32) -> Option<&mut StackOfId> {
        let known = self.ids.get_mut(id as usize).filter(|known| known.stack != NO_STACK);
        known.or_else(|| self.other_ids.get_mut(&id))
    }

    fn set(&mut self, id: u32, known: StackOfId) {
        let index = id as usize;
        if index < self.ids.len() {
            self.ids[index] = known;
        } else if index <= 2 * self.specs + SPARE_IDS && !self.other_ids.contains_key(&id) {
            self.ids.resize(index + 1, StackOfId::NOTHING);
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
        self.set(id, StackOfId { stack, ..StackOfId::NOTHING });
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

    /// By node: whether its stack has guessed frames; empty if no stack has any.
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

    /// See [`Modules::file_at`].
    pub(crate) fn file_at(&self, address: u64) -> Option<(u32, u64)> {
        self.modules.file_at(address)
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
