//! Allocators that the program has beside the one that is recorded, as events: what they allocate is in no other event.

use crate::platform::os::other_allocators::{self, OtherAllocator};
use crate::trace::format::encode::Declaration;
use crate::trace::format::schema::{
    FieldType::{AnsiString, U8},
    IMPORTANT, NO_SYNC, untracked,
};
use crate::trace::worker::{EventProvider, Importants};

/// Blocks of the program are not recorded: a [reason](crate::trace::format::schema::untracked), the function that
/// allocates them, and the file that has it.
static UNTRACKED: Declaration = Declaration {
    uid: 46,
    logger: "Memledger",
    event: "Untracked",
    flags: IMPORTANT | NO_SYNC,
    fields: &[("Reason", U8), ("Function", AnsiString), ("File", AnsiString)],
};

static TYPES: &[&Declaration] = &[&UNTRACKED];

/// Looks once for such allocators, when a recording begins.
pub(crate) struct OtherAllocators {
    announced: bool,
}

impl OtherAllocators {
    pub(crate) fn new() -> Self {
        Self { announced: false }
    }
}

impl EventProvider for OtherAllocators {
    fn types(&self) -> &'static [&'static Declaration] {
        TYPES
    }

    fn announce(&mut self, importants: &mut Importants) {
        if std::mem::replace(&mut self.announced, true) {
            return;
        }
        for (allocator, function, file) in other_allocators::find() {
            let reason = match allocator {
                OtherAllocator::Malloc => untracked::MALLOC,
                OtherAllocator::New => untracked::NEW,
                OtherAllocator::Named => untracked::ALLOCATOR,
                OtherAllocator::Go => untracked::GO,
            };
            importants.add(
                &UNTRACKED,
                &[u32::from(reason).into(), function.into(), file.as_str().into()],
            );
        }
    }
}
