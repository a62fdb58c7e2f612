//! Cycles of the writer's clock to nanoseconds since the start of the trace.

/// The clock of a trace, as `$Trace.NewTrace` declares it. Its frequency is 0 before that event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timebase {
    /// The cycle at which the trace starts.
    pub start: u64,
    /// Cycles per second.
    pub frequency: u64,
}

impl Timebase {
    /// Nanoseconds since the start: 0 for a cycle before it; `None` without a known frequency.
    #[inline]
    pub fn nanoseconds(&self, cycle: u64) -> Option<u64> {
        let cycles = u128::from(cycle.saturating_sub(self.start));
        let wide = (cycles * 1_000_000_000).checked_div(u128::from(self.frequency))?;
        Some(u64::try_from(wide).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::Timebase;

    #[test]
    fn cycles_of_any_clock_become_nanoseconds() {
        let unreal = Timebase { start: 50, frequency: 10_000_000 };
        assert_eq!(unreal.nanoseconds(50), Some(0));
        assert_eq!(unreal.nanoseconds(51), Some(100));
        assert_eq!(unreal.nanoseconds(49), Some(0), "a cycle before the start");
        assert_eq!(unreal.nanoseconds(u64::MAX), Some(u64::MAX), "584 years and more");
        assert_eq!(Timebase::default().nanoseconds(7), None);
    }
}
