//! `event!` declares an event type: a struct that is borrowed while it is logged.

use super::field::Kind;
#[cfg(tracking)]
use super::field::Plain;
#[cfg(tracking)]
use crate::trace::write::declared::Declared;
#[cfg(tracking)]
use memledger_format::arrays::Aux;

/// An event type of the program. [`event!`](crate::event) implements it.
///
/// # Safety
/// The bytes of `fixed` and `with_aux` must have the layout that `declared` describes: its flags,
/// and its fields with the same sizes in the same order. The worker finds the next event in a
/// buffer by the declaration alone.
///
/// For this reason, an implementation needs `unsafe`:
/// ```compile_fail,E0200
/// #[derive(Clone, Copy)]
/// struct Strange;
/// impl memledger::events::Loggable for Strange {
/// #   #[cfg(tracking)]
/// #   type Static = Self;
/// #   #[cfg(tracking)]
/// #   type Fixed = u64;
/// #   #[cfg(tracking)]
/// #   const FLAGS: u8 = 0;
/// #   #[cfg(tracking)]
/// #   const HAS_AUX: bool = false;
///     fn empty() -> Self { Self }
/// #   #[cfg(tracking)]
/// #   fn declared() -> &'static memledger::events::declared::Declared {
/// #       static TYPE: memledger::events::declared::Declared =
/// #           memledger::events::declared::Declared::new("Logger", "Strange", 0, &[]);
/// #       &TYPE
/// #   }
/// #   #[cfg(tracking)]
/// #   fn fixed(&self) -> u64 { 0 }
/// #   #[cfg(tracking)]
/// #   fn with_aux<R>(
/// #       &self,
/// #       body: impl FnOnce(&[memledger::__format::arrays::Aux<'_>]) -> R,
/// #   ) -> R { body(&[]) }
/// }
/// ```
#[expect(unsafe_code, reason = "says that bytes are as declared")]
#[doc(hidden)]
pub unsafe trait Loggable: Copy {
    /// This type with the lifetime `'static`. It is the type parameter of a log site.
    #[cfg(tracking)]
    type Static: Loggable;
    /// The fixed part of an event, whose bytes are those in the stream.
    #[cfg(tracking)]
    type Fixed: Plain;
    #[cfg(tracking)]
    const FLAGS: u8;
    #[cfg(tracking)]
    const HAS_AUX: bool;

    /// An event whose fields are zero or empty.
    fn empty() -> Self;

    #[cfg(tracking)]
    fn declared() -> &'static Declared;

    #[cfg(tracking)]
    fn fixed(&self) -> Self::Fixed;

    /// Calls `body` with one [`Aux`] for each field; that of a field that is neither array nor
    /// string is empty.
    #[cfg(tracking)]
    fn with_aux<R>(&self, body: impl FnOnce(&[Aux<'_>]) -> R) -> R;
}

/// The value of a field of kind `K` that a log site omits.
#[doc(hidden)]
#[inline(always)]
pub fn empty<'a, K: Kind + ?Sized>() -> K::Value<'a> {
    K::empty()
}

/// Declares event types, for [`log!`](crate::log).
///
/// ```
/// memledger::event! {
///     /// A creature appeared.
///     pub Spawned = "Game"."Spawned" {
///         Id: u32,
///         Position: [f32],
///         Name: WideString,
///     }
///     /// What a kind of creature is called: kept for readers that come later.
///     pub Kind = "Game"."Kind" [Important, NoSync] {
///         Name: AnsiString,
///         Id: DefinitionId<u8>,
///     }
///     /// A creature moved. Ordered within its thread only, which makes it cheaper.
///     pub Moved = "Game"."Moved" [NoSync] { Id: u32, Kind: Reference<Kind> }
/// }
/// memledger::channel! { pub GAME = "Game"; }
///
/// memledger::log!(GAME, Spawned { Id: 7, Position: &[1.0, 2.0], Name: "Ümit" });
/// memledger::log!(GAME, Moved { Id: 7 });
/// ```
/// Each event type is a Rust type with the given visibility, attributes and name; it is imported
/// like any other type. The two names in quotes, of at most 255 bytes each, are those of the logger
/// and the event in the stream. `memledger events` and Unreal's tools show these names.
///
/// | flag | meaning |
/// |---|---|
/// | `NoSync` | not in the one order of events over all threads: a header of 2 bytes instead of 5, and no memory shared with other threads |
/// | `Important` | cached, and sent first to every reader that connects later; at most 65 535 bytes. Must be `NoSync` |
///
/// | field | at a log site | on the wire |
/// |---|---|---|
/// | `u8` to `u64`, `i8` to `i64`, `f32`, `f64`, `bool` | the same | its bytes (`bool`: 0 or 1) |
/// | `Pointer` | `*const T` | `u64` |
/// | `[u8]`, `[f32]`, ... , `[Pointer]` | a slice of these, `&[u64]` of pointers | its elements |
/// | `AnsiString` | `&str`, `&String`, `&CStr`, `&[u8]`; of each unit of a `&[u16]`, seven bits | bytes |
/// | `WideString` | `&str` | UTF-16 |
/// | `DefinitionId<u32>` | an unsigned integer, by which other events refer to this one. Must be the last field | the integer |
/// | `Reference<Other>` | such an integer, of an event of that type | the integer |
///
/// Fields that a log site omits are zero or empty. An event type has at most 255 fields, with
/// arrays and strings among the first 32; a type that the stream cannot represent does not compile.
/// A program can use 4096 types; a type that is logged on two sets of channels counts twice.
///
/// Without the feature `enable` only the types remain, which take no space.
#[macro_export]
macro_rules! event {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis $name:ident = $logger:literal . $event:literal
        $([ $($flag:ident),* $(,)? ])? {
            $(
                $(#[$field_attribute:meta])*
                $field:ident : $kind:tt $(< $($parameter:ident)::+ >)?
            ),* $(,)?
        }
    )*) => { $(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug)]
        #[allow(non_snake_case, dead_code)]
        $visibility struct $name<'event> {
            $(
                $(#[$field_attribute])*
                $field: <$crate::__kind!($kind $(< $($parameter)::+ >)?)
                    as $crate::events::Kind>::Value<'event>,
            )*
            __event: ::core::marker::PhantomData<&'event ()>,
        }

        #[allow(non_snake_case, dead_code)]
        impl<'event> $name<'event> {
            $($crate::__setter! { $visibility $field 'event $kind $(< $($parameter)::+ >)? })*
        }

        $($crate::__definition! { $name $kind $(< $($parameter)::+ >)? })*

        // SAFETY: the declaration and the bytes are made from the same list of fields, and each
        // field has a kind of known size.
        unsafe impl<'event> $crate::events::Loggable for $name<'event> {
            #[inline(always)]
            fn empty() -> Self {
                Self {
                    $(
                        $field: $crate::events::empty::<
                            $crate::__kind!($kind $(< $($parameter)::+ >)?)
                        >(),
                    )*
                    __event: ::core::marker::PhantomData,
                }
            }

            $crate::__on_the_wire! {
                $name $logger $event [ $($($flag)*)? ]
                $( $field: ($kind $(< $($parameter)::+ >)?) )*
            }
        }
    )* };
}

/// The type of a field, from its declaration.
#[doc(hidden)]
#[macro_export]
macro_rules! __kind {
    (AnsiString) => { $crate::events::AnsiString };
    (WideString) => { $crate::events::WideString };
    (Pointer) => { $crate::events::Pointer };
    ([Pointer]) => { [$crate::events::Pointer] };
    (DefinitionId < $id:ident >) => { $crate::events::DefinitionId<$id> };
    (Reference < $($target:ident)::+ >) => {
        $crate::events::Reference<$($target)::+<'static>>
    };
    ($number:tt) => { $number };
}

/// Sets the value of a field.
#[doc(hidden)]
#[macro_export]
macro_rules! __setter {
    ($visibility:vis $field:ident $event:lifetime AnsiString) => {
        #[doc(hidden)]
        #[inline(always)]
        $visibility fn $field(
            mut self,
            value: impl ::core::convert::Into<$crate::events::AnsiText<$event>>,
        ) -> Self {
            self.$field = value.into();
            self
        }
    };
    ($visibility:vis $field:ident $event:lifetime WideString) => {
        #[doc(hidden)]
        #[inline(always)]
        $visibility fn $field(
            mut self,
            value: impl ::core::convert::Into<$crate::events::WideText<$event>>,
        ) -> Self {
            self.$field = value.into();
            self
        }
    };
    ($visibility:vis $field:ident $event:lifetime Pointer) => {
        #[doc(hidden)]
        #[inline(always)]
        $visibility fn $field<T: ?::core::marker::Sized>(mut self, value: *const T) -> Self {
            self.$field = value.addr() as u64;
            self
        }
    };
    ($visibility:vis $field:ident $event:lifetime $($kind:tt)+) => {
        #[doc(hidden)]
        #[inline(always)]
        $visibility fn $field(
            mut self,
            value: <$crate::__kind!($($kind)+) as $crate::events::Kind>::Value<$event>,
        ) -> Self {
            self.$field = value;
            self
        }
    };
}

/// Implements the trait that other event types need in order to refer to this one.
#[doc(hidden)]
#[macro_export]
macro_rules! __definition {
    ($name:ident DefinitionId < $id:ident >) => {
        impl $crate::events::Definition for $name<'_> {
            type Id = $id;
            $crate::__its_definition! { $name }
        }
    };
    ($($other:tt)*) => {};
}

#[cfg(tracking)]
#[doc(hidden)]
#[macro_export]
macro_rules! __its_definition {
    ($name:ident) => {
        fn definition() -> &'static $crate::events::declared::Logged {
            static LOGGED: $crate::events::declared::Logged = $crate::events::declared::Logged::new(
                <$name<'static> as $crate::events::Loggable>::declared,
                &[],
            );
            &LOGGED
        }
    };
}

#[cfg(not(tracking))]
#[doc(hidden)]
#[macro_export]
macro_rules! __its_definition {
    ($name:ident) => {};
}

/// The declaration of an event type in the stream.
#[cfg(tracking)]
#[doc(hidden)]
#[macro_export]
macro_rules! __on_the_wire {
    (
        $name:ident $logger:literal $event:literal [ $($flag:ident)* ]
        $( $field:ident: ($($kind:tt)+) )*
    ) => {
        type Static = $name<'static>;
        type Fixed = $crate::__fixed_type!($(($($kind)+))*);
        const FLAGS: u8 = 0 $(| $crate::__flag!($flag))*;
        const HAS_AUX: bool = false $(
            || <$crate::__kind!($($kind)+) as $crate::events::Kind>::TYPE.is_array()
        )*;

        fn declared() -> &'static $crate::events::declared::Declared {
            static DECLARED: $crate::events::declared::Declared =
                $crate::events::declared::Declared::new(
                    $logger,
                    $event,
                    0 $(| $crate::__flag!($flag))*,
                    &[$(
                        $crate::events::field::<$crate::__kind!($($kind)+)>(
                            ::core::stringify!($field),
                            $crate::__family!($($kind)+),
                        )
                    ),*],
                );
            &DECLARED
        }

        #[inline(always)]
        fn fixed(&self) -> Self::Fixed {
            $crate::__fixed_value!(self $($field ($($kind)+))*)
        }

        #[inline]
        fn with_aux<R>(
            &self,
            body: impl ::core::ops::FnOnce(&[$crate::__format::arrays::Aux<'_>]) -> R,
        ) -> R {
            body(&[$(
                <$crate::__kind!($($kind)+) as $crate::events::Kind>::aux(self.$field)
            ),*])
        }
    };
}

#[cfg(not(tracking))]
#[doc(hidden)]
#[macro_export]
macro_rules! __on_the_wire {
    (
        $name:ident $logger:literal $event:literal [ $($flag:ident)* ]
        $( $field:ident: ($($kind:tt)+) )*
    ) => {};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __flag {
    (NoSync) => {
        $crate::__format::schema::NO_SYNC
    };
    (Important) => {
        $crate::__format::schema::IMPORTANT
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __family {
    (DefinitionId $($rest:tt)*) => { $crate::events::declared::Family::DefinitionId };
    (Reference < $($target:ident)::+ >) => {
        $crate::events::declared::Family::Reference(
            <$($target)::+<'static> as $crate::events::Definition>::definition,
        )
    };
    ($($other:tt)+) => { $crate::events::declared::Family::Regular };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __fixed_type {
    () => { () };
    (($($kind:tt)+) $($rest:tt)*) => {
        $crate::events::Cons<
            <$crate::__kind!($($kind)+) as $crate::events::Kind>::Fixed,
            $crate::__fixed_type!($($rest)*),
        >
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __fixed_value {
    ($event:ident) => { () };
    ($event:ident $field:ident ($($kind:tt)+) $($rest:tt)*) => {
        $crate::events::Cons(
            <$crate::__kind!($($kind)+) as $crate::events::Kind>::fixed($event.$field),
            $crate::__fixed_value!($event $($rest)*),
        )
    };
}
