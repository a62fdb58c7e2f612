//! Finds the functions of allocators, and redirects them.

use super::{Redirected, renamed, stub};
use crate::interpose::c_threads;
use crate::interpose::roles::{self, Family, Meaning, Role};
use crate::platform::os::loaded::{self, Loaded};
use crate::platform::os::redirect::{self, Named, Object, Prefixed, Refusal, Room, Wanted};
use crate::platform::os::{self, next_malloc, other_allocators};
use crate::trace::worker;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// What was redirected, and what could not be.
pub(crate) struct Outcome {
    /// The functions, by name, and their addresses.
    redirected: Vec<(String, usize)>,
    moved: Vec<MovedCode>,
    /// Functions that are called at another address, and that address.
    entrances: Vec<(usize, usize)>,
    /// Whether the program has an allocator in itself that is redirected.
    pub(crate) has_program: bool,
    /// Those that are not recorded, in the order in which they were found.
    pub(crate) allocators: Vec<Allocator>,
    /// What was looked at last.
    loaded: Option<Loaded>,
    /// For each library that the program loads at the moment, how many threads it had made before.
    opening: Vec<u32>,
}

/// Where the moved instructions of an object are.
struct MovedCode {
    object: (usize, usize),
    pages: Range<usize>,
    #[expect(clippy::vec_box, reason = "the code in these pages has their addresses")]
    _functions: Vec<Box<Redirected>>,
}

/// Functions of an allocator that are not recorded.
#[derive(PartialEq)]
pub(crate) struct Allocator {
    /// Names of functions.
    pub(crate) functions: String,
    /// The file that has them.
    pub(crate) file: String,
    /// Why they could not be redirected.
    pub(crate) refusal: String,
}

static OUTCOME: Mutex<Outcome> = Mutex::new(Outcome {
    redirected: Vec::new(),
    moved: Vec::new(),
    entrances: Vec::new(),
    has_program: false,
    allocators: Vec::new(),
    loaded: None,
    opening: Vec::new(),
});

/// How long the outcome is waited for: in the child of a fork, another thread of the parent may have it for
/// ever.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The number of [`Outcome::allocators`].
static FOUND: AtomicUsize = AtomicUsize::new(0);

/// The number of allocators that were found and are not recorded.
pub(crate) fn found() -> usize {
    FOUND.load(Ordering::Acquire)
}

/// What was done; `None` if another thread has it for too long.
pub(crate) fn outcome() -> Option<MutexGuard<'static, Outcome>> {
    outcome_within(TIMEOUT)
}

/// The same with another patience.
pub(crate) fn outcome_within(timeout: Duration) -> Option<MutexGuard<'static, Outcome>> {
    worker::lock_within(&OUTCOME, timeout)
}

/// Whether the program has an allocator in itself that is recorded, and functions of its own for mapped
/// memory (tcmalloc): then it is not known what the allocator maps.
pub(crate) fn maps_unseen() -> bool {
    outcome().is_some_and(|outcome| outcome.has_program) && !loaded::is_called(c"sbrk")
}

/// Redirects the allocators of the program and its libraries, unless a library has started a thread, which
/// could be in them.
pub(crate) fn begin() {
    if let Some(mut outcome) = outcome() {
        outcome.redirect_new(os::has_one_thread);
    }
}

/// The program loads a library.
pub(crate) struct Opening {
    threads: u32,
}

impl Opening {
    pub(crate) fn begin() -> Option<Self> {
        let mut outcome = outcome()?;
        let threads = c_threads::made();
        outcome.opening.push(threads);
        Some(Self { threads })
    }

    /// Redirects the allocators of libraries that are new, unless a thread was made meanwhile, which could be
    /// in them. No older thread is: one that loads the same library waits here.
    pub(crate) fn end(self) {
        let Some(mut outcome) = outcome() else { return };
        if !outcome.loaded.as_ref().is_some_and(Loaded::is_still_all) {
            let before = outcome.opening.iter().min().copied();
            outcome.redirect_new(|| before == Some(c_threads::made()));
        }
        let own = outcome.opening.iter().position(|threads| *threads == self.threads);
        own.map(|own| outcome.opening.swap_remove(own));
    }
}

impl Outcome {
    /// Whether the function at an address is recorded.
    pub(crate) fn has(&self, address: usize) -> bool {
        self.redirected.iter().any(|(_, at)| *at == address)
    }

    /// Whether a function of this name is recorded.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.redirected.iter().any(|(it, _)| it == name)
    }

    fn add(&mut self, functions: String, object: &Object, refusal: String) {
        let file = other_allocators::file_of(object.addresses.0);
        let new = Allocator { functions, file, refusal };
        if !self.allocators.contains(&new) {
            self.allocators.push(new);
        }
    }

    /// Adds the functions of an object that were redirected.
    fn add_redirected(&mut self, done: &[&RedirectTarget<'_>], object: &Object) {
        self.has_program |= object.is_program && !done.is_empty();
        for wanted in done {
            for name in wanted.names.iter().map(|name| (*name).to_owned()) {
                if !self.has_name(&name) || !self.has(wanted.function.address) {
                    self.redirected.push((name, wanted.function.address));
                }
            }
        }
    }

    /// Redirects the allocators of what may be new since the last time.
    fn redirect_new(&mut self, is_alone: impl Fn() -> bool) {
        let before = self.loaded.replace(Loaded::now());
        let witnesses = roles::OF_ALLOCATORS.iter().flat_map(Family::witnesses).chain(["malloc"]);
        let witnesses = witnesses.filter_map(|name| CString::new(name).ok()).collect::<Vec<_>>();
        let wanted = Wanted {
            is_wanted: &is_of_interest,
            names: &names,
            witnesses: &witnesses,
            renamed: &renamed::RENAMED,
        };
        for mut object in redirect::objects(before.as_ref(), &wanted) {
            object.keep_those_that_answer();
            if let Err(why) = redirect_in(&object, &is_alone, self) {
                let first = object.functions.first().map_or(String::new(), |it| it.name.clone());
                self.add(first, &object, why);
            }
        }
        FOUND.store(self.allocators.len(), Ordering::Release);
    }

    /// Whether the function leads here already.
    fn is_redirected(&self, function: &Named) -> bool {
        let target = function.leads_to();
        target.is_some_and(|target| self.moved.iter().any(|it| it.pages.contains(&target)))
    }

    /// In the child of a fork: the threads that load libraries are the parent's.
    pub(crate) fn forget_threads(&mut self) {
        self.opening.clear();
    }

    /// Where to call a function that is at this address, so that it is recorded; `None` if it cannot be.
    pub(crate) fn entrance(&mut self, address: usize, role: Role) -> Option<usize> {
        if let Some((_, entrance)) = self.entrances.iter().find(|(of, _)| *of == address) {
            return Some(*entrance);
        }
        let (object, usable_size) = loaded::object_with(address, c"malloc_usable_size")?;
        if !next_malloc::note_nested(object) {
            return None;
        }
        let mut pages = redirect::Pages::near(object, 1).ok()?;
        let function = Box::new(Redirected::new(address, role, usable_size));
        let argument = ptr::from_ref(&*function).expose_provenance();
        let entrance = pages.add_entrance(stub as *const () as usize, argument).ok()?;
        let pages = pages.make().ok()?;
        self.moved.push(MovedCode { object, pages, _functions: vec![function] });
        self.entrances.push((address, entrance));
        Some(entrance)
    }

    /// Forgets objects that were unloaded: another one is where they were.
    fn forget_in(&mut self, (from, to): (usize, usize)) {
        self.entrances.retain(|(of, _)| !(from..to).contains(of));
        self.moved.retain(|old| {
            let is_there = old.object.0 < to && from < old.object.1;
            if is_there {
                redirect::give_back(old.pages.clone());
            }
            !is_there
        });
    }
}

impl Object {
    /// Leaves out the functions that only have names as those of an allocator.
    fn keep_those_that_answer(&mut self) {
        // SAFETY: it is the address of that function.
        let answers = |it: &Prefixed| unsafe { renamed::answers(it.allocator, it.witness) };
        let answer = self.renamed.iter().map(answers).collect::<Vec<_>>();
        self.functions.retain(|it| it.group.checked_sub(1).is_none_or(|at| answer[at]));
    }
}

fn is_of_interest(name: &[u8]) -> bool {
    let mut families = roles::OF_ALLOCATORS.iter().chain([&roles::OPERATORS, &roles::OF_C]);
    // PERF: most names of a large program are longer.
    name.len() <= roles::LONGEST && families.any(|family| family.meaning(name).is_some())
}

/// The names that are looked for in libraries. Those of C lead to this library already.
fn names() -> Vec<String> {
    let families = roles::OF_ALLOCATORS.iter().chain([&roles::OPERATORS]);
    families.flat_map(Family::names).chain(["malloc".to_owned()]).collect()
}

/// A function that is to be redirected, with all its names.
struct RedirectTarget<'a> {
    function: &'a Named,
    names: Vec<&'a str>,
    roles: Vec<Role>,
    usable_size: Option<usize>,
}

/// The functions of one object by their addresses.
fn wanted(object: &Object) -> BTreeMap<usize, RedirectTarget<'_>> {
    let mut all = BTreeMap::<usize, RedirectTarget<'_>>::new();
    for group in 0..=object.renamed.len() {
        let functions = object.functions.iter().filter(|it| it.group == group).collect::<Vec<_>>();
        add_wanted(&functions, object.is_program && group == 0, &mut all);
    }
    all
}

/// Adds the functions of one allocator, or of those with known names. `may_define_c`: those of C are looked
/// for, too. In a library, they are those that this library's lead to.
fn add_wanted<'a>(
    functions: &[&'a Named],
    may_define_c: bool,
    all: &mut BTreeMap<usize, RedirectTarget<'a>>,
) {
    let named = |name: &str| functions.iter().find(|it| it.known_as == name && !it.is_local);
    let is_there = |family: &&Family| {
        family.witnesses().any(|name| functions.iter().any(|it| it.known_as == name))
    };
    let mut families = roles::OF_ALLOCATORS.iter().filter(is_there).collect::<Vec<_>>();
    let has_malloc = named("malloc").is_some();
    if may_define_c && has_malloc {
        families.push(&roles::OF_C);
    }
    if !families.is_empty() || has_malloc {
        families.push(&roles::OPERATORS);
    }
    for family in families {
        let meaning = |it: &Named| family.meaning(it.known_as.as_bytes());
        let is_usable_size = |it: &&&Named| meaning(it) == Some(Meaning::UsableSize);
        let usable_size = functions.iter().find(is_usable_size);
        let usable_size = usable_size.or_else(|| named("malloc_usable_size")).map(|it| it.address);
        // What only one file of the program knows may be anything, unless its name is that of an allocator.
        let is_clear = |it: &&&Named| {
            !it.is_local || roles::OF_ALLOCATORS.iter().any(|of| ptr::eq(of, family))
        };
        for function in functions.iter().filter(is_clear) {
            let Some(Meaning::Role(role)) = meaning(function) else { continue };
            let new =
                RedirectTarget { function, names: Vec::new(), roles: Vec::new(), usable_size };
            let wanted = all.entry(function.address).or_insert(new);
            wanted.names.push(&function.name);
            wanted.roles.push(role);
        }
    }
}

/// Redirects the functions of one object.
///
/// # Errors
/// None could be redirected.
fn redirect_in(
    object: &Object,
    is_alone: impl Fn() -> bool,
    outcome: &mut Outcome,
) -> Result<(), String> {
    let all = wanted(object);
    if all.values().all(|wanted| outcome.is_redirected(wanted.function)) {
        return Ok(());
    }
    outcome.forget_in(object.addresses);
    if !is_alone() {
        return Err("a library has started a thread before".to_owned());
    }
    if !next_malloc::note_nested(object.addresses) {
        return Err("more than 8 libraries have functions of malloc".to_owned());
    }
    let mut pages =
        redirect::Pages::near(object.addresses, all.len()).map_err(|error| error.to_string())?;
    let mut rooms = Vec::new();
    let mut done = Vec::new();
    let mut functions = Vec::new();
    let mut refuse = |wanted: &RedirectTarget<'_>, why: &str| {
        outcome.add(wanted.names.join(", "), object, why.to_owned());
    };
    for wanted in all.values() {
        let role = wanted.roles[0];
        // One that only jumps to another of these needs no jump of its own.
        let target = wanted.function.leads_to().and_then(|target| all.get(&target));
        if target.is_some_and(|target| target.roles[0] == role) {
            done.push(wanted);
        } else if wanted.roles.iter().any(|other| *other != role) {
            refuse(wanted, "one function has the code of another");
        } else {
            match wanted.function.room() {
                Ok(room) => rooms.push((wanted, room)),
                Err(why) => refuse(wanted, &why.to_string()),
            }
        }
    }
    let places = rooms.iter().map(|(_, room)| room.place()).collect::<Vec<_>>();
    let entered = object.entered(&places);
    for (wanted, room) in rooms {
        let added = if entered.contains(&room.place()) {
            Err(Refusal::Entered)
        } else {
            add(wanted, &room, &mut pages).map(|function| functions.push(function))
        };
        match added {
            Ok(()) => done.push(wanted),
            Err(why) => refuse(wanted, &why.to_string()),
        }
    }
    let pages = pages.make().map_err(|error| error.to_string())?;
    outcome.moved.push(MovedCode { object: object.addresses, pages, _functions: functions });
    outcome.add_redirected(&done, object);
    Ok(())
}

/// Adds a function to those that are redirected together.
///
/// # Errors
/// Its first instructions cannot be moved.
fn add(
    wanted: &RedirectTarget<'_>,
    room: &Room,
    pages: &mut redirect::Pages,
) -> Result<Box<Redirected>, Refusal> {
    let function = Redirected::new(pages.next(), wanted.roles[0], wanted.usable_size);
    let function = Box::new(function);
    let address = ptr::from_ref(&*function).expose_provenance();
    pages.add(room, stub as *const () as usize, address).map(|()| function)
}
