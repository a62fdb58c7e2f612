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
    /// Its value.
    pub of: fn(&T) -> FigureValue<'_>,
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
    /// It is a name or an id, with which nothing is compared.
    Name,
    /// It is a list or an object of its own, whose value is not in the table.
    Part,
}

/// The value of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureValue<'a> {
    /// The report does not say, or it is a [part](Unit::Part).
    Unknown,
    /// A number.
    Number(u64),
    /// True or false.
    Flag(bool),
    /// A name.
    Text(&'a str),
}

impl FigureValue<'_> {
    /// The number; 1 for what is true. `None` if it is not known, or is a name.
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Flag(flag) => Some(flag.into()),
            Self::Unknown | Self::Text(_) => None,
        }
    }
}

impl From<u64> for FigureValue<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for FigureValue<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<bool> for FigureValue<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl<'a> From<&'a String> for FigureValue<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a, T: Into<FigureValue<'a>>> From<Option<T>> for FigureValue<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Unknown, Into::into)
    }
}

/// The entry of a table.
pub(crate) const fn figure<T>(
    key: &'static str,
    unit: Unit,
    of: fn(&T) -> FigureValue<'_>,
    about: &'static str,
) -> Figure<T> {
    Figure { key, unit, header: None, about, of }
}

/// The entry of a figure that has a column in the tables of the text, below `header`.
pub(crate) const fn column<T>(
    key: &'static str,
    unit: Unit,
    header: &'static str,
    of: fn(&T) -> FigureValue<'_>,
    about: &'static str,
) -> Figure<T> {
    Figure { key, unit, header: Some(header), about, of }
}
