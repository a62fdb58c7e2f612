//! A string that keeps its tag.

use super::block::{Block, block_of};
use super::forward::{borrows, compares, equals, forward, resizing};
use super::own_tag::OwnTag;
use super::{TaggedBox, TaggedVec};
use crate::scopes::Tag;
use std::borrow::Cow;
use std::collections::TryReserveError;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::fmt;
use std::ops::{Add, AddAssign, Deref, DerefMut, Index, IndexMut, RangeBounds};
use std::path::Path;
use std::slice::SliceIndex;
use std::str::FromStr;
use std::string::Drain;

/// A [`String`] whose memory carries a tag, whichever thread and scope it grows in.
///
/// ```
/// use memledger::containers::TaggedString;
/// use memledger::{Tag, group, tag};
/// use std::fmt::Write;
///
/// group! { pub TEXT = "Text"; }
/// const LINES: Tag = tag!(TEXT, "Editor::lines");
///
/// let mut line = TaggedString::from_text(LINES, "let x");
/// write!(line, " = {};", 7).unwrap();
/// assert_eq!(line, "let x = 7;");
/// ```
///
/// It dereferences to `str`, and has the methods of [`String`] that make it grow. A string that is
/// created without a tag takes the tag of the thread's context, as [`TaggedVec`] does.
///
/// # Cost
/// 8 bytes more than a `String`; none without feature `enable`.
///
/// # Misuse
/// It does not give out a `&mut String`, through which it would grow without its tag:
/// ```compile_fail,E0308
/// # memledger::group! { GROUP = "Group"; }
/// let mut tagged = memledger::containers::TaggedString::new(memledger::tag!(GROUP, "name"));
/// let plain: &mut String = &mut tagged;
/// ```
pub struct TaggedString {
    plain: String,
    tag: OwnTag,
}

impl TaggedString {
    /// An empty string; allocates nothing.
    #[inline]
    pub fn new(tag: Tag) -> Self {
        Self { plain: String::new(), tag: OwnTag::of::<Self>(tag) }
    }

    /// An empty string with room for `capacity` bytes.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const LINES: memledger::Tag = memledger::tag!(GROUP, "lines");
    /// use memledger::containers::TaggedString;
    ///
    /// let mut line = TaggedString::with_capacity(LINES, 80);
    /// line.push_str("let x");
    /// line += " = 7;";
    /// let bytes = line.clone().into_bytes(); // a `TaggedVec<u8>`
    /// assert_eq!(bytes.len(), line.into_boxed_str().len());
    /// ```
    ///
    /// # Panics
    /// As [`String::with_capacity`].
    #[track_caller]
    pub fn with_capacity(tag: Tag, capacity: usize) -> Self {
        let tag = OwnTag::of::<Self>(tag);
        Self { plain: tag.run(|| String::with_capacity(capacity)), tag }
    }

    /// A copy of this text. [`TaggedString`] has an example.
    pub fn from_text(tag: Tag, text: &str) -> Self {
        Self::copied(OwnTag::of::<Self>(tag), text)
    }

    /// Takes over a plain string and its block, which belongs to `tag` from now on.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const LINES: memledger::Tag = memledger::tag!(GROUP, "lines");
    /// use memledger::containers::TaggedString;
    ///
    /// let line = TaggedString::from_string(LINES, format!("{} + {}", 1, 2));
    /// assert_eq!(line.into_string(), "1 + 2"); // the same block
    /// ```
    pub fn from_string(tag: Tag, plain: String) -> Self {
        Self::claimed(OwnTag::of::<Self>(tag), plain)
    }

    /// Returns a plain string with the same block, which belongs to the thread's context from now
    /// on. [`from_string`](Self::from_string) has an example.
    pub fn into_string(self) -> String {
        self.tag.release(self.block());
        self.plain
    }

    /// The bytes, in the same block, with the same tag.
    /// [`with_capacity`](Self::with_capacity) has an example.
    #[inline]
    pub fn into_bytes(self) -> TaggedVec<u8> {
        TaggedVec { plain: self.plain.into_bytes(), tag: self.tag }
    }

    /// The text as a box with the same tag, after [`shrink_to_fit`](Self::shrink_to_fit).
    /// [`with_capacity`](Self::with_capacity) has an example.
    pub fn into_boxed_str(self) -> TaggedBox<str> {
        let (tag, plain) = (self.tag, self.plain);
        TaggedBox { tag, plain: tag.run(|| plain.into_boxed_str()) }
    }

    /// Changes its tag: the memory that it holds, and all that it allocates later, belongs to
    /// `tag`. Costs one event if it holds a block.
    pub fn set_tag(&mut self, tag: Tag) {
        if self.tag.change(OwnTag::of::<Self>(tag)) {
            self.tag.claim(self.block());
        }
    }

    pub(super) fn copied(tag: OwnTag, text: &str) -> Self {
        Self { plain: tag.run(|| text.to_owned()), tag }
    }

    pub(super) fn claimed(tag: OwnTag, plain: String) -> Self {
        let tagged = Self { plain, tag };
        tag.claim(tagged.block());
        tagged
    }

    fn block(&self) -> Option<Block> {
        block_of(self.plain.as_ptr(), self.plain.capacity())
    }

    #[inline]
    fn make_room(&mut self, additional: usize) {
        #[cold]
        #[inline(never)]
        fn grow(tagged: &mut TaggedString, additional: usize) {
            tagged.reserve(additional);
        }
        if additional > self.plain.capacity() - self.plain.len() {
            grow(self, additional);
        }
    }

    resizing! { plain of String:
        fn reserve(&mut self, additional: usize);
        fn reserve_exact(&mut self, additional: usize);
        fn try_reserve(&mut self, additional: usize) -> Result<(), TryReserveError>;
        fn try_reserve_exact(&mut self, additional: usize) -> Result<(), TryReserveError>;
        fn shrink_to_fit(&mut self);
        fn shrink_to(&mut self, min_capacity: usize);
    }

    forward! { plain of String:
        fn capacity(&self) -> usize;
        fn as_str(&self) -> &str;
        fn as_mut_str(&mut self) -> &mut str;
        fn pop(&mut self) -> Option<char>;
        fn remove(&mut self, index: usize) -> char;
        fn truncate(&mut self, new_len: usize);
        fn clear(&mut self);
        fn retain[F: FnMut(char) -> bool](&mut self, keep: F);
        fn drain[R: RangeBounds<usize>](&mut self, range: R) -> Drain<'_>;
    }

    /// As [`String::push`].
    #[inline]
    pub fn push(&mut self, character: char) {
        self.make_room(character.len_utf8());
        self.plain.push(character);
    }

    /// As [`String::push_str`].
    #[inline]
    pub fn push_str(&mut self, text: &str) {
        self.make_room(text.len());
        self.plain.push_str(text);
    }

    /// As [`String::insert`].
    #[track_caller]
    pub fn insert(&mut self, index: usize, character: char) {
        self.make_room(character.len_utf8());
        self.plain.insert(index, character);
    }

    /// As [`String::insert_str`].
    #[track_caller]
    pub fn insert_str(&mut self, index: usize, text: &str) {
        self.make_room(text.len());
        self.plain.insert_str(index, text);
    }

    /// As [`String::split_off`]; the returned part has the same tag.
    #[must_use = "the text is gone from this string"]
    #[track_caller]
    pub fn split_off(&mut self, at: usize) -> Self {
        let plain = &mut self.plain;
        Self { plain: self.tag.run(|| plain.split_off(at)), tag: self.tag }
    }

    /// As [`String::leak`]; the block keeps the tag.
    #[inline]
    pub fn leak<'a>(self) -> &'a mut str {
        self.plain.leak()
    }
}

impl Clone for TaggedString {
    fn clone(&self) -> Self {
        Self::copied(self.tag, &self.plain)
    }

    /// Keeps its own tag, and its block if that is large enough.
    fn clone_from(&mut self, source: &Self) {
        self.clear();
        self.push_str(source);
    }
}

impl Default for TaggedString {
    /// Empty, with the tag of the thread's context, if it has one.
    #[inline]
    fn default() -> Self {
        Self { plain: String::new(), tag: OwnTag::of_thread() }
    }
}

impl Deref for TaggedString {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        &self.plain
    }
}

impl DerefMut for TaggedString {
    #[inline]
    fn deref_mut(&mut self) -> &mut str {
        &mut self.plain
    }
}

impl<I: SliceIndex<str>> Index<I> for TaggedString {
    type Output = I::Output;

    #[inline]
    fn index(&self, index: I) -> &I::Output {
        &self.plain[index]
    }
}

impl<I: SliceIndex<str>> IndexMut<I> for TaggedString {
    #[inline]
    fn index_mut(&mut self, index: I) -> &mut I::Output {
        &mut self.plain[index]
    }
}

impl AsRef<[u8]> for TaggedString {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.plain.as_bytes()
    }
}

impl AsRef<OsStr> for TaggedString {
    #[inline]
    fn as_ref(&self) -> &OsStr {
        self.plain.as_ref()
    }
}

impl AsRef<Path> for TaggedString {
    #[inline]
    fn as_ref(&self) -> &Path {
        self.plain.as_ref()
    }
}

impl fmt::Display for TaggedString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plain.fmt(f)
    }
}

impl fmt::Write for TaggedString {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        Ok(())
    }

    #[inline]
    fn write_char(&mut self, character: char) -> fmt::Result {
        self.push(character);
        Ok(())
    }
}

impl Add<&str> for TaggedString {
    type Output = Self;

    #[inline]
    fn add(mut self, text: &str) -> Self {
        self.push_str(text);
        self
    }
}

impl AddAssign<&str> for TaggedString {
    #[inline]
    fn add_assign(&mut self, text: &str) {
        self.push_str(text);
    }
}

impl Extend<char> for TaggedString {
    fn extend<I: IntoIterator<Item = char>>(&mut self, characters: I) {
        let characters = characters.into_iter();
        self.make_room(characters.size_hint().0);
        characters.for_each(|character| self.push(character));
    }
}

/// Implements `Extend` and `FromIterator` for types of text.
macro_rules! extend_with {
    ($([$($lifetime:lifetime)?] $text:ty)*) => {$(
        impl<$($lifetime)?> Extend<$text> for TaggedString {
            fn extend<I: IntoIterator<Item = $text>>(&mut self, texts: I) {
                texts.into_iter().for_each(|text| self.push_str(&text));
            }
        }

        impl<$($lifetime)?> FromIterator<$text> for TaggedString {
            fn from_iter<I: IntoIterator<Item = $text>>(texts: I) -> Self {
                let mut tagged = Self::default();
                tagged.extend(texts);
                tagged
            }
        }
    )*};
}

extend_with! { ['a] &'a str [] String [] TaggedString ['a] Cow<'a, str> }

impl FromIterator<char> for TaggedString {
    fn from_iter<I: IntoIterator<Item = char>>(characters: I) -> Self {
        let mut tagged = Self::default();
        tagged.extend(characters);
        tagged
    }
}

impl FromStr for TaggedString {
    type Err = Infallible;

    /// A copy, with the tag of the thread's context.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.into())
    }
}

impl From<&str> for TaggedString {
    /// A copy, with the tag of the thread's context.
    fn from(text: &str) -> Self {
        Self::copied(OwnTag::of_thread(), text)
    }
}

impl From<String> for TaggedString {
    /// As [`from_string`](Self::from_string), with the tag of the thread's context.
    fn from(plain: String) -> Self {
        Self::claimed(OwnTag::of_thread(), plain)
    }
}

#[expect(clippy::from_over_into, reason = "no impl is for a type of another crate")]
impl Into<String> for TaggedString {
    fn into(self) -> String {
        self.into_string()
    }
}

borrows! { [] TaggedString as str }
compares! { plain: [] TaggedString }
equals! { plain:
    [] TaggedString = String;
    [] TaggedString = str;
    ['a] TaggedString = &'a str;
    ['a] TaggedString = Cow<'a, str>;
}
