//! The tree that stacks are nodes of.

/// How a stack ends at its outermost frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StackEnd {
    /// With the thread's first frame, as far as the trace says.
    #[default]
    Complete,
    /// There are more frames, above the limit of the program.
    FrameLimit,
    /// There are more frames: the outermost one is in code without unwind information.
    NoUnwindInformation,
    /// There are more frames, in memory that could not be read.
    UnreadableMemory,
    /// There are more frames, from one in a library on, and not which: a library had just been unloaded.
    LibraryChanged,
    /// There are more frames, which were in a part of the trace that is missing.
    Lost,
}

impl StackEnd {
    /// All ends, by the number of their root.
    #[doc(hidden)]
    pub const ALL: [Self; 6] = [
        Self::Complete,
        Self::FrameLimit,
        Self::NoUnwindInformation,
        Self::UnreadableMemory,
        Self::LibraryChanged,
        Self::Lost,
    ];
}

/// One frame, in its caller.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// Its caller, or the root.
    parent: u32,
    location: u32,
}

/// A node for each frame of each stack. Stacks share the frames that they have in common, from the outermost
/// one inwards. A root has no frame: it says how the stacks below it end. A parent comes before its children.
#[derive(Clone, Debug)]
pub struct StackTree(Vec<Node>);

impl Default for StackTree {
    fn default() -> Self {
        let root = |number| Node { parent: number, location: 0 };
        Self((0..StackEnd::ALL.len() as u32).map(root).collect())
    }
}

impl StackTree {
    /// The number of roots: they are the first nodes.
    pub const ROOTS: usize = StackEnd::ALL.len();

    /// Adds a node. The caller knows that the parent has none for this location, or does not mind.
    #[inline]
    pub fn add(&mut self, parent: u32, location: u32) -> u32 {
        self.0.push(Node { parent, location });
        self.0.len() as u32 - 1
    }

    /// The number of nodes.
    #[expect(clippy::len_without_is_empty, reason = "it has the roots")]
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How the stacks of a root end; `None` for any other node.
    #[inline]
    pub fn root(node: u32) -> Option<StackEnd> {
        StackEnd::ALL.get(node as usize).copied()
    }

    /// The caller of a node's frame, or the root. NOTE: the parent of a root is itself.
    #[inline]
    pub fn parent(&self, node: u32) -> u32 {
        self.0[node as usize].parent
    }

    /// The number of the location of a node's frame.
    #[inline]
    pub fn location(&self, node: u32) -> u32 {
        self.0[node as usize].location
    }

    /// The node and those around it, innermost first, without the root. Allocates nothing.
    #[inline]
    pub fn path(&self, node: u32) -> impl Iterator<Item = u32> + Clone {
        let is_frame = |node: &u32| Self::root(*node).is_none();
        std::iter::successors(Some(node).filter(is_frame), move |&node| {
            Some(self.parent(node)).filter(is_frame)
        })
    }

    /// The node of the frame that is this many further out, or the root.
    #[inline]
    pub fn outwards(&self, mut node: u32, frames: u32) -> u32 {
        for _ in 0..frames {
            if Self::root(node).is_some() {
                break;
            }
            node = self.parent(node);
        }
        node
    }

    /// How the stack of a node ends.
    pub fn end(&self, node: u32) -> StackEnd {
        let outermost = self.path(node).last().map_or(node, |node| self.parent(node));
        Self::root(outermost).unwrap_or_default()
    }

    /// By node: how its stack ends.
    pub fn ends(&self) -> Vec<StackEnd> {
        let mut ends = StackEnd::ALL.to_vec();
        let further = &self.0[ends.len()..];
        further.iter().for_each(|node| ends.push(ends[node.parent as usize]));
        ends
    }
}
