//! Rules that the unwind tables of real modules give.

use super::*;
#[cfg_attr(target_arch = "aarch64", path = "tests/aarch64.rs")]
#[cfg_attr(target_arch = "x86_64", path = "tests/x86_64.rs")]
mod code;

use super::elf::section_of;
use crate::platform::os::{Memory, loaded_files};

/// The rules of the module with this path, each at the address where it begins in memory.
fn rows_of(is_wanted: impl Fn(&str) -> bool) -> Vec<(u64, Rule)> {
    let memory = Memory::open().unwrap();
    let (files, _) = loaded_files(&memory, |_, _| false).unwrap();
    let file = files.iter().find(|file| is_wanted(&file.path)).unwrap();
    let (section, address) = section_of(&memory, file).unwrap();
    let rows = rows(&section, address, &[]).into_iter();
    let in_memory = |address: u64| address.wrapping_sub(file.linked_base) + file.base;
    rows.map(|(address, rule)| (in_memory(address), rule.rule())).collect()
}

fn at(rows: &[(u64, Rule)], address: u64) -> Rule {
    rows[rows.partition_point(|(start, _)| *start <= address) - 1].1
}

/// Whatever a section holds, its rows are in the order of addresses.
#[test]
fn damaged_unwind_information_gives_rows_in_order() {
    let memory = Memory::open().unwrap();
    let (files, _) = loaded_files(&memory, |_, _| false).unwrap();
    let file = files.iter().find(|file| file.eh_frame_hdr.is_some()).unwrap();
    let (section, address) = section_of(&memory, file).unwrap();
    let whole = rows(&section, address, &[]);
    assert!(whole.len() > 1_000 && whole.is_sorted_by_key(|(address, _)| *address));
    let mut random = 1_u64;
    for _ in 0..200 {
        let mut damaged = section.get(..20_000).unwrap().to_vec();
        for _ in 0..20 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (random >> 33) as usize % damaged.len();
            damaged[at] = (random >> 20) as u8;
        }
        damaged.truncate((random >> 40) as usize % damaged.len() + 1);
        processor::replace_unknown_augmentations(&mut damaged);
        assert!(rows(&damaged, address, &[]).is_sorted_by_key(|(address, _)| *address));
    }
}
