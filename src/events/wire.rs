//! The bytes of events in the stream: how each kind of field is written, and what
//! [`event!`](crate::events::event) adds to a type so that it can be logged.

use super::declare::Loggable;
use super::field::{
    AnsiString, AnsiText, Definition, DefinitionId, Id, Kind, Pointer, Reference, WideString,
    WideText,
};
use crate::trace::write::declared::{Declared, DeclaredField, Family, Logged};
use memledger_format::arrays::Aux;

/// Values whose bytes in memory are the bytes in the stream.
///
/// # Safety
/// Every byte is initialised: there is no padding.
#[expect(unsafe_code, reason = "says that a type has no padding")]
pub unsafe trait Plain: 'static {}

#[expect(unsafe_code, reason = "says that types have no padding")]
mod plain {
    use crate::events::wire::Plain;

    // SAFETY: it has no bytes.
    unsafe impl Plain for () {}

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
    const FAMILY: Family = Family::Regular;

    fn fixed(value: Self::Value<'_>) -> Self::Fixed;

    #[inline(always)]
    fn aux(value: Self::Value<'_>) -> Aux<'_> {
        let _ = value;
        Aux::None
    }
}

/// The field `name` of kind `K`.
pub const fn field<K: WireKind + ?Sized>(name: &'static str) -> DeclaredField {
    DeclaredField { name, field_type: K::TYPE, family: K::FAMILY }
}

macro_rules! numbers {
    ($($kind:ident: $value:ident)*) => { $(
        impl WireKind for $kind {
            type Fixed = $value;
            #[inline(always)]
            fn fixed(value: $value) -> $value {
                value
            }
        }

        impl WireKind for [$kind] {
            type Fixed = ();
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
    u8: u8  u16: u16  u32: u32  u64: u64  i8: i8  i16: i16  i32: i32  i64: i64  f32: f32  f64: f64  bool: bool
    Pointer: u64
}

impl WireKind for AnsiString {
    type Fixed = ();
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

impl<E: WireDefinition<Id: WireKind>> WireKind for Reference<E> {
    type Fixed = <E::Id as WireKind>::Fixed;
    const FAMILY: Family = Family::Reference(E::definition);
    #[inline(always)]
    fn fixed(value: Self::Value<'_>) -> Self::Fixed {
        E::Id::fixed(value)
    }
}

impl<T: Id + WireKind> WireKind for DefinitionId<T> {
    type Fixed = T::Fixed;
    const FAMILY: Family = Family::DefinitionId;
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

/// An event type that can be written. [`event!`](crate::events::event) implements it.
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
/// #   type Static = Self;
/// #   const FLAGS: u8 = 0;
///     fn empty() -> Self { Self }
/// }
/// impl memledger::events::WireEvent for Strange {
/// #   type Fixed = u64;
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
    /// The fixed part of an event, whose bytes are those in the stream.
    type Fixed: Plain;
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
        impl $crate::__private::WireDefinition for $name<'_> {
            fn definition() -> &'static $crate::__private::declared::Logged {
                static LOGGED: $crate::__private::declared::Logged =
                    $crate::__private::declared::Logged::new(
                        <$name<'static> as $crate::__private::WireEvent>::declared,
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
        $name:ident $logger:literal $event:literal
        $( $field:ident: ($($kind:tt)+) )*
    ) => { const _: () = {
        #[allow(non_snake_case, dead_code)]
        #[repr(C, packed)]
        pub struct __Fixed {
            $($field: <$crate::__kind!($($kind)+) as $crate::__private::WireKind>::Fixed,)*
        }
        // SAFETY: it is packed, and no field has padding.
        unsafe impl $crate::__private::Plain for __Fixed {}

        // SAFETY: the declaration and the bytes are made from the same list of fields, and each
        // field has a kind of known size.
        unsafe impl<'event> $crate::__private::WireEvent for $name<'event> {
            type Fixed = __Fixed;
            const HAS_AUX: bool = false $(
                || <$crate::__kind!($($kind)+) as $crate::__private::Kind>::TYPE.is_array()
            )*;

            fn declared() -> &'static $crate::__private::declared::Declared {
                static DECLARED: $crate::__private::declared::Declared =
                    $crate::__private::declared::Declared::new(
                        $logger,
                        $event,
                        <$name<'static> as $crate::__private::Loggable>::FLAGS,
                        &[$(
                            $crate::__private::field::<$crate::__kind!($($kind)+)>(
                                ::core::stringify!($field),
                            )
                        ),*],
                    );
                &DECLARED
            }

            #[inline(always)]
            fn fixed(&self) -> Self::Fixed {
                __Fixed {
                    $($field: <$crate::__kind!($($kind)+) as $crate::__private::WireKind>::fixed(
                        self.$field,
                    ),)*
                }
            }

            #[inline]
            fn with_aux<R>(
                &self,
                body: impl ::core::ops::FnOnce(&[$crate::__private::format::arrays::Aux<'_>]) -> R,
            ) -> R {
                body(&[$(
                    <$crate::__kind!($($kind)+) as $crate::__private::WireKind>::aux(self.$field)
                ),*])
            }
        }
    }; };
}
