//! The types of events in the stream, and what their events are to a session.

use super::ProgramType;
use crate::perfetto::config::TrackEventConfig;
use crate::perfetto::tracker::emit::{self, Form};
use crate::trace::write::declared::{self, Logged};
use memledger_format::encode::Declaration;
use memledger_format::layout::{ByUid, EventLayout};
use memledger_format::stream_events::{LOST, THREAD_START};

/// What the events of a type are to a session.
#[derive(Clone, Copy)]
pub(super) enum TypeRole {
    TrackEvent(Form),
    /// Another event of the program: the index of its type.
    Program(u16),
    ThreadStart,
    Lost,
    /// Of memory: a thread enters a context, allocates, and corrects its last allocation.
    MemoryScope,
    Allocation,
    LargeSize,
    ReallocFailed,
    Other,
}

/// The role of a type of the tracker; types of memory have one only in a session `with_memory`.
fn role_of(declaration: &Declaration, with_memory: bool) -> TypeRole {
    match (declaration.logger, declaration.event) {
        _ if declaration.uid == THREAD_START.uid => TypeRole::ThreadStart,
        _ if declaration.uid == LOST.uid => TypeRole::Lost,
        _ if !with_memory => TypeRole::Other,
        ("Memory", "MemoryScope") => TypeRole::MemoryScope,
        ("Memory", "AllocSystem" | "ReallocAllocSystem") => TypeRole::Allocation,
        ("Memledger", "LargeSize") => TypeRole::LargeSize,
        ("Memledger", "ReallocFailed") => TypeRole::ReallocFailed,
        _ => TypeRole::Other,
    }
}

/// See the [module](self).
pub(super) struct Types {
    all: ByUid<(EventLayout, TypeRole)>,
    /// How many of them are the program's.
    learned: usize,
    /// Those of `log!` that the session wants.
    programs: Vec<ProgramType>,
}

impl Types {
    pub(super) fn new(types: &[&'static [&'static Declaration]], with_memory: bool) -> Self {
        let mut all = ByUid::default();
        for declaration in types.iter().copied().flatten() {
            all.insert(declaration.uid, (declaration.layout(), role_of(declaration, with_memory)));
        }
        Self { all, learned: 0, programs: Vec::new() }
    }

    #[inline]
    pub(super) fn get(&self, uid: u16) -> Option<(EventLayout, TypeRole)> {
        self.all.get(uid)
    }

    pub(super) fn program(&self, index: u16) -> Option<&ProgramType> {
        self.programs.get(usize::from(index))
    }

    /// Adds the program's new types. NOTE: a type is in the table before its first event is written.
    pub(super) fn learn(&mut self, config: &TrackEventConfig) {
        while let Some(logged) = declared::registered(self.learned) {
            let role = match emit::form_of(logged.declared()) {
                Some(form) => TypeRole::TrackEvent(form),
                None => self.learn_program(logged, config),
            };
            self.all.insert(declared::uid_of(self.learned), (logged.declared().layout(), role));
            self.learned += 1;
        }
    }

    /// The role of a type of `log!`: none unless the session enables all its channels.
    fn learn_program(&mut self, logged: &Logged, config: &TrackEventConfig) -> TypeRole {
        let known = ProgramType::of(logged);
        let is_wanted = |category: &&str| config.enables_name(category, &[]);
        if known.categories.is_empty() || !known.categories.iter().all(is_wanted) {
            return TypeRole::Other;
        }
        self.programs.push(known);
        u16::try_from(self.programs.len() - 1).map_or(TypeRole::Other, TypeRole::Program)
    }
}
