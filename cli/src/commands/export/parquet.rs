//! Tables as files of Apache Parquet.
//!
//! A second thread encodes and compresses rows while the first one reads the trace: each takes half of the
//! processor time.

use super::rows::TableWriter;
use super::tables::{Column, Kind, NONE, Rows, Table};
use bytes::Bytes;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};
use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread::{self, JoinHandle};

/// A file of each table that is wanted.
pub struct ParquetTables {
    /// Rows to be written; `None` when there are no more.
    full: Option<SyncSender<Rows>>,
    /// Rows that were written, to be filled again.
    empty: Receiver<Rows>,
    /// `None` when it has ended.
    encoder: Option<JoinHandle<io::Result<()>>>,
}

impl ParquetTables {
    /// Writes each table to its file.
    pub fn new<F: Write + Send + 'static>(files: Vec<(&'static Table, F)>) -> io::Result<Self> {
        let writers = files.into_iter().map(|(table, file)| {
            let writer = SerializedFileWriter::new(file, schema(table), properties(table));
            Ok((table, writer.map_err(failed)?))
        });
        let files = writers.collect::<io::Result<_>>()?;
        // One table's rows wait while those of another are encoded.
        let (full, to_encode) = mpsc::sync_channel(1);
        let (encoded, empty) = mpsc::channel();
        let encoder = thread::Builder::new().name("parquet".to_owned());
        let encoder = encoder.spawn(move || encode(files, &to_encode, &encoded))?;
        Ok(Self { full: Some(full), empty, encoder: Some(encoder) })
    }

    /// Writes the ends of the files.
    pub fn finish(mut self) -> io::Result<()> {
        self.end()
    }

    /// Waits until all rows are written.
    fn end(&mut self) -> io::Result<()> {
        self.full = None;
        let Some(encoder) = self.encoder.take() else { return Ok(()) };
        encoder.join().map_err(|_| io::Error::other("the thread that encodes has panicked"))?
    }
}

impl TableWriter for ParquetTables {
    // A row group: 20 MB of each table before it is compressed.
    const ROWS: usize = 1 << 18;

    fn write(&mut self, rows: &mut Rows) -> io::Result<()> {
        let recycled = self.empty.try_iter().find(|empty| empty.table.name == rows.table.name);
        let empty = recycled.unwrap_or_else(|| Rows::new(rows.table));
        let full = std::mem::replace(rows, empty);
        match self.full.as_ref().map(|channel| channel.send(full)) {
            Some(Ok(())) => Ok(()),
            // The other thread has ended: with an error.
            _ => self.end(),
        }
    }
}

/// Writes rows to the files of their tables, until there are no more.
fn encode<F: Write + Send>(
    mut files: Vec<(&'static Table, SerializedFileWriter<F>)>,
    full: &Receiver<Rows>,
    empty: &Sender<Rows>,
) -> io::Result<()> {
    let mut columns = Vec::new();
    for mut rows in full {
        let file = files.iter_mut().find(|(table, _)| table.name == rows.table.name);
        if let Some((_, file)) = file.filter(|_| rows.len() > 0) {
            rows.by_column(&mut columns);
            write_group(file, &rows, &columns).map_err(failed)?;
        }
        rows.clear();
        // The other thread may have no more rows to fill.
        let _ = empty.send(rows);
    }
    files.into_iter().try_for_each(|(_, file)| file.close().map(drop).map_err(failed))
}

fn write_group<F: Write + Send>(
    file: &mut SerializedFileWriter<F>,
    rows: &Rows,
    columns: &[Vec<i64>],
) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    for (column, cells) in rows.table.columns.iter().zip(columns) {
        let writer = group.next_column()?;
        let mut writer =
            writer.ok_or_else(|| ParquetError::General("a column too many".to_owned()))?;
        // PERF: a part at a time, so that what is made of it stays in the cache.
        for cells in cells.chunks(PART) {
            write_cells(&mut writer, rows, column, cells)?;
        }
        writer.close()?;
    }
    group.close().map(drop)
}

/// The number of cells that are written at once.
const PART: usize = 1 << 12;

fn write_cells(
    writer: &mut SerializedColumnWriter<'_>,
    rows: &Rows,
    column: &Column,
    cells: &[i64],
) -> Result<(), ParquetError> {
    let is_present = |cell: &i64| *cell != NONE;
    // Of an optional column: 1 for each row with a value, otherwise 0.
    let present = || cells.iter().map(|cell| i16::from(is_present(cell))).collect::<Vec<_>>();
    let present = column.optional.then(present);
    let present = present.as_deref();
    let values: Cow<'_, [i64]> = match column.optional {
        true => cells.iter().copied().filter(is_present).collect(),
        false => cells.into(),
    };
    let texts: Vec<ByteArray> = match column.kind {
        Kind::Near | Kind::Repeats | Kind::Address => {
            writer.typed::<Int64Type>().write_batch(&values, present, None)?;
            return Ok(());
        }
        Kind::Text => values.iter().map(|cell| ByteArray::from(rows.text(*cell).clone())).collect(),
        Kind::Word(words) => {
            // PERF: fixed texts are cloned without counting references.
            let fixed = |word: &&'static str| Bytes::from_static(word.as_bytes()).into();
            let words: Vec<ByteArray> = words.iter().map(fixed).collect();
            values.iter().map(|cell| words[*cell as usize].clone()).collect()
        }
    };
    writer.typed::<ByteArrayType>().write_batch(&texts, present, None).map(drop)
}

fn schema(table: &Table) -> Arc<Type> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            Kind::Text | Kind::Word(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Address => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Kind::Near | Kind::Repeats => (Physical::INT64, None),
        };
        let repetition = if column.optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let field = Type::primitive_type_builder(column.name, physical);
        let field = field.with_logical_type(logical).with_repetition(repetition).build();
        Arc::new(field.expect("the tables are valid schemas"))
    };
    let fields = table.columns.iter().map(field).collect();
    let schema = Type::group_type_builder(table.name).with_fields(fields).build();
    Arc::new(schema.expect("the tables are valid schemas"))
}

fn properties(table: &Table) -> Arc<WriterProperties> {
    // PERF: the fastest level, and large pages: with level 3, pages of 20,000 rows, and three more
    // dictionaries, files were 2.5 % smaller.
    let level = ZstdLevel::try_new(1).expect("a level of zstd");
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(level))
        .set_data_page_row_count_limit(ParquetTables::ROWS)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(concat!("memledger ", env!("CARGO_PKG_VERSION")).to_owned());
    for column in table.columns {
        let path = ColumnPath::from(column.name);
        properties = match column.kind {
            Kind::Near | Kind::Address => properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            // The least and the greatest of all rows: no query can leave rows out by them.
            Kind::Repeats | Kind::Word(_) | Kind::Text => {
                properties.set_column_statistics_enabled(path, EnabledStatistics::None)
            }
        };
    }
    Arc::new(properties.build())
}

/// The error of a file, which the crate packs.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other.to_string()),
        },
        other => io::Error::other(other.to_string()),
    }
}
