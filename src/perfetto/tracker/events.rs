//! Sites in the stream, so that a reader of a `.utrace` knows what track events are about.
//!
//! ```text
//! Perfetto.Site   Category, Name, Kind, Roles, Id
//! Roles           u8 role │ u8 size, name                 of an argument, or of a track with a name
//!                         │ u32 field │ u32 list          of a field of the program
//! ```
//! `Kind` is the type of the event in Perfetto's `TrackEvent`. The values of an event belong to the roles
//! of its site, in order.

use super::emit;
use crate::perfetto::site::{Role, Site};
use crate::trace::worker::{EventProvider, Importants};
use memledger_format::encode::{Declaration, Value};
use memledger_format::schema::FieldType::{AnsiString, U8, U8Array, U32};
use memledger_format::schema::{IMPORTANT, NO_SYNC};

static SITE: Declaration = Declaration {
    uid: 57,
    logger: "Perfetto",
    event: "Site",
    flags: IMPORTANT | NO_SYNC,
    fields: &[
        ("Category", AnsiString),
        ("Name", AnsiString),
        ("Kind", U8),
        ("Roles", U8Array),
        ("Id", U32),
    ],
};

pub(crate) static EVENT_TYPES: &[&Declaration] = &[&SITE];

/// Announces sites.
pub(crate) struct SiteEvents {
    announced: u32,
}

impl SiteEvents {
    pub(crate) fn new() -> Self {
        Self { announced: 0 }
    }
}

impl EventProvider for SiteEvents {
    fn types(&self) -> &'static [&'static Declaration] {
        EVENT_TYPES
    }

    fn announce(&mut self, importants: &mut Importants) {
        while let Some(site) = emit::site(self.announced + 1) {
            self.announced += 1;
            let roles = roles_of(site);
            importants.add(
                &SITE,
                &[
                    site.category.name().into(),
                    site.name.unwrap_or_default().into(),
                    u32::from(site.kind as u8).into(),
                    Value::Elements(&roles, 1),
                    self.announced.into(),
                ],
            );
        }
    }
}

/// The roles of a site, up to the 64 KiB that an important event can have.
fn roles_of(site: &Site) -> Vec<u8> {
    let mut bytes = Vec::new();
    for role in site.roles {
        let mut named = |number: u8, name: &str| {
            let name = &name.as_bytes()[..name.len().min(255)];
            bytes.extend([number, name.len() as u8]);
            bytes.extend_from_slice(name);
        };
        match *role {
            Role::Arg(name) => named(1, name),
            Role::NamedTrack(name) => named(2, name),
            Role::Named(name) => named(21, name),
            Role::Field(field) => {
                bytes.push(3);
                bytes.extend(field.to_le_bytes());
            }
            Role::InternedField(field, list) => {
                bytes.push(4);
                bytes.extend(field.to_le_bytes());
                bytes.extend(list.to_le_bytes());
            }
            Role::Message(field) => {
                bytes.push(5);
                bytes.extend(field.to_le_bytes());
            }
            Role::Name => bytes.push(6),
            Role::Count => bytes.push(7),
            Role::Track => bytes.push(8),
            Role::Timestamp => bytes.push(9),
            Role::DynamicCategory => bytes.push(10),
            Role::Flow => bytes.push(11),
            Role::TerminatingFlow => bytes.push(12),
            Role::Correlation => bytes.push(13),
            Role::NoIntern => bytes.push(14),
            Role::Flush => bytes.push(15),
            Role::ProtoTrack => bytes.push(16),
            Role::Nested => bytes.push(17),
            Role::Thread => bytes.push(18),
            Role::Process => bytes.push(19),
            Role::End => bytes.push(20),
            Role::NamedArg => bytes.push(22),
            Role::TextTrack => bytes.push(23),
            Role::NamedText => bytes.push(24),
            Role::Order => bytes.push(25),
            Role::ChildOrder => bytes.push(26),
            Role::MergeBy => bytes.push(27),
        }
    }
    bytes.truncate(32 << 10);
    bytes
}
