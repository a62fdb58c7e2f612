//! Files made by hand: whole, with losses, compressed, and damaged at every byte.

use super::decoder::{Argument, Decoder, Item, Loss, Packet};
use super::framing::is_perfetto;
use super::message::Value;
use flate2::Compression;
use flate2::write::{DeflateEncoder, ZlibEncoder};
use prost::encoding::encode_varint;
use std::io::Write;

/// A message that is being written.
#[derive(Clone, Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn number(mut self, field: u64, value: u64) -> Self {
        encode_varint(field << 3, &mut self.0);
        encode_varint(value, &mut self.0);
        self
    }

    fn fixed64(mut self, field: u64, value: u64) -> Self {
        encode_varint(field << 3 | 1, &mut self.0);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        encode_varint(field << 3 | 2, &mut self.0);
        encode_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn with(self, field: u64, message: Self) -> Self {
        self.bytes(field, &message.0)
    }
}

fn new() -> Bytes {
    Bytes::default()
}

fn packet(sequence: u64) -> Bytes {
    new().number(10, sequence)
}

fn interned(iid: u64, name: &str) -> Bytes {
    new().number(1, iid).text(2, name)
}

/// The state of a sequence, a thread's track, and a slice with all that a slice can have.
fn packets() -> Vec<Bytes> {
    let clocks = new()
        .with(1, new().number(1, 6).number(2, 5_000))
        .with(1, new().number(1, 64).number(2, 5).number(3, 1).number(4, 1_000));
    let defaults = new().number(58, 64).with(11, new().number(11, 77));
    let state = packet(3).number(13, 1).number(8, 5_000).number(58, 6);
    let thread = new().number(1, 42).number(2, 43).text(5, "worker");
    let track = new().number(1, 77).number(5, 70).with(4, thread);
    let names = new()
        .with(1, interned(1, "render"))
        .with(2, interned(9, "load level"))
        .with(3, interned(4, "triangles"))
        .with(5, interned(1, "main"))
        .with(5, interned(2, "draw"))
        .with(18, interned(1, "src/main.rs"))
        .with(6, new().number(1, 1).number(2, 1))
        .with(6, new().number(1, 2).number(2, 2).number(5, 1).number(6, 12))
        // Packed, as a writer may have it.
        .with(7, new().number(1, 5).bytes(2, &[1, 2]));
    let begin = new()
        .number(9, 1)
        .number(3, 1)
        .number(10, 9)
        .number(56, 5)
        .fixed64(47, 0xf10)
        .with(4, new().number(1, 4).number(3, 12))
        .with(
            4,
            new()
                .text(10, "list")
                .with(12, new().number(4, u64::MAX))
                .with(12, new().text(6, "two")),
        )
        .with(4, new().text(10, "map").with(11, new().text(10, "inner").number(2, 1)))
        .number(1_234, 7);
    vec![
        state.with(59, defaults).with(6, clocks),
        packet(3).number(13, 2).number(8, 1).with(60, track),
        packet(3).number(13, 2).number(8, 2).with(11, begin).with(12, names),
        packet(3).number(13, 2).number(8, 3).with(11, new().number(9, 2)),
    ]
}

fn file(packets: &[Bytes]) -> Vec<u8> {
    packets.iter().cloned().fold(new(), |file, packet| file.with(1, packet)).0
}

/// What is read, and what cannot be.
fn read(bytes: &[u8]) -> (Decoder, Vec<Packet>, Vec<(u64, u64)>) {
    let mut decoder = Decoder::default();
    let (mut packets, mut damages) = (Vec::new(), Vec::new());
    let (_, error) = decoder.read(bytes, &mut |_, item| {
        match item {
            Item::Packet(packet) => packets.push(*packet),
            Item::Damage { offset, bytes, .. } => damages.push((offset, bytes)),
        }
        true
    });
    assert!(error.is_none());
    (decoder, packets, damages)
}

#[test]
fn numbers_are_resolved() {
    let (decoder, packets, damages) = read(&file(&packets()));
    assert!(damages.is_empty());
    assert!(packets.iter().all(|packet| packet.losses.is_empty()), "{packets:?}");
    let times: Vec<_> = packets.iter().map(|packet| packet.at_ns).collect();
    assert_eq!(times, [Some(5_000), Some(6_000), Some(8_000), Some(11_000)]);
    let kinds: Vec<_> = packets.iter().map(|packet| &*packet.kind).collect();
    assert_eq!(kinds, ["clock_snapshot", "track_descriptor", "track_event", "track_event"]);
    let event = packets[2].event.as_ref().unwrap();
    assert_eq!((&*event.kind, event.name.as_deref()), ("SLICE_BEGIN", Some("load level")));
    assert_eq!((event.track, &*event.categories), (Some(77), &["render".to_owned()][..]));
    assert_eq!(event.flows, [0xf10]);
    assert_eq!(event.callstack, ["main", "draw (src/main.rs:12)"]);
    let [
        (first, Argument::Value(value)),
        (list, Argument::List(values)),
        (map, Argument::Dictionary(entries)),
    ] = &event.arguments[..]
    else {
        panic!("{:?}", event.arguments)
    };
    assert_eq!((&**first, value, &**list, &**map), ("triangles", &Value::Uint(12), "list", "map"));
    assert_eq!((values.len(), &*entries[0].0), (2, "inner"));
    assert!(matches!(values[0], Argument::Value(Value::Int(-1))), "{values:?}");
    assert_eq!(decoder.tracks[&77].thread, Some((42, 43, "worker".to_owned())));
    let mut printed = String::new();
    packets[2].message.print(&mut printed);
    assert!(printed.contains(" #1234=7}"), "{printed}");
}

#[test]
fn what_a_reader_would_lose_is_named() {
    let mut all = packets();
    let end = all.pop().unwrap();
    // A sequence that was never begun; a number of nothing; dropped packets, after which the state is gone.
    all.push(packet(4).number(13, 2).number(8, 1).with(11, new().number(9, 3)));
    all.push(packet(3).number(13, 2).number(8, 1).with(11, new().number(9, 3).number(10, 99)));
    all.push(packet(3).number(13, 2).number(8, 1).number(42, 1));
    all.push(end);
    all.push(packet(5).number(42, 1).number(87, 1).number(13, 1).number(58, 65).number(8, 1));
    let (_, packets, _) = read(&file(&all));
    let losses: Vec<_> = packets.iter().skip(3).map(|packet| &packet.losses[..]).collect();
    assert_eq!(
        losses,
        [
            &[Loss::NoState][..],
            &[Loss::Unresolved],
            &[Loss::DroppedBefore, Loss::NoState],
            &[Loss::NoState],
            // The first packet of a sequence says that packets were dropped, which is no loss.
            &[Loss::UnknownClock],
        ]
    );
    assert_eq!(packets[4].event.as_ref().unwrap().name.as_deref(), Some("iid 99"));
}

#[test]
fn compressed_packets_are_read_in_place() {
    let inner = file(&packets());
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(&inner).unwrap();
    let mut deflate = DeflateEncoder::new(Vec::new(), Compression::best());
    deflate.write_all(&inner).unwrap();
    let zstd = zstd::encode_all(&inner[..], 3).unwrap();
    for (field, bytes) in
        [(50, zlib.finish().unwrap()), (50, deflate.finish().unwrap()), (133, zstd)]
    {
        let outer = file(&[packet(1), new().bytes(field, &bytes), packet(2)]);
        let (_, found, damages) = read(&outer);
        assert!(damages.is_empty());
        let names: Vec<_> =
            found.iter().filter_map(|packet| packet.event.as_ref()?.name.as_deref()).collect();
        assert_eq!((found.len(), &names[..]), (7, &["load level"][..]));
        assert_eq!(found.iter().filter(|packet| packet.is_compressed).count(), 4);
        // A cut stream: its packets up to the cut.
        let cut = file(&[new().bytes(field, &bytes[..bytes.len() - 3]), packet(2)]);
        let (_, found, damages) = read(&cut);
        assert!(!damages.is_empty(), "field {field}");
        assert_eq!(found.last().map(|packet| packet.sequence), Some(2));
    }
}

/// A byte that is another one costs at most the packet that it is in, and the one beside it.
#[test]
fn damage_at_every_byte_leaves_the_other_packets() {
    let mut all = packets();
    all.extend((0..4).map(|at| packet(3).number(13, 2).number(8, at).with(11, new().number(9, 3))));
    let whole = file(&all);
    for at in 0..whole.len() {
        for change in [0xff, 0x01, 0x80, 0x08] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            let (_, found, damages) = read(&bytes);
            let skipped: u64 = damages.iter().map(|damage| damage.1).sum();
            assert!(found.len() + 2 >= all.len(), "byte {at} ^ {change:#x}: {}", found.len());
            let read: u64 = found.iter().map(|packet| packet.bytes as u64).sum();
            assert!(read + skipped <= whole.len() as u64, "byte {at} ^ {change:#x}");
        }
        // What ends there has all packets before, and says what is missing.
        let mut end = 0;
        let ends = all.iter().map(|packet| {
            end += file(std::slice::from_ref(packet)).len();
            end
        });
        let before = ends.filter(|end| *end <= at).collect::<Vec<_>>();
        let (_, found, damages) = read(&whole[..at]);
        assert!(found.len() >= before.len(), "cut at {at}");
        let is_between = before.last().copied().unwrap_or(0) == at;
        assert_eq!(damages.is_empty(), is_between, "cut at {at}: {damages:?}");
    }
}

#[test]
fn a_file_is_recognised_by_its_content() {
    let whole = file(&packets());
    assert!(is_perfetto(&whole));
    assert!(!is_perfetto(b""));
    assert!(!is_perfetto(b"\n\n\n"));
    assert!(!is_perfetto(b"\nno packet of anything"));
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/samples");
    for name in ["mem-2t-40k.utrace", "memledger-small.utrace", "unreal4/p0-raw.utrace"] {
        let bytes = std::fs::read(format!("{samples}/{name}")).unwrap();
        assert!(!is_perfetto(&bytes[..bytes.len().min(4096)]), "{name}");
    }
}
