//! The functions of one object file, and what was inlined into them.

use super::fields::Fields;
use super::lines::{Lines, Row, at};
use super::sections::Sections;
use std::ops::Range;

pub(super) struct Function {
    pub(super) code: Range<u32>,
    pub(super) name: String,
    inlined: Vec<InlineSite>,
}

/// A function that was inlined at one place.
struct InlineSite {
    /// How many it was inlined into that were inlined themselves.
    depth: usize,
    /// Its number in the stream of ids.
    function: u32,
    rows: Vec<Row>,
}

/// The functions of one object file, and their lines.
pub(super) struct Functions {
    /// Ordered by their code.
    functions: Vec<Function>,
    pub(super) lines: Lines,
}

impl Functions {
    /// Reads the stream of one object file, with symbols and lines of these sizes. Takes what is not damaged.
    pub(super) fn read(stream: &[u8], sizes: [u32; 3], sections: &Sections) -> Self {
        let [symbols, old_lines, lines] = sizes.map(|size| size as usize);
        let mut fields = Fields(stream);
        let symbols = fields.bytes(symbols).unwrap_or_default();
        let lines = fields.skip(old_lines).and_then(|()| fields.bytes(lines)).unwrap_or_default();
        let lines = Lines::read(lines, sections);
        let mut functions = functions(symbols, sections, &lines);
        functions.sort_by_key(|function| function.code.start);
        Self { functions, lines }
    }

    pub(super) fn at(&self, address: u32) -> Option<&Function> {
        let after = self.functions.partition_point(|function| function.code.start <= address);
        self.functions.get(..after)?.last().filter(|function| function.code.contains(&address))
    }
}

impl Function {
    /// The functions that were inlined at an address, innermost first: their numbers and rows.
    pub(super) fn inlined_at(&self, address: u32) -> Vec<(u32, &Row)> {
        let sites = self.inlined.iter();
        let mut found: Vec<_> = sites
            .filter_map(|site| Some((site.depth, site.function, at(&site.rows, address)?)))
            .collect();
        found.sort_by_key(|(depth, ..)| std::cmp::Reverse(*depth));
        found.into_iter().map(|(_, function, row)| (function, row)).collect()
    }
}

fn functions(symbols: &[u8], sections: &Sections, lines: &Lines) -> Vec<Function> {
    const ENDS: [u16; 3] = [0x0006, 0x114e, 0x114f];
    /// Thunks, blocks, `with` and code that was moved away from its function.
    const OTHER_SCOPES: [u16; 4] = [0x1102, 0x1103, 0x1104, 0x1132];
    /// Global and local functions, by type or by id.
    const FUNCTIONS: [u16; 6] = [0x110f, 0x1110, 0x1146, 0x1147, 0x1155, 0x1156];
    const INLINE_SITE: u16 = 0x114d;
    const COUNTED_INLINE_SITE: u16 = 0x115d;
    let mut records = Fields(symbols);
    // The signature.
    let _ = records.skip(4);
    let mut functions = Vec::new();
    let mut function = None::<Function>;
    // Whether each open scope is a function that was inlined, and how many are.
    let (mut scopes, mut depth) = (Vec::new(), 0);
    while let Some((kind, record)) = records.record() {
        match kind {
            _ if FUNCTIONS.contains(&kind) => {
                functions.extend(function.take());
                function = read_function(record, sections);
                (scopes, depth) = (vec![false], 0);
            }
            INLINE_SITE | COUNTED_INLINE_SITE => {
                if let Some(function) = &mut function {
                    let (start, is_counted) = (function.code.start, kind == COUNTED_INLINE_SITE);
                    function.inlined.extend(read_site(record, is_counted, depth, start, lines));
                }
                scopes.push(true);
                depth += 1;
            }
            _ if OTHER_SCOPES.contains(&kind) => scopes.push(false),
            _ if ENDS.contains(&kind) => depth -= usize::from(scopes.pop() == Some(true)),
            _ => {}
        }
    }
    functions.extend(function);
    functions
}

fn read_function(mut record: Fields<'_>, sections: &Sections) -> Option<Function> {
    record.skip(12)?;
    let size = record.u32()?;
    record.skip(12)?;
    let (offset, section) = (record.u32()?, record.u16()?);
    record.skip(1)?;
    let start = sections.address(section, offset)?;
    let code = start..start.checked_add(size)?;
    Some(Function { code, name: record.text()?, inlined: Vec::new() })
}

fn read_site(
    mut record: Fields<'_>,
    is_counted: bool,
    depth: usize,
    start: u32,
    lines: &Lines,
) -> Option<InlineSite> {
    record.skip(8)?;
    let function = record.u32()?;
    record.skip(if is_counted { 4 } else { 0 })?;
    Some(InlineSite { depth, function, rows: lines.inlined(function, start, record.0) })
}
