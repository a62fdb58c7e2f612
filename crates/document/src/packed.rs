//! The figures of many rows in few bytes: most figures of most stacks are 0 or small.

use crate::figures::Figures;

/// The number of rows for which one position is kept.
const STRIDE: usize = 4;

/// The figures of rows, by their numbers.
///
/// ```text
/// row      set, then each figure that is not 0
/// set      a bit for each figure that is not 0
/// number   7 bits a byte, the lowest first; the last byte is below 128
/// ```
#[derive(Clone, Debug, Default)]
pub(crate) struct PackedFigures {
    bytes: Vec<u8>,
    /// Where rows 0, 4, 8 and so on begin.
    starts: Vec<usize>,
    rows: usize,
}

impl PackedFigures {
    pub(crate) fn push(&mut self, figures: &Figures) {
        if self.rows.is_multiple_of(STRIDE) {
            self.starts.push(self.bytes.len());
        }
        self.rows += 1;
        let mut figures = *figures;
        let is_set = |(at, figure): (usize, &mut u64)| u64::from(*figure != 0) << at;
        self.write(figures.all_mut().into_iter().enumerate().map(is_set).sum());
        figures
            .all_mut()
            .into_iter()
            .filter(|figure| **figure != 0)
            .for_each(|figure| self.write(*figure));
    }

    fn write(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// The figures of a row; of one that is not there, none but 0.
    pub(crate) fn get(&self, row: usize) -> Figures {
        let start = self.starts.get(row / STRIDE).copied().unwrap_or(self.bytes.len());
        let mut reader = Reader(&self.bytes[start..]);
        (0..row % STRIDE).for_each(|_| reader.skip());
        reader.figures()
    }

    /// The figures of all rows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Figures> + Clone {
        let mut reader = Reader(&self.bytes);
        (0..self.rows).map(move |_| reader.figures())
    }

    /// Gives back what was reserved for further rows.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.starts.shrink_to_fit();
    }
}

/// The rows that follow.
#[derive(Clone)]
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn figures(&mut self) -> Figures {
        let (mut figures, mut set) = (Figures::default(), self.number());
        for figure in figures.all_mut() {
            if set & 1 != 0 {
                *figure = self.number();
            }
            set >>= 1;
        }
        figures
    }

    fn skip(&mut self) {
        (0..self.number().count_ones()).for_each(|_| _ = self.number());
    }

    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0, 0);
        while let Some((&byte, rest)) = self.0.split_first() {
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
            shift += 7;
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn figures() -> impl Strategy<Value = Figures> {
        let figure = prop_oneof![Just(0), 0..300_u64, any::<u64>(), Just(u64::MAX)];
        prop::collection::vec(figure, 20).prop_map(|all| {
            let mut figures = Figures::default();
            figures.all_mut().into_iter().zip(all).for_each(|(figure, number)| *figure = number);
            figures
        })
    }

    proptest! {
        #[test]
        fn each_row_is_what_was_added(rows in prop::collection::vec(figures(), 0..50)) {
            let mut packed = PackedFigures::default();
            rows.iter().for_each(|row| packed.push(row));
            prop_assert_eq!(&packed.iter().collect::<Vec<_>>(), &rows);
            for (number, row) in rows.iter().enumerate() {
                prop_assert_eq!(packed.get(number), *row);
            }
            prop_assert_eq!(packed.get(rows.len()), Figures::default());
        }
    }
}
