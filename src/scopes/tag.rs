//! Tags: the purpose of memory.

use super::{Group, Name, ScopeGuard};

/// The purpose of memory: a group, which owns it, and a name.
///
/// ```
/// use memledger::{Tag, group, tag, tagged};
///
/// group! { pub RENDERING = "Rendering"; }
/// const COORDINATES: Tag = tag!(RENDERING, "Mesh::texture_coordinates");
///
/// let coordinates = tagged(COORDINATES, || vec![0.0_f32; 1024]);
/// assert_eq!(COORDINATES.group(), &RENDERING);
/// assert_eq!(COORDINATES.name().as_str(), "Mesh::texture_coordinates");
/// # drop(coordinates);
/// ```
/// Tags have no `==`, for the reason that names have none: compare their groups, and the texts of their
/// names.
#[derive(Clone, Copy, Debug)]
pub struct Tag {
    group: &'static Group,
    /// `None` if the tag has no name of its own; then a container is named after its type.
    pub(crate) name: Option<Name>,
}

impl Tag {
    /// What [`tag!`](crate::tag) makes of a group and a name, for generated code.
    ///
    /// ```
    /// use memledger::{Group, Name, Tag, tagged};
    ///
    /// static RENDERING: Group = Group::new("Rendering", None);
    /// const MESH: Tag = Tag::new(&RENDERING, Name::new("mesh"));
    ///
    /// let mesh = tagged(MESH, || vec![0.0_f32; 1024]);
    /// # drop(mesh);
    /// ```
    pub const fn new(group: &'static Group, name: Name) -> Self {
        Self { group, name: Some(name) }
    }

    /// What [`tag!`](crate::tag) makes of a group alone, for generated code.
    ///
    /// ```
    /// use memledger::{Group, Tag};
    ///
    /// static RENDERING: Group = Group::new("Rendering", None);
    /// const RENDERED: Tag = Tag::unnamed(&RENDERING);
    ///
    /// assert_eq!(RENDERED.name().as_str(), "Unnamed");
    /// ```
    pub const fn unnamed(group: &'static Group) -> Self {
        Self { group, name: None }
    }

    /// The group that owns the memory.
    pub const fn group(self) -> &'static Group {
        self.group
    }

    /// The name of the purpose; `Unnamed` if the tag has no name of its own.
    pub const fn name(self) -> Name {
        match self.name {
            Some(name) => name,
            None => Name::new("Unnamed"),
        }
    }
}

/// Makes a [`Tag`] of a group and a name (a literal, a `&'static str` or a [`Name`](crate::Name)); in a
/// `const` or `static` too. `tag!(group: G, "x")`, as [`alloc_scope!`](crate::alloc_scope) has it, is the
/// same. A text that is made when the program runs becomes a name by [`Name::intern`](crate::Name::intern).
///
/// Without a name, a container is named after its type, such as `TaggedVec<game::Particle>`, and
/// what [`tagged`] allocates is `Unnamed`:
/// ```
/// # memledger::group! { RENDERING = "Rendering"; }
/// const UNNAMED: memledger::Tag = memledger::tag!(RENDERING);
/// let particles = memledger::tagged(UNNAMED, || vec![0.0_f32; 100]);
/// # drop(particles);
/// ```
#[macro_export]
macro_rules! tag {
    (group: $($rest:tt)+) => {
        $crate::tag!($($rest)+)
    };
    ($group:path $(,)?) => {
        $crate::Tag::unnamed(&$group)
    };
    ($group:path, $name:expr $(,)?) => {
        $crate::Tag::new(&$group, $crate::__private::NameOf($name).name())
    };
}

/// Runs `body`. Each allocation of this thread in `body` has the tag `tag`, except those in an
/// inner scope or tag that sets another tag. The scope stack stays the same.
///
/// ```
/// use memledger::{AllocScope, tag, tagged};
/// # memledger::group! { RENDERING = "Rendering"; }
///
/// let mesh = tagged(tag!(RENDERING, "mesh"), || vec![0_u8; 3]);
/// let text = tagged(tag!(RENDERING, "text"), || unsafe { String::from_utf8_unchecked(mesh) });
/// # assert_eq!(text.len(), 3);
///
/// // A future is tagged by its method: `|| async { .. }` would tag the making of it only.
/// let task = async { vec![0_u8; 3] }.alloc_tagged(tag!(RENDERING, "upload"));
/// # drop(task);
/// ```
///
/// From the second call on a thread, it costs about as much as a scope.
#[track_caller]
pub fn tagged<R>(tag: Tag, body: impl FnOnce() -> R) -> R {
    let _entered = ScopeGuard::enter_tag(tag);
    body()
}
