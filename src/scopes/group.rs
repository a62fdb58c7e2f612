//! Groups: who owns memory.

#[cfg(feature = "enable")]
use super::context::{self, Kind};
#[cfg(feature = "enable")]
use std::sync::atomic::{AtomicU32, Ordering};

/// Who owns memory: a subsystem, a library, a team. Groups nest; [`group!`](crate::group) makes them.
#[derive(Debug)]
pub struct Group {
    name: &'static str,
    parent: Option<&'static Group>,
    /// Its number in the tree of contexts, 0 while nobody has asked.
    #[cfg(feature = "enable")]
    node: AtomicU32,
}

impl Group {
    #[doc(hidden)]
    pub const fn new(name: &'static str, parent: Option<&'static Group>) -> Self {
        Self {
            name,
            parent,
            #[cfg(feature = "enable")]
            node: AtomicU32::new(context::NONE),
        }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The group it is part of.
    pub const fn parent(&self) -> Option<&'static Group> {
        self.parent
    }

    #[cfg(feature = "enable")]
    #[inline]
    pub(crate) fn node(&'static self) -> u32 {
        #[cold]
        fn find(group: &'static Group) -> u32 {
            let parent = group.parent.map_or(context::NONE, Group::node);
            let node = context::find_or_add(Kind::Group, parent, context::NONE, group.name);
            let node = node.unwrap_or(context::NONE);
            group.node.store(node, Ordering::Relaxed);
            node
        }
        match self.node.load(Ordering::Relaxed) {
            context::NONE => find(self),
            node => node,
        }
    }

    /// What owns memory of this group that nobody has named.
    #[cfg(feature = "enable")]
    #[inline]
    pub(crate) fn unnamed(&'static self) -> (&'static str, u32) {
        ("Unnamed", self.node())
    }
}

/// Makes groups: statics that say who owns memory.
///
/// ```
/// memledger::group! {
///     /// Everything that ends on the screen.
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
