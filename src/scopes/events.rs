//! How the tree of contexts looks in the stream.
//!
//! Every node is announced once as Unreal's `Memory.TagSpec`, so that its readers show the same
//! tree, with two fields of ours behind: what kind of node it is, and for a context the tag that
//! owns it, for a measurement its number.

use super::context::{self, Announced, Kind, Walk};
use crate::trace::channel::Channel;
use crate::trace::event::encode::Declaration;
use crate::trace::event::schema::{
    FieldType::{AnsiString, I32, U8},
    IMPORTANT, NO_SYNC,
};
use crate::trace::worker::{Importants, Instrument};

pub(crate) static TAG_SPEC: Declaration = Declaration {
    uid: 48,
    logger: "Memory",
    event: "TagSpec",
    flags: IMPORTANT | NO_SYNC,
    fields: &[("Tag", I32), ("Parent", I32), ("Display", AnsiString), ("Kind", U8), ("Owner", I32)],
};

/// The context the thread's stream stands in until the scope that this event opens is left.
pub(crate) static MEMORY_SCOPE: Declaration = Declaration {
    uid: 49,
    logger: "Memory",
    event: "MemoryScope",
    flags: NO_SYNC,
    fields: &[("Tag", I32)],
};

static TYPES: &[&Declaration] = &[&TAG_SPEC, &MEMORY_SCOPE];

/// The scopes that allocations are made in.
pub(crate) static CHANNEL: Channel = Channel::new("Scope", false);

/// No parent, no owner.
const NO_TAG: u32 = u32::MAX;

/// Announces the nodes of the tree as they come up.
pub(crate) struct ScopeEvents {
    walk: Option<Walk>,
}

impl ScopeEvents {
    pub(crate) fn new() -> Self {
        Self { walk: None }
    }
}

impl Instrument for ScopeEvents {
    fn types(&self) -> &'static [&'static Declaration] {
        TYPES
    }

    fn announce(&mut self, importants: &mut Importants) {
        let walk = self.walk.get_or_insert_with(|| {
            spec(importants, context::ROOT, NO_TAG, "GlobalScope", Kind::Scope, NO_TAG);
            spec(
                importants,
                context::OTHER,
                context::wire_id(context::ROOT),
                "(other)",
                Kind::Scope,
                NO_TAG,
            );
            Walk::new()
        });
        walk.visit_new(|Announced { number, kind, parent, owner, name }| {
            let parent = match (kind, parent) {
                (Kind::Group, context::NONE) => NO_TAG,
                (_, parent) => context::wire_id(parent),
            };
            let owner = match (kind, owner) {
                (Kind::Context, tag) => context::wire_id(tag),
                (_, context::NONE) => NO_TAG,
                (_, measurement) => measurement,
            };
            spec(importants, number, parent, name, kind, owner);
        });
    }
}

fn spec(importants: &mut Importants, node: u32, parent: u32, name: &str, kind: Kind, owner: u32) {
    let id = context::wire_id(node);
    let kind = (kind as u32).into();
    importants.add(&TAG_SPEC, &[id.into(), parent.into(), name.into(), kind, owner.into()]);
}
