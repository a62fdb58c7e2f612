//! `track_event!` and its short forms.

/// Emits a track event, if its category is enabled.
///
/// ```
/// use memledger::perfetto::{ChildOrder, FlowId, Track, track_event};
/// memledger::perfetto::categories! { GAME = "game"; }
/// # let (frame, player, job) = (1_u32, "Ümit", 7);
///
/// track_event!(GAME, slice_begin("frame"), arg("number", frame), arg("player", player));
/// track_event!(GAME, instant("sent"), flow(FlowId::process_scoped(job)));
/// track_event!(GAME, instant("door"), named_track("doors", 3, Track::process()));
/// track_event!(
///     GAME,
///     instant("drawn"),
///     nested_tracks[
///         process,
///         named("stages", 0, [child_order(ChildOrder::Explicit)]),
///         named("draw", 0, [order(2)])
///     ],
/// );
/// track_event!(GAME, slice_end());
///
/// let score = Track::counter("score").register()?;
/// track_event!(GAME, counter(), count(42), track(score));
/// # Ok::<(), memledger::Error>(())
/// ```
/// While the category is off, this costs one relaxed load, and no expression is evaluated. Otherwise
/// the event is written to a buffer of this thread, without a lock or an allocation, in about 11 ns (100
/// ns if there is a text among the values; `cargo bench -p memledger-benches --bench track_events`).
///
/// | event | |
/// |---|---|
/// | `slice_begin(name)`, `slice_end()` | a slice on the track of the thread, or on another. [`slice!`](crate::perfetto::slice) does both |
/// | `instant(name)` | a moment |
/// | `counter()` | the value `count(..)` of the counter `track(..)`: [`counter!`](crate::perfetto::counter) |
/// | `state(name)` | from here on the state of the track is this one; an empty name: none |
///
/// A name, that of an argument and of a track too, is a literal, or any other expression that is a `&str`;
/// then it is one more text among the values.
///
/// | extra | |
/// |---|---|
/// | `arg("name", value)` | an argument: see [`TrackValue`](crate::perfetto::TrackValue) |
/// | `track(track)` | the event is on a registered [`Track`](crate::perfetto::Track) |
/// | `named_track("name", id, parent)` | on the track with this name and id, within the [`Track`](crate::perfetto::Track) `parent` |
/// | `nested_tracks[..]` | on the last of several tracks, the outermost first: `process`, `thread`, `named("name", id)`, `named("name", id, [..])`, `track(track)`, `proto(id, [field(..), ..])`. In the list are `child_order(..)`, `order(rank)` and `merge_by("key")`, as of a [`TrackBuilder`](crate::perfetto::TrackBuilder), and fields of its `TrackDescriptor` |
/// | `proto_track(uuid, [field(..), ..])` | on the track with this uuid, whose `TrackDescriptor` has these fields |
/// | `timestamp(clock, time)` | at this time of a clock of Perfetto; 6: nanoseconds since the system was started |
/// | `category("name")` | the category of this event, if the event's own is [`DYNAMIC`](crate::perfetto::DYNAMIC): each session decides |
/// | `flow(id)`, `terminating_flow(id)` | an arrow to the next event with this id, and from the last one: a [`FlowId`](crate::perfetto::FlowId) |
/// | `correlation(id)` | events with this number or text belong together |
/// | `count(value)` | an integer or a floating-point number |
/// | `field(number, value)`, `interned(number, list, "text")`, `message(number, [field(..), ..])` | a field of `TrackEvent` |
/// | `no_intern` | the name is written out: for names that are never used again |
/// | `flush` | the session writes what it has |
///
/// Of several tracks, times or categories the last one counts. An event has at most 32 values, 8 of them
/// texts; more do not compile. Of an event with more than 8 values, all types must be known: none is a
/// parameter of a generic function.
#[doc(hidden)]
#[macro_export]
macro_rules! __perfetto_track_event {
    ($category:path, $kind:ident $(($($name:tt)*))? $(, $($extras:tt)*)?) => {
        if $category.is_enabled() {
            $crate::__track_event! { ($category) $kind ($($($name)*)?) [] [] $($($extras)*)? }
        }
    };
}

/// Takes one extra after the other: what it does goes to the first list, its values to the second.
#[doc(hidden)]
#[macro_export]
macro_rules! __track_event {
    ($c:tt $k:ident $n:tt $r:tt $v:tt , $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n $r $v $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] arg($name:literal, $value:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* Arg($name),] [$($v)* ($value)] $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] arg($name:expr, $value:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* NamedArg,] [$($v)* (::core::convert::identity::<&str>($name)) ($value)] $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] track($track:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* Track,] [$($v)* ($crate::perfetto::Track::uuid($track))] $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] named_track($name:literal, $id:expr, $parent:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! {
            $c $k $n [$($r)* NamedTrack($name),]
            [$($v)* (::core::convert::identity::<u64>($id)) ($crate::perfetto::Track::uuid($parent))]
            $($rest)*
        }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] named_track($name:expr, $id:expr, $parent:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! {
            $c $k $n [$($r)* TextTrack,]
            [$($v)* (::core::convert::identity::<&str>($name)) (::core::convert::identity::<u64>($id)) ($crate::perfetto::Track::uuid($parent))]
            $($rest)*
        }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] timestamp($clock:expr, $time:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! {
            $c $k $n [$($r)* Timestamp,]
            [$($v)* (::core::convert::identity::<u64>($clock)) (::core::convert::identity::<u64>($time))]
            $($rest)*
        }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] category($text:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* DynamicCategory,] [$($v)* (::core::convert::identity::<&str>($text))] $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] flow($id:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* Flow,] [$($v)* ($crate::perfetto::FlowId::get($id))] $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] terminating_flow($id:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* TerminatingFlow,] [$($v)* ($crate::perfetto::FlowId::get($id))] $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] correlation($id:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* Correlation,] [$($v)* ($id)] $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] count($value:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* Count,] [$($v)* ($value)] $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] $v:tt no_intern $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* NoIntern,] $v $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] $v:tt flush $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* Flush,] $v $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] field($number:expr, $value:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* Field($number),] [$($v)* ($value)] $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] interned($number:expr, $list:expr, $text:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* InternedField($number, $list),] [$($v)* (::core::convert::identity::<&str>($text))] $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] $v:tt message($number:expr, [$($inner:tt)*] $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* Message($number),] $v $($inner)* @end $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] proto_track($uuid:expr, [$($inner:tt)*] $(,)?) $($rest:tt)*) => {
        $crate::__track_event! {
            $c $k $n [$($r)* ProtoTrack,] [$($v)* (::core::convert::identity::<u64>($uuid))]
            $($inner)* @end $($rest)*
        }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] $v:tt nested_tracks[$($inner:tt)*] $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* Nested,] $v $($inner)* @end $($rest)* }
    };
    // Within `nested_tracks`.
    ($c:tt $k:ident $n:tt [$($r:tt)*] $v:tt thread $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* Thread,] $v $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] $v:tt process $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* Process,] $v $($rest)* }
    };
    ($c:tt $k:ident $n:tt $r:tt $v:tt named($name:literal, $id:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n $r $v named($name, $id, []) $($rest)* }
    };
    ($c:tt $k:ident $n:tt $r:tt $v:tt named($name:expr, $id:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n $r $v named(($name), $id, []) $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] named($name:literal, $id:expr, [$($inner:tt)*] $(,)?) $($rest:tt)*) => {
        $crate::__track_event! {
            $c $k $n [$($r)* Named($name),] [$($v)* (::core::convert::identity::<u64>($id))]
            $($inner)* @end $($rest)*
        }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] named($name:expr, $id:expr, [$($inner:tt)*] $(,)?) $($rest:tt)*) => {
        $crate::__track_event! {
            $c $k $n [$($r)* NamedText,]
            [$($v)* (::core::convert::identity::<&str>($name)) (::core::convert::identity::<u64>($id))]
            $($inner)* @end $($rest)*
        }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] proto($id:expr, [$($inner:tt)*] $(,)?) $($rest:tt)*) => {
        $crate::__track_event! {
            $c $k $n [$($r)* ProtoTrack,] [$($v)* (::core::convert::identity::<u64>($id))]
            $($inner)* @end $($rest)*
        }
    };
    // Within a track of `nested_tracks`, or `proto_track`.
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] order($rank:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* Order,] [$($v)* (::core::convert::identity::<i32>($rank))] $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] child_order($order:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* ChildOrder,] [$($v)* (::core::convert::identity::<$crate::perfetto::ChildOrder>($order) as u32)] $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] [$($v:tt)*] merge_by($key:expr $(,)?) $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* MergeBy,] [$($v)* (::core::convert::identity::<&str>($key))] $($rest)* }
    };
    ($c:tt $k:ident $n:tt [$($r:tt)*] $v:tt @end $($rest:tt)*) => {
        $crate::__track_event! { $c $k $n [$($r)* End,] $v $($rest)* }
    };
    // All extras are taken.
    ($c:tt slice_begin ($name:literal) $r:tt $v:tt) => { $crate::__emit! { $c SliceBegin (::core::option::Option::Some($name)) $r $v } };
    ($c:tt instant ($name:literal) $r:tt $v:tt) => { $crate::__emit! { $c Instant (::core::option::Option::Some($name)) $r $v } };
    ($c:tt state ($name:literal) $r:tt $v:tt) => { $crate::__emit! { $c State (::core::option::Option::Some($name)) $r $v } };
    ($c:tt slice_begin ($name:expr) [$($r:tt)*] [$($v:tt)*]) => { $crate::__emit! { $c SliceBegin (::core::option::Option::None) [Name, $($r)*] [(::core::convert::identity::<&str>($name)) $($v)*] } };
    ($c:tt instant ($name:expr) [$($r:tt)*] [$($v:tt)*]) => { $crate::__emit! { $c Instant (::core::option::Option::None) [Name, $($r)*] [(::core::convert::identity::<&str>($name)) $($v)*] } };
    ($c:tt state ($name:expr) [$($r:tt)*] [$($v:tt)*]) => { $crate::__emit! { $c State (::core::option::Option::None) [Name, $($r)*] [(::core::convert::identity::<&str>($name)) $($v)*] } };
    ($c:tt slice_end () $r:tt $v:tt) => { $crate::__emit! { $c SliceEnd (::core::option::Option::None) $r $v } };
    ($c:tt counter () $r:tt $v:tt) => { $crate::__emit! { $c Counter (::core::option::Option::None) $r $v } };
    ($c:tt $k:ident ($($n:tt)*) $r:tt $v:tt) => {
        ::core::compile_error!(::core::concat!(
            "`", ::core::stringify!($k), "(", ::core::stringify!($($n)*), ")` is no track event: write ",
            "`slice_begin(name)`, `slice_end()`, `instant(name)`, `counter()` or `state(name)`"
        ))
    };
    ($c:tt $k:ident $n:tt $r:tt $v:tt $($unknown:tt)+) => {
        ::core::compile_error!(::core::concat!(
            "`", ::core::stringify!($($unknown)+), "` is no extra of a track event here: the documentation of ",
            "`track_event!` has a table of them, such as `arg(\"name\", value)`"
        ))
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __emit {
    (($category:path) $kind:ident ($name:expr) [$($role:ident $(($($parameter:expr),*))?,)*] [$(($value:expr))*]) => {{
        static __MEMLEDGER_SITE: $crate::perfetto::Site = $crate::perfetto::Site::new(
            &$category,
            $crate::perfetto::EventKind::$kind,
            $name,
            &[$($crate::perfetto::Role::$role $(($($parameter),*))?),*],
        );
        __MEMLEDGER_SITE.emit($crate::__values! { $(($value))* });
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __values {
    ($a:tt $b:tt $c:tt $d:tt $e:tt $f:tt $g:tt $h:tt $i:tt $($more:tt)*) => {
        $crate::perfetto::many_values($crate::__pairs! { $a $b $c $d $e $f $g $h $i $($more)* })
    };
    ($($few:tt)*) => { $crate::__pairs! { $($few)* } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __pairs {
    () => { () };
    (($value:expr) $($rest:tt)*) => { ($crate::perfetto::value($value), $crate::__pairs! { $($rest)* }) };
}

/// A slice from here to the end of the enclosing block, or of the expression that is given.
///
/// ```
/// use memledger::perfetto::slice;
/// memledger::perfetto::categories! { GAME = "game"; }
///
/// slice!(GAME, "frame", arg("number", 7)); // ends with the block around it
/// let drawn = slice!(GAME, "draw", { 3 });
/// let first = slice!(GAME, "search", 'found: { if drawn == 3 { break 'found 1 } 2 });
/// let letter = slice!(GAME, "decode", unsafe { char::from_u32_unchecked(65) });
/// let sum = slice!(GAME, "add", u32::max(drawn, first));
/// # assert_eq!((drawn, first, letter, sum), (3, 1, 'A', 3));
/// ```
/// The extras of [`track_event!`](crate::perfetto::track_event), tracks excepted, are those of the begin. The
/// end is emitted if the category is enabled then. An expression that begins with the name of an extra, such
/// as a call of a function `flow(..)`, is taken for the extra: write `{ flow(..) }`.
///
/// An `async` block gives a future with a slice for each poll, on the thread that polls it:
/// ```
/// # fn spawn(task: impl Future<Output = usize> + Send + 'static) {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     assert!(std::pin::pin!(task).poll(&mut context).is_ready());
/// # }
/// # async fn receive() -> Vec<u8> { vec![1] }
/// # memledger::perfetto::categories! { GAME = "game"; }
/// spawn(memledger::perfetto::slice!(GAME, "connection", async { receive().await.len() }));
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __perfetto_slice {
    ($category:path, $name:literal, async $($capture:ident)? $body:block $(,)?) => {
        $crate::__slice_of_each_poll! { ($category) ($name) async $($capture)? $body }
    };
    ($category:path, $name:expr, async $($capture:ident)? $body:block $(,)?) => {{
        let name: &str = $name;
        $crate::__slice_of_each_poll! { ($category) (name) async $($capture)? $body }
    }};
    ($category:path, $name:literal $(,)?) => { $crate::__open_slice! { ($category) ($name) } };
    ($category:path, $name:expr $(,)?) => { $crate::__open_slice! { ($category) ($name) } };
    ($category:path, $name:literal, $($rest:tt)+) => {
        $crate::__slice_with! { ($category) ($name) $($rest)+ }
    };
    ($category:path, $name:expr, $($rest:tt)+) => {
        $crate::__slice_with! { ($category) ($name) $($rest)+ }
    };
}

/// Distinguishes the extras of a slice from an expression, which would match them as well.
#[doc(hidden)]
#[macro_export]
macro_rules! __slice_with {
    ($c:tt $n:tt arg $($rest:tt)*) => { $crate::__open_slice! { $c $n arg $($rest)* } };
    ($c:tt $n:tt track $($rest:tt)*) => { $crate::__open_slice! { $c $n track $($rest)* } };
    ($c:tt $n:tt named_track $($rest:tt)*) => { $crate::__open_slice! { $c $n named_track $($rest)* } };
    ($c:tt $n:tt nested_tracks $($rest:tt)*) => { $crate::__open_slice! { $c $n nested_tracks $($rest)* } };
    ($c:tt $n:tt proto_track $($rest:tt)*) => { $crate::__open_slice! { $c $n proto_track $($rest)* } };
    ($c:tt $n:tt timestamp $($rest:tt)*) => { $crate::__open_slice! { $c $n timestamp $($rest)* } };
    ($c:tt $n:tt category $($rest:tt)*) => { $crate::__open_slice! { $c $n category $($rest)* } };
    ($c:tt $n:tt flow $($rest:tt)*) => { $crate::__open_slice! { $c $n flow $($rest)* } };
    ($c:tt $n:tt terminating_flow $($rest:tt)*) => { $crate::__open_slice! { $c $n terminating_flow $($rest)* } };
    ($c:tt $n:tt correlation $($rest:tt)*) => { $crate::__open_slice! { $c $n correlation $($rest)* } };
    ($c:tt $n:tt count $($rest:tt)*) => { $crate::__open_slice! { $c $n count $($rest)* } };
    ($c:tt $n:tt field $($rest:tt)*) => { $crate::__open_slice! { $c $n field $($rest)* } };
    ($c:tt $n:tt interned $($rest:tt)*) => { $crate::__open_slice! { $c $n interned $($rest)* } };
    ($c:tt $n:tt message $($rest:tt)*) => { $crate::__open_slice! { $c $n message $($rest)* } };
    ($c:tt $n:tt no_intern $($rest:tt)*) => { $crate::__open_slice! { $c $n no_intern $($rest)* } };
    ($c:tt $n:tt flush $($rest:tt)*) => { $crate::__open_slice! { $c $n flush $($rest)* } };
    // NOTE: a block is not the expression below, where the compiler would find its braces unnecessary.
    ($c:tt $n:tt $body:block $(,)?) => {{
        $crate::__open_slice! { $c $n }
        $body
    }};
    ($c:tt $n:tt $body:expr $(,)?) => {{
        $crate::__open_slice! { $c $n }
        $body
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __open_slice {
    ($c:tt $n:tt $($extras:tt)*) => {
        let _memledger_slice = $crate::__slice! { $c $n $($extras)* };
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __slice_of_each_poll {
    ($c:tt $n:tt $future:expr) => {{
        let future = $future;
        async move {
            let mut future = ::core::pin::pin!(future);
            let poll = |context: &mut ::core::task::Context<'_>| {
                $crate::__open_slice! { $c $n }
                ::core::future::Future::poll(::core::pin::Pin::as_mut(&mut future), context)
            };
            ::core::future::poll_fn(poll).await
        }
    }};
}

/// The guard of a slice, whose begin is emitted.
#[doc(hidden)]
#[macro_export]
macro_rules! __slice {
    (($category:path) $name:tt $($extras:tt)*) => {
        $crate::perfetto::Slice::new(if $category.is_enabled() {
            static __MEMLEDGER_END: $crate::perfetto::Site = $crate::perfetto::Site::new(
                &$category,
                $crate::perfetto::EventKind::SliceEnd,
                ::core::option::Option::None,
                &[],
            );
            $crate::__track_event! { ($category) slice_begin $name [] [] $($extras)* }
            ::core::option::Option::Some(&__MEMLEDGER_END)
        } else {
            ::core::option::Option::None
        })
    };
}

/// A moment: `track_event!(CATEGORY, instant("name"), ..)`.
///
/// ```
/// memledger::perfetto::categories! { GAME = "game"; }
/// memledger::perfetto::instant!(GAME, "saved", arg("slot", 3));
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __perfetto_instant {
    ($category:path, $name:literal $($extras:tt)*) => {
        $crate::__perfetto_track_event!($category, instant($name) $($extras)*)
    };
    ($category:path, $name:expr $(, $($extras:tt)*)?) => {
        $crate::__perfetto_track_event!($category, instant($name) $(, $($extras)*)?)
    };
}

/// The value of a counter from here on: an integer or a floating-point number.
///
/// ```
/// use memledger::perfetto::Track;
/// memledger::perfetto::categories! { GAME = "game"; }
/// let score = Track::counter("score").register()?;
/// memledger::perfetto::counter!(GAME, track(score), 42);
/// # Ok::<(), memledger::Error>(())
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __perfetto_counter {
    ($category:path, track($track:expr), $value:expr $(, $($extras:tt)*)?) => {
        $crate::__perfetto_track_event!($category, counter(), track($track), count($value) $(, $($extras)*)?)
    };
}

/// The state of a track from here on; an empty name means none.
///
/// ```
/// use memledger::perfetto::Track;
/// memledger::perfetto::categories! { GAME = "game"; }
/// let loader = Track::state("loader").register()?;
/// memledger::perfetto::state!(GAME, track(loader), "reading");
/// # Ok::<(), memledger::Error>(())
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! __perfetto_state {
    ($category:path, track($track:expr), $name:literal $(, $($extras:tt)*)?) => {
        $crate::__perfetto_track_event!($category, state($name), track($track) $(, $($extras)*)?)
    };
    ($category:path, track($track:expr), $name:expr $(, $($extras:tt)*)?) => {
        $crate::__perfetto_track_event!($category, state($name), track($track) $(, $($extras)*)?)
    };
}
