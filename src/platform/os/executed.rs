//! What the watched process executes, in memory that it shares with its watcher: the program that replaces
//! it, and the programs that it starts as children which are no followed forks, and forks that are not
//! followed.
//!
//! NOTE: the child of a `vfork` writes here, in its parent's memory: only stores, and no system call after
//! the one that fails.

use crate::platform::chunk_table::Zeroed;
use crate::platform::clock;
use std::array;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The most bytes of a name: the last ones.
const NAME: usize = 252;
/// How many started programs are kept until the worker has seen them.
const STARTED: usize = 512;

/// Zeroed memory is valid.
#[repr(C)]
pub(crate) struct Executed {
    /// The process that is watched; 0 if none is.
    process: AtomicU32,
    /// Whether programs that it starts are recorded.
    follows: AtomicU32,
    /// When it was replaced; 0 if it was not.
    at: AtomicU64,
    program: Name,
    /// Set by the watcher: the program that replaced it has no trace.
    is_last: AtomicU32,
    /// How many programs were started; each has the place of its number.
    count: AtomicU32,
    started: [Started; STARTED],
}

/// In the place of the number of a process that is not known.
pub(crate) const NO_NUMBER: u32 = u32::MAX;

type Name = [AtomicU8; NAME];

#[repr(C)]
struct Started {
    /// 0 while it is written.
    process: AtomicU32,
    /// Empty if it could not be executed.
    name: Name,
}

// SAFETY: it has atomics only.
#[expect(unsafe_code, reason = "shared memory")]
unsafe impl Zeroed for Executed {}

/// What this process writes to; null before it is first watched.
static OWN: AtomicPtr<Executed> = AtomicPtr::new(ptr::null_mut());

/// What was noted of a call that has not returned.
#[derive(Clone, Copy)]
pub(crate) enum Noted {
    Nothing,
    Replaces(&'static Executed),
    Starts(&'static Executed, u32),
}

/// Whether what the calling process executes is recorded.
pub(crate) fn is_recorded() -> bool {
    own().is_some_and(|own| match own.process.load(Ordering::Relaxed) {
        0 => false,
        process if process == super::process_id() => true,
        process => own.follows_children() && process == super::parent_process_id(),
    })
}

/// Whether what the calling process starts is recorded.
pub(crate) fn follows() -> bool {
    own().is_some_and(|own| {
        own.follows_children() && own.process.load(Ordering::Relaxed) == super::process_id()
    })
}

/// The calling process is about to execute the program `name`. For [`Noted::failed`], if that returns.
pub(crate) fn executes(name: &[u8]) -> Noted {
    let Some(own) = own() else { return Noted::Nothing };
    let process = own.process.load(Ordering::Relaxed);
    let id = super::process_id();
    if process == 0 {
        Noted::Nothing
    } else if process == id {
        own.replaced_by(name, clock::now_since_start());
        Noted::Replaces(own)
    } else if super::parent_process_id() == process {
        own.add_started(id, name);
        Noted::Starts(own, id)
    } else {
        Noted::Nothing
    }
}

/// The calling process has started the program `name`, as the process `id`, or [`NO_NUMBER`].
pub(crate) fn has_started(id: u32, name: &[u8]) {
    if let Some(own) = own()
        && own.process.load(Ordering::Relaxed) == super::process_id()
    {
        own.add_started(id, name);
    }
}

impl Noted {
    /// It could not be executed. Leaves `errno` alone.
    pub(crate) fn failed(self) {
        match self {
            Self::Nothing => {}
            Self::Replaces(own) => own.at.store(0, Ordering::Release),
            Self::Starts(own, id) => own.add_started(id, b""),
        }
    }
}

/// What this process has executed, or the one that this process, a watcher, is of.
pub(crate) fn own() -> Option<&'static Executed> {
    // SAFETY: `begin` has stored a static.
    #[expect(unsafe_code, reason = "shared memory")]
    unsafe {
        OWN.load(Ordering::Acquire).as_ref()
    }
}

impl Executed {
    /// The calling process is watched from now on.
    pub(crate) fn begin(&'static self, follows: bool) {
        self.at.store(0, Ordering::Relaxed);
        self.follows.store(follows.into(), Ordering::Relaxed);
        self.process.store(super::process_id(), Ordering::Release);
        OWN.store(ptr::from_ref(self).cast_mut(), Ordering::Release);
    }

    /// The process has been replaced by the program `name`, or by one that allocates nothing.
    pub(crate) fn replaced_by(&self, name: &[u8], at: u64) {
        set(&self.program, name);
        self.at.store(at, Ordering::Release);
    }

    /// The process that is watched, as it sees itself.
    pub(crate) fn process(&self) -> u32 {
        self.process.load(Ordering::Relaxed)
    }

    /// When it was replaced.
    pub(crate) fn replaced_at(&self) -> Option<u64> {
        Some(self.at.load(Ordering::Acquire)).filter(|at| *at != 0)
    }

    /// The program that replaced it has no trace.
    pub(crate) fn set_last(&self) {
        self.is_last.store(1, Ordering::Relaxed);
    }

    /// The program without a trace that has replaced it, and when; `None` if that allocates nothing.
    pub(crate) fn unrecorded(&self) -> Option<(u64, Vec<u8>)> {
        let at = self.replaced_at().filter(|_| self.is_last.load(Ordering::Relaxed) != 0)?;
        Some((at, get(&self.program))).filter(|(_, program)| !program.is_empty())
    }

    pub(crate) fn follows_children(&self) -> bool {
        self.follows.load(Ordering::Relaxed) != 0
    }

    fn add_started(&self, id: u32, name: &[u8]) {
        let number = self.count.fetch_add(1, Ordering::Relaxed) as usize;
        if let Some(started) = self.started.get(number % STARTED) {
            started.process.store(0, Ordering::Release);
            set(&started.name, name);
            started.process.store(id, Ordering::Release);
        }
    }

    /// The programs that were started from the number `from` on, with their processes, and how many there are
    /// now. A name is empty if the one before it of that process could not be executed.
    pub(crate) fn started_from(&self, from: u32) -> (Vec<(u32, Vec<u8>)>, u32) {
        let to = self.count.load(Ordering::Acquire);
        let from = from.max(to.saturating_sub(STARTED as u32));
        let read = |number| {
            let started = self.started.get(number as usize % STARTED)?;
            let process = Some(started.process.load(Ordering::Acquire)).filter(|it| *it != 0)?;
            Some((process, get(&started.name)))
        };
        let read: Vec<_> = (from..to).map_while(read).collect();
        let next = from + read.len() as u32;
        (read, next)
    }
}

/// The programs of [`Executed::started_from`] that could be executed.
pub(crate) fn successful(started: &[(u32, Vec<u8>)]) -> impl Iterator<Item = &Vec<u8>> {
    started.iter().enumerate().filter_map(|(at, (process, program))| {
        let next = started[at + 1..].iter().find(|(other, _)| other == process);
        let has_failed = *process != NO_NUMBER && next.is_some_and(|(_, next)| next.is_empty());
        (!program.is_empty() && !has_failed).then_some(program)
    })
}

fn set(to: &Name, name: &[u8]) {
    let name = name.get(name.len().saturating_sub(NAME - 1)..).unwrap_or_default();
    to.iter()
        .zip(name.iter().chain([&0]))
        .for_each(|(to, byte)| to.store(*byte, Ordering::Relaxed));
}

fn get(name: &Name) -> Vec<u8> {
    let bytes: [u8; NAME] = array::from_fn(|at| name[at].load(Ordering::Relaxed));
    bytes.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeroed() -> &'static Executed {
        let pages = crate::platform::os::map(size_of::<Executed>()).unwrap();
        // SAFETY: zeroed pages, which are never unmapped.
        #[expect(unsafe_code, reason = "shared memory")]
        unsafe {
            pages.cast().as_ref()
        }
    }

    #[test]
    fn what_replaces_the_process_is_said_only_if_it_is_the_last_and_has_a_name() {
        let executed = zeroed();
        executed.replaced_by(b"./program", 7);
        assert_eq!((executed.replaced_at(), executed.unrecorded()), (Some(7), None));
        executed.set_last();
        assert_eq!(executed.unrecorded(), Some((7, b"./program".to_vec())));
        Noted::Replaces(executed).failed();
        assert_eq!((executed.replaced_at(), executed.unrecorded()), (None, None));
        executed.replaced_by(b"", 8);
        assert_eq!((executed.replaced_at(), executed.unrecorded()), (Some(8), None));
        let long = [&[b'a'; 300][..], b"end"].concat();
        executed.replaced_by(&long, 9);
        assert_eq!(executed.unrecorded().unwrap().1, long[long.len() - NAME + 1..]);
    }

    #[test]
    fn started_programs_are_there_once() {
        let executed = zeroed();
        assert_eq!(executed.started_from(0), (vec![], 0));
        executed.follows.store(1, Ordering::Relaxed);
        executed.add_started(1, b"a");
        Noted::Starts(executed, 1).failed();
        executed.add_started(1, b"b");
        let text = |bytes: &[u8]| bytes.to_vec();
        let all = vec![(1, text(b"a")), (1, text(b"")), (1, text(b"b"))];
        assert_eq!(successful(&all).collect::<Vec<_>>(), [b"b"]);
        assert_eq!(executed.started_from(0), (all, 3));
        assert_eq!(executed.started_from(2), (vec![(1, text(b"b"))], 3));
        assert_eq!(executed.started_from(3), (vec![], 3));
        (0..STARTED as u32).for_each(|id| executed.add_started(100 + id, b"c"));
        let (last, next) = executed.started_from(0);
        assert_eq!((last.len(), last[0].0, next), (STARTED, 100, 3 + STARTED as u32));
        // One more, which is being written.
        executed.add_started(0, b"d");
        assert_eq!(executed.started_from(next), (vec![], next));
    }
}
