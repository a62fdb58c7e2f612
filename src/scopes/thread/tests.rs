use super::*;
use crate::scopes::{Context, Name};
use proptest::prelude::*;
use std::sync::atomic::AtomicU32;

/// What happens in one of several lines of scopes: the thread's own, and those of futures.
#[derive(Clone, Copy, Debug)]
enum Step {
    Enter,
    EnterGroup,
    /// Leaves one that is held, counted from the innermost: 0 is the order that is right.
    Leave(usize),
    /// One is forgotten.
    Forget(usize),
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        6 => Just(Step::Enter),
        2 => Just(Step::EnterGroup),
        6 => Just(Step::Leave(0)),
        2 => (0..5_usize).prop_map(Step::Leave),
        1 => (0..3_usize).prop_map(Step::Forget),
    ];
    prop::collection::vec((0..LINES, step), 0..200)
}

const LINES: usize = 3;

/// A stack of what is open, as it is told.
#[derive(Default)]
struct Line {
    open: Vec<(u32, Expected)>,
    held: Vec<(u32, Open)>,
    context: Option<Context>,
}

type Expected = (u32, u32);

impl Line {
    fn place(&self) -> Expected {
        self.open.last().map_or((ROOT, NONE), |&(_, place)| place)
    }

    fn is_here(&self) {
        let place = super::place();
        assert_eq!((place.stack, place.tag), self.place());
        let context = match place.tag {
            NONE => place.stack,
            tag => context::find_or_add_context(place.stack, tag).unwrap(),
        };
        assert_eq!(place.context, context);
    }

    fn step(&mut self, step: Step) {
        // Names of their own: of two scopes of one name, the one is as good as the other.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = Name::intern(&format!("scope {number}")).as_str();
        let (stack, tag) = self.place();
        let scope = || context::find_or_add(Kind::Scope, stack, NONE, name).unwrap();
        let owner = || context::find_or_add(Kind::Tag, NONE, NONE, name).unwrap();
        let site = Location::caller();
        let (open, place) = match step {
            Step::Enter => (enter(name, site), (scope(), tag)),
            Step::EnterGroup => (enter_with_tag(name, NONE, name, site), (scope(), owner())),
            Step::Leave(back) | Step::Forget(back) => {
                let Some(at) = self.held.len().checked_sub(back + 1) else { return };
                let (number, open) = self.held.remove(at);
                if let Step::Leave(_) = step {
                    leave(open, site);
                    if let Some(at) = self.open.iter().position(|&(one, _)| one == number) {
                        self.open.truncate(at);
                    }
                }
                return;
            }
        };
        self.open.push((number, place));
        self.held.push((number, open));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..Default::default() })]
    #[test]
    fn a_thread_is_where_a_stack_of_what_is_open_says(steps in steps()) {
        let before = go(Place::ROOT);
        let mut lines: [Line; LINES] = Default::default();
        for (line, step) in steps {
            let line = &mut lines[line];
            let mut context = line.context.unwrap_or(Context::current());
            context.go_on(|| {
                line.is_here();
                line.step(step);
                line.is_here();
            });
            line.context = Some(context);
            prop_assert_eq!(super::context(), ROOT, "the thread is where it was");
        }
        go(before);
    }
}

#[test]
fn a_context_too_deep_or_refused_is_left_as_any() {
    let before = go(Place::ROOT);
    let site = Location::caller();
    let names = (0..300).map(|_| enter("deep", site)).collect::<Vec<_>>();
    assert_eq!(place().stack, OTHER);
    let inner = enter_tag(NONE, "tag of (other)");
    assert_ne!(place().context, OTHER);
    leave(inner, site);
    // Out of order, from far out: all inside is closed.
    leave(names[100], site);
    let expected = names[99].inside;
    assert_eq!(context(), expected);
    names[101..].iter().for_each(|&open| leave(open, site));
    assert_eq!(context(), expected);
    names[..100].iter().rev().for_each(|&open| leave(open, site));
    assert_eq!(context(), ROOT);
    go(before);
}

/// The number of entries of the scope `name` outside all others.
fn entries_of(name: &'static str) -> u64 {
    let mut entries = Vec::new();
    context::read_entries(&mut entries);
    let node = context::find_or_add(Kind::Scope, ROOT, NONE, name).unwrap();
    entries[node as usize]
}

#[test]
fn entries_are_exact_before_and_after_the_end_of_a_thread() {
    // More scopes than a thread caches, so that they replace each other's words.
    let names = (0..3 * CACHE).map(|number| Name::intern(&format!("entered {number}")).as_str());
    let names = names.collect::<Vec<_>>();
    let enter_all = |names: &[&'static str]| {
        for (number, name) in names.iter().enumerate() {
            (0..=number).for_each(|_| leave(enter(name, Location::caller()), Location::caller()));
        }
    };
    let check = |times: u64| {
        for (number, &name) in (1..).zip(&names) {
            assert_eq!(entries_of(name), times * number, "{name}");
        }
    };
    std::thread::scope(|threads| {
        let run = || {
            enter_all(&names);
            check(1);
            give_back_counters();
            check(1);
            // Like a destructor of a thread-local value that runs after the counters were given
            // back.
            enter_all(&names);
            check(2);
        };
        threads.spawn(run).join().unwrap();
    });
    check(2);
    // The next thread takes the same table.
    std::thread::scope(|threads| threads.spawn(|| enter_all(&names)).join().unwrap());
    check(3);
}

#[test]
fn a_measurement_counts_no_entry_of_a_scope_that_it_replaces() {
    let site = Location::caller();
    let before = go(Place::ROOT);
    let measurement = context::find_or_add(Kind::Scope, ROOT, 1, "measured").unwrap();
    let measured = enter_node(measurement);
    let mut deep = vec![enter("deeper", site)];
    while stack() != measurement {
        deep.push(enter("deeper", site));
    }
    // The last one has no place: it is entered again, as in a loop.
    for _ in 0..10 {
        leave(deep.pop().unwrap(), site);
        deep.push(enter("deeper", site));
        assert_eq!(stack(), measurement);
    }
    deep.into_iter().rev().for_each(|open| leave(open, site));
    leave(measured, site);
    assert_eq!(context(), ROOT);
    let mut entries = Vec::new();
    context::read_entries(&mut entries);
    assert_eq!(entries[measurement as usize], 1, "its own");
    go(before);
}

#[test]
fn entries_that_are_read_meanwhile_are_never_too_many() {
    const ENTRIES: u64 = 20_000;
    let names = (0..2 * CACHE).map(|number| Name::intern(&format!("read {number}")).as_str());
    let names = &names.collect::<Vec<_>>();
    let nodes = names.iter().map(|name| context::find_or_add(Kind::Scope, ROOT, NONE, name));
    let nodes = nodes.map(Option::unwrap).collect::<Vec<_>>();
    std::thread::scope(|threads| {
        let enter_all = move || {
            for number in 0..ENTRIES as usize {
                let site = Location::caller();
                leave(enter(names[number % names.len()], site), site);
            }
        };
        let running = [(); 3].map(|()| threads.spawn(enter_all));
        while !running.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            let mut entries = Vec::new();
            context::read_entries(&mut entries);
            let sum = nodes.iter().map(|node| entries[*node as usize]).sum::<u64>();
            assert!(sum <= 3 * ENTRIES, "{sum}");
        }
        running.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(names.iter().map(|name| entries_of(name)).sum::<u64>(), 3 * ENTRIES);
    });
}

#[test]
fn scopes_beyond_the_limit_are_skipped_only_where_the_stack_is_no_deeper() {
    let site = Location::caller();
    std::thread::scope(|threads| {
        threads.spawn(|| {
            go(Place { stack: OTHER, tag: NONE, context: OTHER });
            let thread = thread().unwrap();
            let first = 64 << 20;
            // A recursion: each is deeper. Another stack, above or below, is no loop.
            for depth in 0..2 * SKIPPED as usize {
                assert!(!thread.has_skipped(first - 100 * depth, site));
            }
            assert!(!thread.has_skipped(first + (8 << 20), site));
            assert!(!thread.has_skipped(first - (8 << 20), site));
            assert!(thread.has_skipped(first, site), "back where it began, with all of them open");

            // Scopes inside a context of another stack take the place of those that were counted.
            go(Place { stack: OTHER, tag: NONE, context: OTHER });
            (0..SKIPPED as usize).for_each(|depth| {
                assert!(!thread.has_skipped(first - 100 * depth, site));
            });
            go(Place { stack: ROOT, tag: NONE, context: ROOT });
            assert!(!thread.has_skipped(first - (1 << 20), site));
            let inside = OTHER;
            let open = Open {
                before: Place { stack: OTHER, tag: NONE, context: inside },
                inside: BEYOND | SKIPPED,
            };
            go(open.before);
            thread.context.set(inside);
            leave(open, site);
            assert_eq!(thread.beyond.get().open, 0, "where those began is not known any more");
        });
    });
}
