//! A program of Windows, or its PDB file.

use super::file_path::{path_of, windows_path};
use super::headers::{Headers, Kind};
use super::pdb;
use crate::CodeRange;
use object::pe::IMAGE_SCN_MEM_EXECUTE;
use object::read::pe::PeFile64;
use object::{FileKind, LittleEndian, Object, ObjectSection, ReadCache, ReadRef};
use std::fs::File;

/// `None` if the file is of another kind.
pub(super) fn headers(file: &File, data: &ReadCache<&File>) -> Option<Result<Headers, String>> {
    if pdb::is_pdb(data.read_bytes_at(0, pdb::MAGIC_BYTES).unwrap_or_default()) {
        return Some(debug_information(file));
    }
    let is_it = matches!(FileKind::parse(data), Ok(FileKind::Pe64));
    is_it.then(|| program(data).map_err(|error| error.to_string()))
}

/// Addresses are offsets from the begin of the program.
fn debug_information(file: &File) -> Result<Headers, String> {
    let pdb::Headers { build_id, size, code } = pdb::Headers::read(file)?;
    Ok(Headers { kind: Kind::Pdb, build_id, sizes: [size; 2], code, ..Headers::default() })
}

/// Addresses are those that the linker gave.
fn program<'data>(data: impl ReadRef<'data>) -> object::Result<Headers> {
    let file = PeFile64::parse(data)?;
    let headers = file.nt_headers();
    let size = headers.optional_header.size_of_image.get(LittleEndian);
    let code = file.section_table().iter().filter(|section| {
        section.characteristics.get(LittleEndian).contains(IMAGE_SCN_MEM_EXECUTE)
    });
    let code = code.map(|section| {
        let [offset, size, in_file] =
            [section.virtual_address, section.virtual_size, section.pointer_to_raw_data]
                .map(|field| field.get(LittleEndian).into());
        CodeRange::new(offset, size, in_file)
    });
    let sections = file.sections().filter_map(|section| {
        Some((section.name().ok()?.to_owned(), section.compressed_file_range().ok()?))
    });
    // As the program that has loaded it writes it: the id of its file with debug information, or else
    // what its headers say.
    let time = headers.file_header.time_date_stamp.get(LittleEndian);
    let checksum = headers.optional_header.check_sum.get(LittleEndian);
    let pdb = file.pdb_info()?;
    let build_id = match &pdb {
        Some(pdb) => [&pdb.guid()[..], &pdb.age().to_le_bytes()].concat(),
        None => [time, size, checksum].map(u32::to_le_bytes).concat(),
    };
    Ok(Headers {
        kind: Kind::Pe,
        endian: gimli::RunTimeEndian::Little,
        code: code.collect(),
        sections: sections.collect(),
        build_id,
        debug_link: (file.gnu_debuglink().ok().flatten()).map(|(name, crc)| (path_of(name), crc)),
        pdb: pdb.map(|pdb| windows_path(pdb.path())).filter(|path| path.file_name().is_some()),
        linked_base: file.relative_address_base(),
        sizes: [size.into(); 2],
        ..Headers::default()
    })
}
