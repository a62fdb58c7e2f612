//! The order of serials over threads: the reader waits for late events, and continues after lost
//! ones.

use memledger_test_support::wire::*;

#[test]
fn two_threads_are_merged_by_serial() {
    let mut run = Run::from_serial(0);
    run.packet(3, &serials([1, 2, 5]));
    assert_eq!(run.short(), "");
    run.packet(2, &serials([0, 3, 6]));
    assert_eq!(run.short(), "0 1 2 3");
    run.packet(4, &serials([4]));
    assert_eq!(run.short(), "4 5 6");
}

#[test]
fn without_a_first_serial_the_order_begins_with_the_lowest_at_a_sync() {
    let mut run = Run::new(7);
    run.sync();
    run.packet(3, &serials([8, 9]));
    run.packet(2, &serials([7]));
    assert_eq!(run.short(), "");
    run.sync();
    assert_eq!(run.short(), "7 8 9");
    run.packet(2, &serials([10]));
    assert_eq!(run.short(), "10");
    assert_eq!(run.decoder.counts().first_serial, Some(7));
}

#[test]
fn with_a_first_serial_a_missing_head_is_a_hole() {
    let mut run = Run::from_serial(0x5_0000_0003);
    run.packet(2, &serials([0x5_0000_0005]));
    run.settled(0x5_0000_0005);
    assert_eq!(run.short(), "hole 21474836483..21474836485 21474836485");
}

#[test]
fn serials_wrap_after_24_bits() {
    const WRAP: u64 = 1 << 24;
    let mut run = Run::new(7);
    run.packet(2, &serials([WRAP - 2, WRAP + 1]));
    run.packet(3, &serials([WRAP - 1, WRAP]));
    run.finish();
    assert_eq!(run.short(), "16777214 16777215 16777216 16777217");
    // The first packet may have serials from after the wrap: only then all serials are shifted.
    let mut run = Run::new(7);
    run.packet(2, &serials([WRAP, WRAP + 1]));
    run.packet(3, &serials([WRAP - 1]));
    run.finish();
    assert_eq!(run.short(), "16777215 16777216 16777217");
    // Several times around.
    let mut run = Run::from_serial(0);
    for (index, serial) in (0..5 * WRAP).step_by(60_000).enumerate() {
        run.packet(2 + (index % 2) as u16, &serials([serial]));
        run.settled(serial + 1);
        let counts = run.decoder.counts();
        assert_eq!(counts.last_serial, Some(serial));
        assert_eq!((counts.late, counts.missing), (0, serial - index as u64));
    }
}

#[test]
fn events_without_serial_follow_the_event_before_them_at_once() {
    let mut run = Run::from_serial(0);
    let two = [plain(17, &[1]), serials([0]), plain(17, &[2]), serials([2]), plain(17, &[3])];
    let three = [plain(17, &[4]), serials([1]), plain(17, &[5]), serials([3])];
    run.packet(3, &three.concat());
    assert_eq!(run.short(), ".4");
    run.packet(2, &two.concat());
    assert_eq!(run.short(), ".1 0 .2 1 .5 2 .3 3");
    run.packet(3, &plain(17, &[6]));
    assert_eq!(run.short(), ".6");
}

#[test]
fn what_is_missing_at_or_above_settled_is_late() {
    let mut run = Run::from_serial(0);
    run.packet(2, &serials([0, 1, 4]));
    run.settled(2);
    for _ in 0..20 {
        run.packet(2, &plain(17, &[0]));
        run.sync();
    }
    assert_eq!(run.short(), "0 1");
    run.packet(3, &serials([2, 3]));
    assert!(run.short().starts_with("2 3 4"));
}

#[test]
fn what_is_missing_below_settled_is_lost() {
    let mut run = Run::from_serial(0);
    run.packet(2, &serials([0, 3, 6, 9]));
    run.packet(3, &serials([4, 7]));
    run.settled(6);
    assert_eq!(run.short(), "0 hole 1..3 3 4 hole 5..6 6 7");
    run.settled(9);
    assert_eq!(run.short(), "hole 8..9 9");
    assert_eq!(run.decoder.counts().holes, 3);
    assert_eq!(run.decoder.counts().missing, 4);
}

#[test]
fn a_hole_ends_at_settled_and_goes_on_when_more_is_known() {
    let mut run = Run::from_serial(0);
    run.packet(2, &serials([0, 10]));
    run.settled(5);
    assert_eq!(run.short(), "0 hole 1..5");
    run.packet(3, &serials([5, 6]));
    assert_eq!(run.short(), "5 6");
    run.settled(20);
    assert_eq!(run.short(), "hole 7..10 10");
    run.finish();
    assert_eq!(run.short(), "hole 11..20");
}

#[test]
fn a_late_event_is_delivered_at_once_and_counted() {
    let mut run = Run::from_serial(0);
    run.packet(2, &serials([0, 2]));
    run.settled(3);
    assert_eq!(run.short(), "0 hole 1..2 2");
    run.packet(3, &serials([1, 3]));
    assert_eq!(run.short(), "1 3");
    run.packet(3, &serials([3, 4]));
    assert_eq!(run.short(), "3 4");
    assert_eq!(run.decoder.counts().late, 2);
}

#[test]
fn without_settled_a_gap_is_lost_two_syncs_later() {
    let mut run = Run::new(7);
    let mut tick = |data: Vec<u8>, stream| {
        run.packet(stream, &data);
        run.sync();
        run.short()
    };
    assert_eq!(tick(serials([0, 2]), 2), "0");
    assert_eq!(tick(serials([3, 5]), 2), "");
    assert_eq!(tick(plain(17, &[9]), 4), ".9 hole 1..2 2 3");
    // A late one arrives in time.
    assert_eq!(tick(serials([4]), 3), "4 5");
    // Syncs without data do not count.
    assert_eq!(tick(serials([7]), 2), "");
    assert_eq!([run.sync(), run.sync(), run.sync()], [(); 3]);
    assert_eq!(run.short(), "");
    run.packet(3, &serials([6]));
    assert_eq!(run.short(), "6 7");
}

#[test]
fn all_gaps_that_were_there_close_together() {
    let mut run = Run::new(7);
    run.packet(2, &serials((0..100).map(|i| 2 * i)));
    run.sync();
    for _ in 0..2 {
        run.packet(3, &plain(17, &[0]));
        run.sync();
    }
    let counts = run.decoder.counts();
    assert_eq!((counts.events, counts.holes, counts.last_serial), (102, 99, Some(198)));
}

#[test]
fn at_the_end_every_gap_is_a_hole_and_order_is_kept() {
    let mut run = Run::new(7);
    run.packet(2, &serials([1, 5, 6]));
    run.packet(3, &serials([2, 9]));
    run.packet(4, &serials([8]));
    run.finish();
    assert_eq!(run.short(), "1 2 hole 3..5 5 6 hole 7..8 8 9");
}

#[test]
fn a_huge_hole_costs_nothing() {
    let mut run = Run::from_serial(0);
    run.packet(2, &serials([0, 8_000_000, 8_000_001]));
    run.settled(8_000_002);
    assert_eq!(run.short(), "0 hole 1..8000000 8000000 8000001");
}

#[test]
fn a_gap_waits_for_an_event_that_has_only_partly_arrived() {
    let mut run = Run::new(7);
    run.packet(2, &[serials([0]), synced(19, 1, &[7]), aux(1, b"a")].concat());
    run.packet(3, &serials([2]));
    run.sync();
    for _ in 0..4 {
        run.packet(4, &plain(17, &[9]));
        run.sync();
    }
    assert_eq!(run.short(), "0 .9 .9 .9 .9");
    run.packet(2, TERMINAL);
    assert_eq!(run.short(), "1 [(1, [97])] 2");
}

#[test]
fn a_flipped_bit_in_a_serial_disturbs_its_own_event_only() {
    // Every bit of the serial of one event, with the event among others of its thread.
    for bit in 0..24 {
        for known_end in [false, true] {
            let mut run = Run::from_serial(0);
            let wrong = 100u64 ^ 1 << bit;
            let even = (0..200).filter(|s| s % 2 == 0).map(|s| if s == 100 { wrong } else { s });
            run.packet(2, &serials(even));
            run.packet(3, &serials((0..200).filter(|s| s % 2 == 1)));
            if known_end {
                run.settled(200);
            } else {
                run.finish();
            }
            let counts = run.decoder.counts();
            assert_eq!(counts.events, 201 + u64::from(known_end), "bit {bit}");
            // It takes the place of the missing event, or it is misplaced and one event is missing.
            let log = run.take();
            let serials = log.iter().filter_map(|log| match log {
                Log::Event(_, _, Some(serial), _) => Some(*serial),
                _ => None,
            });
            let serials = serials.collect::<Vec<_>>();
            let out_of_order = serials.windows(2).filter(|pair| pair[0] >= pair[1]).count();
            assert!(out_of_order <= 1, "bit {bit}: {serials:?}");
            assert!(counts.late <= 1 && counts.missing <= 1, "bit {bit}: {counts:?}");
            // Higher than the one after it on its thread: then it takes the place that is free.
            // A serial that is half of all serials ahead counts as one before.
            if wrong > 102 && bit < 23 {
                assert_eq!((counts.late, counts.missing), (0, 0), "bit {bit}");
                assert_eq!(serials, (0..200).collect::<Vec<_>>(), "bit {bit}");
            }
        }
    }
}

#[test]
fn a_flipped_bit_in_settled_does_little() {
    for bit in 0..64 {
        let mut run = Run::from_serial(0);
        run.packet(2, &serials([0, 1, 2, 4]));
        run.settled(3 ^ 1 << bit);
        run.packet(3, &serials([3, 5]));
        run.finish();
        let counts = run.decoder.counts();
        assert!(counts.last_serial == Some(5) && counts.late <= 1, "bit {bit}: {counts:?}");
    }
}

#[test]
fn a_lost_packet_costs_the_event_it_cuts() {
    let mut run = Run::from_serial(0);
    run.packet(2, &[serials([0]), synced(19, 1, &[1]), aux(1, b"a")].concat());
    run.lost(2);
    run.packet(2, &[aux(1, b"rest"), TERMINAL.to_vec(), serials([3])].concat());
    run.packet(3, &[serials([2])].concat());
    run.finish();
    assert_eq!(run.short(), "0 ! ! hole 1..2 2 3");
    // A fixed part that is cut off.
    let mut run = Run::from_serial(0);
    run.packet(2, &synced(16, 0, &[]));
    run.lost(2);
    run.packet(2, &serials([1]));
    run.finish();
    assert_eq!(run.short(), "! hole 0..1 1");
}

#[test]
fn a_loss_behind_an_event_of_unknown_type_is_remembered() {
    let mut run = Run::from_serial(0);
    run.packet(2, &[serials([0]), plain(60, &[9])].concat());
    run.packet(2, &[serials([1]), plain(17, &[])].concat());
    run.lost(2);
    run.packet(2, &serials([2]));
    run.finish();
    assert_eq!(run.short(), "0 ! ! 1 2");
}

#[test]
fn after_a_loss_important_events_are_found_again() {
    let one = |v| important(20, &[v], &[(1, &[v; 30])], 5);
    let all = (1..=9).flat_map(one).collect::<Vec<_>>();
    let mut run = Run::new(7);
    run.packet(IMPORTANTS, &all[..100]);
    run.lost(IMPORTANTS);
    run.packet(IMPORTANTS, &all[200..]);
    let log = run.take();
    let seen = log.iter().filter_map(|log| match log {
        Log::Event(_, _, _, fixed) => Some(fixed[0]),
        _ => None,
    });
    assert_eq!(seen.collect::<Vec<_>>(), [1, 2, 6, 7, 8, 9]);
    assert_eq!(log.iter().filter(|log| matches!(log, Log::Damage(_))).count(), 2);
}

#[test]
fn a_wrong_size_of_an_important_event_costs_little_more_than_it() {
    let one = |v| important(20, &[v], &[(1, &[v; 30])], 5);
    let size = one(0).len();
    let flips = [(2, 1), (2, 16), (2, 64), (3, 1), (3, 128)];
    for (packet, (byte, flip)) in [500, 60_000].into_iter().flat_map(|p| flips.map(|f| (p, f))) {
        let mut all = (0..3000).flat_map(|i| one(i as u8)).collect::<Vec<_>>();
        let at = 2 * size + byte;
        all[at] ^= flip;
        let mut run = Run::new(7);
        for packet in all.chunks(packet) {
            run.packet(IMPORTANTS, packet);
        }
        let log = run.take();
        let events = log.iter().filter(|log| matches!(log, Log::Event(..))).count();
        // A size that is far too large takes what it says at most.
        let says = usize::from(u16::from_le_bytes([all[2 * size + 2], all[2 * size + 3]]));
        let lost = 3000 - events;
        assert!(lost <= 4 + says / size, "{byte} ^ {flip}: {lost} events of size {size}");
    }
}

#[test]
fn memory_is_given_back_while_events_wait_with_their_arrays() {
    // Serials 0, 2, 4 ... on one thread, each with data; the last one has not ended.
    const EVENTS: u64 = 5000;
    let event = |serial: u64| {
        let data = aux(1, &serial.to_le_bytes());
        [synced(19, serial, &[0]), data, TERMINAL.to_vec()].concat()
    };
    let mut run = Run::from_serial(0);
    for first in (0..EVENTS).step_by(50) {
        run.packet(2, &(first..first + 50).flat_map(|i| event(2 * i)).collect::<Vec<_>>());
    }
    let open = event(2 * EVENTS);
    run.packet(2, &open[..open.len() - 1]);
    for first in (0..EVENTS).step_by(50) {
        run.packet(3, &serials((first..first + 50).map(|i| 2 * i + 1)));
    }
    run.packet(2, &open[open.len() - 1..]);
    let log = run.take();
    let mut at = 0;
    for (log, next) in log.iter().zip(log.iter().skip(1)) {
        if let Log::Event(_, stream, serial, _) = log {
            assert_eq!(*serial, Some(at));
            if *stream == 2 {
                assert_eq!(*next, Log::Arrays(vec![(1, at.to_le_bytes().to_vec())]));
            }
            at += 1;
        }
    }
    assert_eq!(at, 2 * EVENTS + 1);
}

/// Drains a burst as Unreal's writer does: all events of one thread, then all of the next. Each
/// thread has every thousandth of `end` serials; the second one is offset by 500.
fn burst(end: u64) -> Run {
    let mut run = Run::new(7);
    for (stream, from) in [(2, 0), (3, 500)] {
        for first in (from..end).step_by(1_000_000) {
            run.packet(stream, &serials((first..end.min(first + 1_000_000)).step_by(1000)));
        }
    }
    run.sync();
    run.finish();
    run
}

#[test]
fn a_thread_that_comes_millions_behind_another_is_in_its_place() {
    let counts = burst(14_000_000).decoder.counts();
    assert_eq!((counts.first_serial, counts.last_serial), (Some(0), Some(13_999_500)));
    assert_eq!((counts.events, counts.late), (28_000, 0));
    assert_eq!(counts.missing, 13_999_501 - 28_000);
}

#[test]
fn where_serials_fit_more_than_once_no_number_is_said() {
    let run = burst(40_000_000);
    let counts = run.decoder.counts();
    assert!(counts.missing_unknown && counts.holes > 0, "{counts:?}");
    assert_eq!(counts.missing, 0);
}
