//! The tables of an export by event: their columns, and rows collected to be written.

use bytes::Bytes;

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellKind {
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
#[non_exhaustive]
pub struct TableColumn {
    pub name: &'static str,
    pub kind: CellKind,
    /// Whether values can be missing.
    pub optional: bool,
}

/// One table.
#[derive(Debug)]
#[non_exhaustive]
pub struct Table {
    pub name: &'static str,
    pub columns: &'static [TableColumn],
}

const fn column(name: &'static str, kind: CellKind) -> TableColumn {
    TableColumn { name, kind, optional: false }
}

const fn optional(name: &'static str, kind: CellKind) -> TableColumn {
    TableColumn { name, kind, optional: true }
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
        column("event", CellKind::Near),
        column("at_ns", CellKind::Near),
        column("kind", CellKind::Word(KINDS)),
        column("block", CellKind::Near),
        column("context", CellKind::Repeats),
        column("live_bytes", CellKind::Repeats),
        column("allocated_bytes", CellKind::Repeats),
    ],
};

/// A row for each block, in the order in which they ended; then those that are still live.
pub static BLOCKS: Table = Table {
    name: "blocks",
    columns: &[
        column("block", CellKind::Near),
        column("address", CellKind::Address),
        column("bytes", CellKind::Repeats),
        column("context", CellKind::Repeats),
        column("state", CellKind::Word(STATES)),
        column("allocated_at_ns", CellKind::Near),
        optional("ended_at_ns", CellKind::Near),
        optional("ended", CellKind::Near),
        optional("freed_by", CellKind::Near),
        column("reallocations", CellKind::Near),
        column("short_lived", CellKind::Near),
    ],
};

/// Who allocates: a combination of thread, scope stack, group and name, call stack, and root heap. Who frees:
/// a combination of thread and scope stack.
pub static CONTEXTS: Table = Table {
    name: "contexts",
    columns: &[
        column("context", CellKind::Near),
        column("thread_id", CellKind::Repeats),
        column("thread", CellKind::Text),
        optional("scope", CellKind::Text),
        optional("group", CellKind::Text),
        optional("name", CellKind::Text),
        optional("stack", CellKind::Repeats),
        optional("heap", CellKind::Text),
    ],
};

/// A row for each frame of a call stack. A table of its own for the frames: a program has some thousand, each
/// on many stacks.
pub static STACKS: Table = Table {
    name: "stacks",
    columns: &[
        column("stack", CellKind::Near),
        column("depth", CellKind::Near),
        column("frame", CellKind::Repeats),
    ],
};

/// A row for each function of a frame: those that are inlined there, and the one that they are inlined into.
pub static FRAMES: Table = Table {
    name: "frames",
    columns: &[
        column("frame", CellKind::Near),
        column("part", CellKind::Repeats),
        column("function", CellKind::Text),
        optional("file", CellKind::Text),
        optional("line", CellKind::Repeats),
        optional("module", CellKind::Text),
        optional("offset", CellKind::Repeats),
        column("inlined", CellKind::Repeats),
    ],
};

/// The moments that the program has named.
pub static BOOKMARKS: Table = Table {
    name: "bookmarks",
    columns: &[column("at_ns", CellKind::Near), column("name", CellKind::Text)],
};

/// All tables.
pub static TABLES: [&Table; 6] = [&BLOCKS, &EVENTS, &CONTEXTS, &STACKS, &FRAMES, &BOOKMARKS];

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
