//! Finds the functions of allocators, and redirects them.

use super::{Redirected, stub};
use crate::alloc::roles::{self, Family, Meaning, Role};
use crate::platform::os;
use crate::platform::os::next_malloc;
use crate::platform::os::redirect::{self, Named, Object, Refusal, Room};
use std::collections::BTreeMap;
use std::ptr;
use std::sync::OnceLock;

/// What was redirected, and what could not be.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The functions, by name, and their addresses.
    redirected: Vec<(String, usize)>,
    /// Whether the program has an allocator in itself that is redirected.
    pub(crate) has_program: bool,
    pub(crate) refused: Vec<Refused>,
}

/// A function that could not be redirected.
pub(crate) struct Refused {
    /// Its names.
    pub(crate) functions: String,
    /// An address in the object that has it.
    pub(crate) object: usize,
    pub(crate) why: String,
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
}

static OUTCOME: OnceLock<Outcome> = OnceLock::new();

/// What [`begin`] has done.
pub(crate) fn outcome() -> Option<&'static Outcome> {
    OUTCOME.get()
}

/// Redirects the allocators of the program and its libraries, unless a library has started a thread, which could be in them.
pub(crate) fn begin() {
    let mut outcome = Outcome::default();
    let witnesses = roles::OF_ALLOCATORS.iter().flat_map(Family::witnesses).chain(["malloc"]);
    let witnesses = witnesses.map(str::to_owned).collect::<Vec<_>>();
    for object in redirect::objects(is_of_interest, &witnesses, names) {
        if let Err(why) = redirect_in(&object, &mut outcome) {
            let first = object.functions.first().map_or(String::new(), |it| it.name.clone());
            outcome.refused.push(Refused { functions: first, object: object.addresses.0, why });
        }
    }
    let _ = OUTCOME.set(outcome);
}

/// Whether a name is one of an allocator.
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
struct Wanted<'a> {
    function: &'a Named,
    names: Vec<&'a str>,
    roles: Vec<Role>,
    usable_size: Option<usize>,
}

/// The functions of one object by their addresses.
fn wanted(object: &Object) -> BTreeMap<usize, Wanted<'_>> {
    let named = |name: &str| object.functions.iter().find(|it| it.name == name && !it.is_local);
    let is_there = |family: &&Family| {
        family.witnesses().any(|name| object.functions.iter().any(|it| it.name == name))
    };
    let mut families = roles::OF_ALLOCATORS.iter().filter(is_there).collect::<Vec<_>>();
    // In a library, the functions of C are those that this library's lead to.
    let has_malloc = named("malloc").is_some();
    if object.is_program && has_malloc {
        families.push(&roles::OF_C);
    }
    if !families.is_empty() || has_malloc {
        families.push(&roles::OPERATORS);
    }
    let mut all = BTreeMap::<usize, Wanted<'_>>::new();
    for family in families {
        let meaning = |it: &&Named| family.meaning(it.name.as_bytes());
        let is_usable_size = |it: &&Named| meaning(it) == Some(Meaning::UsableSize);
        let usable_size = object.functions.iter().find(is_usable_size);
        let usable_size = usable_size.or_else(|| named("malloc_usable_size")).map(|it| it.address);
        // What only one file of the program knows may be anything, unless its name is that of an allocator.
        let is_clear =
            |it: &&Named| !it.is_local || roles::OF_ALLOCATORS.iter().any(|of| ptr::eq(of, family));
        for function in object.functions.iter().filter(is_clear) {
            let Some(Meaning::Role(role)) = meaning(&function) else { continue };
            let new = Wanted { function, names: Vec::new(), roles: Vec::new(), usable_size };
            let wanted = all.entry(function.address).or_insert(new);
            wanted.names.push(&function.name);
            wanted.roles.push(role);
        }
    }
    all
}

/// Redirects the functions of one object.
///
/// # Errors
/// None could be redirected.
fn redirect_in(object: &Object, outcome: &mut Outcome) -> Result<(), String> {
    let all = wanted(object);
    if all.is_empty() {
        return Ok(());
    }
    if !os::has_one_thread() {
        return Err("a library has started a thread before".to_owned());
    }
    if !next_malloc::note_nested(object.addresses) {
        return Err("more than 8 libraries have functions of malloc".to_owned());
    }
    let mut pages =
        redirect::Pages::near(object.addresses, all.len()).map_err(|error| error.to_string())?;
    let mut rooms = Vec::new();
    let mut done = Vec::new();
    let mut refuse = |wanted: &Wanted<'_>, why: &str| {
        let functions = wanted.names.join(", ");
        outcome.refused.push(Refused {
            functions,
            object: object.addresses.0,
            why: why.to_owned(),
        });
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
            add(wanted, &room, &mut pages)
        };
        match added {
            Ok(()) => done.push(wanted),
            Err(why) => refuse(wanted, &why.to_string()),
        }
    }
    pages.make().map_err(|error| error.to_string())?;
    outcome.has_program |= object.is_program && !done.is_empty();
    for wanted in done {
        let names = wanted.names.iter().map(|name| (*name).to_owned());
        outcome.redirected.extend(names.map(|name| (name, wanted.function.address)));
    }
    Ok(())
}

/// Adds a function to those that are redirected together.
///
/// # Errors
/// Its first instructions cannot be moved.
fn add(wanted: &Wanted<'_>, room: &Room, pages: &mut redirect::Pages) -> Result<(), Refusal> {
    let role = wanted.roles[0];
    let make = |original| Redirected::kept(original, role, wanted.usable_size);
    pages.add(room, stub as *const () as usize, make)
}
