//! `event!` declares an event type: a struct that is borrowed while it is logged.

use super::field::Kind;
use memledger_format::arrays;
use memledger_format::schema::{FieldType, IMPORTANT, NO_SYNC};

/// An event type of the program. [`event!`](crate::events::event) implements it.
#[doc(hidden)]
pub trait Loggable: Copy {
    /// This type with the lifetime `'static`. It is the type parameter of a log site.
    type Static: Loggable;
    const FLAGS: u8;

    /// An event whose fields are zero or empty.
    fn empty() -> Self;
}

/// The value of a field of kind `K` that a log site omits.
#[doc(hidden)]
#[inline(always)]
pub fn empty<'a, K: Kind + ?Sized>() -> K::Value<'a> {
    K::empty()
}

/// Panics if the stream cannot represent the event type with these flags and fields. A field is given as its
/// name, its type, and whether it is a `DefinitionId`.
#[doc(hidden)]
pub const fn check_event(logger: &str, event: &str, flags: u8, fields: &[(&str, FieldType, bool)]) {
    assert!(!logger.is_empty() && !event.is_empty(), "an event type needs two names");
    assert!(logger.len() < 256 && event.len() < 256, "a name has 255 bytes at most");
    assert!(fields.len() < 256, "an event type has 255 fields at most");
    assert!(
        flags & IMPORTANT == 0 || flags & NO_SYNC != 0,
        "an important event is not synchronised: write [Important, NoSync]"
    );
    let mut record = 6 + logger.len() + event.len();
    let mut index = 0;
    while index < fields.len() {
        let (name, field_type, is_definition_id) = fields[index];
        assert!(name.len() < 256, "a name has 255 bytes at most");
        record += 8 + name.len();
        assert!(
            !field_type.is_array() || index <= arrays::MAX_INDEX,
            "arrays and strings must be among the first 32 fields"
        );
        index += 1;
        assert!(
            !is_definition_id || index == fields.len(),
            "the id of a definition must be its last field"
        );
    }
    assert!(record <= u16::MAX as usize, "the names of an event type have too many bytes");
}

/// Compiles only for the type of a field.
#[doc(hidden)]
pub const fn check_kind<K: Kind + ?Sized>() {}

/// Panics if an event with these flags cannot begin a scope.
#[doc(hidden)]
pub const fn check_scope(flags: u8) {
    assert!(flags & IMPORTANT == 0, "an important event cannot begin a scope");
}

/// Declares event types, for [`log!`](crate::events::log).
///
/// ```
/// memledger::events::event! {
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
/// memledger::events::channel! { pub GAME = "Game"; }
///
/// memledger::events::log!(GAME, Spawned { Id: 7, Position: &[1.0, 2.0], Name: "Ümit" });
/// memledger::events::log!(GAME, Moved { Id: 7 });
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
/// Fields that a log site omits are zero or empty. An event type has at most 255 fields, with arrays and
/// strings among the first 32; a type that the stream cannot represent does not compile, with the feature
/// `enable` and without it. A program can use 4096 types; a type that is logged on two sets of channels
/// counts twice.
///
/// Without the feature `enable` only the types remain, which take no space.
#[doc(hidden)]
#[macro_export]
macro_rules! __events_event {
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
                    as $crate::__private::Kind>::Value<'event>,
            )*
            __event: ::core::marker::PhantomData<&'event ()>,
        }

        #[allow(non_snake_case, dead_code)]
        impl<'event> $name<'event> {
            $($crate::__setter! { $visibility $field 'event $kind $(< $($parameter)::+ >)? })*
        }

        $($crate::__check_kind! { $kind $kind })*
        $($crate::__definition! { $name $kind $(< $($parameter)::+ >)? })*

        impl<'event> $crate::__private::Loggable for $name<'event> {
            type Static = $name<'static>;
            const FLAGS: u8 = 0 $($(| $crate::__flag!($flag))*)?;

            #[inline(always)]
            fn empty() -> Self {
                Self {
                    $(
                        $field: $crate::__private::empty::<
                            $crate::__kind!($kind $(< $($parameter)::+ >)?)
                        >(),
                    )*
                    __event: ::core::marker::PhantomData,
                }
            }
        }

        const _: () = $crate::__private::check_event(
            $logger,
            $event,
            <$name<'static> as $crate::__private::Loggable>::FLAGS,
            &[$((
                ::core::stringify!($field),
                <$crate::__kind!($kind $(< $($parameter)::+ >)?) as $crate::__private::Kind>::TYPE,
                <$crate::__kind!($kind $(< $($parameter)::+ >)?) as $crate::__private::Kind>
                    ::IS_DEFINITION_ID,
            )),*],
        );
        $crate::__wire_event! {
            $name $logger $event
            $( $field: ($kind $(< $($parameter)::+ >)?) )*
        }
    )* };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __flag {
    (NoSync) => {
        $crate::__private::format::schema::NO_SYNC
    };
    (Important) => {
        $crate::__private::format::schema::IMPORTANT
    };
    ($unknown:ident) => {
        ::core::compile_error!(::core::concat!(
            "`",
            ::core::stringify!($unknown),
            "` is no flag of an event type: the flags are `NoSync` and `Important`"
        ))
    };
}

/// The type of a field, from its declaration.
#[doc(hidden)]
#[macro_export]
macro_rules! __kind {
    (AnsiString) => { $crate::events::AnsiString };
    (WideString) => { $crate::events::WideString };
    (Pointer) => { $crate::events::Pointer };
    (DefinitionId < $id:ident >) => { $crate::events::DefinitionId<$id> };
    (Reference < $($target:ident)::+ >) => {
        $crate::events::Reference<$($target)::+<'static>>
    };
    ([ $($element:tt)+ ]) => { [$crate::__kind!($($element)+)] };
    // A field cannot have these types: another one, so that `__check_kind!` has the only error.
    (String) => { u64 }; (str) => { u64 }; (usize) => { u64 };
    ($($number:tt)+) => { $($number)+ };
}

/// Of a type that is often taken for one of a field, written twice: an error at the second.
#[doc(hidden)]
#[macro_export]
macro_rules! __check_kind {
    (@ $kind:tt) => {
        const _: () = $crate::__private::check_kind::<$kind>();
    };
    ([ $first:tt ] [ $second:tt ]) => {
        $crate::__check_kind! { $first $second }
    };
    (String $kind:tt) => {
        $crate::__check_kind! { @ $kind }
    };
    (str $kind:tt) => {
        $crate::__check_kind! { @ $kind }
    };
    (usize $kind:tt) => {
        $crate::__check_kind! { @ $kind }
    };
    ($kind:tt $same:tt) => {};
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
            value: <$crate::__kind!($($kind)+) as $crate::__private::Kind>::Value<$event>,
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
        impl $crate::__private::Definition for $name<'_> {
            type Id = $id;
        }
        $crate::__wire_definition! { $name }
    };
    ($($other:tt)*) => {};
}
