//! The files that were loaded into the program, and where.

use crate::hash::IntMap;
use crate::read::event::{u32_at, u64_at};
use memledger_document::{FileStamp, Module};
use std::collections::{BTreeMap, HashMap};

/// In place of the number of a file: the address is in none.
pub(crate) const NO_FILE: u32 = u32::MAX;

/// The place of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    /// The number of the file, or [`NO_FILE`].
    pub(crate) file: u32,
    /// Bytes from the base of the file, or the address itself in no file.
    pub(crate) offset: u64,
    /// The frame is a guess: see [`Frame::is_guess`](crate::Frame::is_guess).
    pub(crate) is_guess: bool,
}

impl Location {
    const NOT_KEPT: Self = Self { file: NO_FILE, offset: u64::MAX, is_guess: false };

    /// Whether it is [`not_kept`](Modules::not_kept).
    pub(crate) fn is_not_kept(self) -> bool {
        self == Self::NOT_KEPT
    }
}

/// How wide the field `Base` of a module is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BaseField {
    /// 32 bits, shifted to the right.
    Short,
    /// The address.
    Whole,
}

impl BaseField {
    /// The field at this offset of an event.
    pub(crate) fn at(self, fixed: &[u8], offset: u16) -> u64 {
        match self {
            Self::Short => u32_at(fixed, offset).into(),
            Self::Whole => u64_at(fixed, offset),
        }
    }
}

/// A file that is loaded now.
#[derive(Clone, Copy, Debug)]
struct Loaded {
    end: u64,
    file: u32,
}

/// Which parts of the files are where.
#[derive(Clone, Debug, Default)]
pub(super) struct Modules {
    /// `ModuleBaseShift`; until a `ModuleInit` says one, it depends on the field `Base`.
    shift: Option<u8>,
    /// Every file that was ever loaded, with its last base.
    files: Vec<Module>,
    file_index: HashMap<(String, Vec<u8>, Option<FileStamp>, u64), u32>,
    /// By base; they do not overlap.
    loaded: BTreeMap<u64, Loaded>,
    locations: Vec<Location>,
    location_index: IntMap<(u32, u64, bool), u32>,
    /// The writer announces a file before the stacks in it, as memledger's does.
    is_in_order: bool,
    /// The locations of addresses, as long as no file is loaded or unloaded.
    by_address: IntMap<u64, u32>,
}

impl Modules {
    /// A `ModuleInit`; its shift is 0 to 63.
    pub(super) fn set_shift(&mut self, shift: Option<u8>) {
        self.shift = shift.filter(|shift| *shift < 64);
    }

    /// The writer announces a file before the stacks in it: what is in no file then was in one that is not
    /// known.
    pub(super) fn set_in_order(&mut self) {
        self.is_in_order = true;
    }

    fn base(&self, base: u64, field: BaseField) -> u64 {
        let usual = if field == BaseField::Whole { 0 } else { 16 };
        base << self.shift.unwrap_or(usual)
    }

    /// A file was loaded. A file that overlaps it is no longer loaded.
    pub(super) fn load(&mut self, mut module: Module, field: BaseField) {
        module.base = self.base(module.base, field);
        let (base, size) = (module.base, module.size);
        let end = base.saturating_add(size);
        let key = (module.path.clone(), module.build_id.clone(), module.stamp, size);
        let file = *self.file_index.entry(key).or_insert(self.files.len() as u32);
        match self.files.get_mut(file as usize) {
            Some(known) => known.base = base,
            None => self.files.push(module),
        }
        while let Some((&start, _)) =
            self.loaded.range(..end).next_back().filter(|(_, loaded)| loaded.end > base)
        {
            self.loaded.remove(&start);
        }
        if size > 0 {
            self.loaded.insert(base, Loaded { end, file });
        }
        self.by_address.clear();
    }

    /// The file at `base` was unloaded.
    pub(super) fn unload(&mut self, base: u64, field: BaseField) {
        self.loaded.remove(&self.base(base, field));
        self.by_address.clear();
    }

    /// The number of the location of the call that returns to `address`.
    pub(super) fn location_of(&mut self, address: u64) -> u32 {
        if let Some(&location) = self.by_address.get(&address) {
            return location;
        }
        // The byte before a return address is part of the call; what follows it need not be.
        let call = address.saturating_sub(1);
        let none = Location { file: NO_FILE, offset: call, is_guess: false };
        let location = self.find(call).unwrap_or(none);
        let location = self.intern(location);
        self.by_address.insert(address, location);
        location
    }

    /// The number of the same location as a guess.
    pub(super) fn guess(&mut self, number: u32) -> u32 {
        self.intern(Location { is_guess: true, ..self.locations[number as usize] })
    }

    /// Whether any location is in no file.
    pub(super) fn has_code_in_no_file(&self) -> bool {
        self.locations.iter().any(|location| location.file == NO_FILE)
    }

    /// Whether any location is a guess.
    pub(super) fn has_guesses(&self) -> bool {
        self.locations.iter().any(|location| location.is_guess)
    }

    /// The number of the location of all frames that the tracker had no memory for.
    pub(super) fn not_kept(&mut self) -> u32 {
        self.intern(Location::NOT_KEPT)
    }

    /// The number of the file that is loaded at an address, and how far after its base that is.
    pub(super) fn file_at(&self, address: u64) -> Option<(u32, u64)> {
        self.find(address).map(|found| (found.file, found.offset))
    }

    fn find(&self, address: u64) -> Option<Location> {
        let (&base, loaded) = self.loaded.range(..=address).next_back()?;
        let found = Location { file: loaded.file, offset: address - base, is_guess: false };
        (address < loaded.end).then_some(found)
    }

    fn intern(&mut self, location: Location) -> u32 {
        let next = self.locations.len() as u32;
        let Location { file, offset, is_guess } = location;
        *self.location_index.entry((file, offset, is_guess)).or_insert_with(|| {
            self.locations.push(location);
            next
        })
    }

    /// A location. One that was in no file when its spec was read is looked up among the files that
    /// are loaded now: Unreal's writer may announce a file after the stacks in it.
    pub(super) fn location(&self, number: u32) -> Location {
        let location = self.locations[number as usize];
        match location.file {
            NO_FILE if !self.is_in_order => {
                let found = self.find(location.offset).unwrap_or(location);
                Location { is_guess: location.is_guess, ..found }
            }
            _ => location,
        }
    }

    /// Every file that was ever loaded, by its number.
    pub(super) fn files(&self) -> &[Module] {
        &self.files
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memledger_document::made;

    fn module(path: &str, base: u64, size: u64) -> Module {
        Module::new(path.to_owned(), base, size, vec![1, 2])
    }

    #[test]
    fn a_file_that_was_replaced_is_another_one() {
        let mut modules = Modules::default();
        let stamp = |changed_ns| Some(made!(FileStamp { inode: 7, changed_ns }));
        for (file, changed) in [(0, 1), (1, 2), (0, 1)] {
            let mut of = module("/a", 0x1000, 0x100);
            (of.build_id, of.stamp) = (Vec::new(), stamp(changed));
            modules.load(of, BaseField::Whole);
            assert_eq!(at(&mut modules, 0x1011), (file, 0x10));
        }
    }

    fn at(modules: &mut Modules, address: u64) -> (u32, u64) {
        let number = modules.location_of(address);
        let Location { file, offset, .. } = modules.location(number);
        (file, offset)
    }

    #[test]
    fn an_address_is_in_the_file_that_is_loaded_there_now() {
        let mut modules = Modules::default();
        modules.load(module("a", 0x1000, 0x100), BaseField::Whole);
        assert_eq!(at(&mut modules, 0x1000), (NO_FILE, 0xfff), "the byte before is what counts");
        assert_eq!(at(&mut modules, 0x1001), (0, 0));
        assert_eq!(at(&mut modules, 0x1100), (0, 0xff));
        assert_eq!(at(&mut modules, 0x1101), (NO_FILE, 0x1100));
        modules.unload(0x1000, BaseField::Whole);
        modules.load(module("b", 0x1000, 0x80), BaseField::Whole);
        assert_eq!(at(&mut modules, 0x1001), (1, 0));
        modules.unload(0x1000, BaseField::Whole);
        modules.load(module("a", 0x9000, 0x100), BaseField::Whole);
        assert_eq!(at(&mut modules, 0x9001), (0, 0), "the same file elsewhere");
        assert_eq!(at(&mut modules, 0), (NO_FILE, 0));
        assert_eq!(at(&mut modules, u64::MAX), (NO_FILE, u64::MAX - 1));
    }

    #[test]
    fn a_file_replaces_those_it_overlaps() {
        let mut modules = Modules::default();
        for (path, base, size) in
            [("a", 0x100, 0x100), ("b", 0x200, 0x100), ("c", 0x300, 0x100), ("d", 0x1f0, 0x111)]
        {
            modules.load(module(path, base, size), BaseField::Whole);
        }
        assert_eq!(at(&mut modules, 0x180), (NO_FILE, 0x17f));
        assert_eq!(at(&mut modules, 0x200), (3, 0xf));
        assert_eq!(at(&mut modules, 0x380), (NO_FILE, 0x37f));
        modules.load(module("e", u64::MAX - 4, 100), BaseField::Whole);
        assert_eq!(at(&mut modules, u64::MAX), (4, 3));
        modules.load(module("empty", 0x1f4, 0), BaseField::Whole);
        assert_eq!(at(&mut modules, 0x200).0, NO_FILE, "its bytes are not known");
    }

    #[test]
    fn a_short_base_is_shifted() {
        let mut modules = Modules::default();
        modules.load(module("old", 0x7f00_1234, 0x100), BaseField::Short);
        assert_eq!(at(&mut modules, 0x7f00_1234_0001), (0, 0));
        modules.set_shift(Some(0));
        modules.load(module("new", 0x5000, 0x100), BaseField::Short);
        assert_eq!(at(&mut modules, 0x5001), (1, 0));
        modules.set_shift(Some(16));
        modules.unload(0x7f00_1234, BaseField::Whole);
        assert_eq!(at(&mut modules, 0x7f00_1234_0001).0, NO_FILE);
        modules.set_shift(Some(200));
        modules.load(module("whole", 0x7000, 0x100), BaseField::Whole);
        assert_eq!(at(&mut modules, 0x7001), (2, 0));
    }

    #[test]
    fn a_file_that_is_announced_late_is_found() {
        let mut modules = Modules::default();
        let number = modules.location_of(0x1010);
        assert_eq!(modules.location(number).file, NO_FILE);
        modules.load(module("a", 0x1000, 0x100), BaseField::Whole);
        assert_eq!(modules.location(number), Location { file: 0, offset: 0xf, is_guess: false });
        // Where files come before the stacks in them, another one was there.
        modules.set_in_order();
        assert_eq!(
            modules.location(number),
            Location { file: NO_FILE, offset: 0x100f, is_guess: false }
        );
    }
}
