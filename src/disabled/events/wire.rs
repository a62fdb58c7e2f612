//! What [`event!`](crate::events::event) adds to a type so that it can be logged: nothing.

#[doc(hidden)]
#[macro_export]
macro_rules! __wire_definition {
    ($name:ident) => {};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __wire_event {
    ($($event:tt)*) => {};
}
