//! Any bytes as the unwind information of a file.
//!
//! ```text
//! u64 address, then the section
//! ```

use memledger::fuzzing::{section_address, unwind_rows, unwind_sections};

/// The number of bytes of a seed.
const OF_A_FILE: usize = 480;

/// Makes the table of a file with this section, and reads the same bytes as the section's index.
pub fn run(data: &[u8]) {
    let Some((address, section)) = data.split_first_chunk() else { return };
    let address = u64::from_le_bytes(*address);
    let rows = unwind_rows(section, address);
    assert!(rows.is_sorted_by(|one, next| one < next), "{rows:x?}");
    let _ = section_address(section, address);
}

/// The beginnings of the sections of this program and its libraries, a procedure linkage table, and
/// an index.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut sections: Vec<_> = unwind_sections();
    for section in &mut sections {
        section.truncate(OF_A_FILE);
    }
    #[rustfmt::skip]
    let with_linkage_table = vec![
        // The common part: version 1, "zR", factors 1 and -8, return address 16, relative addresses.
        20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1, 0, 0,
        // 64 bytes of code.
        36, 0, 0, 0, 28, 0, 0, 0, 0, 16, 0, 0, 64, 0, 0, 0, 0, 14, 16, 0x46, 14, 24, 0x4a,
        15, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0,
    ];
    sections.push(with_linkage_table);
    sections.push(vec![1, 0x1b, 3, 0x3b, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 16, 0, 0, 0x50, 0, 0, 0]);
    let address = 0x2000_u64.to_le_bytes();
    sections.into_iter().map(|section| [&address[..], &section].concat()).collect()
}
