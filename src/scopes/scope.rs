//! Scopes: where in the program an allocation happens.

use super::{Group, Name};
#[cfg(feature = "enable")]
use super::{
    Tag,
    thread::{self, Open, Place},
};
use std::marker::PhantomData;
#[cfg(feature = "enable")]
use std::panic::Location;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// The name of the cure, for the compiler to show where a guard would go to another thread: sent
/// there, or held across an `.await` of a task that moves. Not `Send`, as nobody says it is.
trait ForFuturesUseTheirMethodAllocScopeForThreadsUseContext {}

/// An entered scope, left when dropped. [`alloc_scope!`](crate::alloc_scope) makes it.
///
/// It belongs to its thread: it cannot be sent to another ([`Context`](crate::Context) goes there
/// instead), nor held across an `.await` of a task that can move to another
/// ([`AllocScope`](crate::AllocScope) has scopes for futures). The compiler says so:
/// ```compile_fail,E0277
/// let scope = memledger::ScopeGuard::enter("load");
/// std::thread::spawn(move || drop(scope));
/// ```
/// ```compile_fail
/// # fn spawn(task: impl Future + Send) {}
/// # async fn receive() {}
/// spawn(async {
///     memledger::alloc_scope!("load");
///     receive().await;
/// });
/// ```
///
/// If a guard is forgotten, or dropped while scopes inside it are still open (as on executors of
/// one thread, where it compiles across an `.await`), leaving the scope around it puts things right.
/// The report counts such `scope_misuses`, and gives the place where the first was entered. If no
/// scope is around it, as when a loop forgets a guard in each round or a `longjmp` skips one, the
/// misuse is detected after 511 rounds at most: then all of them are counted, and the thread goes
/// back to the scope in which the rounds began, or to `GlobalScope` if each had another name. More
/// than 511 guards that one function keeps open at once look the same, and are closed.
#[must_use = "the scope is left when this is dropped"]
#[derive(Debug)]
pub struct ScopeGuard {
    #[cfg(feature = "enable")]
    open: Open,
    #[cfg(feature = "enable")]
    site: &'static Location<'static>,
    _not_send: PhantomData<dyn ForFuturesUseTheirMethodAllocScopeForThreadsUseContext>,
}

// All that the marker shall take away is `Send` and `Sync`.
impl Unpin for ScopeGuard {}
impl UnwindSafe for ScopeGuard {}
impl RefUnwindSafe for ScopeGuard {}

#[cfg(feature = "enable")]
impl ScopeGuard {
    /// Enters a scope on this thread. 2 to 3 ns with leaving it, once the thread has been in it
    /// before (`cargo bench --bench hook -- scopes`).
    #[inline]
    #[track_caller]
    pub fn enter(name: impl Into<Name>) -> Self {
        let site = Location::caller();
        Self::new(thread::enter(name.into().as_str(), site), site)
    }

    /// Enters a scope whose allocations belong to `group`, unless something inside says otherwise.
    #[inline]
    #[track_caller]
    pub fn enter_group(group: &'static Group, name: impl Into<Name>) -> Self {
        let (tag, group) = group.unnamed();
        let site = Location::caller();
        Self::new(thread::enter_with_tag(name.into().as_str(), group, tag, site), site)
    }

    #[inline]
    #[track_caller]
    pub(super) fn enter_tag(tag: Tag) -> Self {
        Self::new(thread::enter_tag(tag.group().node(), tag.name().as_str()), Location::caller())
    }

    #[inline]
    #[track_caller]
    pub(super) fn enter_place(place: Place) -> Self {
        Self::new(thread::enter_place(place), Location::caller())
    }

    #[inline]
    fn new(open: Open, site: &'static Location<'static>) -> Self {
        Self { open, site, _not_send: PhantomData }
    }
}

#[cfg(feature = "enable")]
impl Drop for ScopeGuard {
    #[inline]
    fn drop(&mut self) {
        thread::leave(self.open, self.site);
    }
}

#[cfg(not(feature = "enable"))]
impl ScopeGuard {
    /// Does nothing: tracking is compiled out.
    #[inline]
    pub fn enter(name: impl Into<Name>) -> Self {
        let _ = name;
        Self { _not_send: PhantomData }
    }

    /// Does nothing: tracking is compiled out.
    #[inline]
    pub fn enter_group(group: &'static Group, name: impl Into<Name>) -> Self {
        let _ = (group, name);
        Self { _not_send: PhantomData }
    }
}

#[cfg(not(feature = "enable"))]
impl Drop for ScopeGuard {
    fn drop(&mut self) {}
}

/// One entry on this thread's scope stack.
///
/// ```
/// use memledger::alloc_scope;
/// # fn load() -> Result<Vec<u8>, std::num::ParseIntError> {
/// // A block is a scope, and gives its value; `?`, `return` and `break` work in it.
/// let size: usize = alloc_scope!("parse", { "16".parse()? });
///
/// // As a statement: until the end of the block it stands in.
/// alloc_scope!("load level");
/// let level = vec![0; size];
/// # Ok(level) }
/// # assert_eq!(load().unwrap().len(), 16);
///
/// // With a group, allocations inside belong to it.
/// memledger::group! { pub AUDIO = "Audio"; }
/// let sound = alloc_scope!(group: AUDIO, "decode", { vec![0_i16; 44_100] });
/// # drop(sound);
/// ```
///
/// The name is a literal, a `&'static str` or a [`Name`](crate::Name). Entering and leaving a
/// scope that the thread knows costs 2 to 3 ns and writes nothing. A `String`, a `&String` or a
/// `&[u16]` of UTF-16 is interned each time, which costs a search of a shared table:
/// [`Name::intern`](crate::Name::intern), once, is cheaper.
#[macro_export]
macro_rules! alloc_scope {
    (group: $group:path, $name:expr, $body:block) => {{
        let _memledger_scope = $crate::ScopeGuard::enter_group(&$group, $name);
        $body
    }};
    (group: $group:path, $name:expr $(,)?) => {
        let _memledger_scope = $crate::ScopeGuard::enter_group(&$group, $name);
    };
    ($name:expr, $body:block) => {{
        let _memledger_scope = $crate::ScopeGuard::enter($name);
        $body
    }};
    ($name:expr $(,)?) => {
        let _memledger_scope = $crate::ScopeGuard::enter($name);
    };
}
