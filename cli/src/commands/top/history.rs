//! Live bytes over time, in bounded memory.

/// The largest number of points: neighbours are joined when there are more.
const MAX_POINTS: usize = 4096;

/// One point: the time, and the live bytes then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub at_ns: u64,
    pub live: u64,
}

/// Points in the order of their times.
#[derive(Clone, Debug, Default)]
pub struct History {
    points: Vec<Point>,
}

impl History {
    /// Adds a point. One that is not after the last point replaces it if it is larger.
    pub fn add(&mut self, point: Point) {
        if let Some(last) = self.points.last_mut()
            && point.at_ns <= last.at_ns
        {
            last.live = last.live.max(point.live);
            return;
        }
        self.points.push(point);
        if self.points.len() > MAX_POINTS {
            // The larger of two neighbours, at the later time, so that no peak is lost.
            let joined = self.points.chunks(2).map(|pair| Point {
                at_ns: pair.last().map_or(0, |point| point.at_ns),
                live: pair.iter().map(|point| point.live).max().unwrap_or(0),
            });
            self.points = joined.collect();
        }
    }

    /// The times of the first point and of the last one up to `until_ns`.
    pub fn span(&self, until_ns: u64) -> Option<(u64, u64)> {
        let first = self.points.first()?.at_ns;
        let last = self.points.iter().rev().find(|point| point.at_ns <= until_ns)?.at_ns;
        Some((first, last))
    }

    /// The number of points up to `until_ns`.
    pub fn points(&self, until_ns: u64) -> usize {
        self.points.partition_point(|point| point.at_ns <= until_ns)
    }

    /// Live bytes up to `until_ns` in `columns` equal parts of the time: the largest of each part. A part
    /// without a point has the value of the one before it.
    pub fn resampled(&self, until_ns: u64, columns: usize) -> Vec<u64> {
        let Some((first, last)) = self.span(until_ns).filter(|_| columns > 0) else {
            return Vec::new();
        };
        let mut parts = vec![None; columns];
        for point in self.points.iter().take_while(|point| point.at_ns <= until_ns) {
            let part: &mut Option<u64> = &mut parts[place(first, last, point.at_ns, columns)];
            *part = Some(part.map_or(point.live, |live: u64| live.max(point.live)));
        }
        let mut value = 0;
        // What was live at the end of a part is not kept; that of its largest point is near it.
        parts
            .into_iter()
            .map(|part| *part.inspect(|&live| value = live).get_or_insert(value))
            .collect()
    }
}

/// The part of `columns` between two times that a time is in.
pub fn place(first: u64, last: u64, at: u64, columns: usize) -> usize {
    let span = u128::from(last.saturating_sub(first)).max(1);
    let offset = u128::from(at.clamp(first, last.max(first)) - first);
    let place = offset * columns.saturating_sub(1) as u128 / span;
    usize::try_from(place).unwrap_or(0).min(columns.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(points: &[(u64, u64)]) -> History {
        let mut history = History::default();
        points.iter().for_each(|&(at_ns, live)| history.add(Point { at_ns, live }));
        history
    }

    #[test]
    fn each_column_has_the_largest_of_its_part() {
        let history = of(&[(0, 1), (10, 9), (20, 2), (90, 5), (100, 3)]);
        assert_eq!(history.resampled(u64::MAX, 3), [9, 5, 3]);
        assert_eq!(history.resampled(20, 3), [1, 9, 2], "paused");
        assert_eq!(history.resampled(u64::MAX, 1), [9]);
        assert_eq!(history.resampled(u64::MAX, 0), [0; 0]);
        assert_eq!(of(&[]).resampled(u64::MAX, 5), [0; 0]);
        assert_eq!(of(&[(7, 4)]).resampled(u64::MAX, 3), [4, 4, 4]);
    }

    #[test]
    fn a_day_at_any_rate_takes_bounded_memory_and_keeps_the_peak() {
        let mut history = History::default();
        for at in 0..1_000_000_u64 {
            let live = if at == 314_159 { 1 << 40 } else { at % 1000 };
            history.add(Point { at_ns: at * 100_000_000, live });
        }
        assert!(history.points.len() <= MAX_POINTS);
        for columns in [1, 7, 80, 400, 10_000] {
            let shown = history.resampled(u64::MAX, columns);
            assert_eq!(shown.len(), columns);
            assert_eq!(shown.iter().max(), Some(&(1 << 40)), "{columns}");
        }
        assert_eq!(history.span(u64::MAX).map(|(_, last)| last), Some(999_999 * 100_000_000));
    }

    #[test]
    fn a_clock_that_does_not_advance_adds_no_points() {
        let history = of(&[(5, 1), (5, 7), (4, 3)]);
        assert_eq!(history.points, [Point { at_ns: 5, live: 7 }]);
    }
}
