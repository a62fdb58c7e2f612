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

/// The name of the cure, for the compiler to show: a scope belongs to the thread that entered it,
/// so it cannot be held across an `.await` of a task that moves, nor be sent away. Enter a scope
/// inside the function that runs on the other thread instead.
#[derive(Debug)]
struct EnterTheScopeOnTheThreadThatAllocates {
    _not_send: PhantomData<*const ()>,
}

/// An entered scope, left when dropped. [`alloc_scope!`](crate::alloc_scope) makes it.
///
/// It belongs to its thread:
/// ```compile_fail,E0277
/// let scope = memledger::ScopeGuard::enter("load");
/// std::thread::spawn(move || drop(scope));
/// ```
///
/// If a guard is forgotten, or dropped while scopes inside it are still open, leaving the scope
/// around it puts things right; the report counts it as `scope_misuses`.
#[must_use = "the scope is left when this is dropped"]
#[derive(Debug)]
pub struct ScopeGuard {
    #[cfg(feature = "enable")]
    open: Open,
    #[cfg(feature = "enable")]
    site: &'static Location<'static>,
    _not_send: PhantomData<EnterTheScopeOnTheThreadThatAllocates>,
}

#[cfg(feature = "enable")]
impl ScopeGuard {
    /// Enters a scope on this thread. About 8 ns with leaving it, once the thread has been in it
    /// before (`cargo bench --bench hook -- scopes`).
    #[inline]
    #[track_caller]
    pub fn enter(name: impl Into<Name>) -> Self {
        Self::new(thread::enter(name.into().as_str(), None))
    }

    /// Enters a scope whose allocations belong to `group`, unless something inside says otherwise.
    #[inline]
    #[track_caller]
    pub fn enter_group(group: &'static Group, name: impl Into<Name>) -> Self {
        /// What a group's memory is called where nobody has named it.
        const UNNAMED: &str = "Unnamed";
        Self::new(thread::enter(name.into().as_str(), Some((UNNAMED, group.node()))))
    }

    #[inline]
    #[track_caller]
    pub(super) fn enter_tag(tag: Tag) -> Self {
        Self::new(thread::enter_tag(tag.group().node(), tag.name().as_str()))
    }

    #[inline]
    #[track_caller]
    pub(super) fn enter_place(place: Place) -> Self {
        Self::new(thread::enter_place(place))
    }

    #[inline]
    #[track_caller]
    fn new(open: Open) -> Self {
        Self { open, site: Location::caller(), _not_send: PhantomData }
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
/// scope that the thread knows costs about 8 ns and writes nothing.
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
