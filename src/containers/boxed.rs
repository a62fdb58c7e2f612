//! A box that keeps its tag.

use super::block::Block;
use super::forward::{borrows, compares};
use super::own_tag::OwnTag;
use crate::scopes::Tag;
use std::alloc::Layout;
use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A [`Box`] whose block carries a tag.
///
/// ```
/// use memledger::containers::TaggedBox;
/// use memledger::{Tag, group, tag, tagged_box};
///
/// group! { pub SOUND = "Sound"; }
/// const SAMPLES: Tag = tag!(SOUND, "Voice::samples");
///
/// let mut samples = TaggedBox::new(SAMPLES, [0_i16; 4096]);
/// samples[0] = 7;
///
/// // A trait object.
/// let voice: TaggedBox<dyn Fn(i32) -> i32> = tagged_box!(SAMPLES, |x: i32| x + 1);
/// assert_eq!(voice(41), 42);
/// ```
///
/// Only the box's own block carries the tag; memory that the value allocated before it was boxed
/// does not. A box that is created without a tag takes the tag of the thread's context, as
/// [`TaggedVec`](crate::containers::TaggedVec) does.
///
/// # Cost
/// 8 bytes more than a `Box`; none without feature `enable`.
///
/// # Misuse
/// The compiler converts a `Box` of a value to a `Box` of a trait object, but not a `TaggedBox`.
/// Use [`tagged_box!`](crate::tagged_box) instead:
/// ```compile_fail,E0308
/// # memledger::group! { GROUP = "Group"; }
/// let tag = memledger::tag!(GROUP, "name");
/// let tagged: memledger::containers::TaggedBox<dyn Send> = memledger::containers::TaggedBox::new(tag, 1);
/// ```
pub struct TaggedBox<T: ?Sized> {
    pub(super) plain: Box<T>,
    pub(super) tag: OwnTag,
}

/// Boxes a value under a tag, as any type to which a [`Box`] of the value converts: a trait object,
/// a slice.
///
/// ```
/// # memledger::group! { GROUP = "Group"; }
/// # const TAG: memledger::Tag = memledger::tag!(GROUP, "name");
/// use memledger::containers::TaggedBox;
/// use memledger::tagged_box;
///
/// let shown: TaggedBox<dyn std::fmt::Display> = tagged_box!(TAG, 7);
/// assert_eq!(shown.to_string(), "7");
/// let slice: TaggedBox<[u8]> = tagged_box!(TAG, [1, 2, 3]);
/// assert_eq!(slice.len(), 3);
/// ```
#[macro_export]
macro_rules! tagged_box {
    ($tag:expr, $value:expr $(,)?) => {{
        let (plain, tag) = $crate::containers::TaggedBox::into_parts(
            $crate::containers::TaggedBox::new($tag, $value),
        );
        // Here the compiler converts the `Box` to the expected type.
        $crate::containers::TaggedBox::from_parts(plain, tag)
    }};
}

/// The tag of a box while [`tagged_box!`] converts the box.
#[derive(Clone, Copy, Debug)]
pub struct BoxTag(OwnTag);

impl<T> TaggedBox<T> {
    /// Boxes a value.
    #[inline]
    pub fn new(tag: Tag, value: T) -> Self {
        Self::made(OwnTag::of::<Self>(tag), value)
    }

    /// Takes the value out, and frees the block.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const CONFIG: memledger::Tag = memledger::tag!(GROUP, "config");
    /// use memledger::containers::TaggedBox;
    ///
    /// let name = TaggedBox::new(CONFIG, String::from("level 7"));
    /// assert_eq!(name.into_inner(), "level 7");
    /// ```
    #[inline]
    pub fn into_inner(self) -> T {
        *self.plain
    }

    #[inline]
    pub(super) fn made(tag: OwnTag, value: T) -> Self {
        Self { plain: tag.run(|| Box::new(value)), tag }
    }
}

impl<T: ?Sized> TaggedBox<T> {
    /// Takes over a plain box and its block, which belongs to `tag` from now on.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const CONFIG: memledger::Tag = memledger::tag!(GROUP, "config");
    /// use memledger::containers::TaggedBox;
    ///
    /// let tagged = TaggedBox::from_box(CONFIG, Box::new([0_u8; 64]));
    /// let plain: Box<[u8; 64]> = tagged.into_box(); // the same block
    /// # drop(plain);
    /// ```
    pub fn from_box(tag: Tag, plain: Box<T>) -> Self {
        Self::claimed(OwnTag::of::<Self>(tag), plain)
    }

    /// Returns a plain box with the same block, which belongs to the thread's context from now on.
    /// [`from_box`](Self::from_box) has an example.
    pub fn into_box(self) -> Box<T> {
        self.tag.release(self.block());
        self.plain
    }

    /// Changes its tag: its block belongs to `tag` from now on. Costs one event.
    ///
    /// Memory that the value holds itself keeps its tag.
    pub fn set_tag(&mut self, tag: Tag) {
        if self.tag.change(OwnTag::of::<Self>(tag)) {
            self.tag.claim(self.block());
        }
    }

    /// As [`Box::leak`]; the block keeps the tag.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const CONFIG: memledger::Tag = memledger::tag!(GROUP, "config");
    /// use memledger::containers::TaggedBox;
    ///
    /// let config: &'static [u8; 64] = TaggedBox::new(CONFIG, [7; 64]).leak();
    /// assert_eq!(config[63], 7);
    /// ```
    #[inline]
    pub fn leak<'a>(self) -> &'a mut T
    where
        T: 'a,
    {
        Box::leak(self.plain)
    }

    #[doc(hidden)]
    #[inline]
    pub fn into_parts(self) -> (Box<T>, BoxTag) {
        (self.plain, BoxTag(self.tag))
    }

    #[doc(hidden)]
    #[inline]
    pub fn from_parts(plain: Box<T>, tag: BoxTag) -> Self {
        Self { plain, tag: tag.0 }
    }

    pub(super) fn claimed(tag: OwnTag, plain: Box<T>) -> Self {
        let tagged = Self { plain, tag };
        tag.claim(tagged.block());
        tagged
    }

    fn block(&self) -> Option<Block> {
        let layout = Layout::for_value(&*self.plain);
        (layout.size() > 0).then(|| ((&raw const *self.plain).cast(), layout))
    }
}

impl<T: Clone> Clone for TaggedBox<T> {
    fn clone(&self) -> Self {
        Self::made(self.tag, T::clone(&self.plain))
    }

    /// Keeps its own tag and block.
    fn clone_from(&mut self, source: &Self) {
        self.plain.clone_from(&source.plain);
    }
}

impl<T: Clone> Clone for TaggedBox<[T]> {
    fn clone(&self) -> Self {
        let mut clone = super::TaggedVec::with_room(self.tag, self.len());
        clone.extend_from_slice(self);
        clone.into_boxed_slice()
    }
}

impl Clone for TaggedBox<str> {
    fn clone(&self) -> Self {
        Self { plain: self.tag.run(|| self.plain.clone()), tag: self.tag }
    }
}

impl<T: Default> Default for TaggedBox<T> {
    /// The default value, with the tag of the thread's context, if it has one.
    fn default() -> Self {
        Self::made(OwnTag::of_thread(), T::default())
    }
}

impl<T: ?Sized> Deref for TaggedBox<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.plain
    }
}

impl<T: ?Sized> DerefMut for TaggedBox<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.plain
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for TaggedBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plain.fmt(f)
    }
}

impl<T: ?Sized + std::error::Error> std::error::Error for TaggedBox<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.plain.source()
    }
}

impl<I: ?Sized + Iterator> Iterator for TaggedBox<I> {
    type Item = I::Item;

    #[inline]
    fn next(&mut self) -> Option<I::Item> {
        self.plain.next()
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.plain.size_hint()
    }
}

impl<F: ?Sized + Future + Unpin> Future for TaggedBox<F> {
    type Output = F::Output;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        Pin::new(&mut *self.plain).poll(context)
    }
}

impl<T: ?Sized> From<Box<T>> for TaggedBox<T> {
    /// As [`from_box`](Self::from_box), with the tag of the thread's context.
    fn from(plain: Box<T>) -> Self {
        Self::claimed(OwnTag::of_thread(), plain)
    }
}

borrows! { [T: ?Sized] TaggedBox<T> as T }
compares! { plain: [T: ?Sized] TaggedBox<T> }
