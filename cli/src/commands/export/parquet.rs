//! Tables as files of Apache Parquet.

use super::rows::TableWriter;
use super::tables::{Cells, Column, Kind, Rows, Table, Values};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{ColumnPath, Type};
use std::io::{self, Write};
use std::sync::Arc;

/// A file of each table that is wanted.
pub struct ParquetTables<F: Write + Send> {
    files: Vec<(&'static Table, SerializedFileWriter<F>)>,
}

impl<F: Write + Send> ParquetTables<F> {
    /// Writes each table to its file.
    pub fn new(files: Vec<(&'static Table, F)>) -> io::Result<Self> {
        let writers = files.into_iter().map(|(table, file)| {
            let writer = SerializedFileWriter::new(file, schema(table), properties(table));
            Ok((table, writer.map_err(failed)?))
        });
        Ok(Self { files: writers.collect::<io::Result<_>>()? })
    }

    /// Writes the ends of the files.
    pub fn finish(self) -> io::Result<()> {
        self.files.into_iter().try_for_each(|(_, file)| file.close().map(drop).map_err(failed))
    }
}

impl<F: Write + Send> TableWriter for ParquetTables<F> {
    // A row group: 40 MB of each table before it is compressed.
    const ROWS: usize = 1 << 19;

    fn write(&mut self, rows: &Rows) -> io::Result<()> {
        let file = self.files.iter_mut().find(|(table, _)| table.name == rows.table.name);
        let Some((_, file)) = file.filter(|_| rows.len() > 0) else { return Ok(()) };
        let mut group = file.next_row_group().map_err(failed)?;
        for (column, cells) in rows.table.columns.iter().zip(&rows.columns) {
            let writer = group.next_column().map_err(failed)?;
            let mut writer = writer.ok_or_else(|| io::Error::other("a column too many"))?;
            write_cells(&mut writer, column, cells).map_err(failed)?;
            writer.close().map_err(failed)?;
        }
        group.close().map(drop).map_err(failed)
    }
}

fn write_cells(
    writer: &mut SerializedColumnWriter<'_>,
    column: &Column,
    cells: &Cells,
) -> Result<(), ParquetError> {
    let present = column.optional.then_some(cells.present.as_slice());
    match &cells.values {
        Values::Numbers(numbers) => {
            writer.typed::<Int64Type>().write_batch(numbers, present, None)?;
        }
        Values::Texts(texts) => {
            let texts: Vec<_> = texts.iter().map(|text| ByteArray::from(&**text)).collect();
            writer.typed::<ByteArrayType>().write_batch(&texts, present, None)?;
        }
        Values::Words(words, numbers) => {
            let words: Vec<_> = words.iter().map(|&word| ByteArray::from(word)).collect();
            let texts: Vec<_> = numbers.iter().map(|&n| words[usize::from(n)].clone()).collect();
            writer.typed::<ByteArrayType>().write_batch(&texts, present, None)?;
        }
    }
    Ok(())
}

fn schema(table: &Table) -> Arc<Type> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
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
    let level = ZstdLevel::try_new(3).expect("a level of zstd");
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_compression(Compression::ZSTD(level))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by(concat!("memledger ", env!("CARGO_PKG_VERSION")).to_owned());
    for column in table.columns {
        let path = ColumnPath::from(column.name);
        let encoding = match column.kind {
            Kind::Near => Encoding::DELTA_BINARY_PACKED,
            Kind::Address => Encoding::DELTA_BINARY_PACKED,
            Kind::Repeats | Kind::Text => continue,
        };
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, encoding);
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
