//! The tables of an export by event: their columns, and rows collected to be written.

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number, near the one in the row before.
    Near,
    /// A whole number that repeats.
    Repeats,
    /// An address: without a sign.
    Address,
    /// Text that repeats.
    Text,
}

/// One column.
#[derive(Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    /// Whether values can be missing.
    pub optional: bool,
}

/// One table.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    pub columns: &'static [Column],
}

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, optional: false }
}

const fn optional(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, optional: true }
}

/// A row for each change of a block, in the order of the events.
pub static EVENTS: Table = Table {
    name: "events",
    columns: &[
        column("event", Kind::Near),
        column("at_ns", Kind::Near),
        column("kind", Kind::Text),
        column("block", Kind::Near),
        column("context", Kind::Repeats),
        column("live_bytes", Kind::Repeats),
        column("allocated_bytes", Kind::Repeats),
    ],
};

/// A row for each block, in the order in which they ended; then those that are still live.
pub static BLOCKS: Table = Table {
    name: "blocks",
    columns: &[
        column("block", Kind::Near),
        column("address", Kind::Address),
        column("bytes", Kind::Repeats),
        column("context", Kind::Repeats),
        column("state", Kind::Text),
        column("allocated_at_ns", Kind::Near),
        optional("ended_at_ns", Kind::Near),
        optional("ended", Kind::Near),
        optional("freed_by", Kind::Repeats),
        column("reallocations", Kind::Repeats),
        column("short_lived", Kind::Repeats),
    ],
};

/// Who allocates: a combination of thread, scope stack, group and name, and call stack. Who frees: a
/// combination of thread and scope stack.
pub static CONTEXTS: Table = Table {
    name: "contexts",
    columns: &[
        column("context", Kind::Near),
        column("thread_id", Kind::Repeats),
        column("thread", Kind::Text),
        column("scope", Kind::Text),
        optional("group", Kind::Text),
        optional("name", Kind::Text),
        optional("stack", Kind::Repeats),
    ],
};

/// A row for each frame of a call stack. A table of its own for the frames: a program has some thousand, each
/// on many stacks.
pub static STACKS: Table = Table {
    name: "stacks",
    columns: &[
        column("stack", Kind::Near),
        column("depth", Kind::Repeats),
        column("frame", Kind::Repeats),
    ],
};

/// A row for each function of a frame: those that are inlined there, and the one that they are inlined into.
pub static FRAMES: Table = Table {
    name: "frames",
    columns: &[
        column("frame", Kind::Near),
        column("part", Kind::Repeats),
        column("function", Kind::Text),
        optional("file", Kind::Text),
        optional("line", Kind::Repeats),
        optional("module", Kind::Text),
        optional("offset", Kind::Repeats),
        column("inlined", Kind::Repeats),
    ],
};

/// The moments that the program has named.
pub static BOOKMARKS: Table = Table {
    name: "bookmarks",
    columns: &[column("at_ns", Kind::Near), column("name", Kind::Text)],
};

/// All tables.
pub static TABLES: [&Table; 6] = [&BLOCKS, &EVENTS, &CONTEXTS, &STACKS, &FRAMES, &BOOKMARKS];

/// The values of one column.
#[derive(Clone, Debug)]
pub enum Values {
    Numbers(Vec<i64>),
    Texts(Vec<Box<str>>),
    /// Indices of fixed texts.
    Words(&'static [&'static str], Vec<u8>),
}

/// One column of some rows.
#[derive(Clone, Debug)]
pub struct Cells {
    /// The values that are there.
    pub values: Values,
    /// Of an optional column: 1 for each row with a value, otherwise 0.
    pub present: Vec<i16>,
}

/// One value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Number(i64),
    Text(&'a str),
    /// An index of the words of [`Rows::with_words`].
    Word(u8),
    None,
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        // Addresses use all 64 bits; other numbers above i64::MAX are in no valid trace.
        Value::Number(number as i64)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Value::Number(number.into())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(text)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::None, Into::into)
    }
}

/// Rows of a table, by column.
#[derive(Clone, Debug)]
pub struct Rows {
    pub table: &'static Table,
    pub columns: Vec<Cells>,
    len: usize,
}

impl Rows {
    pub fn new(table: &'static Table) -> Self {
        Self::with_words(table, &[])
    }

    /// Rows whose text column, the only one, has these words.
    pub fn with_words(table: &'static Table, words: &'static [&'static str]) -> Self {
        let cells = |column: &Column| {
            let values = match column.kind {
                Kind::Text if !words.is_empty() => Values::Words(words, Vec::new()),
                Kind::Text => Values::Texts(Vec::new()),
                _ => Values::Numbers(Vec::new()),
            };
            Cells { values, present: Vec::new() }
        };
        Self { table, columns: table.columns.iter().map(cells).collect(), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds a row. Its values are of the kinds of the columns.
    #[inline]
    pub fn push<const N: usize>(&mut self, row: [Value<'_>; N]) {
        debug_assert_eq!(N, self.columns.len());
        self.len += 1;
        for ((cells, column), value) in self.columns.iter_mut().zip(self.table.columns).zip(row) {
            if column.optional {
                cells.present.push(i16::from(value != Value::None));
            }
            match (&mut cells.values, value) {
                (Values::Numbers(numbers), Value::Number(number)) => numbers.push(number),
                (Values::Texts(texts), Value::Text(text)) => texts.push(text.into()),
                (Values::Words(_, words), Value::Word(word)) => words.push(word),
                (_, value) => debug_assert_eq!(value, Value::None, "{}", column.name),
            }
        }
    }

    pub fn clear(&mut self) {
        self.len = 0;
        for cells in &mut self.columns {
            cells.present.clear();
            match &mut cells.values {
                Values::Numbers(numbers) => numbers.clear(),
                Values::Texts(texts) => texts.clear(),
                Values::Words(_, words) => words.clear(),
            }
        }
    }
}
