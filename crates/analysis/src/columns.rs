//! The columns of a report, declared in one place.
//!
//! One line here adds a column to every row of a report, to the inclusive figures, the totals, the
//! JSON and the tables of the text. A column that is counted also needs its computation, in
//! `accounts/tally.rs`.

use super::estimate::{Estimate, Sample, Weighted};
use Shown::{Bytes, Hidden, Number};

/// How the text shows a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Not at all.
    Hidden,
    /// A number, below this header.
    Number(&'static str),
    /// A size, below this header.
    Bytes(&'static str),
}

impl Shown {
    /// Whether the column has bytes.
    const fn is_bytes(self) -> bool {
        matches!(self, Self::Bytes(_))
    }
}

/// One column of the rows.
#[derive(Debug)]
#[non_exhaustive]
pub struct Column {
    /// Its key in JSON: the name of its field.
    pub key: &'static str,
    /// How the text shows it.
    pub shown: Shown,
    /// Its figure in a row.
    pub of: fn(&Figures) -> u64,
}

/// Blocks that changed their row, and their bytes then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moves {
    /// How many.
    pub blocks: u64,
    /// Their sizes when they moved. For a block that a reallocation moved to another size class:
    /// the old size where it left, the new size where it arrived.
    pub bytes: u64,
}

impl Moves {
    fn add(&mut self, other: Self) {
        self.blocks = self.blocks.wrapping_add(other.blocks);
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }
}

/// Adds `change` to a number of which only the lower 32 bits are here; `upper` and the result are
/// what its upper bits change by.
#[inline(always)]
pub(crate) fn add_low(low: &mut u32, change: u64, upper: &mut u64) -> u64 {
    let sum = u64::from(*low).wrapping_add(change);
    *low = sum as u32;
    *upper = sum & !u64::from(u32::MAX);
    *upper
}

/// Declares the columns, in the order of the JSON. The sections of the declaration:
/// - `counted`: the sum of what each event adds, in [`Tally`];
/// - `live`: what is live, in each row and in the totals;
/// - `peak`: the row's own peak, which does not add up;
/// - `at_peak`: what was live when the total was at its peak;
/// - `counted_last`: like `counted`. New columns are added here, so that the order of the others
///   does not change.
macro_rules! columns {
    (
        counted { $($(#[doc = $doc_a:expr])+ $a:ident: $shown_a:expr,)+ }
        live { $($(#[doc = $doc_b:expr])+ $b:ident: $shown_b:expr,)+ }
        peak { $($(#[doc = $doc_c:expr])+ $c:ident: $shown_c:expr,)+ }
        at_peak { $($(#[doc = $doc_d:expr])+ $d:ident: $shown_d:expr,)+ }
        counted_last { $($(#[doc = $doc_e:expr])+ $e:ident: $shown_e:expr,)+ }
    ) => {
        /// What was counted in one bucket or one size class.
        ///
        /// All sums are modulo 2^64. A valid trace never comes near that, and in any other trace
        /// the rows still add up to the total.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Tally {
            $($(#[doc = $doc_a])+ pub $a: u64,)+
            $($(#[doc = $doc_e])+ pub $e: u64,)+
        }

        /// What a sample says about the columns of a row.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Weights {
            $($a: Weighted,)+
            $(pub(crate) $b: Weighted,)+
            $(pub(crate) $d: Weighted,)+
            $($e: Weighted,)+
        }

        impl Weights {
            /// Adds what was counted of one block.
            pub(crate) fn add_tally(&mut self, tally: &Tally, sample: Sample) {
                $(self.$a.add(tally.$a as i64, $shown_a.is_bytes(), sample);)+
                $(self.$e.add(tally.$e as i64, $shown_e.is_bytes(), sample);)+
            }

            /// Adds the sums of other blocks.
            pub fn add(&mut self, other: &Self) {
                $(self.$a.sum(&other.$a);)+
                $(self.$b.sum(&other.$b);)+
                $(self.$d.sum(&other.$d);)+
                $(self.$e.sum(&other.$e);)+
            }

            /// Adds the figures of blocks that were all taken.
            pub(crate) fn add_exact(&mut self, figures: &Figures) {
                $(self.$a.add_exact(figures.$a);)+
                $(self.$b.add_exact(figures.$b);)+
                $(self.$d.add_exact(figures.$d);)+
                $(self.$e.add_exact(figures.$e);)+
            }

            /// The figures of the whole.
            pub fn estimates(&self) -> Estimates {
                Estimates {
                    $($a: self.$a.estimate(),)+
                    $($b: self.$b.estimate(),)+
                    $($d: self.$d.estimate(),)+
                    $($e: self.$e.estimate(),)+
                }
            }
        }

        /// Estimates of the columns of a row, from a sample: all columns but the row's own peak,
        /// which a sample does not show.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Estimates {
            $($(#[doc = $doc_a])+ pub $a: Estimate,)+
            $($(#[doc = $doc_b])+ pub $b: Estimate,)+
            $($(#[doc = $doc_d])+ pub $d: Estimate,)+
            $($(#[doc = $doc_e])+ pub $e: Estimate,)+
        }

        impl Estimates {
            /// The estimates themselves, as figures of a row.
            pub fn values(&self) -> Figures {
                Figures {
                    $($a: self.$a.value,)+
                    $($b: self.$b.value,)+
                    $($d: self.$d.value,)+
                    $($e: self.$e.value,)+
                    ..Figures::default()
                }
            }

            /// The keys and estimates, in the order of the JSON.
            pub fn all(&self) -> impl Iterator<Item = (&'static str, Estimate)> {
                [
                    $((stringify!($a), self.$a),)+
                    $((stringify!($b), self.$b),)+
                    $((stringify!($d), self.$d),)+
                    $((stringify!($e), self.$e),)+
                ]
                .into_iter()
            }
        }

        impl Tally {
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$a = self.$a.wrapping_add(other.$a);)+
                $(self.$e = self.$e.wrapping_add(other.$e);)+
            }

            /// What was counted since the state `before`.
            pub(crate) fn since(&self, before: &Self) -> Self {
                Self {
                    $($a: self.$a.wrapping_sub(before.$a),)+
                    $($e: self.$e.wrapping_sub(before.$e),)+
                }
            }
        }

        /// The lower 32 bits of a [`Tally`].
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct LowTally {
            $($a: u32,)+
            $($e: u32,)+
        }

        impl LowTally {
            /// Adds `tally`. Returns what the upper bits change by, if they do.
            #[inline(always)]
            pub(crate) fn add(&mut self, tally: &Tally) -> Option<Tally> {
                let mut upper = Tally::default();
                let mut any = 0;
                $(any |= add_low(&mut self.$a, tally.$a, &mut upper.$a);)+
                $(any |= add_low(&mut self.$e, tally.$e, &mut upper.$e);)+
                (any != 0).then_some(upper)
            }

            /// The whole columns, with these upper bits.
            pub(crate) fn with(&self, upper: &Tally) -> Tally {
                Tally {
                    $($a: upper.$a.wrapping_add(self.$a.into()),)+
                    $($e: upper.$e.wrapping_add(self.$e.into()),)+
                }
            }
        }

        /// The columns of one row.
        ///
        /// `live_blocks = allocations - frees + moved_in.blocks - moved_out.blocks`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Figures {
            $($(#[doc = $doc_a])+ pub $a: u64,)+
            $($(#[doc = $doc_b])+ pub $b: u64,)+
            $($(#[doc = $doc_c])+ pub $c: u64,)+
            $($(#[doc = $doc_d])+ pub $d: u64,)+
            $($(#[doc = $doc_e])+ pub $e: u64,)+
            /// Blocks that came from another row, or from outside the accounts.
            pub moved_in: Moves,
            /// Blocks that went to another row, or left the accounts without a free (see
            /// [`Totals::moved_out`]).
            pub moved_out: Moves,
        }

        impl Figures {
            /// Adds what was counted.
            pub(crate) fn add_tally(&mut self, tally: &Tally) {
                $(self.$a = self.$a.wrapping_add(tally.$a);)+
                $(self.$e = self.$e.wrapping_add(tally.$e);)+
            }

            /// All columns, and the moves.
            pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut u64> {
                let moves = [&mut self.moved_in, &mut self.moved_out];
                [
                    $(&mut self.$a,)+
                    $(&mut self.$b,)+
                    $(&mut self.$c,)+
                    $(&mut self.$d,)+
                    $(&mut self.$e,)+
                ]
                .into_iter()
                .chain(moves.into_iter().flat_map(|moves| [&mut moves.blocks, &mut moves.bytes]))
            }

            /// Adds what moved. NOTE: moves between the two rows stay in it.
            pub(crate) fn add_moves(&mut self, other: &Self) {
                self.moved_in.add(other.moved_in);
                self.moved_out.add(other.moved_out);
            }

            /// Adds the columns of `other` that add up: all but the peaks and the moves. Sums beyond
            /// `u64::MAX` wrap.
            pub fn add(&mut self, other: &Self) {
                $(self.$a = self.$a.wrapping_add(other.$a);)+
                $(self.$b = self.$b.wrapping_add(other.$b);)+
                $(self.$d = self.$d.wrapping_add(other.$d);)+
                $(self.$e = self.$e.wrapping_add(other.$e);)+
            }
        }

        /// All blocks together.
        ///
        /// `live_blocks = allocations - frees + moved_in_blocks - moved_out_blocks`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Totals {
            $($(#[doc = $doc_a])+ pub $a: u64,)+
            $($(#[doc = $doc_b])+ pub $b: u64,)+
            /// The largest live bytes at any time.
            pub peak_bytes: u64,
            /// When the peak was first reached, or just before: see
            /// [`Report::peak`](super::Report::peak).
            pub peak_bytes_at_ns: u64,
            /// Live blocks then.
            pub blocks_at_peak: u64,
            /// Bytes live at the peak that were allocated in no scope and have no tag.
            pub unnamed_bytes_at_peak: u64,
            /// The largest number of live blocks at any time.
            pub peak_blocks: u64,
            $($(#[doc = $doc_e])+ pub $e: u64,)+
            /// Bytes of memory of the tracker itself, if the trace says it.
            pub overhead_bytes: Option<u64>,
            /// Blocks that came back into the accounts without an allocation (see `moved_out`).
            pub moved_in: Moves,
            /// Blocks that left the accounts without a free: replaced by another at the same
            /// address, or declared a heap by the program.
            pub moved_out: Moves,
        }

        impl Totals {
            /// Adds what was counted.
            pub(crate) fn add_tally(&mut self, tally: &Tally) {
                $(self.$a = self.$a.wrapping_add(tally.$a);)+
                $(self.$e = self.$e.wrapping_add(tally.$e);)+
            }

            /// The keys and figures of the columns before the peak.
            #[doc(hidden)]
            pub fn first_columns(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [
                    $((stringify!($a), self.$a),)+
                    $((stringify!($b), self.$b),)+
                ]
                .into_iter()
            }

            /// The keys and figures of the columns after the peak.
            #[doc(hidden)]
            pub fn last_columns(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($e), self.$e),)+].into_iter()
            }
        }

        /// Each column by the name of its field.
        #[expect(non_upper_case_globals, reason = "they have the names of the fields")]
        pub mod column {
            use crate::columns::{Column, Shown::*};

            $($(#[doc = $doc_a])+ pub static $a: Column =
                Column { key: stringify!($a), shown: $shown_a, of: |row| row.$a };)+
            $($(#[doc = $doc_b])+ pub static $b: Column =
                Column { key: stringify!($b), shown: $shown_b, of: |row| row.$b };)+
            $($(#[doc = $doc_c])+ pub static $c: Column =
                Column { key: stringify!($c), shown: $shown_c, of: |row| row.$c };)+
            $($(#[doc = $doc_d])+ pub static $d: Column =
                Column { key: stringify!($d), shown: $shown_d, of: |row| row.$d };)+
            $($(#[doc = $doc_e])+ pub static $e: Column =
                Column { key: stringify!($e), shown: $shown_e, of: |row| row.$e };)+
        }

        /// All columns of a row, in the order of the JSON.
        pub static COLUMNS: &[&Column] = &[
            $(&column::$a,)+
            $(&column::$b,)+
            $(&column::$c,)+
            $(&column::$d,)+
            $(&column::$e,)+
        ];
    };
}

columns! {
    counted {
        /// Allocations; a reallocation is not one.
        allocations: Number("count"),
        /// Frees of known blocks.
        frees: Hidden,
        /// Successful reallocations.
        reallocations: Number("reallocations"),
        /// The sizes of all allocations and the new sizes of all reallocations.
        allocated_bytes: Bytes("allocated"),
    }
    live {
        /// Blocks not freed yet.
        live_blocks: Number("blocks"),
        /// Their bytes.
        live_bytes: Bytes("at end"),
    }
    peak {
        /// The row's own largest live bytes at any time.
        peak_bytes: Bytes("own peak"),
    }
    at_peak {
        /// Its live bytes when the total was at its peak.
        live_bytes_at_peak: Bytes("at peak"),
        /// Its live blocks then.
        live_blocks_at_peak: Hidden,
    }
    counted_last {
        /// Blocks freed by the thread that allocated them before it allocated again.
        short_lived: Hidden,
    }
}
