//! Scopes: where in the program an allocation happens.

use super::current::{self, ContextIds, Entered, Site};
use super::{Group, Name, Tag};
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// Makes a guard not `Send`, so that it cannot move to another thread. The error of the compiler
/// contains the name of this trait, which names the alternatives.
trait ForFuturesUseTheirMethodAllocScopeForThreadsUseScopeContext {}

/// An entered scope, left when dropped. [`alloc_scope!`](crate::alloc_scope) makes it.
///
/// A guard cannot be sent to another thread; send a [`ScopeContext`](crate::ScopeContext) instead. It cannot
/// be held across an `.await` of a task that can move to another thread; use
/// [`AllocScope`](crate::AllocScope) for futures. Both are errors of the compiler:
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
/// A guard can be forgotten, or dropped while scopes inside it are still open (on executors of one
/// thread, a guard across an `.await` compiles). The next time that a scope around the guard is
/// left, this is corrected. The report counts such guards as `scope_misuses`, and gives the source
/// location of the first. If no scope around the guard is left, because a loop forgets a guard in
/// each round, or a `longjmp` skips one in each round, the misuse is detected after at most 511
/// rounds. Then all of these scopes are counted, and the thread returns to the scope around the
/// loop, or to `GlobalScope` if each round used another name. If one function keeps more than 511
/// guards open at once, they are taken for such a loop, and are closed.
#[must_use = "the scope is left when this is dropped"]
#[doc(alias = "span")]
#[derive(Debug)]
pub struct ScopeGuard {
    entered: Entered,
    site: Site,
    _not_send: PhantomData<dyn ForFuturesUseTheirMethodAllocScopeForThreadsUseScopeContext>,
}

// The marker removes `Send` and `Sync` only.
impl Unpin for ScopeGuard {}
impl UnwindSafe for ScopeGuard {}
impl RefUnwindSafe for ScopeGuard {}

impl ScopeGuard {
    /// Enters a scope on this thread. Entering and leaving cost 2 to 3 ns, from the second time on
    /// this thread (`cargo bench --bench hook -- scopes`).
    ///
    /// ```
    /// use memledger::ScopeGuard;
    ///
    /// let scope = ScopeGuard::enter("load level");
    /// let level = vec![0_u8; 100]; // in GlobalScope / load level
    /// drop(scope);
    /// # drop(level);
    /// ```
    #[inline]
    #[track_caller]
    pub fn enter(name: impl Into<Name>) -> Self {
        let site = current::here();
        Self::new(current::enter(name.into().as_str(), site), site)
    }

    /// Enters a scope. Allocations in it belong to `group`, except those in an inner scope or tag
    /// of another group.
    ///
    /// ```
    /// use memledger::{ScopeGuard, group};
    ///
    /// group! { RENDERING = "Rendering"; }
    ///
    /// let scope = ScopeGuard::enter_group(&RENDERING, "frame");
    /// let vertices = vec![0.0_f32; 1024]; // of the group Rendering, in the scope frame
    /// drop(scope);
    /// # drop(vertices);
    /// ```
    #[inline]
    #[track_caller]
    pub fn enter_group(group: &'static Group, name: impl Into<Name>) -> Self {
        let (tag, group) = group.unnamed();
        let site = current::here();
        Self::new(current::enter_with_tag(name.into().as_str(), group, tag, site), site)
    }

    #[inline]
    #[track_caller]
    pub(super) fn enter_tag(tag: Tag) -> Self {
        Self::new(current::enter_tag(tag.group().node(), tag.name().as_str()), current::here())
    }

    #[inline]
    #[track_caller]
    pub(super) fn enter_context(ids: ContextIds) -> Self {
        Self::new(current::enter_context(ids), current::here())
    }

    #[inline]
    fn new(entered: Entered, site: Site) -> Self {
        Self { entered, site, _not_send: PhantomData }
    }
}

impl Drop for ScopeGuard {
    #[inline]
    fn drop(&mut self) {
        current::leave(self.entered, self.site);
    }
}

/// Enters a scope on this thread.
///
/// ```
/// use memledger::alloc_scope;
/// # fn load() -> Result<Vec<u8>, std::num::ParseIntError> {
/// // With a block, the scope is the block, whose value is returned; `?`, `return` and `break` work.
/// let size: usize = alloc_scope!("parse", { "16".parse()? });
///
/// // Any other expression works, too: a call, a labelled block, an `unsafe` block.
/// let zeros = alloc_scope!("read", vec![0; size]);
/// let first = alloc_scope!("search", 'found: {
///     for &byte in &zeros {
///         if byte == 0 { break 'found Some(byte) }
///     }
///     None
/// });
/// let text = alloc_scope!("decode", unsafe { String::from_utf8_unchecked(zeros) });
/// # assert_eq!((first, text.len()), (Some(0), 16));
///
/// // As a statement, the scope lasts until the end of the block around it.
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
/// The scope of an `async` block is around each poll of the future, not around the making of it: the macro
/// calls [`AllocScope::alloc_scope`](crate::AllocScope::alloc_scope). So the block can be sent to other
/// threads.
/// ```
/// # fn spawn(task: impl Future<Output = usize> + Send + 'static) {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     assert!(std::pin::pin!(task).poll(&mut context).is_ready());
/// # }
/// # async fn receive() -> Vec<u8> { vec![1] }
/// use memledger::alloc_scope;
///
/// spawn(alloc_scope!("connection", async { receive().await.len() }));
/// ```
///
/// The name is a literal, a `&'static str` or a [`Name`](crate::Name). Entering and leaving a scope costs 2
/// to 3 ns, from the second time on a thread, and writes nothing to the stream. A text that is made when the
/// program runs becomes a name by [`Name::intern`](crate::Name::intern), once. A name is not a format string:
/// a literal with a `{` does not compile, but [`Name::new`](crate::Name::new) takes it.
#[macro_export]
macro_rules! alloc_scope {
    (group: $group:path, $name:literal $(, $($body:tt)*)?) => {
        $crate::__alloc_scope! { [$group] ($crate::__literal_name!($name)) $($($body)*)? }
    };
    (group: $group:path, $name:expr $(, $($body:tt)*)?) => {
        $crate::__alloc_scope! { [$group] ($name) $($($body)*)? }
    };
    ($name:literal $(, $($body:tt)*)?) => {
        $crate::__alloc_scope! { [] ($crate::__literal_name!($name)) $($($body)*)? }
    };
    ($name:expr $(, $($body:tt)*)?) => { $crate::__alloc_scope! { [] ($name) $($($body)*)? } };
}

/// A name that was checked when the program was compiled.
#[doc(hidden)]
#[macro_export]
macro_rules! __literal_name {
    ($name:literal) => {{
        const NAME: &::core::primitive::str = $crate::__private::literal_name($name);
        NAME
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __alloc_scope {
    ([$group:path] ($name:expr) async $($capture:ident)? $body:block $(,)?) => {
        $crate::AllocScope::alloc_scope_in_group(async $($capture)? $body, &$group, $name)
    };
    ([] ($name:expr) async $($capture:ident)? $body:block $(,)?) => {
        $crate::AllocScope::alloc_scope(async $($capture)? $body, $name)
    };
    ([$group:path] ($name:expr)) => {
        let _memledger_scope = $crate::ScopeGuard::enter_group(&$group, $name);
    };
    ([] ($name:expr)) => {
        let _memledger_scope = $crate::ScopeGuard::enter($name);
    };
    // NOTE: a block is not the expression below, where the compiler would find its braces unnecessary.
    ($group:tt $name:tt $body:block $(,)?) => {{
        $crate::__alloc_scope! { $group $name }
        $body
    }};
    ($group:tt $name:tt $body:expr $(,)?) => {{
        $crate::__alloc_scope! { $group $name }
        $body
    }};
    ($group:tt $name:tt $($other:tt)*) => {
        ::core::compile_error!(::core::concat!(
            "write `alloc_scope!(NAME)` or `alloc_scope!(NAME, EXPRESSION)`: a name is not a format string, ",
            "so it takes no arguments, but `Name::intern(&format!(..))` makes one of a text"
        ))
    };
}
