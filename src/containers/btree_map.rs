//! A B-tree map that keeps its tag.

use super::entry::entry;
use super::forward::{compares, equals, forward};
use super::own_tag::OwnTag;
use crate::scopes::Tag;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::collections::btree_map as plain;
use std::mem;
use std::ops::{Deref, Index, RangeBounds};

pub use std::collections::btree_map::OccupiedEntry;

/// A [`BTreeMap`] whose nodes all carry a tag, whichever thread and scope it grows in.
///
/// ```
/// use memledger::containers::TaggedBTreeMap;
/// use memledger::{Tag, group, tag};
///
/// group! { pub PRICES = "Prices"; }
/// const BOOK: Tag = tag!(PRICES, "Book::orders");
///
/// let mut orders = TaggedBTreeMap::new(BOOK);
/// *orders.entry(100).or_insert(0) += 3;
/// orders.insert(90, 1);
/// assert_eq!(orders.first_key_value(), Some((&90, &1)));
/// ```
///
/// It dereferences to `BTreeMap`, and has the methods of [`BTreeMap`] that change it. A map that is created
/// without a tag takes the tag of the thread's context, as [`TaggedVec`](crate::containers::TaggedVec) does.
///
/// # Cost
/// 8 bytes more than a `BTreeMap`; none without feature `enable`. A new pair costs about 10 ns
/// more. The plain map does not expose its nodes, so a change of the tag moves the pairs to new
/// nodes one by one, in O(n log n). A clone also inserts its pairs one by one, in the same time.
///
/// # Misuse
/// It does not give out a `&mut BTreeMap`, through which it would grow without its tag:
/// ```compile_fail,E0596
/// # memledger::group! { GROUP = "Group"; }
/// let mut tagged = memledger::containers::TaggedBTreeMap::new(memledger::tag!(GROUP, "name"));
/// std::collections::BTreeMap::insert(&mut *tagged, 1, 1);
/// ```
pub struct TaggedBTreeMap<K, V> {
    plain: BTreeMap<K, V>,
    tag: OwnTag,
}

impl<K, V> TaggedBTreeMap<K, V> {
    /// An empty map; allocates nothing.
    #[inline]
    pub fn new(tag: Tag) -> Self {
        Self::named::<Self>(tag)
    }

    /// An empty map, whose tag is named after `C` if it has no name.
    #[inline]
    pub(super) fn named<C>(tag: Tag) -> Self {
        Self { plain: BTreeMap::new(), tag: OwnTag::of::<C>(tag) }
    }

    /// Returns the plain map. Its nodes stay the same, and keep the tag.
    /// [`from_map`](Self::from_map) has an example.
    #[inline]
    pub fn into_map(self) -> BTreeMap<K, V> {
        self.plain
    }

    /// As [`BTreeMap::into_keys`].
    #[inline]
    pub fn into_keys(self) -> plain::IntoKeys<K, V> {
        self.plain.into_keys()
    }

    /// As [`BTreeMap::into_values`].
    #[inline]
    pub fn into_values(self) -> plain::IntoValues<K, V> {
        self.plain.into_values()
    }

    forward! { plain of BTreeMap:
        fn iter_mut(&mut self) -> plain::IterMut<'_, K, V>;
        fn values_mut(&mut self) -> plain::ValuesMut<'_, K, V>;
        fn clear(&mut self);
    }
}

impl<K: Ord, V> TaggedBTreeMap<K, V> {
    /// Moves the pairs of a plain map to nodes that belong to `tag`. While something is recorded,
    /// this costs as much as inserting the pairs.
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const BOOK: memledger::Tag = memledger::tag!(GROUP, "orders");
    /// use memledger::containers::TaggedBTreeMap;
    /// use std::collections::BTreeMap;
    ///
    /// let orders = TaggedBTreeMap::from_map(BOOK, BTreeMap::from([(100, 3), (90, 1)]));
    /// assert_eq!(orders[&90], 1);
    /// let plain: BTreeMap<_, _> = orders.into_map();
    /// # drop(plain);
    /// ```
    pub fn from_map(tag: Tag, plain: BTreeMap<K, V>) -> Self {
        Self::claimed(OwnTag::of::<Self>(tag), plain)
    }

    /// Changes its tag: the memory that it holds, and all that it allocates later, belongs to
    /// `tag`.
    ///
    /// Inserts all pairs anew if something is recorded; otherwise, and if the map is empty, it
    /// costs nothing. Memory that keys and values hold themselves keeps its tag.
    ///
    /// # Panics
    /// If a comparison panics; the pairs that were not moved yet are dropped.
    pub fn set_tag(&mut self, tag: Tag) {
        self.rename::<Self>(tag);
    }

    /// As [`set_tag`](Self::set_tag), but the tag is named after `C` if it has no name.
    pub(super) fn rename<C>(&mut self, tag: Tag) {
        if self.tag.change(OwnTag::of::<C>(tag)) {
            self.claim();
        }
    }

    fn claimed(tag: OwnTag, plain: BTreeMap<K, V>) -> Self {
        let mut tagged = Self { plain, tag };
        tagged.claim();
        tagged
    }

    fn claim(&mut self) {
        if self.tag.is_recorded() {
            let pairs = mem::take(&mut self.plain);
            self.extend(pairs);
        }
    }

    forward! { plain of BTreeMap:
        fn first_entry(&mut self) -> Option<OccupiedEntry<'_, K, V>>;
        fn last_entry(&mut self) -> Option<OccupiedEntry<'_, K, V>>;
        fn pop_first(&mut self) -> Option<(K, V)>;
        fn pop_last(&mut self) -> Option<(K, V)>;
        fn retain[F: FnMut(&K, &mut V) -> bool](&mut self, keep: F);
    }

    /// As [`BTreeMap::get_mut`].
    pub fn get_mut<Q: ?Sized + Ord>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.plain.get_mut(key)
    }

    /// As [`BTreeMap::remove`].
    pub fn remove<Q: ?Sized + Ord>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.plain.remove(key)
    }

    /// As [`BTreeMap::remove_entry`].
    pub fn remove_entry<Q: ?Sized + Ord>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        self.plain.remove_entry(key)
    }

    /// As [`BTreeMap::range_mut`].
    #[track_caller]
    pub fn range_mut<Q: ?Sized + Ord>(
        &mut self,
        range: impl RangeBounds<Q>,
    ) -> plain::RangeMut<'_, K, V>
    where
        K: Borrow<Q>,
    {
        self.plain.range_mut(range)
    }

    /// As [`BTreeMap::entry`].
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const BOOK: memledger::Tag = memledger::tag!(GROUP, "orders");
    /// use memledger::containers::TaggedBTreeMap;
    /// use memledger::containers::btree_map::Entry;
    ///
    /// let mut orders = TaggedBTreeMap::new(BOOK);
    /// orders.entry(100).and_modify(|count| *count += 1).or_insert(1);
    /// match orders.entry(100) {
    ///     Entry::Occupied(entry) => assert_eq!(entry.remove(), 1),
    ///     Entry::Vacant(entry) => _ = entry.insert(1),
    /// }
    /// assert!(orders.is_empty());
    /// ```
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        match self.plain.entry(key) {
            plain::Entry::Occupied(entry) => Entry::Occupied(entry),
            plain::Entry::Vacant(plain) => Entry::Vacant(VacantEntry { plain, tag: self.tag }),
        }
    }

    /// As [`BTreeMap::insert`].
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.entry(key) {
            Entry::Occupied(mut entry) => Some(entry.insert(value)),
            Entry::Vacant(entry) => {
                entry.insert(value);
                None
            }
        }
    }

    /// As [`BTreeMap::append`], pair by pair.
    pub fn append(&mut self, other: &mut Self) {
        self.extend(mem::take(&mut other.plain));
    }
}

/// The entry of a key that has no value in the map.
///
/// [`TaggedBTreeMap::entry`] has an example.
pub struct VacantEntry<'a, K, V> {
    plain: plain::VacantEntry<'a, K, V>,
    tag: OwnTag,
}

impl<'a, K: Ord, V> VacantEntry<'a, K, V> {
    /// The key of the entry.
    pub fn key(&self) -> &K {
        self.plain.key()
    }

    /// Returns the key.
    pub fn into_key(self) -> K {
        self.plain.into_key()
    }

    /// Inserts the value.
    pub fn insert(self, value: V) -> &'a mut V {
        // The search is over: this allocates nodes, and does not run the program's code.
        let Self { plain, tag } = self;
        tag.run(|| plain.insert(value))
    }
}

impl<K: std::fmt::Debug + Ord, V> std::fmt::Debug for VacantEntry<'_, K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.plain.fmt(f)
    }
}

entry! { [K, V] [K, V] where [K: Ord,] }

impl<K: Clone + Ord, V: Clone> Clone for TaggedBTreeMap<K, V> {
    fn clone(&self) -> Self {
        // NOTE: the plain clone does not run under the tag, because memory that the pairs allocate
        // would get the tag too.
        let mut clone = Self { plain: BTreeMap::new(), tag: self.tag };
        clone.extend(self.iter().map(|(key, value)| (key.clone(), value.clone())));
        clone
    }
}

impl<K, V> Default for TaggedBTreeMap<K, V> {
    /// Empty, with the tag of the thread's context, if it has one.
    #[inline]
    fn default() -> Self {
        Self { plain: BTreeMap::new(), tag: OwnTag::of_thread() }
    }
}

impl<K, V> Deref for TaggedBTreeMap<K, V> {
    type Target = BTreeMap<K, V>;

    #[inline]
    fn deref(&self) -> &BTreeMap<K, V> {
        &self.plain
    }
}

impl<K: Borrow<Q> + Ord, Q: ?Sized + Ord, V> Index<&Q> for TaggedBTreeMap<K, V> {
    type Output = V;

    #[inline]
    fn index(&self, key: &Q) -> &V {
        &self.plain[key]
    }
}

impl<K: Ord, V> Extend<(K, V)> for TaggedBTreeMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        pairs.into_iter().for_each(|(key, value)| drop(self.insert(key, value)));
    }
}

impl<'a, K: Ord + Copy, V: Copy> Extend<(&'a K, &'a V)> for TaggedBTreeMap<K, V> {
    fn extend<I: IntoIterator<Item = (&'a K, &'a V)>>(&mut self, pairs: I) {
        self.extend(pairs.into_iter().map(|(&key, &value)| (key, value)));
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for TaggedBTreeMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut tagged = Self::default();
        tagged.extend(pairs);
        tagged
    }
}

impl<K, V> IntoIterator for TaggedBTreeMap<K, V> {
    type Item = (K, V);
    type IntoIter = plain::IntoIter<K, V>;

    #[inline]
    fn into_iter(self) -> plain::IntoIter<K, V> {
        self.plain.into_iter()
    }
}

impl<'a, K, V> IntoIterator for &'a TaggedBTreeMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = plain::Iter<'a, K, V>;

    #[inline]
    fn into_iter(self) -> plain::Iter<'a, K, V> {
        self.plain.iter()
    }
}

impl<'a, K, V> IntoIterator for &'a mut TaggedBTreeMap<K, V> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = plain::IterMut<'a, K, V>;

    #[inline]
    fn into_iter(self) -> plain::IterMut<'a, K, V> {
        self.plain.iter_mut()
    }
}

impl<K: Ord, V> From<BTreeMap<K, V>> for TaggedBTreeMap<K, V> {
    /// As [`from_map`](Self::from_map), with the tag of the thread's context.
    fn from(plain: BTreeMap<K, V>) -> Self {
        Self::claimed(OwnTag::of_thread(), plain)
    }
}

#[expect(clippy::from_over_into, reason = "no impl is for a type of another crate")]
impl<K, V> Into<BTreeMap<K, V>> for TaggedBTreeMap<K, V> {
    fn into(self) -> BTreeMap<K, V> {
        self.into_map()
    }
}

compares! { plain: [K, V] TaggedBTreeMap<K, V> }
equals! { plain:
    [K: PartialEq, V: PartialEq] TaggedBTreeMap<K, V> = BTreeMap<K, V>;
}
