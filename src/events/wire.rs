//! The bytes of events in the stream: how each kind of field is written, and what [`event!`](crate::event) adds to a
//! type so that it can be logged.

use super::declare::Loggable;
use super::field::{
    AnsiString, AnsiText, Definition, DefinitionId, Id, Kind, Pointer, Reference, WideString,
    WideText,
};
use crate::trace::write::declared::{Declared, DeclaredField, Family, Logged};
use memledger_format::arrays::Aux;
use memledger_format::schema::FieldType;

/// Values whose bytes in memory are the bytes in the stream.
///
/// # Safety
/// Every byte is initialised: there is no padding.
#[expect(unsafe_code, reason = "says that a type has no padding")]
#[doc(hidden)]
pub unsafe trait Plain: Copy + 'static {}

/// Two values without padding between them.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed)]
#[doc(hidden)]
pub struct Cons<A: Plain, B: Plain>(pub A, pub B);

#[expect(unsafe_code, reason = "says that types have no padding")]
mod plain {
    use super::{Cons, Plain};

    // SAFETY: it has no bytes.
    unsafe impl Plain for () {}
    // SAFETY: it is packed, and neither part has padding.
    unsafe impl<A: Plain, B: Plain> Plain for Cons<A, B> {}

    macro_rules! plain {
        ($($number:ty)*) => { $(
            // SAFETY: a number has no padding, and a bool is one byte, 0 or 1.
            unsafe impl Plain for $number {}
        )* };
    }
    plain! { u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 bool }

    pub(crate) fn bytes_of<T: Plain>(values: &[T]) -> &[u8] {
        // SAFETY: all of them are initialised, and a byte has no alignment.
        unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
    }
}
pub(crate) use plain::bytes_of;

/// A kind of field that can be written.
#[doc(hidden)]
pub trait WireKind: Kind {
    /// The part of the value that is written to the fixed part of the event.
    type Fixed: Plain;
    const TYPE: FieldType;

    fn fixed(value: Self::Value<'_>) -> Self::Fixed;

    #[inline(always)]
    fn aux(value: Self::Value<'_>) -> Aux<'_> {
        let _ = value;
        Aux::None
    }
}

/// The field `name` of kind `K`.
#[doc(hidden)]
pub const fn field<K: WireKind + ?Sized>(name: &'static str, family: Family) -> DeclaredField {
    DeclaredField { name, field_type: K::TYPE, family }
}

macro_rules! numbers {
    ($($kind:ident: $value:ident $name:ident $array:ident)*) => { $(
        impl WireKind for $kind {
            type Fixed = $value;
            const TYPE: FieldType = FieldType::$name;
            #[inline(always)]
            fn fixed(value: $value) -> $value {
                value
            }
        }

        impl WireKind for [$kind] {
            type Fixed = ();
            const TYPE: FieldType = FieldType::$array;
            #[inline(always)]
            fn fixed(_: &[$value]) {}
            #[inline(always)]
            fn aux(value: Self::Value<'_>) -> Aux<'_> {
                Aux::Elements(bytes_of(value), size_of::<$value>())
            }
        }
    )* };
}
numbers! {
    u8: u8 U8 U8Array  u16: u16 U16 U16Array  u32: u32 U32 U32Array  u64: u64 U64 U64Array
    i8: i8 I8 I8Array  i16: i16 I16 I16Array  i32: i32 I32 I32Array  i64: i64 I64 I64Array
    f32: f32 F32 F32Array  f64: f64 F64 F64Array  bool: bool U8 U8Array  Pointer: u64 U64 U64Array
}

impl WireKind for AnsiString {
    type Fixed = ();
    const TYPE: FieldType = FieldType::AnsiString;
    #[inline(always)]
    fn fixed(_: AnsiText<'_>) {}
    #[inline(always)]
    fn aux(value: Self::Value<'_>) -> Aux<'_> {
        match value {
            AnsiText::Bytes(bytes) => Aux::Elements(bytes, 1),
            AnsiText::Text(text) => Aux::NarrowedText(text),
            AnsiText::Wide(units) => Aux::Narrowed(units),
        }
    }
}

impl WireKind for WideString {
    type Fixed = ();
    const TYPE: FieldType = FieldType::WideString;
    #[inline(always)]
    fn fixed(_: WideText<'_>) {}
    #[inline(always)]
    fn aux(value: Self::Value<'_>) -> Aux<'_> {
        match value {
            WideText::Text(text) => Aux::Widened(text),
            WideText::Wide(units) => Aux::Elements(bytes_of(units), 2),
        }
    }
}

impl<E: Definition<Id: WireKind>> WireKind for Reference<E> {
    type Fixed = <E::Id as WireKind>::Fixed;
    const TYPE: FieldType = <E::Id as WireKind>::TYPE;
    #[inline(always)]
    fn fixed(value: Self::Value<'_>) -> Self::Fixed {
        E::Id::fixed(value)
    }
}

impl<T: Id + WireKind> WireKind for DefinitionId<T> {
    type Fixed = T::Fixed;
    const TYPE: FieldType = T::TYPE;
    #[inline(always)]
    fn fixed(value: Self::Value<'_>) -> Self::Fixed {
        T::fixed(value)
    }
}

/// An event type that references of other types can be resolved to.
#[doc(hidden)]
pub trait WireDefinition: Definition {
    fn definition() -> &'static Logged;
}

/// An event type that can be written. [`event!`](crate::event) implements it.
///
/// # Safety
/// The bytes of `fixed` and `with_aux` must have the layout that `declared` describes: its flags,
/// and its fields with the same sizes in the same order. The worker finds the next event in a
/// buffer by the declaration alone.
///
/// For this reason, an implementation needs `unsafe`:
/// ```compile_fail,E0200
/// # use memledger::events::declared::Declared;
/// #[derive(Clone, Copy)]
/// struct Strange;
/// impl memledger::events::Loggable for Strange {
///     fn empty() -> Self { Self }
/// }
/// impl memledger::events::WireEvent for Strange {
/// #   type Static = Self;
/// #   type Fixed = u64;
/// #   const FLAGS: u8 = 0;
/// #   const HAS_AUX: bool = false;
///     fn declared() -> &'static Declared {
///         static TYPE: Declared = Declared::new("Logger", "Strange", 0, &[]);
///         &TYPE
///     }
/// #   fn fixed(&self) -> u64 { 0 }
/// #   fn with_aux<R>(
/// #       &self,
/// #       body: impl FnOnce(&[memledger::trace::format::arrays::Aux<'_>]) -> R,
/// #   ) -> R { body(&[]) }
/// }
/// ```
#[expect(unsafe_code, reason = "says that bytes are as declared")]
#[doc(hidden)]
pub unsafe trait WireEvent: Loggable {
    /// This type with the lifetime `'static`. It is the type parameter of a log site.
    type Static: WireEvent;
    /// The fixed part of an event, whose bytes are those in the stream.
    type Fixed: Plain;
    const FLAGS: u8;
    const HAS_AUX: bool;

    fn declared() -> &'static Declared;

    fn fixed(&self) -> Self::Fixed;

    /// Calls `body` with one [`Aux`] for each field; that of a field that is neither array nor
    /// string is empty.
    fn with_aux<R>(&self, body: impl FnOnce(&[Aux<'_>]) -> R) -> R;
}

/// Lets references be resolved to an event type.
#[doc(hidden)]
#[macro_export]
macro_rules! __wire_definition {
    ($name:ident) => {
        impl $crate::events::WireDefinition for $name<'_> {
            fn definition() -> &'static $crate::events::declared::Logged {
                static LOGGED: $crate::events::declared::Logged =
                    $crate::events::declared::Logged::new(
                        <$name<'static> as $crate::events::WireEvent>::declared,
                        &[],
                    );
                &LOGGED
            }
        }
    };
}

/// The declaration of an event type in the stream, and the bytes of its events.
#[doc(hidden)]
#[macro_export]
macro_rules! __wire_event {
    (
        $name:ident $logger:literal $event:literal [ $($flag:ident)* ]
        $( $field:ident: ($($kind:tt)+) )*
    ) => {
        // SAFETY: the declaration and the bytes are made from the same list of fields, and each
        // field has a kind of known size.
        unsafe impl<'event> $crate::events::WireEvent for $name<'event> {
            type Static = $name<'static>;
            type Fixed = $crate::__fixed_type!($(($($kind)+))*);
            const FLAGS: u8 = 0 $(| $crate::__flag!($flag))*;
            const HAS_AUX: bool = false $(
                || <$crate::__kind!($($kind)+) as $crate::events::WireKind>::TYPE.is_array()
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
                    <$crate::__kind!($($kind)+) as $crate::events::WireKind>::aux(self.$field)
                ),*])
            }
        }
    };
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
            <$($target)::+<'static> as $crate::events::WireDefinition>::definition,
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
            <$crate::__kind!($($kind)+) as $crate::events::WireKind>::Fixed,
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
            <$crate::__kind!($($kind)+) as $crate::events::WireKind>::fixed($event.$field),
            $crate::__fixed_value!($event $($rest)*),
        )
    };
}
