//! Random threads, events, cuts and arrivals: what is delivered equals what sorting gives.

use memledger_test_support::wire::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// What a thread does next; the number identifies the event.
#[derive(Clone, Debug)]
enum Step {
    Synced,
    Free,
    /// An event with array data in blocks of these sizes, and other events before its end.
    Arrays {
        synced: bool,
        blocks: Vec<u8>,
        inside: Vec<bool>,
    },
    Scope,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Synced),
        3 => Just(Step::Free),
        2 => (any::<bool>(), vec(0u8..9, 0..3), vec(any::<bool>(), 0..3))
            .prop_map(|(synced, blocks, inside)| Step::Arrays { synced, blocks, inside }),
        1 => Just(Step::Scope),
    ]
}

/// One thread as the model sees it.
#[derive(Default)]
struct Model {
    bytes: Vec<u8>,
    log: Vec<Log>,
    /// Where each step ends in `bytes`, and in `log`.
    ends: Vec<(usize, usize)>,
    /// Serial and end in `bytes` of each synchronised event.
    serials: Vec<(u64, usize)>,
}

impl Model {
    fn event(&mut self, stream: u16, serial: Option<u64>, number: u8, arrays: bool) {
        let (uid, name) = match (serial, arrays) {
            (Some(_), false) => (16, "T.Sync"),
            (None, false) => (17, "T.Free"),
            (None, true) => (18, "T.Arrays"),
            (Some(_), true) => (19, "T.SyncArrays"),
        };
        self.bytes.extend(match serial {
            Some(serial) => synced(uid, serial, &[number]),
            None => plain(uid, &[number]),
        });
        self.log.push(Log::Event(name.into(), stream, serial, vec![number]));
    }

    fn step(&mut self, stream: u16, step: &Step, number: u8, next: &mut u64) {
        let mut take = |synced: bool| {
            let serial = synced.then_some(*next);
            *next += u64::from(synced);
            serial
        };
        let mut taken = Vec::new();
        match step {
            Step::Synced => {
                let serial = take(true);
                taken.extend(serial);
                self.event(stream, serial, number, false);
            }
            Step::Free => self.event(stream, None, number, false),
            Step::Arrays { synced, blocks, inside } => {
                let serial = take(*synced);
                taken.extend(serial);
                self.event(stream, serial, number, true);
                let place = self.log.len();
                let mut all = Vec::new();
                let mut inside = inside.iter();
                for &size in blocks {
                    let data = vec![number.wrapping_add(all.len() as u8); size.into()];
                    self.bytes.extend(aux(1, &data));
                    all.extend(data);
                    if let Some(&synced) = inside.next() {
                        let serial = take(synced);
                        taken.extend(serial);
                        self.event(stream, serial, number, false);
                    }
                }
                self.bytes.extend(TERMINAL);
                if !blocks.is_empty() {
                    self.log.insert(place, Log::Arrays(vec![(1, all)]));
                }
            }
            Step::Scope => {
                self.bytes.extend(ENTER);
                self.event(stream, None, number, false);
                self.bytes.extend(LEAVE);
                self.log.extend([Log::Enter, Log::Leave(stream)]);
            }
        }
        self.ends.push((self.bytes.len(), self.log.len()));
        self.serials.extend(taken.into_iter().map(|serial| (serial, self.bytes.len())));
    }
}

const THREADS: usize = 4;

fn models(steps: &[(usize, Step)], first: u64) -> (Vec<Model>, u64) {
    let mut models = (0..THREADS).map(|_| Model::default()).collect::<Vec<_>>();
    let mut next = first;
    for (number, (thread, step)) in steps.iter().enumerate() {
        models[*thread].step(*thread as u16 + 2, step, number as u8, &mut next);
    }
    (models, next)
}

fn serial(log: &Log) -> Option<u64> {
    match log {
        Log::Event(_, _, serial, _) => *serial,
        _ => None,
    }
}

/// Each thread's log cut before every serial, and the pieces sorted.
fn sorted(models: &[Model]) -> Vec<Log> {
    let mut pieces = Vec::new();
    for model in models {
        let mut piece: (Option<u64>, Vec<Log>) = (None, Vec::new());
        for log in &model.log {
            if serial(log).is_some() {
                pieces.push(std::mem::replace(&mut piece, (serial(log), Vec::new())));
            }
            piece.1.push(log.clone());
        }
        pieces.push(piece);
    }
    // Stable: what comes before all serials stays in the order of the threads.
    pieces.sort_by_key(|piece| piece.0);
    pieces.into_iter().flat_map(|piece| piece.1).collect()
}

fn of_stream(log: &[Log], stream: u16) -> Vec<Log> {
    let mut on = false;
    let belongs = |log: &&Log| {
        on = match log {
            Log::Event(_, s, ..) | Log::Leave(s) => *s == stream,
            _ => on,
        };
        on
    };
    log.iter().filter(belongs).cloned().collect()
}

/// A first serial: at the start, anywhere, near the wrap.
fn first() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..1u64 << 24, (1u64 << 24) - 50..1 << 24]
}

proptest! {
    /// Without any sync everything waits for the end, whatever the order of arrival.
    #[test]
    fn all_at_the_end(
        steps in vec((0..THREADS, step()), 0..120),
        first in first(),
        protocol in 5u8..=7,
        cut in 1usize..60,
    ) {
        let (models, _) = models(&steps, first);
        let mut run = Run::new(protocol);
        for (index, model) in models.iter().enumerate() {
            for packet in model.bytes.chunks(cut) {
                run.packet(index as u16 + 2, packet);
            }
        }
        run.finish();
        // What has no serial is not part of what the first serial on the wire says.
        let lowest = run.decoder.counts().first_serial.unwrap_or(0);
        let shift = lowest.wrapping_sub(first.min(lowest));
        let log = run.take().into_iter().map(|log| match log {
            Log::Event(name, stream, serial, fixed) =>
                Log::Event(name, stream, serial.map(|serial| serial - shift), fixed),
            log => log,
        });
        prop_assert_eq!(log.collect::<Vec<_>>(), sorted(&models));
    }

    /// With true bounds in the stream nothing is taken for lost, and nothing is late.
    #[test]
    fn as_it_arrives(
        steps in vec((0..THREADS, step()), 0..120),
        first in first(),
        arrivals in vec((0..THREADS, 1usize..40, any::<bool>(), any::<bool>()), 0..80),
    ) {
        let (models, next) = models(&steps, first);
        let mut run = Run::from_serial(first);
        let mut sent = [0; THREADS];
        let rest = (0..THREADS).map(|thread| (thread, usize::MAX, true, true));
        for (thread, size, settle, sync) in arrivals.into_iter().chain(rest) {
            let bytes = &models[thread].bytes[sent[thread]..];
            let size = size.min(bytes.len());
            run.packet(thread as u16 + 2, &bytes[..size]);
            sent[thread] += size;
            if settle {
                let unsent = models.iter().zip(sent).flat_map(|(model, sent)| {
                    model.serials.iter().filter(move |(_, end)| *end > sent)
                });
                run.settled(unsent.map(|(serial, _)| *serial).min().unwrap_or(next));
            }
            if sync {
                run.sync();
            }
        }
        let counts = run.decoder.counts();
        prop_assert_eq!((counts.late, counts.holes, counts.damages), (0, 0, 0));
        // All is there before the end.
        let log = run.take();
        run.finish();
        prop_assert_eq!(run.take(), []);
        let serials = log.iter().filter_map(serial).collect::<Vec<_>>();
        prop_assert_eq!(serials, (first..next).collect::<Vec<_>>());
        for (index, model) in models.iter().enumerate() {
            prop_assert_eq!(&of_stream(&log, index as u16 + 2), &model.log);
        }
    }

    /// As the worker hands them over: in the order of the serials, whatever the threads, so that
    /// nothing has to wait. Some packets end within an event and some are held back.
    #[test]
    fn in_line(
        steps in vec((0..THREADS, step()), 0..120),
        first in first(),
        sizes in vec(prop_oneof![6 => Just(usize::MAX), 1 => Just(0), 2 => 1usize..12], 120),
    ) {
        let mut models = (0..THREADS).map(|_| Model::default()).collect::<Vec<_>>();
        let mut run = Run::from_serial(first);
        let mut next = first;
        let mut sent = [(0, 0); THREADS];
        let mut packets = 0;
        let mut log = Vec::new();
        for (number, ((thread, step), size)) in steps.iter().zip(sizes).enumerate() {
            let model = &mut models[*thread];
            model.step(*thread as u16 + 2, step, number as u8, &mut next);
            let rest = &model.bytes[sent[*thread].0..];
            let size = size.min(rest.len());
            run.packet(*thread as u16 + 2, &rest[..size]);
            sent[*thread].0 += size;
            packets += u64::from(size > 0);
            log.extend(run.take());
            if models.iter().zip(sent).all(|(model, (bytes, _))| bytes == model.bytes.len()) {
                // All is there, so all is delivered, and at once.
                let events = log.iter().filter(|log| matches!(log, Log::Event(..))).count();
                let expected = models.iter().flat_map(|model| &model.log);
                let expected = expected.filter(|log| matches!(log, Log::Event(..))).count();
                prop_assert_eq!(events, expected);
            }
        }
        for (index, model) in models.iter().enumerate() {
            let rest = &model.bytes[sent[index].0..];
            run.packet(index as u16 + 2, rest);
            packets += u64::from(!rest.is_empty());
        }
        log.extend(run.take());
        let counts = run.decoder.counts();
        prop_assert_eq!((counts.late, counts.holes, counts.damages), (0, 0, 0));
        prop_assert_eq!(counts.first_serial, (next > first).then_some(first));
        prop_assert_eq!(counts.last_serial, (next > first).then(|| next - 1));
        let streams = run.decoder.streams();
        let streams = streams.iter().filter(|stream| stream.stream >= 2);
        let (p, bytes) = streams.fold((0, 0), |(p, b), s| (p + s.packets, b + s.bytes));
        let all = models.iter().map(|model| model.bytes.len() as u64).sum::<u64>();
        prop_assert_eq!((p, bytes), (packets, all));
        let serials = log.iter().filter_map(serial).collect::<Vec<_>>();
        prop_assert_eq!(serials, (first..next).collect::<Vec<_>>());
        for (index, model) in models.iter().enumerate() {
            prop_assert_eq!(&of_stream(&log, index as u16 + 2), &model.log);
        }
    }

    /// Serials that jump, fall back or come twice are delivered as if they had waited: the same
    /// events, holes and late ones, whether the way to the visitor was the short or the long one.
    #[test]
    fn the_short_way_is_the_long_one(
        serials in vec((prop_oneof![8 => Just(1i64), 1 => 0i64..4, 1 => -3i64..0], 0u8..4), 0..60),
        cuts in vec(any::<bool>(), 60),
    ) {
        let mut at = 100_i64;
        let mut events = Vec::new();
        for (number, (step, kind)) in serials.iter().enumerate() {
            let number = [number as u8];
            events.push(match kind {
                0 => plain(17, &number),
                1 => [ENTER, &plain(17, &number), LEAVE].concat(),
                _ => {
                    at += step;
                    synced(16, at as u64 - 1, &number)
                }
            });
        }
        let run = |whole: bool| {
            let mut run = Run::from_serial(100);
            let mut packet = Vec::new();
            for (event, &cut) in events.iter().zip(&cuts) {
                packet.extend(event);
                if cut {
                    // An event is cut off at the end of the packet before: nothing is idle then.
                    let head = usize::from(!whole);
                    run.packet(2, &packet[..head]);
                    run.packet(2, &packet[head..]);
                    packet.clear();
                }
            }
            run.packet(2, &packet);
            run.finish();
            let counts = run.decoder.counts();
            (run.take(), counts)
        };
        let ((short, counts), (long, expected)) = (run(true), run(false));
        prop_assert_eq!(counts.events, expected.events);
        prop_assert_eq!(counts.damages, expected.damages);
        let events = |log: &[Log]| log.iter().filter_map(|log| match log {
            Log::Event(name, _, _, fixed) => Some((name.clone(), fixed.clone())),
            _ => None,
        }).collect::<Vec<_>>();
        prop_assert_eq!(events(&short), events(&long));
        if serials.iter().all(|(step, _)| *step > 0) {
            prop_assert_eq!((short, counts), (long, expected));
        }
    }

    /// Packets that are lost cost exactly their events, and the holes name them.
    #[test]
    fn with_losses(
        steps in vec((0..THREADS, step()), 1..120),
        lost in vec(prop::bool::weighted(0.2), 120),
        settle in any::<bool>(),
    ) {
        let (models, next) = models(&steps, 0);
        let mut run = Run::from_serial(0);
        let mut expected = Vec::new();
        let mut number = lost.iter();
        for (index, model) in models.iter().enumerate() {
            let stream = index as u16 + 2;
            let (mut from, mut log_from) = (0, 0);
            let mut left = Vec::new();
            for &(to, log_to) in &model.ends {
                if *number.next().unwrap() {
                    run.lost(stream);
                } else {
                    run.packet(stream, &model.bytes[from..to]);
                    left.extend_from_slice(&model.log[log_from..log_to]);
                }
                (from, log_from) = (to, log_to);
            }
            expected.push(left);
        }
        if settle {
            run.settled(next);
        }
        run.finish();
        let log = run.take();
        let mut at = 0;
        for entry in &log {
            if let Some(serial) = serial(entry) {
                prop_assert_eq!(serial, at);
                at += 1;
            } else if let Log::Hole(first, count) = entry {
                prop_assert_eq!((*first, *count > 0), (at, true));
                at += count;
            } else {
                prop_assert!(!matches!(entry, Log::Damage(_)));
            }
        }
        if settle {
            prop_assert_eq!(at, next);
        }
        let delivered = log.iter().filter(|l| !matches!(l, Log::Hole(..))).cloned();
        let delivered = delivered.collect::<Vec<_>>();
        for (index, left) in expected.iter().enumerate() {
            prop_assert_eq!(&of_stream(&delivered, index as u16 + 2), left);
        }
    }

    /// Nothing that is fed in makes the decoder fail, and an event is never longer than its type.
    #[test]
    fn anything_at_all(
        packets in vec((prop_oneof![0u16..5, Just(PSEUDO), any::<u16>()], vec(any::<u8>(), 0..80), 0u8..9), 0..60),
        protocol in any::<u8>(),
    ) {
        let mut run = Run::new(protocol);
        for (stream, payload, then) in packets {
            run.packet(stream, &payload);
            match then {
                0 => run.lost(stream),
                1 | 2 => run.sync(),
                _ => {}
            }
        }
        run.finish();
        for log in run.take() {
            if let Log::Event(name, _, _, fixed) = log {
                prop_assert!(!name.starts_with("T.") || fixed.len() == 1, "{} {:?}", name, fixed);
            }
        }
    }

    /// The same for streams that are right but for a few bytes.
    #[test]
    fn almost_right(
        steps in vec((0..THREADS, step()), 0..120),
        flips in vec((0..THREADS, any::<prop::sample::Index>(), 1u8..), 1..5),
        cut in 1usize..60,
    ) {
        let (mut models, _) = models(&steps, 0);
        let events = models.iter().map(|model| model.log.len()).sum::<usize>();
        for (thread, index, flip) in flips {
            let bytes = &mut models[thread].bytes;
            if !bytes.is_empty() {
                let index = index.index(bytes.len());
                bytes[index] ^= flip;
            }
        }
        let mut run = Run::from_serial(0);
        for (index, model) in models.iter().enumerate() {
            for packet in model.bytes.chunks(cut) {
                run.packet(index as u16 + 2, packet);
                run.sync();
            }
        }
        run.finish();
        prop_assert!(run.take().len() <= 5 * events + 100);
    }
}
