//! Static variables that are resident: which pages of their files are, and which variables are in them.

use crate::sort;
use crate::symbolizer::Module;
use std::cmp::Reverse;
use std::ops::Range;

/// What the names of the tracker's own begin with. They are not the program's.
const OWN: &str = "memledger::";
/// A report has at most this many.
const MAX_VARIABLES: usize = 100;

/// A static variable of the program or of a library.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StaticVariable {
    /// Its demangled name; `None` for all else in its file: smaller ones, and those without a symbol.
    pub name: Option<String>,
    /// Its file, an index of [`Report::modules`](crate::Report::modules).
    pub module: usize,
    /// What of it was resident when the memory was last looked into, in bytes.
    pub bytes: u64,
    /// Its size in bytes; 0 without a name.
    pub size: u64,
}

/// Some pages of a file, and which of them are resident.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePages {
    /// The number of the file.
    pub file: u32,
    /// Where the first page is, in bytes from the base of the file.
    offset: u64,
    page_bytes: u64,
    /// A bit for each page, the first one the lowest.
    bits: Vec<u8>,
}

impl FilePages {
    /// Pages of a file from an offset on; at least 1 byte each, whatever the trace says.
    pub fn new((file, offset): (u32, u64), page_bytes: u64, bits: &[u8]) -> Self {
        Self { file, offset, page_bytes: page_bytes.max(1), bits: bits.to_vec() }
    }

    /// The resident bytes of a range in the file.
    pub fn resident(&self, range: &Range<u64>) -> u64 {
        let number = |at: u64| at.saturating_sub(self.offset) / self.page_bytes;
        let pages = self.bits.len() as u64 * 8;
        let (first, last) = (number(range.start), number(range.end.saturating_sub(1)));
        let of_page = |page: u64| {
            let start = self.offset.saturating_add(page.saturating_mul(self.page_bytes));
            let end = start.saturating_add(self.page_bytes);
            end.min(range.end).saturating_sub(start.max(range.start))
        };
        let is_resident = |page: &u64| self.bits[(page / 8) as usize] >> (page % 8) & 1 == 1;
        let pages = first..pages.min(last.saturating_add(1));
        pages.filter(is_resident).fold(0, |sum, page| sum.saturating_add(of_page(page)))
    }
}

/// The variables in resident pages, the largest first. `variables` gives where those of a file are, and their
/// names.
pub fn rows(
    pages: &[FilePages],
    modules: &[Module],
    mut variables: impl FnMut(&Module) -> Vec<(Range<u64>, String)>,
) -> Vec<StaticVariable> {
    let mut rows = Vec::new();
    for (module, file) in modules.iter().enumerate() {
        let pages: Vec<_> = pages.iter().filter(|pages| pages.file as usize == module).collect();
        if pages.is_empty() {
            continue;
        }
        let resident = |range: Range<u64>| {
            pages.iter().fold(0_u64, |sum, pages| sum.saturating_add(pages.resident(&range)))
        };
        let mut all = variables(file);
        all.sort_unstable_by_key(|(range, _)| (range.start, Reverse(range.end)));
        let (mut rest, mut at) = (resident(0..u64::MAX), 0);
        for (range, name) in all {
            // Several names of one variable are next to each other, and parts of it after it.
            if range.start < at {
                continue;
            }
            at = range.end;
            let (bytes, size) = (resident(range.clone()), range.end.saturating_sub(range.start));
            rest = rest.saturating_sub(bytes);
            if name.starts_with(OWN) {
                continue;
            }
            rows.push(StaticVariable { name: Some(name), module, bytes, size });
        }
        rows.push(StaticVariable { name: None, module, bytes: rest, size: 0 });
    }
    rows.retain(|row| row.bytes > 0);
    sort::by_key(&mut rows, |row: &StaticVariable| Reverse(row.bytes));
    rows.truncate(MAX_VARIABLES);
    rows
}
