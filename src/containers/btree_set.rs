//! A B-tree set that keeps its tag.

use super::TaggedBTreeMap;
use super::forward::forward;
use crate::scopes::Tag;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::collections::btree_map as plain;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::RangeBounds;

/// A [`BTreeSet`] whose nodes all carry a tag, whichever thread and scope it grows in.
///
/// ```
/// use memledger::containers::TaggedBTreeSet;
/// use memledger::{Tag, group, tag};
///
/// group! { pub PARSER = "Parser"; }
/// const NAMES: Tag = tag!(PARSER, "names");
///
/// let mut names = TaggedBTreeSet::new(NAMES);
/// assert!(names.insert("y") && names.insert("x") && !names.insert("x"));
/// assert_eq!(names.first(), Some(&"x"));
/// ```
///
/// It has the methods of [`BTreeSet`]. A set that is created without a tag takes the tag of the
/// thread's context, as [`TaggedVec`](crate::containers::TaggedVec) does. It is a [`TaggedBTreeMap`] of keys
/// alone, and has the same costs.
pub struct TaggedBTreeSet<T> {
    map: TaggedBTreeMap<T, ()>,
}

/// The values of a set by reference, in order.
pub type Iter<'a, T> = plain::Keys<'a, T, ()>;

impl<T> TaggedBTreeSet<T> {
    /// An empty set; allocates nothing.
    #[inline]
    pub fn new(tag: Tag) -> Self {
        Self { map: TaggedBTreeMap::named::<Self>(tag) }
    }

    /// As [`BTreeSet::iter`].
    pub fn iter(&self) -> Iter<'_, T> {
        self.map.keys()
    }

    forward! { map of BTreeSet:
        fn len(&self) -> usize;
        fn is_empty(&self) -> bool;
        fn clear(&mut self);
    }
}

impl<T: Ord> TaggedBTreeSet<T> {
    /// Moves the values of a plain set to nodes that belong to `tag`. Costs as much as inserting
    /// them.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const NAMES: memledger::Tag = memledger::tag!(GROUP, "names");
    /// use memledger::containers::TaggedBTreeSet;
    /// use std::collections::BTreeSet;
    ///
    /// let names = TaggedBTreeSet::from_set(NAMES, BTreeSet::from(["x", "y", "z"]));
    /// assert!(names.contains("y"));
    /// assert_eq!(names.into_set().len(), 3);
    /// ```
    pub fn from_set(tag: Tag, plain: BTreeSet<T>) -> Self {
        let mut tagged = Self::new(tag);
        tagged.extend(plain);
        tagged
    }

    /// Returns a plain set of the values, with new nodes. Costs O(n).
    /// [`from_set`](Self::from_set) has an example.
    pub fn into_set(self) -> BTreeSet<T> {
        self.into_iter().collect()
    }

    /// Changes its tag, as [`TaggedBTreeMap::set_tag`] does.
    ///
    /// # Panics
    /// If a comparison panics; the values that were not moved yet are dropped.
    pub fn set_tag(&mut self, tag: Tag) {
        self.map.rename::<Self>(tag);
    }

    /// As [`BTreeSet::insert`].
    pub fn insert(&mut self, value: T) -> bool {
        self.map.insert(value, ()).is_none()
    }

    /// As [`BTreeSet::replace`].
    pub fn replace(&mut self, value: T) -> Option<T> {
        let replaced = self.take(&value);
        self.insert(value);
        replaced
    }

    /// As [`BTreeSet::contains`].
    pub fn contains<Q: ?Sized + Ord>(&self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.map.contains_key(value)
    }

    /// As [`BTreeSet::get`].
    pub fn get<Q: ?Sized + Ord>(&self, value: &Q) -> Option<&T>
    where
        T: Borrow<Q>,
    {
        self.map.get_key_value(value).map(|(value, ())| value)
    }

    /// As [`BTreeSet::remove`].
    pub fn remove<Q: ?Sized + Ord>(&mut self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.map.remove(value).is_some()
    }

    /// As [`BTreeSet::take`].
    pub fn take<Q: ?Sized + Ord>(&mut self, value: &Q) -> Option<T>
    where
        T: Borrow<Q>,
    {
        self.map.remove_entry(value).map(|(value, ())| value)
    }

    /// As [`BTreeSet::first`].
    pub fn first(&self) -> Option<&T> {
        self.map.first_key_value().map(|(value, ())| value)
    }

    /// As [`BTreeSet::last`].
    pub fn last(&self) -> Option<&T> {
        self.map.last_key_value().map(|(value, ())| value)
    }

    /// As [`BTreeSet::pop_first`].
    pub fn pop_first(&mut self) -> Option<T> {
        self.map.pop_first().map(|(value, ())| value)
    }

    /// As [`BTreeSet::pop_last`].
    pub fn pop_last(&mut self) -> Option<T> {
        self.map.pop_last().map(|(value, ())| value)
    }

    /// As [`BTreeSet::retain`].
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.map.retain(|value, ()| keep(value));
    }

    /// As [`BTreeSet::append`], value by value.
    pub fn append(&mut self, other: &mut Self) {
        self.map.append(&mut other.map);
    }

    /// As [`BTreeSet::range`].
    #[track_caller]
    pub fn range<Q: ?Sized + Ord>(
        &self,
        range: impl RangeBounds<Q>,
    ) -> impl DoubleEndedIterator<Item = &T>
    where
        T: Borrow<Q>,
    {
        self.map.range(range).map(|(value, ())| value)
    }

    /// As [`BTreeSet::intersection`].
    pub fn intersection<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> {
        self.iter().filter(|value| other.contains(value))
    }

    /// As [`BTreeSet::difference`].
    pub fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> {
        self.iter().filter(|value| !other.contains(value))
    }

    /// As [`BTreeSet::union`].
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const NAMES: memledger::Tag = memledger::tag!(GROUP, "names");
    /// use memledger::containers::TaggedBTreeSet;
    ///
    /// let (mut ours, mut theirs) = (TaggedBTreeSet::new(NAMES), TaggedBTreeSet::new(NAMES));
    /// ours.extend(["a", "b"]);
    /// theirs.extend(["b", "c"]);
    /// assert!(ours.union(&theirs).eq(&["a", "b", "c"]));
    /// assert!(ours.intersection(&theirs).eq(&["b"]));
    /// ```
    pub fn union<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> {
        let (mut ours, mut theirs) = (self.iter().peekable(), other.iter().peekable());
        std::iter::from_fn(move || match (ours.peek(), theirs.peek()) {
            (Some(our), Some(their)) if our > their => theirs.next(),
            (Some(our), their) => {
                if their == Some(our) {
                    theirs.next();
                }
                ours.next()
            }
            (None, _) => theirs.next(),
        })
    }

    /// As [`BTreeSet::symmetric_difference`].
    pub fn symmetric_difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> {
        self.union(other).filter(|value| self.contains(value) != other.contains(value))
    }

    /// As [`BTreeSet::is_disjoint`].
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.intersection(other).next().is_none()
    }

    /// As [`BTreeSet::is_subset`].
    pub fn is_subset(&self, other: &Self) -> bool {
        self.difference(other).next().is_none()
    }

    /// As [`BTreeSet::is_superset`].
    pub fn is_superset(&self, other: &Self) -> bool {
        other.is_subset(self)
    }
}

impl<T: Clone + Ord> Clone for TaggedBTreeSet<T> {
    fn clone(&self) -> Self {
        Self { map: self.map.clone() }
    }
}

impl<T> Default for TaggedBTreeSet<T> {
    /// Empty, with the tag of the thread's context, if it has one.
    fn default() -> Self {
        Self { map: TaggedBTreeMap::default() }
    }
}

impl<T: Ord> Extend<T> for TaggedBTreeSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        self.map.extend(values.into_iter().map(|value| (value, ())));
    }
}

impl<'a, T: Ord + Copy + 'a> Extend<&'a T> for TaggedBTreeSet<T> {
    fn extend<I: IntoIterator<Item = &'a T>>(&mut self, values: I) {
        self.extend(values.into_iter().copied());
    }
}

impl<T: Ord> FromIterator<T> for TaggedBTreeSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut tagged = Self::default();
        tagged.extend(values);
        tagged
    }
}

impl<T> IntoIterator for TaggedBTreeSet<T> {
    type Item = T;
    type IntoIter = plain::IntoKeys<T, ()>;

    fn into_iter(self) -> plain::IntoKeys<T, ()> {
        self.map.into_keys()
    }
}

impl<'a, T> IntoIterator for &'a TaggedBTreeSet<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T: Ord> From<BTreeSet<T>> for TaggedBTreeSet<T> {
    /// As [`from_set`](Self::from_set), with the tag of the thread's context.
    fn from(plain: BTreeSet<T>) -> Self {
        plain.into_iter().collect()
    }
}

#[expect(clippy::from_over_into, reason = "no impl is for a type of another crate")]
impl<T: Ord> Into<BTreeSet<T>> for TaggedBTreeSet<T> {
    fn into(self) -> BTreeSet<T> {
        self.into_set()
    }
}

impl<T: PartialEq> PartialEq for TaggedBTreeSet<T> {
    fn eq(&self, other: &Self) -> bool {
        self.map == other.map
    }
}

impl<T: Eq> Eq for TaggedBTreeSet<T> {}

impl<T: PartialOrd> PartialOrd for TaggedBTreeSet<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.iter().partial_cmp(other)
    }
}

impl<T: Ord> Ord for TaggedBTreeSet<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.iter().cmp(other)
    }
}

impl<T: Hash> Hash for TaggedBTreeSet<T> {
    fn hash<S: Hasher>(&self, state: &mut S) {
        self.map.hash(state);
    }
}

impl<T: fmt::Debug> fmt::Debug for TaggedBTreeSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self).finish()
    }
}

impl<T: PartialEq> PartialEq<BTreeSet<T>> for TaggedBTreeSet<T> {
    fn eq(&self, other: &BTreeSet<T>) -> bool {
        self.len() == other.len() && self.iter().eq(other)
    }
}
