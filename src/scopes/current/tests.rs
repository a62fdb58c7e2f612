use super::entries::SLOTS;
use super::overflow::MAX_OPEN;
use super::tree::NodeKind;
use super::*;
use crate::scopes::{Name, ScopeContext};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// What happens in one task: the thread's own code, or a future that it polls.
#[derive(Clone, Copy, Debug)]
enum Step {
    Enter,
    EnterGroup,
    /// Leaves the guard at this distance from the innermost: 0 is the right order.
    Leave(usize),
    /// Forgets the guard at this distance from the innermost.
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
    prop::collection::vec((0..TASKS, step), 0..200)
}

const TASKS: usize = 3;

/// The model: a stack of the scopes that are open in a task.
#[derive(Default)]
struct Task {
    open: Vec<(u32, Expected)>,
    held: Vec<(u32, Entered)>,
    context: Option<ScopeContext>,
}

type Expected = (u32, u32);

impl Task {
    fn expected(&self) -> Expected {
        self.open.last().map_or((ROOT, NONE), |&(_, expected)| expected)
    }

    fn check(&self) {
        let ids = super::current().unwrap().ids();
        assert_eq!((ids.stack, ids.tag), self.expected());
        let context = match ids.tag {
            NONE => ids.stack,
            tag => tree::find_or_add_context(ids.stack, tag).unwrap(),
        };
        assert_eq!(ids.context, context);
    }

    fn step(&mut self, step: Step) {
        // Each scope has another name, because scopes of one name have one node.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = Name::intern(&format!("scope {number}")).as_str();
        let (stack, tag) = self.expected();
        let scope = || tree::find_or_add(NodeKind::Scope, stack, NONE, name).unwrap();
        let owner = || tree::find_or_add(NodeKind::Tag, NONE, NONE, name).unwrap();
        let site = Location::caller();
        let (entered, expected) = match step {
            Step::Enter => (enter(name, site), (scope(), tag)),
            Step::EnterGroup => (enter_with_tag(name, NONE, name, site), (scope(), owner())),
            Step::Leave(back) | Step::Forget(back) => {
                let Some(at) = self.held.len().checked_sub(back + 1) else { return };
                let (number, entered) = self.held.remove(at);
                if let Step::Leave(_) = step {
                    leave(entered, site);
                    if let Some(at) = self.open.iter().position(|&(one, _)| one == number) {
                        self.open.truncate(at);
                    }
                }
                return;
            }
        };
        self.open.push((number, expected));
        self.held.push((number, entered));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..Default::default() })]
    #[test]
    fn a_thread_is_in_the_context_of_a_stack_of_open_scopes(steps in steps()) {
        let before = swap(ContextIds::ROOT);
        let mut tasks: [Task; TASKS] = Default::default();
        for (task, step) in steps {
            let task = &mut tasks[task];
            let mut context = task.context.unwrap_or(ScopeContext::current());
            context.resume(|| {
                task.check();
                task.step(step);
                task.check();
            });
            task.context = Some(context);
            prop_assert_eq!(super::context(), ROOT, "the thread is back in its context");
        }
        swap(before);
    }
}

#[test]
fn a_context_too_deep_or_refused_is_left_as_any() {
    let before = swap(ContextIds::ROOT);
    let site = Location::caller();
    let names = (0..300).map(|_| enter("deep", site)).collect::<Vec<_>>();
    assert_eq!(capture().stack, OTHER);
    let inner = enter_tag(NONE, "tag of (other)");
    assert_ne!(capture().context, OTHER);
    leave(inner, site);
    // Out of order: the scopes inside are left with it.
    leave(names[100], site);
    let expected = names[99].inside;
    assert_eq!(context(), expected);
    names[101..].iter().for_each(|&open| leave(open, site));
    assert_eq!(context(), expected);
    names[..100].iter().rev().for_each(|&open| leave(open, site));
    assert_eq!(context(), ROOT);
    swap(before);
}

/// The number of entries of the scope `name` outside all others.
fn entries_of(name: &'static str) -> u64 {
    let mut entries = Vec::new();
    entries::read(&mut entries);
    let node = tree::find_or_add(NodeKind::Scope, ROOT, NONE, name).unwrap();
    entries[node as usize]
}

#[test]
fn entries_are_exact_before_and_after_the_end_of_a_thread() {
    // These are more scopes than a thread caches, so they replace each other in the cache.
    let names = (0..3 * SLOTS).map(|number| Name::intern(&format!("entered {number}")).as_str());
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
            end_thread();
            check(1);
            // A destructor of a thread-local value that runs after the counters were returned does
            // this.
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
    let before = swap(ContextIds::ROOT);
    let measurement = tree::find_or_add(NodeKind::Scope, ROOT, 1, "measured").unwrap();
    let measured = enter_node(measurement);
    let mut deep = vec![enter("deeper", site)];
    while stack() != measurement {
        deep.push(enter("deeper", site));
    }
    // The last scope has no node. Enters it again, as a loop does.
    for _ in 0..10 {
        leave(deep.pop().unwrap(), site);
        deep.push(enter("deeper", site));
        assert_eq!(stack(), measurement);
    }
    deep.into_iter().rev().for_each(|open| leave(open, site));
    leave(measured, site);
    assert_eq!(context(), ROOT);
    let mut entries = Vec::new();
    entries::read(&mut entries);
    assert_eq!(entries[measurement as usize], 1, "the entry of the measurement itself");
    swap(before);
}

#[test]
fn entries_read_while_threads_count_are_never_too_many() {
    const ENTRIES: u64 = 20_000;
    let names = (0..2 * SLOTS).map(|number| Name::intern(&format!("read {number}")).as_str());
    let names = &names.collect::<Vec<_>>();
    let nodes = names.iter().map(|name| tree::find_or_add(NodeKind::Scope, ROOT, NONE, name));
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
            entries::read(&mut entries);
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
            swap(ContextIds { stack: OTHER, tag: NONE, context: OTHER });
            let current = super::current().unwrap();
            let first = 64 << 20;
            // A recursion uses more call stack for each scope, and another call stack is far away:
            // neither is a loop.
            for depth in 0..2 * MAX_OPEN as usize {
                assert!(!current.detect_skipped(first - 100 * depth, site));
            }
            assert!(!current.detect_skipped(first + (8 << 20), site));
            assert!(!current.detect_skipped(first - (8 << 20), site));
            assert!(
                current.detect_skipped(first, site),
                "as deep as the first scope, with all of them open"
            );

            // Scopes that are entered in another stack replace the counted scopes.
            swap(ContextIds { stack: OTHER, tag: NONE, context: OTHER });
            (0..MAX_OPEN as usize).for_each(|depth| {
                assert!(!current.detect_skipped(first - 100 * depth, site));
            });
            swap(ContextIds { stack: ROOT, tag: NONE, context: ROOT });
            assert!(!current.detect_skipped(first - (1 << 20), site));
            let inside = OTHER;
            let entered = Entered {
                before: ContextIds { stack: OTHER, tag: NONE, context: inside },
                inside: OVERFLOW | MAX_OPEN,
            };
            swap(entered.before);
            current.context.set(inside);
            leave(entered, site);
            assert_eq!(current.overflow.count(), 0, "their base is not known any more");
        });
    });
}
