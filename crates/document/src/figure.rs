//! What a table of figures is made of.

/// One figure of a `T`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Figure<T: 'static> {
    /// Its key in JSON: the name of its field.
    pub key: &'static str,
    /// What it is a number of.
    pub unit: Unit,
    /// Its header in the tables of the text, if it has a column there.
    pub header: Option<&'static str>,
    /// What it says, in a sentence.
    pub about: &'static str,
    /// Its number, if the report says it; 1 for true.
    pub of: fn(&T) -> Option<u64>,
}

/// What a figure is a number of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Of things.
    Count,
    /// Of bytes.
    Bytes,
    /// Of nanoseconds.
    Nanoseconds,
    /// It is no number, but true or false.
    Flag,
    /// It is an id, with which nothing is compared.
    Id,
    /// It is a text, a list or an object, which is not in the table.
    Part,
}

/// The entry of a table.
pub(crate) const fn figure<T>(
    key: &'static str,
    unit: Unit,
    of: fn(&T) -> Option<u64>,
    about: &'static str,
) -> Figure<T> {
    Figure { key, unit, header: None, about, of }
}

/// The entry of a figure that has a column in the tables of the text, below `header`.
pub(crate) const fn column<T>(
    key: &'static str,
    unit: Unit,
    header: &'static str,
    of: fn(&T) -> Option<u64>,
    about: &'static str,
) -> Figure<T> {
    Figure { key, unit, header: Some(header), about, of }
}
