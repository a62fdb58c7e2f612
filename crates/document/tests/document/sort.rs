//! Sorting that is compiled once.

use memledger_document::internal::sort::by_key;
use proptest::prelude::*;

proptest! {
    #[test]
    fn rows_are_those_of_the_stable_sort(mut rows: Vec<(u8, u16)>) {
        let mut expected = rows.clone();
        expected.sort_by_key(|row| row.0);
        by_key(&mut rows, |row| row.0);
        prop_assert_eq!(rows, expected);
    }
}
