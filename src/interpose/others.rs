//! What the program has beside the tracker and the C library's allocator, as events: allocators, whose blocks
//! are in no other event, and other copies of this crate.

#[cfg(redirects)]
use super::{c_dlsym, redirected};
#[cfg(other_allocators)]
use crate::platform::os::other_allocators::{self, Found, OtherAllocator};
use crate::platform::os::{copies, executed};
use crate::trace::worker::{EventProvider, Importants};
use memledger_format::encode::Declaration;
use memledger_format::schema::{
    FieldType::{AnsiString, U8},
    IMPORTANT, NO_SYNC, untracked,
};
use memledger_format::words::text_of;

/// Blocks or scopes of the program are not recorded: a [reason](memledger_format::schema::untracked), the
/// function that allocates them, and the file that has it. For scopes, the version of the copy that has them,
/// and that of this one.
static UNTRACKED: Declaration = Declaration {
    uid: 46,
    logger: "Memledger",
    event: "Untracked",
    flags: IMPORTANT | NO_SYNC,
    fields: &[("Reason", U8), ("Function", AnsiString), ("File", AnsiString)],
};

/// At most this many programs are announced that are not followed.
const MAX_PROGRAMS: usize = 16;

static TYPES: &[&Declaration] = &[&UNTRACKED];

/// Looks for them when a recording begins. Later it adds allocators in libraries that the program opens.
pub(crate) struct Others {
    announced: bool,
    /// How many programs that were started were announced.
    started: u32,
    /// Those that are not followed.
    not_followed: Vec<Vec<u8>>,
    is_in_watcher: bool,
    /// How many of [`redirected::Outcome::allocators`] were announced.
    #[cfg(redirects)]
    later: usize,
    #[cfg(redirects)]
    has_unrecorded: bool,
}

impl Others {
    pub(crate) fn new() -> Self {
        Self {
            announced: false,
            started: 0,
            not_followed: Vec::new(),
            is_in_watcher: false,
            #[cfg(redirects)]
            later: 0,
            #[cfg(redirects)]
            has_unrecorded: false,
        }
    }

    /// Announces what is new of the functions that lead to the tracker, or could not.
    #[cfg(redirects)]
    fn announce_redirected(&mut self, mut add: impl FnMut(u8, &str, &str)) {
        if redirected::found() == self.later {
            return;
        }
        let Some(outcome) = redirected::outcome() else { return };
        for allocator in &outcome.allocators[self.later..] {
            let function = format!("{} ({})", allocator.functions, allocator.refusal);
            add(untracked::ALLOCATOR, &function, &allocator.file);
        }
        self.later = outcome.allocators.len();
    }
}

impl EventProvider for Others {
    fn types(&self) -> &'static [&'static Declaration] {
        TYPES
    }

    fn position(&self) -> u64 {
        self.started.into()
    }

    fn continue_after(&mut self, position: u64) -> bool {
        (self.started, self.is_in_watcher) = (position as u32, true);
        true
    }

    fn announce(&mut self, importants: &mut Importants) {
        let mut add = |reason: u8, function: &str, file: &str| {
            importants.add(&UNTRACKED, &[u32::from(reason).into(), function.into(), file.into()]);
        };
        if let Some(executed) = executed::own() {
            let (started, next) = executed.started_from(self.started);
            self.started = next;
            if executed.follows_children() {
                for (process, program) in started {
                    let number = Some(process).filter(|it| *it != executed::NO_NUMBER);
                    let number = number.map_or(String::new(), |number| number.to_string());
                    add(untracked::STARTED, &number, &text_of(&program));
                }
            } else {
                for program in executed::successful(&started) {
                    let is_new = !self.not_followed.contains(program);
                    if is_new && self.not_followed.len() < MAX_PROGRAMS {
                        add(untracked::NOT_FOLLOWED, "", &text_of(program));
                        self.not_followed.push(program.clone());
                    }
                }
            }
            if let Some((at, program)) = executed.unrecorded() {
                add(untracked::REPLACED, &at.to_string(), &text_of(&program));
            }
        }
        if self.is_in_watcher {
            return;
        }
        #[cfg(redirects)]
        {
            self.announce_redirected(&mut add);
            if !self.announced && redirected::maps_unseen() {
                add(untracked::RECORDED, "sbrk", "");
            }
            if !self.has_unrecorded
                && let Some((function, address)) = c_dlsym::unrecorded()
            {
                self.has_unrecorded = true;
                add(untracked::HANDLE, function, &other_allocators::file_of(*address));
            }
        }
        if std::mem::replace(&mut self.announced, true) {
            return;
        }
        copies::others().iter().for_each(|version| add(untracked::SCOPES, version, copies::OWN));
        #[cfg(other_allocators)]
        for found in other_allocators::find().iter().filter(|found| !is_redirected(found)) {
            let reason = match found.allocator {
                OtherAllocator::Malloc => untracked::MALLOC,
                OtherAllocator::New => untracked::NEW,
                OtherAllocator::Named => untracked::ALLOCATOR,
                OtherAllocator::Go => untracked::GO,
                OtherAllocator::Unknown => untracked::UNREADABLE,
            };
            add(reason, found.function, &found.file);
        }
    }
}

/// Whether the functions of an allocator lead to the tracker.
#[cfg(redirects)]
fn is_redirected(found: &Found) -> bool {
    redirected::outcome().is_some_and(|outcome| match found.allocator {
        OtherAllocator::Malloc | OtherAllocator::New => outcome.has(found.address),
        OtherAllocator::Named => outcome.has_program || outcome.has_name(found.function),
        OtherAllocator::Go | OtherAllocator::Unknown => false,
    })
}

#[cfg(all(other_allocators, not(redirects)))]
fn is_redirected(_: &Found) -> bool {
    false
}
