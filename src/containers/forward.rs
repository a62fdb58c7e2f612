//! Methods and traits that a container forwards to the plain container in it.

/// Forwards methods of the plain container that allocate nothing, or allocate only through a
/// `TagAllocator`.
macro_rules! forward {
    ($field:ident of $plain:ident:) => {};
    (
        $field:ident of $plain:ident:
        fn $name:ident $([$($generics:tt)*])? (&$this:ident $(, $arg:ident: $type:ty)*)
            $(-> $result:ty)?;
        $($rest:tt)*
    ) => {
        #[doc = concat!("As [`", stringify!($plain), "::", stringify!($name), "`].")]
        #[inline]
        pub fn $name $(<$($generics)*>)? (&$this $(, $arg: $type)*) $(-> $result)? {
            $this.$field.$name($($arg),*)
        }
        forward! { $field of $plain: $($rest)* }
    };
    (
        $field:ident of $plain:ident:
        fn $name:ident $([$($generics:tt)*])? (&mut $this:ident $(, $arg:ident: $type:ty)*)
            $(-> $result:ty)?;
        $($rest:tt)*
    ) => {
        #[doc = concat!("As [`", stringify!($plain), "::", stringify!($name), "`].")]
        #[inline]
        #[track_caller]
        pub fn $name $(<$($generics)*>)? (&mut $this $(, $arg: $type)*) $(-> $result)? {
            $this.$field.$name($($arg),*)
        }
        forward! { $field of $plain: $($rest)* }
    };
}

/// Forwards, under the tag, methods that change the capacity and do not run the program's code.
macro_rules! resizing {
    ($field:ident of $plain:ident: $(
        fn $name:ident(&mut $this:ident $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;
    )*) => {$(
        #[doc = concat!("As [`", stringify!($plain), "::", stringify!($name), "`], under the tag.")]
        #[track_caller]
        pub fn $name(&mut $this $(, $arg: $type)*) $(-> $result)? {
            let plain = &mut $this.$field;
            $this.tag.run(|| plain.$name($($arg),*))
        }
    )*};
}

/// Implements `AsRef`, `AsMut`, `Borrow` and `BorrowMut` for the target that a container
/// dereferences to.
macro_rules! borrows {
    ([$($generics:tt)*] $container:ty as $target:ty) => {
        impl<$($generics)*> AsRef<$target> for $container {
            #[inline]
            fn as_ref(&self) -> &$target {
                self
            }
        }

        impl<$($generics)*> AsMut<$target> for $container {
            #[inline]
            fn as_mut(&mut self) -> &mut $target {
                self
            }
        }

        impl<$($generics)*> std::borrow::Borrow<$target> for $container {
            #[inline]
            fn borrow(&self) -> &$target {
                self
            }
        }

        impl<$($generics)*> std::borrow::BorrowMut<$target> for $container {
            #[inline]
            fn borrow_mut(&mut self) -> &mut $target {
                self
            }
        }
    };
}

/// Implements equality, order, hash and `Debug` by the contents of the container; the tag is
/// ignored.
macro_rules! compares {
    ($field:ident: [$($parameter:ident $(: ?$sized:ident)?),*] $container:ty) => {
        impl<$($parameter: PartialEq $(+ ?$sized)?),*> PartialEq for $container {
            #[inline]
            fn eq(&self, other: &Self) -> bool {
                self.$field == other.$field
            }
        }

        impl<$($parameter: Eq $(+ ?$sized)?),*> Eq for $container {}

        #[allow(clippy::non_canonical_partial_ord_impl, reason = "others are not `Ord`")]
        impl<$($parameter: PartialOrd $(+ ?$sized)?),*> PartialOrd for $container {
            #[inline]
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                self.$field.partial_cmp(&other.$field)
            }
        }

        impl<$($parameter: Ord $(+ ?$sized)?),*> Ord for $container {
            #[inline]
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                self.$field.cmp(&other.$field)
            }
        }

        impl<$($parameter: std::hash::Hash $(+ ?$sized)?),*> std::hash::Hash for $container {
            #[inline]
            fn hash<S: std::hash::Hasher>(&self, state: &mut S) {
                self.$field.hash(state);
            }
        }

        impl<$($parameter: std::fmt::Debug $(+ ?$sized)?),*> std::fmt::Debug for $container {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.$field.fmt(f)
            }
        }
    };
}

/// Implements equality with other types that the plain container compares with, in one direction:
/// no impl is for a type of another crate.
macro_rules! equals {
    ($field:ident: $([$($generics:tt)*] $container:ty = $other:ty;)*) => {$(
        impl<$($generics)*> PartialEq<$other> for $container {
            #[inline]
            fn eq(&self, other: &$other) -> bool {
                self.$field == *other
            }
        }
    )*};
}

pub(super) use {borrows, compares, equals, forward, resizing};
