use super::*;
use crate::arrays::piece_head;
use crate::encode::append_record;
use crate::handshake::Transport;
use crate::packet::{Header, PacketWriter, TYPES};
use crate::schema::FieldFamily;
use crate::unpack::Unpacker;
use proptest::prelude::*;

/// A stack that owns its frames.
#[derive(Clone, Debug, PartialEq)]
struct Owned {
    id: u32,
    outer: Outer,
    inner: Result<Vec<u64>, Option<u32>>,
}

impl Owned {
    fn lent(&self) -> Callstack<'_> {
        let inner = match &self.inner {
            Ok(frames) => Inner::Frames(frames),
            Err(Some(id)) => Inner::SameAs(*id),
            Err(None) => Inner::NotKept,
        };
        Callstack { id: self.id, outer: self.outer, inner }
    }
}

impl From<Callstack<'_>> for Owned {
    fn from(Callstack { id, outer, inner }: Callstack<'_>) -> Self {
        let inner = match inner {
            Inner::Frames(frames) => Ok(frames.to_vec()),
            Inner::SameAs(id) => Err(Some(id)),
            Inner::NotKept => Err(None),
        };
        Self { id, outer, inner }
    }
}

/// Stacks as the tracker writes them, and others. Some ids are missing.
fn stacks() -> impl Strategy<Value = Vec<Owned>> {
    let own = prop::collection::vec(
        prop_oneof![
            9 => 0x5500_0000_0000_u64..0x5500_0000_1000,
            9 => 0_u64..1 << 48,
            1 => GUESS..GUESS + 0x1000,
        ],
        0..20,
    );
    let one = (1_u32..3, 0_u8..5, 0_u32..40, 0_u32..30, 0_u32..6, own);
    prop::collection::vec(one, 0..80).prop_map(|all| {
        let (mut id, mut stacks) = (0_u32, Vec::<Owned>::new());
        for (step, reason, back, without, kind, own) in all {
            id += if step == 2 && stacks.len() % 10 == 9 { 7 } else { 1 };
            let outer = match id.checked_sub(back).filter(|other| back > 0 && *other > 0) {
                Some(id) => Outer::Of { id, without },
                None => Outer::End(reason),
            };
            let other = stacks.iter().rev().find_map(|stack| {
                stack.inner.as_ref().is_ok_and(|own| !own.is_empty()).then_some(stack.id)
            });
            let inner = match (kind, other) {
                (0, _) => Err(None),
                (1 | 2, Some(_)) => Err(other),
                _ => Ok(own),
            };
            stacks.push(Owned { id, outer, inner });
        }
        stacks
    })
}

fn written(stacks: &[Owned]) -> Vec<u8> {
    let (mut writer, mut out) = (CallstackWriter::default(), Vec::new());
    stacks.iter().for_each(|stack| writer.add(&stack.lent(), &mut out));
    writer.end_event(&mut out);
    out
}

/// The stacks of all events.
fn read_all(mut bytes: &[u8]) -> Vec<Owned> {
    let mut stacks = Vec::new();
    while !bytes.is_empty() {
        let (first, list, after) = expand::split(CALLSTACKS.wire().to_le_bytes(), bytes).unwrap();
        assert!(visit(first, list, &mut Vec::new(), |stack| stacks.push(stack.into())));
        bytes = after;
    }
    stacks
}

/// The payloads that a plain stream has in place of this one, after the types.
fn plain(payload: &[u8]) -> Vec<u8> {
    let mut types = Vec::new();
    [&CALLSTACKS, &CALLSTACK_SPEC, &CALLSTACK_GUESS, &CALLSTACK_END]
        .iter()
        .for_each(|declared| declared.append_record(&mut types));
    let (mut writer, mut out) = (PacketWriter::new(Transport::Unreal, 7), Vec::new());
    // Types in two pieces.
    let (head, tail) = types.split_at(types.len() / 2);
    writer.packet(TYPES, head, &mut out);
    writer.packet(TYPES, tail, &mut out);
    out.clear();
    writer.packet(2, payload, &mut out);
    let (mut unpacker, mut decoded, mut rest) = (Unpacker::new(), Vec::new(), &out[..]);
    while !rest.is_empty() {
        let header = Header::decode(rest[..4].try_into().unwrap(), Transport::Unreal).unwrap();
        let (packet, after) = rest.split_at(header.size);
        decoded.extend_from_slice(unpacker.payload(&header, packet).unwrap());
        rest = after;
    }
    decoded
}

/// What Unreal's readers know of these stacks, computed one by one from whole lists.
fn naive(stacks: &[Owned]) -> Vec<u8> {
    // By id: frames, outermost first, the end, and how many of the frames are its own.
    let mut known = std::collections::HashMap::<u32, (Vec<u64>, u8, usize)>::new();
    let mut out = Vec::new();
    for stack in stacks {
        let (mut frames, end) = match stack.outer {
            Outer::End(reason) => (Vec::new(), reason),
            Outer::Of { id, without } => match known.get(&id) {
                Some((frames, end, _)) => {
                    let kept = frames.len().saturating_sub(without as usize);
                    (frames[..kept].to_vec(), *end)
                }
                None => (Vec::new(), OUTER_LOST),
            },
        };
        let before = frames.len();
        match &stack.inner {
            Ok(own) => frames.extend(own),
            Err(Some(id)) => {
                let (other, _, own) = &known[id];
                frames.extend(&other[other.len() - own..]);
            }
            Err(None) => {}
        }
        let addresses = frames.iter().rev().map(|frame| frame & !GUESS);
        let innermost_first: Vec<_> = addresses.flat_map(|frame| frame.to_le_bytes()).collect();
        let id = stack.id.into();
        CALLSTACK_SPEC.append(&[id, Value::Elements(&innermost_first, 8)], &mut out);
        if let Some(from) = frames.iter().rev().position(|frame| frame & GUESS != 0) {
            let from = from.min(usize::from(u8::MAX)) as u32;
            CALLSTACK_GUESS.append(&[stack.id.into(), from.into()], &mut out);
        }
        let cut = if stack.inner == Err(None) { INNER_NOT_KEPT } else { 0 };
        for reason in [end, cut].into_iter().filter(|reason| *reason > 0) {
            CALLSTACK_END.append(&[stack.id.into(), u32::from(reason).into()], &mut out);
        }
        let own = frames.len() - before;
        known.insert(stack.id, (frames, end, own));
    }
    out
}

#[test]
fn exact_bytes_of_a_list() {
    let stack = |id, outer, inner| Owned { id, outer, inner };
    // The first three are the example of docs/formats.md.
    let stacks = [
        stack(9, Outer::Of { id: 2, without: 0 }, Ok(vec![0x1000, 0x1100, 0x1200])),
        stack(10, Outer::Of { id: 9, without: 0 }, Ok(vec![0x1300, 0x1400])),
        stack(11, Outer::Of { id: 9, without: 2 }, Err(Some(10))),
        stack(12, Outer::Of { id: 10, without: 0 }, Err(None)),
        stack(20, Outer::End(1), Ok(vec![0x7f, 0x7e])),
    ];
    let bytes = written(&stacks);
    let expected = [
        &[0x75, 0, 9, 0, 0, 0][..],
        &piece_head(1, 23, 1),
        &[7, 0, 6, 0x80, 0x40, 0x80, 4, 0x80, 4],
        &[1, 0, 4, 0x80, 4, 0x80, 4],
        &[2, 2, 3, 10],
        &[2, 0, 1],
        &[6],
        &[0x75, 0, 20, 0, 0, 0],
        &piece_head(1, 6, 1),
        &[0, 1, 4, 0xfe, 0x01, 1],
        &[6],
    ];
    assert_eq!(bytes, expected.concat());
    assert_eq!(read_all(&bytes), stacks);
}

/// A few bytes that would be many frames, each as often as its caller, or a long way to the outermost one.
#[test]
fn a_hostile_list_is_of_limited_size() {
    let first = Owned { id: 1, outer: Outer::End(0), inner: Ok(vec![0x1000]) };
    let doubled = |id: u32| Owned {
        id,
        outer: Outer::Of { id: id - 1, without: 0 },
        inner: Err(Some(id - 1)),
    };
    let empty = |id: u32| Owned {
        id,
        outer: Outer::Of { id: id - 1, without: u32::MAX },
        inner: Ok(Vec::new()),
    };
    let lists: [Vec<Owned>; 2] =
        [(2..3_000).map(doubled).collect(), (2..3_000).map(empty).collect()];
    for list in lists {
        let all: Vec<_> = [first.clone()].into_iter().chain(list).collect();
        assert!(plain(&written(&all)).len() < 3_000 * (MAX_FRAMES * 8 + 30));
    }
    // An id that no tracker has, and one whose inner frames are not known: no events.
    let far = Owned { id: u32::MAX, outer: Outer::End(0), inner: Ok(vec![1]) };
    let unknown = Owned { id: 5, outer: Outer::End(0), inner: Err(Some(4)) };
    assert_eq!(plain(&written(&[far, unknown])), [0; 0]);
    // The first that is known can have any number.
    let late = Owned { id: 3_000_000, outer: Outer::End(0), inner: Ok(vec![1]) };
    assert_eq!(plain(&written(std::slice::from_ref(&late))), naive(&[late]));
}

#[test]
fn a_stream_without_the_types_of_unreal_keeps_the_list() {
    let payload = written(&[Owned { id: 2, outer: Outer::End(0), inner: Ok(vec![1]) }]);
    let mut types = Vec::new();
    append_record(
        &mut types,
        CALLSTACKS.uid,
        ("Memledger", "Callstacks"),
        NO_SYNC,
        CALLSTACKS.fields.iter().map(|(name, field)| (*name, *field, FieldFamily::Regular)),
    );
    let (mut writer, mut out) = (PacketWriter::new(Transport::Unreal, 7), Vec::new());
    writer.packet(TYPES, &types, &mut out);
    out.clear();
    writer.packet(2, &payload, &mut out);
    assert_eq!(out[4..], payload);
}

proptest! {
    #[test]
    fn lists_give_back_what_was_written(stacks in stacks()) {
        prop_assert_eq!(read_all(&written(&stacks)), stacks);
    }

    #[test]
    fn unreals_readers_get_each_stack_whole(stacks in stacks()) {
        prop_assert_eq!(plain(&written(&stacks)), naive(&stacks));
    }

    #[test]
    fn any_bytes_end(first in any::<u32>(), bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut count = 0;
        visit(first, &bytes, &mut Vec::new(), |_| count += 1);
        prop_assert!(count <= bytes.len());
        let mut payload = written(&[Owned { id: first, outer: Outer::End(0), inner: Ok(vec![]) }]);
        payload.extend(&bytes);
        plain(&payload);
        let mut payload = Vec::new();
        CALLSTACKS.append(&[first.into(), Value::Elements(&bytes, 1)], &mut payload);
        plain(&payload);
    }
}
