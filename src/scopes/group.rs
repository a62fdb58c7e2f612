//! Groups: the owners of memory.

#[cfg(tracking)]
use super::tree::{self, NodeKind};
#[cfg(tracking)]
use std::sync::atomic::{AtomicU32, Ordering};

/// The owner of memory: a subsystem, a library, a team. Groups nest; [`group!`](crate::group) makes
/// them.
#[derive(Debug)]
pub struct Group {
    name: &'static str,
    parent: Option<&'static Group>,
    /// Its node in the tree of contexts; 0 before its first use.
    #[cfg(tracking)]
    node: AtomicU32,
}

impl Group {
    #[doc(hidden)]
    pub const fn new(name: &'static str, parent: Option<&'static Group>) -> Self {
        Self {
            name,
            parent,
            #[cfg(tracking)]
            node: AtomicU32::new(tree::NONE),
        }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The group that contains this group.
    pub const fn parent(&self) -> Option<&'static Group> {
        self.parent
    }

    #[cfg(tracking)]
    #[inline]
    pub(crate) fn node(&'static self) -> u32 {
        #[cold]
        fn find(group: &'static Group) -> u32 {
            let parent = group.parent.map_or(tree::NONE, Group::node);
            let node = tree::find_or_add(NodeKind::Group, parent, tree::NONE, group.name);
            let node = node.unwrap_or(tree::NONE);
            group.node.store(node, Ordering::Relaxed);
            node
        }
        match self.node.load(Ordering::Relaxed) {
            tree::NONE => find(self),
            node => node,
        }
    }

    /// The name and the group node of the tag for memory of this group that has no tag of its own.
    #[cfg(tracking)]
    #[inline]
    pub(crate) fn unnamed(&'static self) -> (&'static str, u32) {
        ("Unnamed", self.node())
    }
}

/// Declares groups, as statics.
///
/// ```
/// memledger::group! {
///     /// Everything that is drawn.
///     pub RENDERING = "Rendering";
///     pub TEXTURES = "Textures" in RENDERING;
/// }
///
/// let pixels = memledger::alloc_scope!(group: TEXTURES, "load", { vec![0_u8; 4096] });
/// assert_eq!(TEXTURES.parent().unwrap().name(), "Rendering");
/// # drop(pixels);
/// ```
#[macro_export]
macro_rules! group {
    ($($(#[$attribute:meta])* $visibility:vis $name:ident = $text:literal $(in $parent:path)?;)*) => {
        $(
            $(#[$attribute])*
            $visibility static $name: $crate::Group =
                $crate::Group::new($text, $crate::group!(@parent $($parent)?));
        )*
    };
    (@parent) => { ::core::option::Option::None };
    (@parent $parent:path) => { ::core::option::Option::Some(&$parent) };
}
