//! Groups: the owners of memory.

use super::tree::{GroupNode, NodeNumber};
use std::hash::{Hash, Hasher};

/// The owner of memory: a subsystem, a library, a team. Groups nest; [`group!`](crate::group) makes
/// them. Two groups are equal if they are the same static.
///
/// ```
/// memledger::group! { GAME = "Game"; LEVELS = "Levels" in GAME; }
///
/// assert_eq!((LEVELS.name(), LEVELS.parent()), ("Levels", Some(&GAME)));
/// ```
#[derive(Debug)]
pub struct Group {
    name: &'static str,
    parent: Option<&'static Group>,
    pub(super) node: GroupNode,
}

impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Group {}

impl Hash for Group {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::hash(self, state);
    }
}

impl Group {
    /// What [`group!`](crate::group) declares, for generated code: a static.
    ///
    /// ```
    /// use memledger::Group;
    ///
    /// static RENDERING: Group = Group::new("Rendering", None);
    /// static TEXTURES: Group = Group::new("Textures", Some(&RENDERING));
    ///
    /// assert_eq!(TEXTURES.parent(), Some(&RENDERING));
    /// ```
    pub const fn new(name: &'static str, parent: Option<&'static Group>) -> Self {
        Self { name, parent, node: GroupNode::new() }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The group that contains this group.
    pub const fn parent(&self) -> Option<&'static Group> {
        self.parent
    }

    #[inline]
    pub(crate) fn node(&'static self) -> NodeNumber {
        self.node.number(self)
    }

    /// The name and the group node of the tag for memory of this group that has no tag of its own.
    #[inline]
    pub(crate) fn unnamed(&'static self) -> (&'static str, NodeNumber) {
        ("Unnamed", self.node())
    }
}

/// Declares groups, as statics. A group that is in itself, by way of others, or in more than 63, is an
/// outermost one; [`Ledger::problems`](crate::Ledger::problems) says so.
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
#[doc(alias = "LLM tag")]
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
