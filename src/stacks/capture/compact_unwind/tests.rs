use super::*;

const FRAMED: u32 = if cfg!(target_arch = "aarch64") { 0x0400_0000 } else { 0x0100_0000 };
const DWARF: u32 = if cfg!(target_arch = "aarch64") { 0x0300_0000 } else { 0x0400_0000 };
/// The frame has 16 bytes, and no frame pointer.
const SMALL: u32 = if cfg!(target_arch = "aarch64") { 0x0200_1000 } else { 0x0202_0000 };

fn rule(encoding: u32) -> Packed {
    Packed::new(compact_rule(encoding, |_| None).unwrap())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Two pages, with functions from 0x1000 to 0x6000 and from 0x2_0000 to 0x2_3000.
fn section() -> Vec<u8> {
    let mut section = words(&[1, 28, 2, 0, 0, 36, 3, FRAMED, SMALL]);
    section.extend(words(&[0x1000, 72, 0, 0x2_0000, 112, 0, 0x2_3000, 0, 0]));
    // Functions, each with its encoding.
    section.extend(words(&[2, 4 << 16 | 8]));
    section.extend(words(&[
        0x1000,
        FRAMED,
        0x2000,
        0x4000_0000 | SMALL,
        0x3000,
        0,
        0x5000,
        DWARF | 8,
    ]));
    // Functions with the numbers of their encodings, of which the third is the page's own.
    section.extend(words(&[
        3,
        3 << 16 | 12,
        1 << 16 | 24,
        1 << 24,
        0x1000,
        2 << 24 | 0x2000,
        DWARF,
    ]));
    section
}

#[test]
fn functions_of_both_kinds_of_pages() {
    let (functions, end) = Info(&section()).functions().unwrap();
    let first = [(0x1000, FRAMED), (0x2000, 0x4000_0000 | SMALL), (0x3000, 0), (0x5000, DWARF | 8)];
    let second = [(0x2_0000, SMALL), (0x2_1000, FRAMED), (0x2_2000, DWARF)];
    assert_eq!((functions, end), ([&first[..], &second].concat(), 0x2_3000));
}

#[test]
fn what_has_no_encoding_is_as_dwarf_says() {
    let [between, none] = [Rule::FramePointer, Rule::None].map(Packed::new);
    let [framed, small] = [FRAMED, SMALL].map(rule);
    let dwarf = vec![
        (0x0800, between),
        (0x1000, small),
        (0x5004, framed),
        (0x5800, between),
        (0x2_2800, small),
        (0x2_3000, between),
        (0x2_4000, none),
    ];
    let found = rows(&section(), dwarf.clone(), |_| None);
    let expected = [
        (0x0800, between),
        (0x1000, framed),
        (0x2000, small),
        (0x3000, between),
        (0x5000, small),
        (0x5004, framed),
        (0x5800, between),
        (0x2_0000, small),
        (0x2_1000, framed),
        (0x2_2000, between),
        (0x2_2800, small),
        (0x2_3000, between),
        (0x2_4000, none),
    ];
    assert_eq!(found, expected);
    assert_eq!(rows(&[], dwarf.clone(), |_| None), dwarf);
    assert_eq!(rows(&section(), Vec::new(), |_| None).last(), Some(&(0x2_2000, none)));
}

#[test]
fn a_damaged_section_gives_rows_in_order() {
    let section = section();
    let dwarf =
        vec![(0x1000, Packed::new(Rule::FramePointer)), (0x2_3000, Packed::new(Rule::None))];
    let check = |damaged: &[u8]| {
        let found = rows(damaged, dwarf.clone(), |_| Some(64));
        assert!(
            found.is_sorted_by_key(|(at, _)| *at) && found.len() < damaged.len() + dwarf.len() + 2
        );
    };
    for at in 0..section.len() {
        check(&section[..at]);
        for value in 0..=u8::MAX {
            let mut damaged = section.clone();
            damaged[at] = value;
            check(&damaged);
        }
    }
}
