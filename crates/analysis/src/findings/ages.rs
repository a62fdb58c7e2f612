//! How long blocks lived: a histogram with eight classes in each doubling of nanoseconds.

/// The number of classes in each doubling, as a power of two.
const PARTS: u32 = 3;
/// A bucket has such classes from this many live bytes on. What was freed before is in a few wide ones.
const FINE_FROM: u64 = 4 << 10;
/// Each wide class ends at this many times the end of the one before, as a power of two.
const WIDE: u32 = 4;

/// The lifetimes of freed blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Ages {
    /// From this class on.
    first: u16,
    fine: Vec<u32>,
    /// PERF: in the bucket, whose cache line is needed anyway.
    wide: [u32; 16],
}

fn class(ns: u64) -> usize {
    let bits = (u64::BITS - ns.leading_zeros()).max(PARTS + 1);
    let part = (ns >> (bits - 1 - PARTS)) as usize;
    (((bits - 1 - PARTS) as usize) << PARTS) + part
}

/// The longest lifetime in a class.
fn longest(class: usize) -> u64 {
    let shift = (class >> PARTS).saturating_sub(1) as u32;
    let part = (class as u64) - (u64::from(shift) << PARTS);
    part.checked_add(1)
        .map_or(u64::MAX, |next| ((u128::from(next) << shift) - 1).min(u64::MAX.into()) as u64)
}

fn longest_wide(class: usize) -> u64 {
    1_u64.checked_shl(WIDE * class as u32).map_or(u64::MAX, |end| end - 1)
}

impl Ages {
    /// A block lived so long, in a bucket that never had more live bytes than these.
    #[inline(always)]
    pub(super) fn add(&mut self, ns: u64, most_live: u64) {
        if most_live < FINE_FROM {
            let class = (u64::BITS - ns.leading_zeros()).div_ceil(WIDE) as usize;
            let count = &mut self.wide[class.min(15)];
            *count = count.saturating_add(1);
        } else {
            self.add_fine(ns);
        }
    }

    #[inline(never)]
    fn add_fine(&mut self, ns: u64) {
        let class = class(ns);
        let first = usize::from(self.first);
        // PERF: blocks of one bucket live about as long: a few classes, and not all of them.
        if self.fine.is_empty() {
            self.first = class as u16;
        } else if class < first {
            self.fine.splice(..0, std::iter::repeat_n(0, first - class));
            self.first = class as u16;
        }
        let place = class - usize::from(self.first);
        if place >= self.fine.len() {
            self.fine.resize(place + 1, 0);
        }
        self.fine[place] = self.fine[place].saturating_add(1);
    }

    /// The classes, each with its blocks.
    fn classes(&self) -> impl Iterator<Item = (usize, u32)> {
        (usize::from(self.first)..).zip(self.fine.iter().copied())
    }
}

/// Lifetimes of several buckets: by the longest in each class, the number of blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Lifetimes(Vec<(u64, u64)>);

impl Lifetimes {
    /// Those of buckets, without these, which were freed as the program ended.
    pub(super) fn of<'a>(
        all: impl Iterator<Item = &'a Ages>,
        without: impl Iterator<Item = u64>,
    ) -> Self {
        let mut ended = Ages::default();
        let mut wide = [0_u64; 16];
        let mut fine = Vec::<u64>::new();
        for ages in all {
            let end = usize::from(ages.first) + ages.fine.len();
            fine.resize(fine.len().max(end), 0);
            ages.classes().for_each(|(class, count)| fine[class] += u64::from(count));
            wide.iter_mut().zip(ages.wide).for_each(|(sum, count)| *sum += u64::from(count));
        }
        without.for_each(|ns| ended.add_fine(ns));
        for (class, count) in ended.classes().map(|(class, count)| (class, u64::from(count))) {
            let fine = fine.get_mut(class);
            let rest = fine.map_or(count, |fine| {
                let less = count.min(*fine);
                *fine -= less;
                count - less
            });
            // Those that were counted before the bucket had fine classes.
            let ns = longest(class);
            let of = ((u64::BITS - ns.leading_zeros()).div_ceil(WIDE) as usize).min(15);
            wide[of] = wide[of].saturating_sub(rest);
        }
        let fine = fine.into_iter().enumerate().map(|(class, count)| (longest(class), count));
        let wide = wide.into_iter().enumerate().map(|(class, count)| (longest_wide(class), count));
        let mut all: Vec<_> = fine.chain(wide).filter(|(_, count)| *count > 0).collect();
        all.sort_unstable();
        Self(all)
    }

    /// The number of blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// At least this share of the blocks, in percent, lived no longer than this.
    pub(super) fn within(&self, percent: u64) -> u64 {
        let blocks = self.blocks();
        let mut within = 0_u64;
        let class = self.0.iter().find(|(_, count)| {
            within += count;
            u128::from(within) * 100 >= u128::from(blocks) * u128::from(percent)
        });
        class.map_or(0, |(longest, _)| *longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_an_eighth_of_a_doubling() {
        let mut last = 0;
        for ns in (0..10_000)
            .chain((5..64).flat_map(|bits| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1]))
            .chain([u64::MAX])
        {
            let end = longest(class(ns));
            assert!(end >= ns && end - ns <= ns / 8, "{ns} {end}");
            assert!(class(ns) <= 512 && (ns < 10_000 || class(ns) + 1 >= last), "{ns}");
            last = class(ns);
        }
        assert_eq!((0..17).map(class).collect::<Vec<_>>(), (0..17).collect::<Vec<_>>());
    }

    #[test]
    fn quantiles_leave_out_what_the_end_has_freed() {
        let mut ages = Ages::default();
        (0..100).for_each(|ns| ages.add(ns * 100, 0));
        (0..900).for_each(|ns| ages.add(ns * 1_000, FINE_FROM));
        let all = Lifetimes::of([&ages].into_iter(), std::iter::empty());
        assert_eq!(all.blocks(), 1_000);
        assert!((850_000..=950_000).contains(&all.within(95)), "{}", all.within(95));
        let ended = (450..900).map(|ns| ns * 1_000);
        let rest = Lifetimes::of([&ages].into_iter(), ended);
        assert_eq!(rest.blocks(), 550);
        assert!(rest.within(95) <= 500_000, "{}", rest.within(95));
    }
}
