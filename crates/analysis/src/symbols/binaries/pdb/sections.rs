//! Where the sections of the program are in memory.

use super::fields::Fields;
use crate::CodeRange;

/// From the headers of the program, which the linker has copied.
pub(super) struct Sections(Vec<Section>);

struct Section {
    start: u32,
    size: u32,
    file_offset: u32,
    is_code: bool,
}

impl Sections {
    pub(super) fn read(bytes: &[u8]) -> Self {
        const HEADER: usize = 40;
        let section = |header: &[u8]| {
            const IS_EXECUTABLE: u32 = 0x2000_0000;
            let mut fields = Fields(header);
            fields.skip(8)?;
            let [Some(size), Some(start), _, Some(file_offset), _, _, _, Some(flags)] =
                [(); 8].map(|()| fields.u32())
            else {
                return None;
            };
            Some(Section { start, size, file_offset, is_code: flags & IS_EXECUTABLE != 0 })
        };
        Self(bytes.chunks_exact(HEADER).filter_map(section).collect())
    }

    /// The address of a byte of a section, from the first byte of the program. Sections count from 1.
    pub(super) fn address(&self, section: u16, offset: u32) -> Option<u32> {
        let section = self.0.get(usize::from(section.checked_sub(1)?))?;
        section.start.checked_add(offset)
    }

    /// The end of the last one.
    pub(super) fn end(&self) -> u64 {
        let end = |section: &Section| u64::from(section.start) + u64::from(section.size);
        self.0.iter().map(end).max().unwrap_or(0)
    }

    pub(super) fn code(&self) -> Vec<CodeRange> {
        let code = self.0.iter().filter(|section| section.is_code);
        code.map(|section| {
            CodeRange::new(section.start.into(), section.size.into(), section.file_offset.into())
        })
        .collect()
    }
}
