//! Names that live as long as the program.

/// A name: a literal, or a dynamic text kept for good.
///
/// Only its pointer is looked at where a scope is entered. Two names are equal if their texts are.
///
/// ```
/// use memledger::{Name, alloc_scope};
///
/// const PARSE: Name = Name::new("parse");
/// let level = Name::intern(&format!("level {}", 7));
/// alloc_scope!(level, {
///     alloc_scope!(PARSE);
///     // allocations here are in GlobalScope / level 7 / parse
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(&'static str);

impl Name {
    /// A name that is known when the program is compiled.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Copies `text` once for the life of the program; the same text gives the same copy.
    ///
    /// Costs a search of a table shared by all threads, so keep the result. At most
    /// 262 142 names and contexts together are kept; beyond that every text becomes `(other)`.
    pub fn intern(text: &str) -> Self {
        #[cfg(feature = "enable")]
        return Self(super::context::intern(text));
        #[cfg(not(feature = "enable"))]
        {
            let _ = text;
            Self("(other)")
        }
    }

    /// The text.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl From<&'static str> for Name {
    fn from(name: &'static str) -> Self {
        Self(name)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// What lets [`tag!`](crate::tag) take a literal or a [`Name`] in a `const`, where no trait helps.
#[doc(hidden)]
#[derive(Debug)]
pub struct NameOf<T>(pub T);

impl NameOf<&'static str> {
    #[doc(hidden)]
    pub const fn name(self) -> Name {
        Name(self.0)
    }
}

impl NameOf<Name> {
    #[doc(hidden)]
    pub const fn name(self) -> Name {
        self.0
    }
}
