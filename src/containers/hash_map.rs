//! A hash map that keeps its tag.

use super::entry::entry;
use super::forward::forward;
use super::iterators::iterators;
use super::own_tag::OwnTag;
use super::own_tag::TagAllocator;
use super::table::table;
use crate::scopes::Tag;
use hashbrown::hash_map as plain;
use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Index;

type Plain<K, V, S> = hashbrown::HashMap<K, V, S, TagAllocator>;

/// A [`HashMap`] whose table carries a tag, whichever thread and scope it grows in.
///
/// ```
/// use memledger::containers::{TaggedHashMap, TaggedVec};
/// use memledger::{Tag, group, tag};
///
/// group! { pub WORLD = "World"; }
/// const PLACES: Tag = tag!(WORLD, "places");
/// const CREATURES: Tag = tag!(WORLD, "creatures");
///
/// let mut places: TaggedHashMap<&str, TaggedVec<&str>> = TaggedHashMap::new(PLACES);
/// let forest = places.entry("forest").or_default();
/// forest.set_tag(CREATURES); // a container within a container gets its own
/// forest.push("goblin");
/// assert_eq!(places["forest"], ["goblin"]);
/// ```
///
/// It has the methods of [`HashMap`]. Memory that keys and values hold themselves does not get the
/// tag. A map that is created without a tag takes the tag of the thread's context, as
/// [`TaggedVec`](crate::containers::TaggedVec) does.
///
/// # Cost
/// 24 bytes more than a `HashMap`; none without feature `enable`. A growth costs about 10 ns more.
/// The table is hashbrown's, as in the standard library.
///
/// It cannot take over the table of a plain map, or give its own table to one:
/// [`extend`](Extend::extend) moves the pairs.
///
/// With another hasher:
/// ```
/// # memledger::group! { GROUP = "Group"; }
/// # const AGES: memledger::Tag = memledger::tag!(GROUP, "ages");
/// use memledger::containers::TaggedHashMap;
/// use std::hash::{BuildHasherDefault, DefaultHasher};
///
/// let hasher = BuildHasherDefault::<DefaultHasher>::default();
/// let mut ages = TaggedHashMap::with_capacity_and_hasher(AGES, 100, hasher);
/// ages.insert("Ümit", 36);
/// assert_eq!(ages.get("Ümit"), Some(&36));
/// ```
///
/// # Misuse
/// It is `Send` or `Sync` only if its contents are:
/// ```compile_fail,E0277
/// # memledger::group! { GROUP = "Group"; }
/// use memledger::containers::TaggedHashMap;
/// use memledger::tag;
/// let tagged = TaggedHashMap::<u8, std::rc::Rc<u8>>::new(tag!(GROUP, "name"));
/// std::thread::spawn(move || drop(tagged));
/// ```
pub struct TaggedHashMap<K, V, S = RandomState> {
    plain: Plain<K, V, S>,
}

table! { HashMap TaggedHashMap [K, V] of K }

impl<K, V, S> TaggedHashMap<K, V, S> {
    forward! { plain of HashMap:
        fn capacity(&self) -> usize;
        fn hasher(&self) -> &S;
        fn len(&self) -> usize;
        fn is_empty(&self) -> bool;
        fn clear(&mut self);
        fn retain[F: FnMut(&K, &mut V) -> bool](&mut self, keep: F);
    }

    /// As [`HashMap::iter`].
    #[inline]
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter(self.plain.iter())
    }

    /// As [`HashMap::iter_mut`].
    #[inline]
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        IterMut(self.plain.iter_mut())
    }

    /// As [`HashMap::keys`].
    #[inline]
    pub fn keys(&self) -> Keys<'_, K, V> {
        Keys(self.plain.keys())
    }

    /// As [`HashMap::values`].
    #[inline]
    pub fn values(&self) -> Values<'_, K, V> {
        Values(self.plain.values())
    }

    /// As [`HashMap::values_mut`].
    #[inline]
    pub fn values_mut(&mut self) -> ValuesMut<'_, K, V> {
        ValuesMut(self.plain.values_mut())
    }

    /// As [`HashMap::into_keys`].
    #[inline]
    pub fn into_keys(self) -> IntoKeys<K, V> {
        IntoKeys(self.plain.into_keys())
    }

    /// As [`HashMap::into_values`].
    #[inline]
    pub fn into_values(self) -> IntoValues<K, V> {
        IntoValues(self.plain.into_values())
    }

    /// As [`HashMap::drain`].
    #[inline]
    pub fn drain(&mut self) -> Drain<'_, K, V> {
        Drain(self.plain.drain())
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> TaggedHashMap<K, V, S> {
    forward! { plain of HashMap:
        fn insert(&mut self, key: K, value: V) -> Option<V>;
        fn reserve(&mut self, additional: usize);
        fn shrink_to_fit(&mut self);
        fn shrink_to(&mut self, min_capacity: usize);
    }

    /// As [`HashMap::entry`].
    ///
    /// ```
    /// # memledger::group! { GROUP = "Group"; }
    /// # const AGES: memledger::Tag = memledger::tag!(GROUP, "ages");
    /// use memledger::containers::TaggedHashMap;
    /// use memledger::containers::hash_map::Entry;
    ///
    /// let mut ages = TaggedHashMap::new(AGES);
    /// ages.entry("Ümit").and_modify(|age| *age += 1).or_insert(36);
    /// match ages.entry("Ümit") {
    ///     Entry::Occupied(entry) => assert_eq!(entry.remove(), 36),
    ///     Entry::Vacant(entry) => _ = entry.insert(36),
    /// }
    /// assert!(ages.is_empty());
    /// ```
    #[inline]
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V, S> {
        match self.plain.entry(key) {
            plain::Entry::Occupied(plain) => Entry::Occupied(OccupiedEntry { plain }),
            plain::Entry::Vacant(plain) => Entry::Vacant(VacantEntry { plain }),
        }
    }

    /// As [`HashMap::get`].
    #[inline]
    pub fn get<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.plain.get(key)
    }

    /// As [`HashMap::get_key_value`].
    #[inline]
    pub fn get_key_value<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.plain.get_key_value(key)
    }

    /// As [`HashMap::get_mut`].
    #[inline]
    pub fn get_mut<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.plain.get_mut(key)
    }

    /// As [`HashMap::contains_key`].
    #[inline]
    pub fn contains_key<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.plain.contains_key(key)
    }

    /// As [`HashMap::remove`].
    #[inline]
    pub fn remove<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.plain.remove(key)
    }

    /// As [`HashMap::remove_entry`].
    #[inline]
    pub fn remove_entry<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<(K, V)>
    where
        K: Borrow<Q>,
    {
        self.plain.remove_entry(key)
    }
}

/// The entry of a key that has a value in the map.
///
/// [`TaggedHashMap::entry`] has an example.
pub struct OccupiedEntry<'a, K, V, S = RandomState> {
    plain: plain::OccupiedEntry<'a, K, V, S, TagAllocator>,
}

impl<'a, K, V, S> OccupiedEntry<'a, K, V, S> {
    /// The key in the map.
    #[inline]
    pub fn key(&self) -> &K {
        self.plain.key()
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> &V {
        self.plain.get()
    }

    /// The value, mutably.
    #[inline]
    pub fn get_mut(&mut self) -> &mut V {
        self.plain.get_mut()
    }

    /// Replaces the value; returns the previous one.
    #[inline]
    pub fn insert(&mut self, value: V) -> V {
        self.plain.insert(value)
    }

    /// The value, for as long as the map is borrowed.
    #[inline]
    pub fn into_mut(self) -> &'a mut V {
        self.plain.into_mut()
    }

    /// Removes the entry; returns its value.
    #[inline]
    pub fn remove(self) -> V {
        self.plain.remove()
    }

    /// Removes the entry; returns its key and value.
    #[inline]
    pub fn remove_entry(self) -> (K, V) {
        self.plain.remove_entry()
    }
}

/// The entry of a key that has no value in the map.
///
/// [`TaggedHashMap::entry`] has an example.
pub struct VacantEntry<'a, K, V, S = RandomState> {
    plain: plain::VacantEntry<'a, K, V, S, TagAllocator>,
}

impl<'a, K: Eq + Hash, V, S: BuildHasher> VacantEntry<'a, K, V, S> {
    /// The key of the entry.
    #[inline]
    pub fn key(&self) -> &K {
        self.plain.key()
    }

    /// Returns the key.
    #[inline]
    pub fn into_key(self) -> K {
        self.plain.into_key()
    }

    /// Inserts the value.
    #[inline]
    pub fn insert(self, value: V) -> &'a mut V {
        self.plain.insert(value)
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for OccupiedEntry<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plain.fmt(f)
    }
}

impl<K: fmt::Debug, V, S> fmt::Debug for VacantEntry<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plain.fmt(f)
    }
}

entry! { [K, V, S] [K, V, S] where [K: Eq + Hash, S: BuildHasher,] }

iterators! {
    /// See [`TaggedHashMap::iter`].
    #[derive(Clone, Debug)]
    Iter ['a, K, V] plain::Iter<'a, K, V> => (&'a K, &'a V);
    /// See [`TaggedHashMap::iter_mut`].
    #[derive(Debug)]
    IterMut ['a, K, V] plain::IterMut<'a, K, V> => (&'a K, &'a mut V);
    /// See [`TaggedHashMap::keys`].
    #[derive(Clone, Debug)]
    Keys ['a, K, V] plain::Keys<'a, K, V> => &'a K;
    /// See [`TaggedHashMap::values`].
    #[derive(Clone, Debug)]
    Values ['a, K, V] plain::Values<'a, K, V> => &'a V;
    /// See [`TaggedHashMap::values_mut`].
    #[derive(Debug)]
    ValuesMut ['a, K, V] plain::ValuesMut<'a, K, V> => &'a mut V;
    /// See [`TaggedHashMap::drain`].
    #[derive(Debug)]
    Drain ['a, K, V] plain::Drain<'a, K, V, TagAllocator> => (K, V);
    /// The iterator over all pairs of a map, by value.
    #[derive(Debug)]
    IntoIter [K, V] plain::IntoIter<K, V, TagAllocator> => (K, V);
    /// See [`TaggedHashMap::into_keys`].
    #[derive(Debug)]
    IntoKeys [K, V] plain::IntoKeys<K, V, TagAllocator> => K;
    /// See [`TaggedHashMap::into_values`].
    #[derive(Debug)]
    IntoValues [K, V] plain::IntoValues<K, V, TagAllocator> => V;
}

impl<K: Eq + Hash + Borrow<Q>, Q: ?Sized + Eq + Hash, V, S: BuildHasher> Index<&Q>
    for TaggedHashMap<K, V, S>
{
    type Output = V;

    #[inline]
    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("no entry found for key")
    }
}

impl<K: Eq + Hash, V, S: BuildHasher> Extend<(K, V)> for TaggedHashMap<K, V, S> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        self.plain.extend(pairs);
    }
}

impl<'a, K: Eq + Hash + Copy, V: Copy, S: BuildHasher> Extend<(&'a K, &'a V)>
    for TaggedHashMap<K, V, S>
{
    fn extend<I: IntoIterator<Item = (&'a K, &'a V)>>(&mut self, pairs: I) {
        self.plain.extend(pairs);
    }
}

impl<K: Eq + Hash, V, S: BuildHasher + Default> FromIterator<(K, V)> for TaggedHashMap<K, V, S> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut tagged = Self::default();
        tagged.extend(pairs);
        tagged
    }
}

impl<K, V, S> IntoIterator for TaggedHashMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    #[inline]
    fn into_iter(self) -> IntoIter<K, V> {
        IntoIter(self.plain.into_iter())
    }
}

impl<'a, K, V, S> IntoIterator for &'a TaggedHashMap<K, V, S> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    #[inline]
    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<'a, K, V, S> IntoIterator for &'a mut TaggedHashMap<K, V, S> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = IterMut<'a, K, V>;

    #[inline]
    fn into_iter(self) -> IterMut<'a, K, V> {
        self.iter_mut()
    }
}

impl<K: Eq + Hash, V: PartialEq, S: BuildHasher> PartialEq for TaggedHashMap<K, V, S> {
    fn eq(&self, other: &Self) -> bool {
        self.plain == other.plain
    }
}

impl<K: Eq + Hash, V: Eq, S: BuildHasher> Eq for TaggedHashMap<K, V, S> {}

impl<K: Eq + Hash, V: PartialEq, S: BuildHasher, R: BuildHasher> PartialEq<HashMap<K, V, R>>
    for TaggedHashMap<K, V, S>
{
    fn eq(&self, other: &HashMap<K, V, R>) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K: fmt::Debug, V: fmt::Debug, S> fmt::Debug for TaggedHashMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plain.fmt(f)
    }
}
