//! `event!` declares an event type: a struct that is borrowed while it is logged.

use super::field::Kind;

/// An event type of the program. [`event!`](crate::event) implements it.
#[doc(hidden)]
pub trait Loggable: Copy {
    /// An event whose fields are zero or empty.
    fn empty() -> Self;
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

        impl<'event> $crate::events::Loggable for $name<'event> {
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
        }

        $crate::__wire_event! {
            $name $logger $event [ $($($flag)*)? ]
            $( $field: ($kind $(< $($parameter)::+ >)?) )*
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
        }
        $crate::__wire_definition! { $name }
    };
    ($($other:tt)*) => {};
}
