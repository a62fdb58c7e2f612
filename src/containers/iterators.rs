//! Iterators of hash tables, whose types hide the type of the allocator.

/// Defines a type for each iterator, with the iterator traits of the plain one.
macro_rules! iterators {
    ($($(#[$attribute:meta])* $name:ident [$($generics:tt)*] $inner:ty => $item:ty;)*) => {$(
        $(#[$attribute])*
        pub struct $name<$($generics)*>(pub(super) $inner);

        impl<$($generics)*> Iterator for $name<$($generics)*> {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<$item> {
                self.0.next()
            }

            #[inline]
            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }

            #[inline]
            fn fold<B, F: FnMut(B, $item) -> B>(self, start: B, add: F) -> B {
                self.0.fold(start, add)
            }
        }

        impl<$($generics)*> ExactSizeIterator for $name<$($generics)*> {}

        impl<$($generics)*> std::iter::FusedIterator for $name<$($generics)*> {}
    )*};
}

pub(super) use iterators;
