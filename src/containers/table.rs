//! The methods and traits that the hash map and the hash set have in common.

/// Defines the constructors, `set_tag`, `Clone` and `Default` of a container over a hash table.
macro_rules! table {
    ($plain:ident $tagged:ident [$($parameter:ident),*] of $key:ident) => {
        impl<$($parameter),*> $tagged<$($parameter),*> {
            /// An empty container; allocates nothing.
            #[inline]
            pub fn new(tag: Tag) -> Self {
                Self::with_hasher(tag, RandomState::new())
            }

            /// An empty container with room for at least `capacity` elements.
            ///
            /// # Panics
            #[doc = concat!("As [`", stringify!($plain), "::with_capacity`].")]
            pub fn with_capacity(tag: Tag, capacity: usize) -> Self {
                Self::with_capacity_and_hasher(tag, capacity, RandomState::new())
            }
        }

        impl<$($parameter,)* S> $tagged<$($parameter,)* S> {
            /// An empty container with this hasher; allocates nothing.
            #[inline]
            pub fn with_hasher(tag: Tag, hasher: S) -> Self {
                Self::with_capacity_and_hasher(tag, 0, hasher)
            }

            /// An empty container with this hasher, and room for at least `capacity` elements.
            ///
            /// # Panics
            #[doc = concat!("As [`", stringify!($plain), "::with_capacity_and_hasher`].")]
            #[inline]
            pub fn with_capacity_and_hasher(tag: Tag, capacity: usize, hasher: S) -> Self {
                Self::with_room(OwnTag::of::<Self>(tag), capacity, hasher)
            }

            #[inline]
            fn with_room(tag: OwnTag, capacity: usize, hasher: S) -> Self {
                let allocator = TagAllocator::new(tag);
                Self { plain: Plain::with_capacity_and_hasher_in(capacity, hasher, allocator) }
            }
        }

        impl<$($parameter,)* S: BuildHasher> $tagged<$($parameter,)* S>
        where
            $key: Eq + Hash,
        {
            /// Changes its tag: the memory that it holds, and all that it allocates later, belongs
            /// to `tag`.
            ///
            /// Costs one event if it holds a table. Memory that the elements hold themselves keeps
            /// its tag.
            pub fn set_tag(&mut self, tag: Tag) {
                let allocator = self.plain.allocator();
                let mut own = allocator.tag();
                if own.change(OwnTag::of::<Self>(tag)) {
                    own.claim(allocator.block(self.plain.allocation_size()));
                }
                allocator.set_tag(own);
            }
        }

        impl<$($parameter: Clone,)* S: Clone> Clone for $tagged<$($parameter,)* S> {
            fn clone(&self) -> Self {
                Self { plain: self.plain.clone() }
            }

            /// Keeps its own tag.
            fn clone_from(&mut self, source: &Self) {
                // NOTE: the elements are dropped first. If a destructor panics inside the plain
                // `clone_from`, the plain table leaks its block.
                self.plain.clear();
                self.plain.clone_from(&source.plain);
            }
        }

        impl<$($parameter,)* S: Default> Default for $tagged<$($parameter,)* S> {
            /// Empty, with the tag of the thread's context, if it has one.
            #[inline]
            fn default() -> Self {
                Self::with_room(OwnTag::of_thread(), 0, S::default())
            }
        }
    };
}

pub(super) use table;
