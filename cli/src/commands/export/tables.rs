//! The tables of an export by event: their columns, and rows collected to be written.

use bytes::Bytes;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number that is mostly near the one in the row before.
    Near,
    /// A whole number that repeats.
    Repeats,
    /// An address: without a sign.
    Address,
    /// Text that repeats.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
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

/// What happens to a block.
pub const KINDS: &[&str] = &[
    "alloc",
    "free",
    "realloc_free",
    "realloc_alloc",
    "realloc_failed",
    "corrected",
    "moved_out",
    "moved_in",
    "left",
    "returned",
];

/// The states of blocks.
pub const STATES: &[&str] = &["freed", "left", "live"];

/// A row for each change of a block, in the order of the events.
pub static EVENTS: Table = Table {
    name: "events",
    columns: &[
        column("event", Kind::Near),
        column("at_ns", Kind::Near),
        column("kind", Kind::Word(KINDS)),
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
        column("state", Kind::Word(STATES)),
        column("allocated_at_ns", Kind::Near),
        optional("ended_at_ns", Kind::Near),
        optional("ended", Kind::Near),
        optional("freed_by", Kind::Near),
        column("reallocations", Kind::Near),
        column("short_lived", Kind::Near),
    ],
};

/// Who allocates: a combination of thread, scope stack, group and name, call stack, and root heap. Who frees:
/// a combination of thread and scope stack.
pub static CONTEXTS: Table = Table {
    name: "contexts",
    columns: &[
        column("context", Kind::Near),
        column("thread_id", Kind::Repeats),
        column("thread", Kind::Text),
        optional("scope", Kind::Text),
        optional("group", Kind::Text),
        optional("name", Kind::Text),
        optional("stack", Kind::Repeats),
        optional("heap", Kind::Text),
    ],
};

/// A row for each frame of a call stack. A table of its own for the frames: a program has some thousand, each
/// on many stacks.
pub static STACKS: Table = Table {
    name: "stacks",
    columns: &[
        column("stack", Kind::Near),
        column("depth", Kind::Near),
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

/// A row for each live block, with all that the other tables have of it.
pub static LIVE_BLOCKS: Table = Table {
    name: "live",
    columns: &[
        column("block", Kind::Near),
        column("address", Kind::Address),
        column("bytes", Kind::Repeats),
        column("allocated_at_ns", Kind::Near),
        column("reallocations", Kind::Near),
        column("thread_id", Kind::Repeats),
        column("thread", Kind::Text),
        column("scope", Kind::Text),
        column("group", Kind::Text),
        column("name", Kind::Text),
        optional("function", Kind::Text),
        optional("file", Kind::Text),
        optional("line", Kind::Repeats),
    ],
};

/// All tables. The last is written only where it is asked for: the others have all that it has.
pub static TABLES: [&Table; 7] =
    [&BLOCKS, &EVENTS, &CONTEXTS, &STACKS, &FRAMES, &BOOKMARKS, &LIVE_BLOCKS];

/// The tables of a folder.
pub fn of_folder() -> &'static [&'static Table] {
    &TABLES[..6]
}

/// A cell without a value, of an optional column.
pub const NONE: i64 = i64::MIN;

/// A cell of a number. Addresses use all 64 bits; other numbers above [`i64::MAX`] are in no valid trace.
pub fn optional_cell(number: Option<u64>) -> i64 {
    number.map_or(NONE, |number| number as i64)
}

/// Rows of a table.
///
/// PERF: row by row, as they come, and each cell a number: of a word or a text its index. The columns are
/// taken from them where they are written, which can be on another thread.
#[derive(Clone, Debug)]
pub struct Rows {
    pub table: &'static Table,
    cells: Vec<i64>,
    texts: Vec<Bytes>,
}

impl Rows {
    pub fn new(table: &'static Table) -> Self {
        Self { table, cells: Vec::new(), texts: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.cells.len() / self.table.columns.len()
    }

    /// Adds a row.
    #[inline]
    pub fn push<const N: usize>(&mut self, row: [i64; N]) {
        debug_assert_eq!(N, self.table.columns.len());
        self.cells.extend_from_slice(&row);
    }

    /// The cell of a text.
    pub fn add_text(&mut self, text: &str) -> i64 {
        self.texts.push(text.to_owned().into());
        self.texts.len() as i64 - 1
    }

    /// The same, if there is one.
    pub fn add_optional_text(&mut self, text: Option<&str>) -> i64 {
        text.map_or(NONE, |text| self.add_text(text))
    }

    /// The cells, row by row.
    pub fn rows(&self) -> impl Iterator<Item = &[i64]> {
        self.cells.chunks_exact(self.table.columns.len())
    }

    /// Puts the cells of each column into a list.
    ///
    /// PERF: a part of the rows at a time, which stays in the cache while all columns are taken from it.
    #[cfg(feature = "parquet")]
    pub fn by_column(&self, columns: &mut Vec<Vec<i64>>) {
        const PART: usize = 1 << 10;
        let count = self.table.columns.len();
        columns.resize_with(count, Vec::new);
        columns.iter_mut().for_each(Vec::clear);
        for rows in self.cells.chunks(PART * count) {
            for (number, column) in columns.iter_mut().enumerate() {
                column.extend(rows.chunks_exact(count).map(|row| row[number]));
            }
        }
    }

    /// The text of a cell of a column of texts.
    pub fn text(&self, cell: i64) -> &Bytes {
        &self.texts[cell as usize]
    }

    pub fn clear(&mut self) {
        self.cells.clear();
        self.texts.clear();
    }
}
