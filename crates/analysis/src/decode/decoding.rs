//! The types of a trace, and what their events mean.

use super::by_name::role_of;
use super::fast_path::FastPath;
use super::operation::Operation;
use super::roles::Role;
use crate::read::Row;
use crate::read::event::{u8_at, u32_at};
use memledger_format::schema::EventType;

/// What is needed to decode events.
#[derive(Clone, Debug)]
pub(crate) struct Decoding {
    /// By the index of the type.
    roles: Vec<Role>,
    fast_path: FastPath,
    /// How many lower bits of a size are in a byte of their own.
    size_shift: u8,
}

impl Default for Decoding {
    fn default() -> Self {
        Self { roles: Vec::new(), fast_path: FastPath::default(), size_shift: 3 }
    }
}

impl Decoding {
    /// Notes a type that was announced; returns its role.
    ///
    /// # Errors
    /// Why events of a type that is known by name cannot be used: they are ignored.
    pub(crate) fn add_type(
        &mut self,
        index: usize,
        event_type: &EventType,
    ) -> Result<Role, String> {
        let role = role_of(event_type);
        let usable = role.clone().unwrap_or(Role::Ignored);
        if index >= self.roles.len() {
            self.roles.resize(index + 1, Role::Ignored);
        }
        self.roles[index] = usable;
        self.fast_path.add_type(event_type, usable, index);
        role
    }

    /// What events of the type with this index mean.
    #[inline]
    pub(crate) fn role(&self, type_index: usize) -> Role {
        *self.roles.get(type_index).unwrap_or(&Role::Ignored)
    }

    /// The size of an allocation, by the offsets of its two fields.
    #[inline]
    pub(crate) fn size(&self, fixed: &[u8], size: u16, low: u16) -> u64 {
        joined_size(u32_at(fixed, size), u8_at(fixed, low), self.size_shift)
    }

    /// See [`FastPath::decode`].
    #[inline(always)]
    pub(crate) fn decode(
        &self,
        row: &mut Row<'_>,
        bytes: &mut &[u8],
        operations: &mut [Operation],
    ) -> usize {
        self.fast_path.decode(row, bytes, operations, self.size_shift)
    }

    /// Sets how many lower bits of a size are in a byte of their own.
    pub(crate) fn set_size_shift(&mut self, shift: u8) -> Result<(), String> {
        if shift > 8 {
            return Err(format!(
                "Memory.Init says that sizes are shifted by {shift} bits, more than their \
                 lower byte holds; 3 is assumed"
            ));
        }
        self.size_shift = shift;
        Ok(())
    }
}

/// A size whose lower `shift` bits are in a byte of their own.
#[inline]
fn joined_size(high: u32, low: u8, shift: u8) -> u64 {
    u64::from(high) << shift | u64::from(low) & ((1 << shift) - 1)
}
