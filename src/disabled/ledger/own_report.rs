//! No snapshot is made.

#[derive(Debug)]
pub(super) enum OwnReport {}

impl OwnReport {
    pub(super) fn figures(&self) -> super::Figures {
        match *self {}
    }
}
