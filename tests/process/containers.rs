//! Tagged containers, as the report of a whole process shows them: against what an allocator
//! outside the tracker has counted, to the byte.

mod panics;
mod random;

use crate::allocator::gained;
use crate::harness::{Case, REPORT, builder, case, scope, start};
use memledger::containers::{
    TaggedBTreeMap, TaggedBTreeSet, TaggedBinaryHeap, TaggedBox, TaggedHashMap, TaggedHashSet,
    TaggedString, TaggedVec, TaggedVecDeque,
};
use memledger::{Ledger, Tag, alloc_scope, group, tag, tagged, tagged_box};
use memledger_analysis::Report;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::hash::Hash;
use std::hint::black_box;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

group! {
    OWNERS = "Owners";
    OTHERS = "Others";
}

const A: Tag = tag!(OWNERS, "a");
const B: Tag = tag!(OWNERS, "b");
const C: Tag = tag!(OTHERS, "c");
const TAGS: [Tag; 3] = [A, B, C];

pub(crate) const CASES: &[Case] = &[
    case("a map of vectors filled from four threads is whole under its tags", filled, |run| {
        let outcome = run.run();
        let report = outcome.quiet().whole();
        let [table, vectors, moved]: [u64; 3] = numbers(&outcome.stdout);
        assert_eq!((named(&report, A), named(&report, B)), (table, vectors));
        // Nothing else that was allocated in filling it is alive.
        let all = scope(&report, &["GlobalScope", "fill"]).unwrap().figures;
        assert_eq!(all.live_bytes, table + vectors);
        assert_eq!((all.moved_in.blocks, moved), (0, 0));
    }),
    case("and after it was renamed", filled_and_renamed, |run| {
        let outcome = run.run();
        let report = outcome.quiet().whole();
        let [table, vectors, moved]: [u64; 3] = numbers(&outcome.stdout);
        assert_eq!(named(&report, A) + named(&report, B), 0);
        assert_eq!(named(&report, C), table + vectors);
        let row = report.by_name.iter().find(|row| row.name == "c").unwrap().figures;
        assert_eq!((row.allocations, row.moved_in.blocks), (0, moved));
        assert_eq!(row.moved_in.bytes, table + vectors);
        // Where it was allocated is what it was.
        let all = scope(&report, &["GlobalScope", "fill"]).unwrap().figures;
        assert_eq!(all.live_bytes, table + vectors);
    }),
    case("a slice that is not finished leaves nothing", broken_slice, |run| {
        run.run().quiet().whole();
    }),
    case("a container without a name of its own is named after its type", named_by_type, |run| {
        let report = run.run().quiet().whole();
        let others = report.by_name.iter().filter(|row| row.group == ["Others"]);
        let others = others.filter(|row| row.figures.live_bytes > 0);
        let rows: BTreeMap<_, _> = others.map(|row| (&*row.name, row.figures.live_bytes)).collect();
        for (name, bytes) in [
            ("Box<[u8; 77]>", 77),
            ("TaggedVec<u16>", 100),
            ("TaggedVec<u32>", 200),
            ("Unnamed", 55),
        ] {
            assert_eq!(rows.get(name), Some(&bytes), "{name}: {rows:?}");
        }
        let names: Vec<_> = rows.keys().map(|name| name.split('<').next().unwrap()).collect();
        let types = ["Box", "TaggedBTreeSet", "TaggedHashMap", "TaggedVec", "TaggedVec", "Unnamed"];
        assert_eq!(names, types);
    }),
    case("a compact trace carries renamings", filled_and_renamed, |run| {
        let run = run.env("TEST_TRACE", "trace.memledger");
        let report = run.run().quiet().whole_as("trace.memledger", REPORT);
        assert!(named(&report, C) > 0);
    }),
    case("every container under every tag on every thread is exact", random::random, |run| {
        run.deadline(120).run().quiet().whole();
    }),
    case("only the container's own blocks get its tag", code_of_the_program, |run| {
        run.run().quiet().whole();
    }),
    case("conversions keep the block and rename it", conversions, |run| {
        run.run().quiet().whole();
    }),
    case("what is told no tag takes the thread's", told_nothing, |run| {
        run.run().quiet().whole();
    }),
    case("a panic in a hash, a clone or a drop loses no block", panics::panics, |run| {
        run.run().quiet().whole();
    }),
    case("a stream that begins late knows the new names", late, |run| {
        let outcome = run.run();
        let report = outcome.quiet().whole();
        let (late, _) = outcome.trace("late.utrace");
        for tag in TAGS {
            assert_eq!(named(&late, tag), named(&report, tag), "{tag:?}");
        }
        let blocks = |report: &Report| {
            let ours = report.largest_live.iter().filter(|block| block.bytes > 900_000);
            ours.map(|b| (b.address, b.bytes, b.name.clone(), b.path.clone())).collect::<Vec<_>>()
        };
        assert_eq!(blocks(&late).len(), 2);
        assert_eq!(blocks(&late), blocks(&report));
    }),
    case("renaming what was there before the start is no problem", before_the_start, |run| {
        run.run().quiet().whole();
    }),
    case("without memory for it no container breaks", without_memory, |run| {
        run.run().quiet().whole();
    }),
];

/// The live bytes under a name.
fn named(report: &Report, tag: Tag) -> u64 {
    let rows = report.by_name.iter();
    let mut rows = rows.filter(|row| row.name == tag.name().as_str());
    rows.next().map_or(0, |row| row.figures.live_bytes)
}

/// The same, now.
fn now(ledger: &Ledger, tag: Tag) -> i64 {
    named(ledger.snapshot().unwrap().report(), tag) as i64
}

fn numbers<const N: usize>(text: &str) -> [u64; N] {
    let numbers = text.split_whitespace().map(|number| number.parse().unwrap());
    numbers.collect::<Vec<_>>().try_into().unwrap()
}

type Shared = Mutex<TaggedHashMap<u64, TaggedVec<u64>>>;

/// Four threads fill one map; its vectors get their tag when they are there already, empty or not.
fn fill() -> (Arc<Shared>, [i64; 2]) {
    let map: Arc<Shared> = Arc::new(Mutex::new(TaggedHashMap::new(A)));
    let bytes = [const { AtomicI64::new(0) }; 2];
    std::thread::scope(|threads| {
        for number in 0..4 {
            let (map, [table, vectors]) = (&map, &bytes);
            threads.spawn(move || {
                alloc_scope!("fill");
                for round in 0..4000_u64 {
                    let mut map = map.lock().unwrap();
                    let key = (round * 4 + number) % 1777;
                    let mut value = None;
                    let grown = gained(|| value = Some(map.entry(key).or_default()));
                    table.fetch_add(grown, Ordering::Relaxed);
                    let value = value.unwrap();
                    if round % 3 != 0 {
                        value.set_tag(B);
                    }
                    let grown = gained(|| value.push(round));
                    value.set_tag(B);
                    vectors.fetch_add(grown, Ordering::Relaxed);
                }
            });
        }
    });
    (map, bytes.map(AtomicI64::into_inner))
}

fn tell((map, [table, vectors]): (Arc<Shared>, [i64; 2]), moved: usize) {
    // An independent look: what the vectors say that they hold.
    let held = map.lock().unwrap().values().map(|v| v.capacity() * 8).sum::<usize>();
    assert_eq!(held as i64, vectors);
    println!("{table} {vectors} {moved}");
    std::mem::forget(map);
}

fn filled() {
    let _ledger = start();
    tell(fill(), 0);
}

fn filled_and_renamed() {
    let trace = std::env::var("TEST_TRACE").unwrap_or_else(|_| crate::harness::TRACE.to_owned());
    let report = memledger::ReportTo::file(REPORT);
    let ledger = Ledger::builder().trace_to_file(trace).report_on_exit(report).start().unwrap();
    let (map, [table, vectors]) = fill();
    assert_eq!((now(&ledger, A), now(&ledger, B)), (table, vectors));
    let moved = {
        alloc_scope!("rename");
        let mut map = map.lock().unwrap();
        map.set_tag(C);
        map.values_mut().for_each(|vector| vector.set_tag(C));
        1 + map.len()
    };
    tell((map, [table, vectors]), moved);
}

/// What the program's own code allocates while a container grows is not the container's.
fn code_of_the_program() {
    let ledger = start();
    #[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
    struct Name(String);
    impl Clone for Name {
        fn clone(&self) -> Self {
            Self(black_box(self.0.clone()))
        }
    }
    let name = |number: usize| Name(format!("{number:050}").into_boxed_str().into_string());
    let names = || (0..100).map(name);
    let unsized_names = || names().filter(|_| true);
    let mut kept: Vec<Box<dyn std::any::Any>> = Vec::new();
    let mut own = 0;
    let mut check = |what: &str, make: &dyn Fn() -> (Box<dyn std::any::Any>, usize)| {
        let (made, bytes) = make();
        kept.push(made);
        own += bytes as i64;
        assert_eq!(now(&ledger, A), own, "{what}");
    };
    let size = size_of::<Name>();
    check("extend", &|| {
        let mut vec = TaggedVec::new(A);
        vec.extend(names());
        vec.extend(unsized_names());
        let bytes = vec.capacity() * size;
        (Box::new(vec), bytes)
    });
    check("resize, clone", &|| {
        let mut vec = TaggedVec::new(A);
        vec.resize(10, name(1));
        vec.resize_with(30, || name(2));
        vec.extend_from_slice(&[name(3), name(4)]);
        vec.extend_from_within(..10);
        let mut clone = vec.clone();
        clone.clone_from(&TaggedVec::from_slice(B, &vec));
        let bytes = (vec.capacity() + clone.capacity()) * size;
        (Box::new((vec, clone)), bytes)
    });
    check("queue", &|| {
        let mut queue = TaggedVecDeque::new(A);
        queue.extend(unsized_names());
        queue.resize(150, name(1));
        let clone = queue.clone();
        let bytes = (queue.capacity() + clone.capacity()) * size;
        (Box::new((queue, clone)), bytes)
    });
    check("box", &|| {
        let slice: TaggedBox<[Name]> =
            TaggedVec::from_slice(A, &[name(1), name(2)]).into_boxed_slice();
        let one = TaggedBox::new(A, name(3));
        let clones = (slice.clone(), one.clone());
        (Box::new((slice, one, clones)), 6 * size)
    });
    check("single allocations", &|| {
        let slice = A.boxed_slice(7, name);
        let mut vec = A.vec(3);
        vec.push(name(1));
        (Box::new((A.boxed(name(1)), slice, vec)), 11 * size)
    });
    // The tables say nothing of their size: what the strings have is left.
    let strings = |count: usize| (count * 50) as i64;
    let mut maps = None;
    let gain = gained(|| {
        let mut map = TaggedHashMap::new(A);
        map.extend(names().map(|name| (name, ())));
        map.entry(name(1)).or_insert_with(|| panic!("is there"));
        let mut ordered = TaggedBTreeMap::new(A);
        ordered.extend(names().map(|key| (key, name(0))));
        let set = names().map(|name| (name, 1)).collect::<BTreeMap<_, _>>();
        drop(set);
        maps = Some((map.clone(), ordered.clone(), map, ordered));
    });
    own += gain - strings(100 * 2 + 200 * 2);
    assert_eq!(now(&ledger, A), own, "maps");
}

fn conversions() {
    let ledger = start();
    let sizes = |a: i64, b: i64| assert_eq!((now(&ledger, A), now(&ledger, B)), (a, b));
    let plain = black_box(vec![7_u64; 1000]);
    let address = plain.as_ptr();
    let vec = TaggedVec::from_vec(A, plain);
    assert_eq!(vec.as_ptr(), address);
    sizes(8000, 0);
    // To a plain one under another's tag, and back, and out of all tags.
    let plain = tagged(B, || vec.into_vec());
    sizes(0, 8000);
    let vec = tagged(A, || TaggedVec::from(plain));
    sizes(8000, 0);
    let plain = vec.into_vec();
    assert_eq!(plain.as_ptr(), address);
    sizes(0, 0);
    // A queue of a vector, with its beginning elsewhere than its block's.
    let mut queue = TaggedVecDeque::from_deque(A, VecDeque::from(plain));
    queue.rotate_left(300);
    queue.pop_front();
    queue.set_tag(B);
    sizes(0, 8000);
    assert_eq!(queue.len(), 999);
    let vec = TaggedVec::from(queue);
    assert_eq!((vec.as_ptr(), vec.len()), (address, 999));
    sizes(0, 8000);
    let boxed = vec.into_boxed_slice();
    sizes(0, 999 * 8);
    let boxed = TaggedBox::from_box(A, boxed.into_box());
    sizes(999 * 8, 0);
    drop(boxed);
    let text = TaggedString::from_string(A, "x".repeat(500));
    let mut text = TaggedString::from(text.into_string());
    sizes(0, 0);
    text.set_tag(B);
    sizes(0, 500);
    let bytes = text.into_bytes();
    sizes(0, 500);
    drop(bytes);
    let shown: TaggedBox<dyn std::fmt::Debug + Send> = tagged_box!(A, [1_u64; 20]);
    sizes(160, 0);
    let shown = shown.into_box();
    sizes(0, 0);
    drop(shown);
    // A map by order moves to new nodes, which are whose the others were.
    let map = (0..1000).map(|n| (n, n)).collect::<BTreeMap<_, _>>();
    let mut map = TaggedBTreeMap::from_map(A, map);
    let held = now(&ledger, A);
    assert!(held > 8000);
    map.set_tag(B);
    assert_eq!(now(&ledger, A), 0);
    assert!(now(&ledger, B) > 8000);
    assert!(
        map.iter().eq((0..1000).map(|n| (n, n)).collect::<Vec<_>>().iter().map(|(a, b)| (a, b)))
    );
    assert_eq!(map.into_map().len(), 1000);
    sizes(0, 0);
    // A set moves to new nodes, too; a heap keeps its block, whichever of two is larger.
    let mut set = TaggedBTreeSet::from_set(A, (0..1000).collect());
    assert!(now(&ledger, A) > 4000);
    set.set_tag(B);
    assert_eq!(now(&ledger, A), 0);
    assert!(now(&ledger, B) > 4000 && set.is_superset(&[3, 7].into_iter().collect()));
    drop(set);
    let mut heap = TaggedBinaryHeap::from_heap(A, BinaryHeap::from(vec![1_u64; 10]));
    let mut larger = TaggedBinaryHeap::from(TaggedVec::from_slice(B, &[2_u64; 1000]));
    sizes(80, 8000);
    heap.append(&mut larger);
    assert_eq!((heap.len(), larger.len()), (1010, 0));
    sizes(heap.capacity() as i64 * 8, 8000);
    let block = heap.into_sorted_vec();
    sizes(block.capacity() as i64 * 8, 8000);
    drop((block, larger));
    sizes(0, 0);
    let mut aligned = (A.aligned_slice(128, 100, |n| n as u32), B.aligned_box(4096, [7_u8; 3]));
    sizes(400, 3);
    assert_eq!((aligned.0.as_ptr().addr() % 128, aligned.1.as_ptr().addr() % 4096), (0, 0));
    (aligned.0[99], aligned.1[0]) = (1, 1);
    assert_eq!((aligned.0.iter().sum::<u32>(), aligned.1.into_inner()), (4852, [1, 7, 7]));
    drop(aligned.0);
    sizes(0, 0);
    // The raw helpers.
    let layout = std::alloc::Layout::from_size_align(300, 256).unwrap();
    let blocks = [A.block(layout).unwrap(), B.zeroed_block(layout).unwrap()];
    sizes(300, 300);
    assert!(blocks.iter().all(|block| block.addr().get() % 256 == 0));
    free(blocks, layout);
    sizes(0, 0);
    reallocate(&sizes);
}

#[expect(unsafe_code, reason = "raw blocks")]
fn free(blocks: [std::ptr::NonNull<u8>; 2], layout: std::alloc::Layout) {
    // SAFETY: they were allocated with this layout, and the second with zeros.
    unsafe {
        assert_eq!(std::slice::from_raw_parts(blocks[1].as_ptr(), 300), [0; 300]);
        blocks.iter().for_each(|block| std::alloc::dealloc(block.as_ptr(), layout));
    }
}

#[expect(unsafe_code, reason = "raw blocks")]
fn reallocate(sizes: &dyn Fn(i64, i64)) {
    let layout = |size| std::alloc::Layout::from_size_align(size, 64).unwrap();
    // SAFETY: each block is given with the layout that it has.
    unsafe {
        let block = A.block(layout(100)).unwrap();
        block.write_bytes(7, 100);
        let block = B.realloc(block, layout(100), 5000).unwrap();
        sizes(0, 5000);
        assert_eq!(std::slice::from_raw_parts(block.as_ptr(), 100), [7; 100]);
        let block = B.realloc(block, layout(5000), 0).unwrap();
        sizes(0, 0);
        let block = A.realloc(block, layout(0), 64).unwrap();
        sizes(64, 0);
        assert!(A.realloc(block, layout(64), usize::MAX).is_none(), "it is as it was");
        std::alloc::dealloc(block.as_ptr(), layout(64));
    }
    sizes(0, 0);
}

/// A slice whose initializer panics is freed.
fn broken_slice() {
    let ledger = start();
    let made = std::panic::catch_unwind(|| {
        A.aligned_slice(64, 10, |n| {
            if n < 5 { vec![n] } else { std::panic::resume_unwind(Box::new(())) }
        })
    });
    assert!(made.is_err());
    assert_eq!(now(&ledger, A), 0);
}

fn named_by_type() {
    let _ledger = start();
    const UNNAMED: Tag = tag!(OTHERS);
    let mut map = TaggedHashMap::<u8, u8>::new(A);
    map.insert(1, 2);
    map.set_tag(UNNAMED);
    std::mem::forget((
        UNNAMED.boxed([0_u8; 77]),
        TaggedVec::from_slice(UNNAMED, &[1_u16; 50]),
        TaggedVec::from_vec(UNNAMED, vec![1_u32; 50]),
        TaggedBTreeSet::from_set(UNNAMED, [7_u8].into_iter().collect()),
        tagged(UNNAMED, || black_box(vec![0_u8; 55])),
        map,
    ));
}

fn told_nothing() {
    let ledger = start();
    let grown = tagged(A, || (TaggedVec::<u8>::default(), TaggedHashSet::<u8>::default()));
    let collected = tagged(A, || (0..50_u64).collect::<TaggedVec<_>>());
    assert_eq!(now(&ledger, A), collected.capacity() as i64 * 8);
    let (mut vec, mut set) = std::thread::spawn(|| grown).join().unwrap();
    // Elsewhere, and under another's tag: they took theirs when they were made.
    let bytes = gained(|| {
        tagged(B, || {
            vec.extend([1; 100]);
            set.extend(0..100);
        });
    });
    assert_eq!(now(&ledger, A), collected.capacity() as i64 * 8 + bytes);
    assert_eq!(now(&ledger, B), 0);
    // Outside of all tags, it is as a plain one until it is named.
    let mut nobody = TaggedVec::<u64>::default();
    tagged(B, || nobody.push(1));
    assert_eq!(now(&ledger, B), 32);
    nobody.set_tag(C);
    assert_eq!((now(&ledger, B), now(&ledger, C)), (0, 32));
    // Growing leaves the thread's own tag as it was.
    tagged(B, || {
        nobody.reserve(1000);
        std::mem::forget(black_box(vec![1_u8; 77]));
    });
    assert_eq!(now(&ledger, B), 77);
}

fn late() {
    let ledger = builder().analyze_in_process(true).start().unwrap();
    let (mut first, mut second, third) = {
        alloc_scope!("here");
        let first = tagged(A, || TaggedVec::from(black_box(vec![1_u8; 1_000_001])));
        (
            first,
            TaggedVec::from_vec(B, black_box(vec![1_u8; 1_000_002])),
            TaggedBox::new(B, [0_u8; 60]),
        )
    };
    alloc_scope!("elsewhere");
    // Nothing is ever allocated with this tag in that scope.
    first.set_tag(C);
    second.set_tag(A);
    ledger.trace_to_file("late.utrace").unwrap();
    ledger.flush();
    first.reserve_exact(10);
    std::mem::forget((first, second, third));
}

fn before_the_start() {
    let mut vec = TaggedVec::from_slice(A, &[1_u8; 5000]);
    let mut map = (0..100).map(|n| (n, n)).collect::<TaggedHashMap<_, _>>();
    crate::harness::churn(100_000);
    let ledger = start();
    vec.set_tag(B);
    map.set_tag(C);
    assert_eq!(now(&ledger, B), 0);
    // From its growth on it is known.
    vec.reserve_exact(5000);
    assert_eq!(now(&ledger, B), 10_000);
}

fn without_memory() {
    let ledger = start();
    let mut after = 0;
    loop {
        let mut vec = TaggedVec::<u64>::new(A);
        let mut queue = TaggedVecDeque::<u64>::new(B);
        let mut text = TaggedString::new(B);
        let failed = crate::allocator::failing_after(after, || {
            for number in 0..200 {
                if vec.try_reserve(1).is_err()
                    || queue.try_reserve(1).is_err()
                    || text.try_reserve(1).is_err()
                {
                    break;
                }
                vec.push(number);
                queue.push_back(number);
                text.push('x');
            }
        });
        assert_eq!(vec, queue.iter().copied().collect::<Vec<_>>());
        let bytes = vec.capacity() * 8 + queue.capacity() * 8 + text.capacity();
        assert_eq!(now(&ledger, A) + now(&ledger, B), bytes as i64);
        vec.set_tag(C);
        queue.set_tag(C);
        text.set_tag(C);
        assert_eq!(now(&ledger, C), bytes as i64);
        drop((vec, queue, text));
        assert_eq!(TAGS.map(|tag| now(&ledger, tag)), [0; 3]);
        if failed == 0 {
            break;
        }
        after += 1;
    }
    assert!(after > 5);
}
