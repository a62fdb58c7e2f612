//! Tables as text: comma-separated values, as RFC 4180 has them.

use super::rows::TableWriter;
use super::tables::{Column, Kind, Rows, Table, Values};
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

    fn write(&mut self, rows: &Rows) -> io::Result<()> {
        let file = self.files.iter_mut().find(|(table, _)| table.name == rows.table.name);
        let Some((table, file)) = file else { return Ok(()) };
        // By column: where its next value is. A missing value takes no place.
        let mut next = vec![0; rows.columns.len()];
        let mut digits = itoa::Buffer::new();
        for row in 0..rows.len() {
            for ((column, cells), next) in table.columns.iter().zip(&rows.columns).zip(&mut next) {
                if cells.present.get(row) == Some(&0) {
                    file.write_field("")?;
                    continue;
                }
                file.write_field(text(column, &cells.values, *next, &mut digits))?;
                *next += 1;
            }
            file.write_record(None::<&[u8]>)?;
        }
        Ok(())
    }
}

fn text<'a>(
    column: &Column,
    values: &'a Values,
    at: usize,
    digits: &'a mut itoa::Buffer,
) -> &'a str {
    match values {
        Values::Numbers(numbers) if column.kind == Kind::Address => {
            digits.format(numbers[at] as u64)
        }
        Values::Numbers(numbers) => digits.format(numbers[at]),
        Values::Texts(texts) => &texts[at],
        Values::Words(words, numbers) => words[usize::from(numbers[at])],
    }
}
