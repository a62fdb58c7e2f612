//! The container of a PDB file (MSF 7.00): streams, each of them in blocks anywhere in the file.
//!
//! ```text
//! block 0      magic, size of a block, number of blocks, size of the directory, block of its map
//! its map      the blocks of the directory: u32 each
//! directory    number of streams, the size of each, then the blocks of each: u32 each
//! ```

use super::fields::Fields;
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

pub(super) const MAGIC: &[u8] = b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0";

/// Where a header has no stream, it has this number.
pub(super) const NO_STREAM: u16 = u16::MAX;
/// The directory has this size for a stream that was removed.
const NO_SIZE: u32 = u32::MAX;

pub(super) struct Streams {
    file: File,
    block_size: u32,
    directory: Vec<u8>,
    /// Bytes that can still be read. No two streams have a block in common, so all of them together are
    /// smaller than the file; in a damaged one, each of thousands could claim all of its bytes.
    left: Cell<u64>,
}

impl Streams {
    /// Reads the directory.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn open(file: &File) -> Result<Self, String> {
        let said = |error: io::Error| error.to_string();
        let file = file.try_clone().map_err(said)?;
        let left = Cell::new(file.metadata().map_err(said)?.len());
        let mut streams = Self { file, block_size: 56, directory: Vec::new(), left };
        let header = streams.read(Fields(&[0; 4]), 56)?;
        let mut fields = Fields(&header);
        let magic = fields.bytes(MAGIC.len());
        let [Some(block_size), _, _, Some(size), _, Some(map)] = [(); 6].map(|()| fields.u32())
        else {
            return Err("its header ends too early".to_owned());
        };
        if magic != Some(MAGIC) || !(512..=65536).contains(&block_size) {
            return Err("its header is invalid".to_owned());
        }
        streams.block_size = block_size;
        let count = size.div_ceil(block_size);
        // The map has blocks of its own, one after another.
        let blocks = (0..(u64::from(count) * 4).div_ceil(block_size.into()) as u32)
            .flat_map(|number| map.wrapping_add(number).to_le_bytes());
        let map = streams.read(Fields(&blocks.collect::<Vec<_>>()), count.saturating_mul(4))?;
        streams.directory = streams.read(Fields(&map), size)?;
        Ok(streams)
    }

    /// The bytes of a stream; none if the file does not have it.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn stream(&self, number: u16) -> Result<Vec<u8>, String> {
        self.start_of(number, u32::MAX)
    }

    /// As [`Self::stream`], but at most the first `most` bytes.
    pub(super) fn start_of(&self, number: u16, most: u32) -> Result<Vec<u8>, String> {
        if number == NO_STREAM {
            return Ok(Vec::new());
        }
        let (size, blocks) = self.find(number).ok_or("its directory ends too early")?;
        self.read(blocks, size.min(most))
    }

    /// The size of a stream, and the numbers of its blocks.
    fn find(&self, number: u16) -> Option<(u32, Fields<'_>)> {
        let mut fields = Fields(&self.directory);
        let count = fields.u32()?;
        let mut sizes = Fields(fields.bytes((count as usize).checked_mul(4)?)?);
        if u32::from(number) >= count {
            return Some((0, Fields(&[])));
        }
        let in_blocks = |size: u32| size.div_ceil(self.block_size) as usize;
        for _ in 0..number {
            let size = Some(sizes.u32()?).filter(|size| *size != NO_SIZE).unwrap_or(0);
            fields.skip(in_blocks(size).checked_mul(4)?)?;
        }
        let size = Some(sizes.u32()?).filter(|size| *size != NO_SIZE).unwrap_or(0);
        Some((size, Fields(fields.bytes(in_blocks(size).checked_mul(4)?)?)))
    }

    /// Reads `size` bytes that are in `blocks`.
    fn read(&self, mut blocks: Fields<'_>, size: u32) -> Result<Vec<u8>, String> {
        let left = self.left.get().checked_sub(size.into());
        self.left.set(left.ok_or("its streams are larger than the file")?);
        let mut bytes = vec![0; size as usize];
        let mut file = &self.file;
        for part in bytes.chunks_mut(self.block_size as usize) {
            let block = blocks.u32().ok_or("its directory ends too early")?;
            file.seek(SeekFrom::Start(u64::from(block) * u64::from(self.block_size)))
                .and_then(|_| file.read_exact(part))
                .map_err(|error| format!("a block of it cannot be read: {error}"))?;
        }
        Ok(bytes)
    }
}
