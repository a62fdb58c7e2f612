//! Lines of the source: the table of one object file, and what a function that was inlined says of its own.

use super::fields::Fields;
use super::sections::Sections;
use std::collections::HashMap;
use std::ops::Range;

/// Lines that stand for code that has none.
const NO_LINES: [u32; 2] = [0xf0_0f00, 0xfe_efee];

/// Code, and its place in the source.
pub(super) struct Row {
    pub(super) code: Range<u32>,
    /// Where the record of the file begins in the table of files.
    pub(super) file: u32,
    pub(super) line: u32,
}

/// The lines of one object file.
#[derive(Default)]
pub(super) struct Lines {
    /// Ordered by their code.
    rows: Vec<Row>,
    /// Where functions that were inlined begin: file and line, by their ids.
    inlined: HashMap<u32, (u32, u32)>,
    /// The offsets of the paths of files in the table of strings, by where the records of the files begin.
    files: HashMap<u32, u32>,
}

impl Lines {
    /// Takes what is not damaged.
    pub(super) fn read(bytes: &[u8], sections: &Sections) -> Self {
        const LINES: u32 = 0xf2;
        const FILES: u32 = 0xf4;
        const INLINED: u32 = 0xf6;
        let mut lines = Self::default();
        let mut parts = Fields(bytes);
        while let (Some(kind), Some(part)) = (parts.u32(), parts.counted()) {
            let _ = match kind {
                LINES => lines.add_rows(part, sections),
                FILES => lines.add_files(part),
                INLINED => lines.add_inlined(part),
                _ => None,
            };
            parts.align(bytes);
        }
        lines.rows.sort_by_key(|row| row.code.start);
        lines
    }

    /// Rows of one piece of code. Each reaches to the next one, the last to the end of the piece.
    fn add_rows(&mut self, mut part: Fields<'_>, sections: &Sections) -> Option<()> {
        const HAS_COLUMNS: u16 = 1;
        const LINE: u32 = 0x00ff_ffff;
        const BLOCK_HEADER: u32 = 12;
        let (offset, section) = (part.u32()?, part.u16()?);
        let has_columns = part.u16()? & HAS_COLUMNS != 0;
        let size = part.u32()?;
        let start = sections.address(section, offset)?;
        let mut rows = Vec::new();
        while !part.is_empty() {
            let (file, count, size) = (part.u32()?, part.u32()?, part.u32()?);
            let mut block = Fields(part.bytes(size.checked_sub(BLOCK_HEADER)? as usize)?);
            let expected = u64::from(count) * if has_columns { 12 } else { 8 };
            if expected > block.0.len() as u64 {
                return None;
            }
            for _ in 0..count {
                let (at, line) = (start.checked_add(block.u32()?)?, block.u32()? & LINE);
                rows.push(Row { code: at..at, file, line });
            }
        }
        // Of several lines of an address, the last one counts.
        rows.sort_by_key(|row| row.code.start);
        let mut end = start.checked_add(size)?;
        for row in rows.iter_mut().rev() {
            row.code.end = end.max(row.code.start);
            end = row.code.start;
        }
        self.rows.extend(rows.into_iter().filter(|row| !row.code.is_empty()));
        Some(())
    }

    fn add_files(&mut self, mut part: Fields<'_>) -> Option<()> {
        let all = part.0;
        while !part.is_empty() {
            let at = (all.len() - part.0.len()) as u32;
            let path = part.u32()?;
            let checksum = part.u8()?;
            part.skip(1 + usize::from(checksum))?;
            part.align(all);
            self.files.insert(at, path);
        }
        Some(())
    }

    fn add_inlined(&mut self, mut part: Fields<'_>) -> Option<()> {
        let has_more_files = part.u32()? == 1;
        while !part.is_empty() {
            let (function, file, line) = (part.u32()?, part.u32()?, part.u32()?);
            self.inlined.insert(function, (file, line));
            if has_more_files {
                let count = part.u32()? as usize;
                part.skip(count.checked_mul(4)?)?;
            }
        }
        Some(())
    }

    /// The file and the line of an address, in the function that was not inlined.
    pub(super) fn at(&self, address: u32) -> Option<&Row> {
        at(&self.rows, address).filter(|row| !NO_LINES.contains(&row.line))
    }

    /// Where a file's path begins in the table of strings.
    pub(super) fn path(&self, file: u32) -> Option<u32> {
        self.files.get(&file).copied()
    }

    /// The code of a function that was inlined into one that begins at `start`. What is damaged ends it.
    pub(super) fn inlined(&self, function: u32, start: u32, annotations: &[u8]) -> Vec<Row> {
        let mut rows = Inlined { offset: 0, is_open: false, rows: Vec::new() };
        let (mut file, mut line) = self.inlined.get(&function).copied().unwrap_or_default();
        let mut fields = Fields(annotations);
        while let Some((operation, first)) = number(&mut fields).zip(number(&mut fields)) {
            match operation {
                // An offset, or how far the code is from the end of what was before.
                1 | 3 => rows.begin(first, file, line),
                4 => rows.end(first),
                5 => file = first,
                6 => line = line.wrapping_add(signed(first)),
                11 => {
                    line = line.wrapping_add(signed(first >> 4));
                    rows.begin(first & 15, file, line);
                }
                12 => {
                    let Some(distance) = number(&mut fields) else { break };
                    rows.begin(distance, file, line);
                    rows.end(first);
                }
                // The end of the line, the kind of the code, and columns.
                7..=10 | 13 => {}
                // The end, or code in another section.
                _ => break,
            }
        }
        let mut rows = rows.rows;
        for row in &mut rows {
            let code = start.checked_add(row.code.start).zip(start.checked_add(row.code.end));
            row.code = code.map_or(0..0, |(start, end)| start..end);
        }
        rows.sort_by_key(|row| row.code.start);
        rows
    }
}

/// The code of a function that was inlined, while it is read.
struct Inlined {
    /// Bytes after the begin of the function that it was inlined into.
    offset: u32,
    /// The last row has no end yet.
    is_open: bool,
    rows: Vec<Row>,
}

impl Inlined {
    fn begin(&mut self, distance: u32, file: u32, line: u32) {
        self.end(distance);
        self.rows.push(Row { code: self.offset..self.offset, file, line });
        self.is_open = true;
    }

    fn end(&mut self, distance: u32) {
        self.offset = self.offset.saturating_add(distance);
        if let Some(row) = self.rows.last_mut().filter(|_| self.is_open) {
            row.code.end = self.offset;
        }
        self.is_open = false;
    }
}

/// A number of 1, 2 or 4 bytes, the highest first.
fn number(fields: &mut Fields<'_>) -> Option<u32> {
    let first = u32::from(fields.u8()?);
    let (start, more) = match first {
        ..0x80 => (first, 0),
        0x80..0xc0 => (first & 0x3f, 1),
        0xc0..0xe0 => (first & 0x1f, 3),
        _ => return None,
    };
    let rest = fields.bytes(more)?.iter();
    Some(rest.fold(start, |number, byte| number << 8 | u32::from(*byte)))
}

/// A number whose lowest bit is its sign.
fn signed(number: u32) -> u32 {
    let value = number >> 1;
    if number & 1 == 0 { value } else { value.wrapping_neg() }
}

/// The row of an address, among rows that do not overlap.
pub(super) fn at(rows: &[Row], address: u32) -> Option<&Row> {
    let after = rows.partition_point(|row| row.code.start <= address);
    rows.get(..after)?.last().filter(|row| row.code.contains(&address))
}
