//! A file of gzip (RFC 1952) around deflated bytes.

use miniz_oxide::deflate::compress_to_vec;

/// How much work deflate does: 1 is the least that compresses. Go's runtime takes the same.
const LEVEL: u8 = 1;

/// A file of gzip with these bytes.
pub(super) fn compress(bytes: &[u8]) -> Vec<u8> {
    // Deflate; no name, no time; by an unknown system.
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    file.extend_from_slice(&compress_to_vec(bytes, LEVEL));
    file.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    // Modulo 2^32, as the format says.
    file.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    file
}
