//! The methods that the entries of the hash map and of the B-tree map have in common.

/// Defines `Entry`, the view of one entry of a map, over the map's `OccupiedEntry` and
/// `VacantEntry`.
macro_rules! entry {
    ([$($generics:tt)*] [$($names:tt)*] where [$($bounds:tt)*]) => {
        /// The entry of one key in a map, as the `Entry` of the plain map.
        pub enum Entry<'a, $($generics)*> {
            /// The key has a value.
            Occupied(OccupiedEntry<'a, $($names)*>),
            /// The key has no value.
            Vacant(VacantEntry<'a, $($names)*>),
        }

        impl<'a, $($generics)*> Entry<'a, $($names)*>
        where
            $($bounds)*
        {
            /// The key.
            #[inline]
            pub fn key(&self) -> &K {
                match self {
                    Self::Occupied(entry) => entry.key(),
                    Self::Vacant(entry) => entry.key(),
                }
            }

            /// The value. If there is none, inserts `default`.
            #[inline]
            pub fn or_insert(self, default: V) -> &'a mut V {
                self.or_insert_with(|| default)
            }

            /// The value. If there is none, inserts the result of `default`, which runs outside the
            /// map's tag.
            #[inline]
            pub fn or_insert_with(self, default: impl FnOnce() -> V) -> &'a mut V {
                match self {
                    Self::Occupied(entry) => entry.into_mut(),
                    Self::Vacant(entry) => entry.insert(default()),
                }
            }

            /// The value. If there is none, inserts the result of `default` for the key.
            #[inline]
            pub fn or_insert_with_key(self, default: impl FnOnce(&K) -> V) -> &'a mut V {
                match self {
                    Self::Occupied(entry) => entry.into_mut(),
                    Self::Vacant(entry) => {
                        let value = default(entry.key());
                        entry.insert(value)
                    }
                }
            }

            /// The value. If there is none, inserts the default value. A tagged container in that
            /// value takes the tag of the thread's context; its `set_tag` gives it another.
            #[inline]
            pub fn or_default(self) -> &'a mut V
            where
                V: Default,
            {
                self.or_insert_with(V::default)
            }

            /// Changes the value, if there is one.
            #[inline]
            pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
                if let Self::Occupied(entry) = &mut self {
                    change(entry.get_mut());
                }
                self
            }
        }

        impl<$($generics)*> std::fmt::Debug for Entry<'_, $($names)*>
        where
            $($bounds)*
            K: std::fmt::Debug,
            V: std::fmt::Debug,
        {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    Self::Occupied(entry) => f.debug_tuple("Occupied").field(&entry.get()).finish(),
                    Self::Vacant(entry) => f.debug_tuple("Vacant").field(entry.key()).finish(),
                }
            }
        }
    };
}

pub(super) use entry;
