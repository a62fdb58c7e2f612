//! Names of scopes, groups and tags, which live as long as the program.

use super::tree;

/// A name: a literal, or an interned text. It is never freed.
///
/// Entering a scope reads the name's address only. Compare names by [`as_str`](Self::as_str): without the
/// feature `enable`, no interned text is kept, and all of them are `(other)`. A text that is made when the
/// program runs is [interned](Self::intern), and kept for good: that is never hidden in a conversion.
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
#[derive(Clone, Copy, Debug)]
pub struct Name(&'static str);

impl Name {
    /// A name of a literal. [`Name`] has an example.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// Interns `text`: copies it once, for the life of the program. Each call with the same text
    /// returns the same copy.
    ///
    /// Searches a table that all threads share, so keep the result. The table has room for 262 142 names and
    /// contexts together. When seven eighths are used up, each new text becomes `(other)`, and a problem at
    /// the end says so: a name that has the number of a request in it is a leak. The last eighth is left to
    /// literals.
    ///
    /// ```
    /// use memledger::{Name, alloc_scope};
    ///
    /// // Once, when the program starts:
    /// let shards: Vec<Name> = (0..4).map(|n| Name::intern(&format!("shard {n}"))).collect();
    ///
    /// let rows = alloc_scope!(shards[2], { vec![0_u8; 100] });
    /// assert_eq!(Name::intern("shard 2").as_str(), shards[2].as_str());
    /// # drop(rows);
    /// ```
    #[inline]
    pub fn intern(text: &str) -> Self {
        Self(tree::intern(text))
    }

    /// [Interns](Self::intern) a UTF-16 text. An unpaired surrogate becomes `U+FFFD`.
    ///
    /// ```
    /// use memledger::Name;
    ///
    /// let units: Vec<u16> = "Ümit".encode_utf16().collect();
    /// let name = Name::intern_utf16(&units);
    /// # #[cfg(tracking)]
    /// assert_eq!(name.as_str(), "Ümit");
    /// ```
    #[inline]
    pub fn intern_utf16(units: &[u16]) -> Self {
        Self(tree::intern_utf16(units))
    }

    /// The text.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl From<&'static str> for Name {
    #[inline]
    fn from(name: &'static str) -> Self {
        Self(name)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// Lets [`tag!`](crate::tag) take a literal or a [`Name`] in a `const`, where trait methods cannot
/// be called.
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

/// Implemented for no type: the compiler's message for what is no name says what is one.
#[diagnostic::on_unimplemented(
    message = "this is not a name",
    label = "not a name",
    note = "write a literal, a `&'static str` or a `Name`; `Name::intern(&text)` makes one of another text"
)]
pub trait NoName {}

impl<T> NameOf<T>
where
    Self: NoName,
{
    #[doc(hidden)]
    pub const fn name(self) -> Name {
        unreachable!()
    }
}

/// `name`, which does not look like a format string.
#[doc(hidden)]
pub const fn literal_name(name: &'static str) -> &'static str {
    let mut at = 0;
    while at < name.len() {
        assert!(
            name.as_bytes()[at] != b'{',
            "a name is not a format string: write `Name::intern(&format!(..))`"
        );
        at += 1;
    }
    name
}
