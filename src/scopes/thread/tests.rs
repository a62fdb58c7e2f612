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
            Step::Enter => (enter(name), (scope(), tag)),
            Step::EnterGroup => (enter_with_tag(name, NONE, name), (scope(), owner())),
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
    let names = (0..300).map(|_| enter("deep")).collect::<Vec<_>>();
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
