//! A program of macOS, or the file with its debug information.

use super::headers::{Headers, Kind};
use crate::CodeRange;
use object::read::macho::MachOFile64;
use object::{
    Endianness, FileKind, Object, ObjectSection, ObjectSegment, ReadCache, ReadRef, SectionKind,
};
use std::fs::File;

/// `None` if the file is of another kind.
pub(super) fn headers(data: &ReadCache<&File>) -> Option<Result<Headers, String>> {
    match FileKind::parse(data) {
        Ok(FileKind::MachO64) => Some(program(data).map_err(|error| error.to_string())),
        Ok(FileKind::MachOFat32 | FileKind::MachOFat64) => {
            Some(Err("it has programs for several processors (lipo -thin makes a file of one)"
                .to_owned()))
        }
        _ => None,
    }
}

/// A program of macOS, or the file in its `.dSYM`, which has the same segments without their bytes.
fn program<'data>(data: impl ReadRef<'data>) -> object::Result<Headers> {
    let file = MachOFile64::<Endianness, _>::parse(data)?;
    let (mut base, mut end) = (0, 0);
    for segment in file.segments() {
        if segment.name() == Ok(Some("__TEXT")) {
            base = segment.address();
        }
        end = end.max(segment.address().saturating_add(segment.size()));
    }
    let code = file.sections().filter(|section| section.kind() == SectionKind::Text);
    let code = code.filter_map(|section| {
        let (file_offset, size) = section.file_range()?;
        Some(CodeRange::new(section.address().checked_sub(base)?, size, file_offset))
    });
    let sections = file.sections().filter_map(|section| {
        let name = match section.name().ok()? {
            // A name has at most 16 bytes.
            "__debug_str_offs" => ".debug_str_offsets".to_owned(),
            name => name.replacen("__", ".", 1),
        };
        Some((name, section.compressed_file_range().ok()?))
    });
    Ok(Headers {
        kind: Kind::MachO,
        endian: gimli::RunTimeEndian::Little,
        code: code.collect(),
        sections: sections.collect(),
        build_id: file.mach_uuid()?.map_or_else(Vec::new, |uuid| uuid.to_vec()),
        linked_base: base,
        sizes: [end.saturating_sub(base); 2],
        ..Headers::default()
    })
}
