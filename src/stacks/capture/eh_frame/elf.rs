//! Where a file of Linux has its unwind information: `.eh_frame_hdr` says where `.eh_frame` is.

use super::super::processor::{self, Packed};
use super::rows;
use crate::platform::os::{LoadedFile, Memory};
use gimli::{BaseAddresses, EhFrameHdr, LittleEndian, Pointer};

/// The rules of a file, by addresses in the file's own terms.
pub(in super::super) fn of_file(memory: &Memory, file: &LoadedFile) -> Vec<(u64, Packed)> {
    let (section, address) = section_of(memory, file).unwrap_or_default();
    let code = file.code.iter().map(|part| {
        let start = file.linked_base.saturating_add(part.offset);
        start..start.saturating_add(part.size)
    });
    rows(&section, address, &code.collect::<Vec<_>>())
}

/// The bytes of `.eh_frame`, and its address in the file's own terms.
pub(in super::super) fn section_of(memory: &Memory, file: &LoadedFile) -> Option<(Vec<u8>, u64)> {
    let header = file.eh_frame_hdr.as_ref()?;
    let in_memory = |offset: u64| file.base.checked_add(offset);
    let bytes = memory.read(in_memory(header.offset)?, header.size).ok()?;
    let address = section_address(&bytes, file.linked_base.checked_add(header.offset)?)?;
    // The section ends with a zero, at the latest with its segment.
    let offset = address.checked_sub(file.linked_base)?;
    let segment = file.segments.iter().find(|segment| {
        (segment.offset..segment.offset.saturating_add(segment.size)).contains(&offset)
    })?;
    let size = segment.offset + segment.size - offset;
    let mut section = memory.read(in_memory(offset)?, size).ok()?;
    processor::replace_unknown_augmentations(&mut section);
    Some((section, address))
}

/// The address of `.eh_frame`, from the bytes of `.eh_frame_hdr`, which begins at `address`.
pub(in super::super) fn section_address(header: &[u8], address: u64) -> Option<u64> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(address);
    let header = EhFrameHdr::new(header, LittleEndian).parse(&bases, 8).ok()?;
    match header.eh_frame_ptr() {
        Pointer::Direct(address) => Some(address),
        Pointer::Indirect(_) => None,
    }
}
