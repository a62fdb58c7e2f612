use super::*;

#[test]
fn what_allocators_say_costs_a_hundredth() {
    let of = |millis| allocators_time(Duration::from_millis(millis)).as_millis();
    assert_eq!([of(0), of(1_000), of(20_000)], [10, 10, 200]);
}

#[test]
fn a_change_is_notable_from_a_hundredth_on() {
    let mut events = RssEvents::every(DEFAULT_INTERVAL);
    events.sums = [10 << 20, 100 << 20, 5 << 20];
    let is_notable = |more: [i64; 3]| {
        let sums = events.sums.into_iter().zip(more);
        let sums: Vec<_> = sums.map(|(sum, more)| sum.wrapping_add_signed(more)).collect();
        events.is_notable(sums.try_into().unwrap())
    };
    assert!(!is_notable([256 << 10, 1 << 20, -(256 << 10)]));
    assert!(is_notable([-(257 << 10), 0, 0]) && is_notable([0, 0, 257 << 10]));
    assert!(is_notable([0, 1025 << 10, 0]));
}

#[test]
fn what_the_memory_is_is_read_when_rss_has_risen() {
    let has_risen = |ago, took, rss, more| {
        let at = Instant::now().checked_sub(Duration::from_millis(ago)).unwrap();
        let took = Duration::from_millis(took);
        let counted = 300 << 20;
        Parts { began: at, at, took, bytes: 100 << 20, most: 200 << 20, counted, before: 0 }
            .has_risen(rss, counted + more)
    };
    assert!(has_risen(200, 10, (102 << 20) + 1, 0) && !has_risen(200, 10, 102 << 20, 0));
    assert!(has_risen(200, 10, 0, (6 << 20) + 1) && !has_risen(200, 10, 0, 6 << 20));
    assert!(!has_risen(100, 10, 200 << 20, 200 << 20));
}

#[test]
fn what_the_memory_is_is_read_when_there_is_more_and_rarely() {
    let at = |ago, took, most| {
        let at = Instant::now().checked_sub(Duration::from_secs(ago)).unwrap();
        Parts {
            began: at,
            at,
            took: Duration::from_millis(took),
            bytes: most,
            most,
            counted: 0,
            before: 0,
        }
    };
    assert!(!at(1_000, 1, 1_000).is_due(1_010));
    assert!(at(1_000, 1, 1_000).is_due(1_011));
    // It took 10 ms one second ago: too long for a little growth, but not for a large one.
    assert!(!at(1, 10, 1_000).is_due(1_100));
    assert!(at(1, 10, 1_000).is_due(1_126));
    assert!(!at(1, 100, 1_000).is_due(1_126));
}
#[test]
fn what_the_memory_is_is_never_older_than_a_share_of_the_run() {
    let began = Instant::now();
    let is_old_of = |run: u64, ago: u64, took: u64, rss| {
        let before = |millis| began.checked_sub(Duration::from_millis(millis)).unwrap();
        let took = Duration::from_millis(took);
        Parts {
            began: before(run),
            at: before(ago),
            took,
            bytes: 800,
            most: 800,
            counted: 0,
            before: 0,
        }
        .is_old(rss)
    };
    let is_old = |run, ago, took| is_old_of(run, ago, took, 800);
    assert!(is_old(1_600_000, 101_000, 1) && !is_old(1_600_000, 90_000, 1));
    // Not at each look of a short run, and not where a reading takes long.
    assert!(is_old(200, 51, 0) && !is_old(200, 20, 0));
    assert!(!is_old(10_000, 5_000, 11) && is_old(10_000, 6_000, 11));
    // But sooner where RSS has fallen.
    assert!(!is_old_of(10_000, 1_000, 11, 700) && is_old_of(10_000, 1_000, 11, 699));
}
