//! From the unwind information of a file of macOS (`__unwind_info`) to a table of rules.
//!
//! Nearly every function has one number there, its compact encoding. The others have DWARF (`__eh_frame`).
//!
//! Source: `mach-o/compact_unwind_encoding.h`, which Apple publishes with its libunwind.

use super::lookup::in_order;
use super::processor::{Packed, compact_rule};
use super::rule::Rule;
use std::ops::Range;

/// The rules of a file that is loaded.
#[cfg(compact_unwind)]
pub(super) fn of_file(
    memory: &crate::platform::os::Memory,
    file: &crate::platform::os::LoadedFile,
) -> Vec<(u64, Packed)> {
    let read = |part: &Range<u64>| {
        memory.read(file.base + part.start, part.end - part.start).unwrap_or_default()
    };
    let mut dwarf = read(&file.eh_frame);
    super::processor::replace_unknown_augmentations(&mut dwarf);
    let dwarf = super::eh_frame::rows(&dwarf, file.eh_frame.start, &file.code);
    let word = |at: u64| {
        let bytes = memory.read(file.base.checked_add(at)?, 4).ok()?;
        Some(u32::from_le_bytes(*bytes.as_array()?))
    };
    rows(&read(&file.unwind_info), dwarf, word)
}

/// The rules of all functions in `__unwind_info`, whose bytes are `info`, and else those of `dwarf`, in the
/// order of addresses: offsets in the image, which has `word` at one.
fn rows(
    info: &[u8],
    dwarf: Vec<(u64, Packed)>,
    word: impl Fn(u64) -> Option<u32>,
) -> Vec<(u64, Packed)> {
    let (mut functions, end) = Info(info).functions().unwrap_or_default();
    functions.sort_unstable();
    let Some((first, _)) = functions.first() else { return dwarf };
    let starts = functions.iter().skip(1).map(|(start, _)| *start).chain([end]);
    let is_outside = |at: u64| at < u64::from(*first) || at >= u64::from(end);
    let mut rows = dwarf.iter().copied().filter(|(at, _)| is_outside(*at)).collect::<Vec<_>>();
    for ((start, encoding), next) in functions.iter().zip(starts) {
        let at = u64::from(*start);
        match compact_rule(*encoding, |distance| word(at + u64::from(distance))) {
            Some(rule) => rows.push((at, Packed::new(rule))),
            None => add_dwarf(&mut rows, &dwarf, at..next.into()),
        }
    }
    let after = dwarf.iter().rfind(|(at, _)| *at <= end.into());
    rows.push((end.into(), after.map_or(Packed::new(Rule::None), |(_, rule)| *rule)));
    in_order(rows)
}

/// Adds what DWARF says of the function at these offsets.
fn add_dwarf(rows: &mut Vec<(u64, Packed)>, dwarf: &[(u64, Packed)], function: Range<u64>) {
    let within = dwarf.partition_point(|(at, _)| *at <= function.start);
    let at_start = within.checked_sub(1).and_then(|last| dwarf.get(last));
    rows.push((function.start, at_start.map_or(Packed::new(Rule::None), |(_, rule)| *rule)));
    let rest = dwarf.iter().skip(within).take_while(|(at, _)| *at < function.end);
    rows.extend(rest);
}

/// The bytes of `__unwind_info`. Places are distances from its begin, those of functions from the image's.
struct Info<'a>(&'a [u8]);

impl Info<'_> {
    fn half(&self, at: usize) -> Option<usize> {
        Some(u16::from_le_bytes(*self.0.get(at..at.checked_add(2)?)?.as_array()?).into())
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(*self.0.get(at..at.checked_add(4)?)?.as_array()?))
    }

    /// Each function, where it begins, with its encoding; and where the last one ends. What is damaged is
    /// left out.
    fn functions(&self) -> Option<(Vec<(u32, u32)>, u32)> {
        const VERSION: u32 = 1;
        const ENTRY: usize = 12;
        let header = |number: usize| self.word(4 * number);
        if header(0)? != VERSION {
            return None;
        }
        let (common, common_count) = (header(1)? as usize, header(2)? as usize);
        let (index, count) = (header(5)? as usize, header(6)? as usize);
        let common = (0..common_count)
            .map_while(|number| self.word(common.checked_add(number.checked_mul(4)?)?))
            .collect::<Vec<_>>();
        let (mut functions, mut end) = (Vec::new(), 0);
        // No function has less than these bytes, so a damaged file has no more functions either.
        let most = self.0.len() / 4;
        for entry in (0..count).map_while(|number| index.checked_add(number.checked_mul(ENTRY)?)) {
            let Some((first, page)) = self.word(entry).zip(self.word(entry + 4)) else { break };
            end = end.max(first);
            let found = self.page(page as usize, first, &common, most - functions.len());
            functions.extend(found.unwrap_or_default());
        }
        Some((functions, end))
    }

    /// The first `most` functions of a page. Pages share the encodings in `common`. The last entry of the
    /// index has no page: it says where the last function ends.
    fn page(
        &self,
        page: usize,
        first: u32,
        common: &[u32],
        most: usize,
    ) -> Option<Vec<(u32, u32)>> {
        const REGULAR: u32 = 2;
        const COMPRESSED: u32 = 3;
        if page == 0 {
            return None;
        }
        let entries = page.checked_add(self.half(page + 4)?)?;
        let numbers = 0..self.half(page + 6)?.min(most);
        let functions: Vec<_> = match self.word(page)? {
            REGULAR => numbers
                .map_while(|number| {
                    let at = entries + 8 * number;
                    self.word(at).zip(self.word(at + 4))
                })
                .collect(),
            COMPRESSED => {
                let own = page.checked_add(self.half(page + 8)?)?;
                let encoding = |number: usize| match number.checked_sub(common.len()) {
                    None => common.get(number).copied(),
                    Some(number) => self.word(own + 4 * number),
                };
                numbers
                    .map_while(|number| {
                        let entry = self.word(entries + 4 * number)?;
                        let start = first.checked_add(entry & 0xff_ffff)?;
                        Some((start, encoding((entry >> 24) as usize)?))
                    })
                    .collect()
            }
            _ => return None,
        };
        Some(functions)
    }
}

#[cfg(test)]
mod tests;
