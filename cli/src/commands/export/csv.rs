//! Tables as text: comma-separated values, as RFC 4180 has them.

use super::rows::TableWriter;
use super::tables::{Kind, NONE, Rows, Table};
use std::io::{self, Write};

/// A file of each table that is wanted.
pub struct CsvTables<F: Write> {
    files: Vec<(&'static Table, csv::Writer<F>)>,
}

impl<F: Write> CsvTables<F> {
    /// Writes each table to its file, beginning with the names of its columns.
    pub fn new(files: Vec<(&'static Table, F)>) -> io::Result<Self> {
        let writers = files.into_iter().map(|(table, file)| {
            let mut writer = csv::Writer::from_writer(file);
            writer.write_record(table.columns.iter().map(|column| column.name))?;
            Ok((table, writer))
        });
        Ok(Self { files: writers.collect::<io::Result<_>>()? })
    }

    /// Writes what is left.
    pub fn finish(mut self) -> io::Result<()> {
        self.files.iter_mut().try_for_each(|(_, file)| file.flush())
    }
}

impl<F: Write> TableWriter for CsvTables<F> {
    const ROWS: usize = 1 << 14;

    fn write(&mut self, rows: &mut Rows) -> io::Result<()> {
        let file = self.files.iter_mut().find(|(table, _)| table.name == rows.table.name);
        let Some((table, file)) = file else {
            rows.clear();
            return Ok(());
        };
        let mut digits = itoa::Buffer::new();
        for row in rows.rows() {
            for (column, &cell) in table.columns.iter().zip(row) {
                file.write_field(match column.kind {
                    _ if column.optional && cell == NONE => &b""[..],
                    Kind::Text => rows.text(cell),
                    Kind::Word(words) => words[cell as usize].as_bytes(),
                    Kind::Address => digits.format(cell as u64).as_bytes(),
                    Kind::Near | Kind::Repeats => digits.format(cell).as_bytes(),
                })?;
            }
            file.write_record(None::<&[u8]>)?;
        }
        rows.clear();
        Ok(())
    }
}
