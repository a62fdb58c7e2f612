//! The API that a program is marked with: the same with a tracker and without. `.ci/run` runs this in both
//! ways (`--no-default-features` has no tracker); `tests/layers` checks that no function is left out.

use memledger::containers::{
    TaggedBTreeMap, TaggedBTreeSet, TaggedBinaryHeap, TaggedBox, TaggedHashMap, TaggedHashSet,
    TaggedString, TaggedVec, TaggedVecDeque,
};
use memledger::events::{AnsiText, WideText};
use memledger::events::{Channel, LogScope, log, log_scope};
use memledger::{
    AllocScope, Budget, BudgetError, Destination, DestinationHandle, DestinationState,
    DestinationStatus, Error, ErrorKind, Figures, FinishError, Group, Ledger, LedgerBuilder, Limit,
    Name, OnFull, Problem, ProblemKind, ReportTo, ScopeContext, ScopeGuard, Scoped, Snapshot,
    Stacks, Stats, Tag, TrackingAllocator, Unmeasured, Worker, alloc_scope, bookmark, budget,
    group, measure, set_clock, spawn, tag, tagged, without_threads,
};
use std::alloc::System;
use std::hash::BuildHasher;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::task::{Poll, Waker};
use std::time::Duration;

#[global_allocator]
static ALLOC: TrackingAllocator = TrackingAllocator::new(System).ignore_environment();
const _: TrackingAllocator = TrackingAllocator::system();
const _: &System = ALLOC.inner();

/// Whether this program has a tracker.
const TRACKED: bool = cfg!(all(
    feature = "enable",
    target_os = "linux",
    target_pointer_width = "64",
    not(memledger_portable)
));

group! { OUTER = "Outer"; INNER = "Inner" in OUTER; }
memledger::events::channel! { FIRST = "ApiFirst"; SECOND = "ApiSecond" [ReadOnly]; }
memledger::events::channel_presets! { "api" = "default,ApiFirst"; }
memledger::events::event! {
    Kind = "Api"."Kind" [Important, NoSync] { Name: AnsiString, Id: DefinitionId<u8> }
    Happened = "Api"."Happened" {
        A: u8, B: u16, C: u32, D: u64, E: i8, F: i16, G: i32, H: i64, I: f32, J: f64, K: bool, Where: Pointer,
        Numbers: [u32], Places: [Pointer], Text: AnsiString, Wide: WideString, Kind: Reference<Kind>,
    }
}

#[test]
fn scopes_groups_and_tags() {
    let names = [Name::new("a"), Name::intern("b"), Name::intern_utf16(&[0x63]), "d".into()];
    assert_eq!(
        names.map(Name::as_str),
        if TRACKED { ["a", "b", "c", "d"] } else { ["a", "(other)", "(other)", "d"] }
    );
    assert_eq!(
        (INNER.name(), INNER.parent().map(memledger::Group::name)),
        ("Inner", Some("Outer"))
    );
    let own = tag!(INNER, "own");
    assert_eq!(
        (own.group().name(), own.name().as_str(), tag!(OUTER).name().as_str()),
        ("Inner", "own", "Unnamed")
    );

    // What code generators write.
    static MADE: Group = Group::new("Made", Some(&OUTER));
    const TAGS: [Tag; 2] = [Tag::new(&MADE, Name::new("own")), Tag::unnamed(&MADE)];
    assert_eq!((MADE.parent(), MADE.name()), (Some(&OUTER), "Made"));
    assert_eq!(TAGS.map(|tag| tag.name().as_str()), ["own", "Unnamed"]);
    // Two groups of one name are different: groups are compared by address.
    static SAME: Group = Group::new("Made", Some(&OUTER));
    assert_eq!((MADE == SAME, TAGS[0].group() == &MADE), (false, true));
    let state = std::hash::RandomState::new();
    let [made, same] = [&MADE, &SAME].map(|group| state.hash_one(group));
    assert!(made != same && made == state.hash_one(&MADE));

    let _statement = ScopeGuard::enter("statement");
    drop(ScopeGuard::enter_group(&OUTER, "grouped"));
    alloc_scope!("until the end");
    let context = alloc_scope!("block", {
        alloc_scope!(group: INNER, "expression", ScopeContext::current())
    });
    drop(context.enter());
    assert_eq!(context.run(|| tagged(own, || vec![1])), [1]);
    assert_eq!(spawn(|| 2).join().unwrap(), 2);

    let task =
        async { 3 }.alloc_scope("future").alloc_scope_in_group(&OUTER, "grouped").alloc_tagged(own);
    let task = alloc_scope!("block", async move { task.in_context(context).await });
    let mut waker = std::task::Context::from_waker(Waker::noop());
    assert_eq!(std::pin::pin!(task).poll(&mut waker), Poll::Ready(3));
}

#[test]
fn containers() {
    const TAG: memledger::Tag = tag!(OUTER, "containers");
    let mut vec = TaggedVec::from_slice(TAG, &[1, 2]);
    vec.set_tag(tag!(INNER));
    vec.push(3);
    let (mut map, mut set) = (TaggedHashMap::new(TAG), TaggedHashSet::new(TAG));
    map.set_tag(tag!(INNER));
    assert!(map.insert(1, 2).is_none() && set.insert(3));
    let mut text = TaggedString::new(TAG);
    text.push_str("text");
    let mut queue = TaggedVecDeque::new(TAG);
    queue.push_back(4);
    let (mut sorted, mut members) = (TaggedBTreeMap::new(TAG), TaggedBTreeSet::new(TAG));
    assert!(sorted.insert(5, 6).is_none() && members.insert(7));
    let mut heap = TaggedBinaryHeap::new(TAG);
    heap.push(8);
    let boxed = TaggedBox::new(TAG, 9);
    let aligned = TAG.aligned_box(64, 10);
    assert_eq!(
        (vec.into_vec(), &*text, *boxed, *aligned, heap.pop()),
        (vec![1, 2, 3], "text", 9, 10, Some(8))
    );
}

#[test]
fn events() -> Result<(), Error> {
    assert_eq!(
        (FIRST.name(), FIRST.is_read_only(), SECOND.is_read_only()),
        ("ApiFirst", false, true)
    );
    FIRST.set_enabled(true)?;
    assert!(
        matches!(&SECOND.set_enabled(true), Err(error) if error.kind() == ErrorKind::ReadOnlyChannel)
    );
    assert_eq!(FIRST.is_enabled(), TRACKED);
    assert_eq!(Channel::all().any(|channel| channel.name() == "ApiFirst"), TRACKED);
    assert_eq!(Channel::find("apifirst").is_some(), TRACKED);
    static MADE: Channel = Channel::new("ApiMade", false);
    assert!(!MADE.is_enabled(), "its first use");
    MADE.set_enabled(true)?;
    assert_eq!((MADE.is_enabled(), Channel::find("apimade").is_some()), (TRACKED, TRACKED));
    log!(FIRST, Kind { Name: AnsiText::Bytes(b"kind"), Id: 1 });
    log!(
        FIRST,
        Happened {
            A: 1,
            B: 2,
            C: 3,
            D: 4,
            E: 5,
            F: 6,
            G: 7,
            H: 8,
            I: 9.0,
            J: 10.0,
            K: true,
            Where: &raw const FIRST,
            Numbers: &[1],
            Places: &[2],
            Text: "text",
            Wide: WideText::Text("wide"),
            Kind: 1,
        }
    );
    let mut evaluated = 0;
    log!(
        FIRST | SECOND,
        Happened {
            A: {
                evaluated += 1;
                1
            }
        }
    );
    log_scope!(FIRST, Happened { B: 1 });
    assert_eq!(log_scope!(timed: FIRST, Happened { B: { evaluated += 1; 2 } }, { 3 }), 3);
    bookmark!("the {} of a test", {
        evaluated += 1;
        "moment"
    });
    assert_eq!(evaluated, if TRACKED { 2 } else { 0 });
    drop(LogScope::closed());
    Channel::set_enabled_by_name("ApiFirst", false)
}

#[test]
fn a_ledger_and_measurements() -> Result<(), Error> {
    let (kept, measured): (Vec<u8>, Result<Figures, Unmeasured>) = measure(|| vec![0_u8; 100]);
    assert_eq!(
        measured.map(|of| (of.allocations, of.live_bytes)).ok(),
        TRACKED.then_some((1, 100))
    );
    drop(kept);
    let exact: Budget = budget("all").peak_bytes(100).live_bytes(0).allocated_bytes(100);
    let exact = exact.live_blocks(0).allocations(1).frees(1).reallocations(0);
    assert_eq!(exact.try_run(|| drop(vec![0_u8; 100])).1.is_ok(), TRACKED);
    let (_, checked): (_, Result<Figures, BudgetError>) = exact.try_run(|| vec![0_u8; 100]);
    assert_eq!(matches!(checked, Err(BudgetError::Over { .. })), TRACKED);
    assert_eq!(
        std::panic::catch_unwind(|| budget("nothing").live_bytes(0).run(|| ())).is_ok(),
        TRACKED
    );

    let folder = std::env::temp_dir().join(format!("memledger-api-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let stopped = Ledger::builder()
        .report_on_exit(ReportTo::stderr())
        .trace_to_host("127.0.0.1")
        .report_on_signals(true)
        .watch(true)
        .control("no address")
        .start();
    assert_eq!(stopped.is_err(), TRACKED, "a setting that is not allowed");
    let ledger = Ledger::builder()
        .report_on_exit(ReportTo::file(folder.join("report.txt")).verbose(true).largest_live(3))
        .trace_to(Destination::file(folder.join("run.utrace")))
        .trace_to_file(folder.join("run.utrace"))
        .black_box_at(memledger::Limit::Bytes(u64::MAX))
        .rss_interval(Duration::ZERO)
        .analyze_in_process(true)
        .control("0")
        .control_token("token")
        .control_folder(&folder)
        .control_hosts(["localhost"])
        .follow_forks(false)
        .file_mode(0o600)
        .channels(["api"])
        .stacks(Stacks::Off)
        .stack_frames(16)
        .stack_memory(8 << 20)
        .worker(Worker::Manual)
        .buffer_limit(8 << 20)
        .on_full(OnFull::Drop)
        .start()?;
    let held = std::hint::black_box(vec![0_u8; 100]);
    ledger.collect();
    ledger.flush();
    let more = ledger.trace_to_file(folder.join("more.utrace"))?;
    ledger.trace_to(Destination::host("127.0.0.1:1"))?.stop();
    ledger.trace_to_host("127.0.0.1:1")?.stop();
    assert_eq!(
        (ledger.destinations().len(), ledger.control_address().is_some()),
        if TRACKED { (3, true) } else { (0, false) }
    );
    // It is a file and no ring.
    assert_eq!(more.dump(folder.join("ring.pftrace")).is_err(), TRACKED);
    more.flush();
    more.stop();
    assert_eq!(
        (more.status().state, more.status().written_bytes > 0),
        (DestinationState::Ended, TRACKED)
    );
    let (now, recent): (Stats, Stats) = (ledger.stats(), ledger.recent_stats());
    assert_eq!(
        (now.recording, recent.recording, now.live_bytes.is_some()),
        (TRACKED, TRACKED, TRACKED)
    );
    let snapshot: Option<Snapshot> = ledger.snapshot();
    assert_eq!(
        snapshot
            .map(|of| of.figures())
            .map(|of| of.live_bytes > 0 && of.live_blocks > 0 && of.peak_bytes > 0),
        TRACKED.then_some(true)
    );
    assert_eq!(without_threads(|| 4), 4);
    set_clock(|| 0);
    drop(held);
    assert_eq!(Ledger::current().is_some(), TRACKED);
    let told = ledger.problems();
    let error: Option<FinishError> = ledger.finish().err();
    assert!(error.as_ref().is_none_or(|error| !error.to_string().is_empty()));
    let problems: Vec<Problem> = error.map(|error| error.problems).unwrap_or_default();
    assert!(told.iter().all(|problem| problems.contains(problem)));
    assert_eq!(folder.join("report.txt").exists(), TRACKED);
    let is_expected = |problem: &Problem| {
        problem.kind() == ProblemKind::Output && problem.to_string().contains("127.0.0.1:1")
    };
    assert!(problems.iter().all(is_expected), "{problems:?}");

    let (again, rest) = Ledger::from_args(["-tracereport=off".into(), "file".into()]);
    assert_eq!(rest.last().expect("an argument"), "file");
    drop(again);
    drop(Ledger::from_env());
    std::fs::remove_dir_all(folder).expect("the folder");
    Ok(())
}

#[test]
fn public_types_have_the_same_auto_traits() {
    fn all<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe>() {}
    fn of_guards<T: Unpin + UnwindSafe + RefUnwindSafe>() {}
    // An I/O error is not safe across a panic.
    fn of_errors<T: Send + Sync + Unpin>() {}
    all::<(AnsiText<'_>, WideText<'_>, Budget, &Channel, ScopeContext, Destination)>();
    all::<(DestinationHandle, DestinationState, DestinationStatus, Figures, &Group, Ledger)>();
    all::<(Limit, Name, OnFull, Problem, ProblemKind, ReportTo, Snapshot, Stacks, Stats, Tag)>();
    all::<(Scoped<std::future::Ready<()>>, TrackingAllocator, Worker)>();
    all::<(TaggedBox<u8>, TaggedString, TaggedVec<u8>, TaggedVecDeque<u8>, TaggedBinaryHeap<u8>)>();
    all::<(TaggedBTreeMap<u8, u8>, TaggedBTreeSet<u8>)>();
    all::<(TaggedHashMap<u8, u8>, TaggedHashSet<u8>)>();
    of_guards::<(LogScope, ScopeGuard)>();
    of_errors::<(BudgetError, Error, LedgerBuilder, Unmeasured)>();
}
