//! LZ4 blocks as the packets carry them: raw blocks, no frame, no dictionary.

use lz4_flex::block;

/// Payloads of at most this number of bytes are not compressed, because LZ4 would gain too little.
pub const MIN_COMPRESSED: usize = 384;

/// Compresses blocks, with one table for all.
#[doc(hidden)]
pub struct Compressor {
    table: block::CompressTable,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

impl Compressor {
    /// With an empty table.
    #[expect(clippy::new_without_default, reason = "for memledger only")]
    pub fn new() -> Self {
        Self { table: block::CompressTable::default() }
    }

    /// Compresses `payload`. If the result is smaller, appends it to `out` and returns `true`.
    pub fn append(&mut self, payload: &[u8], out: &mut Vec<u8>) -> bool {
        if payload.len() <= MIN_COMPRESSED {
            return false;
        }
        let start = out.len();
        out.resize(start + block::get_maximum_output_size(payload.len()), 0);
        let written = block::compress_into_with_table(payload, &mut out[start..], &mut self.table);
        let written = written.unwrap_or(usize::MAX);
        // The decoded size takes two more bytes.
        let smaller = written < payload.len() - 2;
        out.truncate(start + if smaller { written } else { 0 });
        smaller
    }
}

/// Decodes `block` into `out`, which must be filled exactly.
///
/// # Errors
/// One clause that says what is wrong with the block.
pub fn decode(block: &[u8], out: &mut [u8]) -> Result<(), String> {
    match block::decompress_into(block, out) {
        Ok(size) if size == out.len() => Ok(()),
        Ok(size) => Err(format!("its LZ4 block decodes to {size} bytes instead of {}", out.len())),
        Err(error) => Err(format!("its LZ4 block is damaged ({error})")),
    }
}
