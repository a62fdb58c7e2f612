//! How the values of a field are printed.

use memledger_export::text::escape;
use memledger_format::schema;

/// How the values of a field are printed.
#[derive(Default)]
pub struct FieldFormat {
    /// The name, escaped.
    pub name: String,
    pub is_address: bool,
    /// Bytes of one value.
    size: usize,
}

impl FieldFormat {
    pub fn of(field: &schema::Field) -> Self {
        Self {
            name: escape(&field.name),
            is_address: is_address(&field.name),
            size: field.field_type.element_size(),
        }
    }

    /// The bits of a signed value that is an address: Unreal declares some addresses signed.
    pub fn address_of(&self, number: i64) -> i64 {
        let mask = if self.size >= 8 { -1 } else { (1 << (8 * self.size)) - 1 };
        number & mask
    }
}

/// Whether the field holds addresses, going by its name.
fn is_address(name: &str) -> bool {
    matches!(name, "Address" | "Ptr" | "Frames" | "Base")
        || name.ends_with("Pointer")
        || name.ends_with("Point")
        || name.ends_with("Address")
}
