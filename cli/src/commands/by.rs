//! What rows divide the memory by, on the screen of `top` and in conditions.

/// What the rows divide the memory by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    Scope,
    Group,
    Name,
    Function,
    Thread,
    /// Root heaps.
    Heap,
}

impl By {
    pub const ALL: [Self; 6] =
        [Self::Scope, Self::Group, Self::Name, Self::Function, Self::Thread, Self::Heap];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scope => "scope",
            Self::Group => "group",
            Self::Name => "name",
            Self::Function => "function",
            Self::Thread => "thread",
            Self::Heap => "heap",
        }
    }

    /// What is between the elements of a row's name.
    pub fn separator(self) -> &'static str {
        match self {
            Self::Name => " / ",
            Self::Function => "::",
            _ => " > ",
        }
    }

    /// Whether rows are inside others.
    pub fn is_tree(self) -> bool {
        matches!(self, Self::Scope | Self::Group)
    }

    /// Whether a row has figures of its own and figures with all that is inside it or that it calls.
    pub fn has_inclusive(self) -> bool {
        self.is_tree() || self == Self::Function
    }

    /// Whether rows are shown with all that is inside them at first. A function is not: what it calls
    /// allocates itself.
    pub fn begins_inclusive(self) -> bool {
        self.is_tree()
    }

    /// Whether the accounts have the peaks of rows. A function is a sum over stacks.
    pub fn has_peak(self) -> bool {
        self != Self::Function
    }
}
