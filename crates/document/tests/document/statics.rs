//! The static variables in the resident pages of files.

use memledger_document::internal::{FilePages, static_variables};
use memledger_document::{Module, StaticVariable};
use proptest::prelude::*;

proptest! {
    #[test]
    fn bytes_of_a_range_are_those_of_its_pages(
        (offset, page_bytes) in (0_u64..50, 0_u64..9),
        bits in prop::collection::vec(any::<u8>(), 0..6),
        (start, size) in (0_u64..500, 0_u64..500),
    ) {
        let pages = FilePages::new((0, offset), page_bytes, &bits);
        let is_resident = |at: &u64| {
            let page = at.checked_sub(offset)? / page_bytes.max(1);
            Some(bits.get((page / 8) as usize)? >> (page % 8) & 1 == 1)
        };
        let all = (start..start + size).filter(|at| is_resident(at).unwrap_or(false)).count();
        prop_assert_eq!(pages.resident(&(start..start + size)), all as u64);
    }
}

#[test]
fn each_byte_is_in_one_variable() {
    let module = |path: &str| Module::new(path.into(), 0, 1 << 20, Vec::new());
    let modules = [module("/a"), module("/b")];
    // Pages 1 to 4 of one file, of which the third is not resident, and a page of another.
    let pages = [FilePages::new((0, 4096), 4096, &[0b1011]), FilePages::new((1, 0), 4096, &[1])];
    let names = |module: &Module| match &*module.path {
        "/a" => vec![
            (4096..12_288 + 96, "large".to_owned()),
            (4096..8192, "a part".into()),
            (12_288..16_384, "its end".into()),
            (16_384..20_000, "last".into()),
            (20_000..20_100, "memledger::TABLE".into()),
            (90_000..99_000, "not resident".into()),
        ],
        _ => Vec::new(),
    };
    let rows = |names: &dyn Fn(&Module) -> _| {
        let row = |row: StaticVariable| (row.name, row.module, row.bytes, row.size);
        static_variables(&pages, &modules, names).into_iter().map(row).collect::<Vec<_>>()
    };
    let name = |name: &str| Some(name.to_owned());
    assert_eq!(
        rows(&names),
        [
            (name("large"), 0, 8192, 8288),
            (None, 1, 4096, 0),
            (name("last"), 0, 3616, 3616),
            (None, 0, 380, 0),
        ]
    );
    assert_eq!(rows(&|_| Vec::new()), [(None, 0, 12_288, 0), (None, 1, 4096, 0)]);
}

#[test]
fn pages_of_any_size_are_added_up() {
    let pages = [FilePages::new((0, 7), 1 << 63, &[0xff]), FilePages::new((0, 0), u64::MAX, &[3])];
    let rows = static_variables(&pages, &[Module::new("/a".into(), 0, 0, Vec::new())], |_| {
        vec![(0..u64::MAX, "all".into())]
    });
    assert_eq!((rows.len(), rows[0].bytes), (1, u64::MAX));
}
