//! No preset is kept.

#[derive(Debug)]
pub(super) struct Next;

impl Next {
    pub(super) const fn none() -> Self {
        Self
    }
}
