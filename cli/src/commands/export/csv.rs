//! Tables as text: comma-separated values, as RFC 4180 has them.

use super::rows::TableWriter;
use super::tables::{Kind, NONE, Rows, Table};
use std::borrow::Cow;
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
            writer
                .write_record(table.columns.iter().map(|column| column.name))
                .map_err(unwritten)?;
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
                let field = match column.kind {
                    _ if column.optional && cell == NONE => Cow::Borrowed(&b""[..]),
                    Kind::Text => safe(rows.text(cell)),
                    Kind::Word(words) => words[cell as usize].as_bytes().into(),
                    Kind::Address => digits.format(cell as u64).as_bytes().into(),
                    Kind::Near | Kind::Repeats => digits.format(cell).as_bytes().into(),
                };
                file.write_field(&field).map_err(unwritten)?;
            }
            file.write_record(None::<&[u8]>).map_err(unwritten)?;
        }
        rows.clear();
        Ok(())
    }
}

/// Why a table was not written. NOTE: the conversion of `csv` itself loses the kind of the error, and so that
/// the reader of a pipe has closed it.
fn unwritten(error: csv::Error) -> io::Error {
    match error.kind() {
        csv::ErrorKind::Io(cause) => io::Error::new(cause.kind(), error),
        _ => io::Error::other(error),
    }
}

/// A text that no spreadsheet takes for a formula: one that begins like a formula has a `'` before it,
/// and so has one that begins with `'`, so that the first `'` of a field is never part of the text.
fn safe(text: &[u8]) -> Cow<'_, [u8]> {
    match text.first() {
        Some(b'=' | b'+' | b'-' | b'@' | b'\t' | b'\r' | b'\n' | b'\'') => {
            Cow::Owned([b"'", text].concat())
        }
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::safe;

    #[test]
    fn no_text_is_a_formula_and_each_can_be_recovered() {
        for text in ["", "main", "a=b", "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''"]
        {
            let written = safe(text.as_bytes());
            let formula = b"=+-@\t\r\n";
            assert!(written.first().is_none_or(|first| !formula.contains(first)), "{text:?}");
            assert_eq!(written.strip_prefix(b"'").unwrap_or(&written), text.as_bytes());
        }
    }
}
