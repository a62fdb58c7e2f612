//! The file of a program that is about to be executed, and whether that can load this library.
//!
//! NOTE: read by system calls, without an allocation, as in the module above.

use super::super::identity;
use super::{LOADER, environ, name_of, texts, variable};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

/// The open file of a program.
pub(in super::super) struct Program(c_int);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: it is open, and nothing else has its number.
        unsafe { libc::syscall(libc::SYS_close, self.0) };
    }
}

impl Program {
    pub(super) fn at(folder: c_int, path: *const c_char) -> Option<Self> {
        // NOTE: what is no regular file is not even opened: that could wait, or do something.
        status(folder, path)?;
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
        // SAFETY: the path is the program's, or a local with a NUL; the kernel checks it.
        let file = unsafe { libc::syscall(libc::SYS_openat, folder, path, flags) };
        (file >= 0).then_some(Self(file as c_int))
    }

    /// The file that has this number, which need not be open for reading.
    pub(super) fn of(number: c_int) -> Option<Self> {
        if number < 0 {
            return None;
        }
        let mut path = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0";
        let digits = (0..10).rev().map(|place| number.unsigned_abs() / 10_u32.pow(place) % 10);
        let digits = digits.skip_while(|digit| *digit == 0).map(|digit| b'0' + digit as u8);
        let (_, places) = path.split_at_mut_checked(14)?;
        *places.first_mut()? = b'0';
        places.iter_mut().zip(digits).for_each(|(place, digit)| *place = digit);
        Self::at(libc::AT_FDCWD, path.as_ptr().cast())
    }

    /// The one that `execvp` finds.
    pub(super) fn named(name: *const c_char) -> Option<Self> {
        const USUAL: &[u8] = b"/bin:/usr/bin";
        // SAFETY: the caller of the function has given a text.
        let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
        if bytes.contains(&b'/') {
            return Self::at(libc::AT_FDCWD, name);
        }
        // SAFETY: the program's environment has its end.
        let path = variable(unsafe { texts(environ) }, b"PATH").map_or(USUAL, |(_, path)| path);
        path.split(|byte| *byte == b':').find_map(|folder| {
            let mut path = [0_u8; libc::PATH_MAX as usize];
            let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
            let parts = [folder, slash, bytes];
            if parts.iter().map(|part| part.len()).sum::<usize>() >= path.len() {
                return None;
            }
            path.iter_mut().zip(parts.into_iter().flatten()).for_each(|(to, byte)| *to = *byte);
            let path = path.as_ptr().cast::<c_char>();
            // SAFETY: the path ends with a NUL.
            let error =
                unsafe { libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, path, libc::X_OK) };
            if error == 0 { Self::at(libc::AT_FDCWD, path) } else { None }
        })
    }

    /// Reads from `offset`; returns what there is.
    fn read<'a>(&self, to: &'a mut [u8], offset: u64) -> &'a [u8] {
        // SAFETY: the bytes are writable.
        let size =
            unsafe { libc::syscall(libc::SYS_pread64, self.0, to.as_mut_ptr(), to.len(), offset) };
        to.get(..size.max(0) as usize).unwrap_or_default()
    }

    /// Whether the loader leaves out this library, because the program runs with more rights than its user.
    pub(in super::super) fn is_secure(&self) -> bool {
        let mut status = MaybeUninit::<libc::stat>::uninit();
        let name = c"security.capability".as_ptr();
        let nothing = ptr::null_mut::<c_void>();
        // SAFETY: the kernel fills the status unless it fails, and writes no bytes of the attribute.
        unsafe {
            libc::syscall(libc::SYS_fstat, self.0, status.as_mut_ptr()) != 0
                || status.assume_init().st_mode & (libc::S_ISUID | libc::S_ISGID) != 0
                || libc::syscall(libc::SYS_fgetxattr, self.0, name, nothing, 0) > 0
        }
    }

    /// Whether the program, or the interpreter of a script, cannot load this library.
    pub(in super::super) fn cannot_load(self) -> bool {
        /// How many scripts Linux follows.
        const MAX_SCRIPTS: usize = 5;
        /// What it reads of each.
        const LINE: usize = 256;
        let mut program = self;
        for _ in 0..=MAX_SCRIPTS {
            let mut line = [0_u8; LINE + 1];
            let Some(text) = program.read(&mut line[..LINE], 0).strip_prefix(b"#!") else {
                return program.is_closed().unwrap_or(false);
            };
            let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
            let start = 2 + text.iter().take_while(|byte| is_space(byte)).count();
            let is_end = |byte: &u8| is_space(byte) || matches!(byte, b'\n' | 0);
            let Some((_, name)) = line.split_at_mut_checked(start) else { return false };
            let Some(end) = name.iter_mut().find(|byte| is_end(byte)) else { return false };
            *end = 0;
            let interpreter = Self::at(libc::AT_FDCWD, name.as_ptr().cast());
            let Some(interpreter) = interpreter else { return false };
            program = interpreter;
        }
        false
    }

    /// Whether a program cannot load this library; `None` if the file is none.
    fn is_closed(&self) -> Option<bool> {
        /// `elf.h`: `e_machine` of this processor.
        const MACHINE: u16 = 62;
        let mut head = [0_u8; size_of::<libc::Elf64_Ehdr>()];
        let head = self.read(&mut head, 0);
        let class = *head.strip_prefix(b"\x7fELF")?.first()?;
        if class == libc::ELFCLASS32 {
            return Some(true);
        }
        // SAFETY: any bytes are valid numbers.
        let head = (head.len() == size_of::<libc::Elf64_Ehdr>())
            .then(|| unsafe { head.as_ptr().cast::<libc::Elf64_Ehdr>().read_unaligned() })?;
        if head.e_machine != MACHINE {
            return Some(true);
        }
        if let Some(part) = self.parts(&head).find(|part| part.p_type == libc::PT_INTERP) {
            let mut name = [0_u8; 256];
            let name = self.read(&mut name, part.p_offset);
            let name = name.get(..part.p_filesz as usize).unwrap_or(name);
            let is_of_musl = name.windows(7).any(|name| name == b"ld-musl");
            return Some(is_of_musl || self.has_sanitizer(&head).unwrap_or(false));
        }
        // The loader itself is given a program, which it loads libraries into.
        let of = |status: libc::stat| (status.st_dev, status.st_ino);
        let loader = status(libc::AT_FDCWD, name_of(&LOADER).as_ptr()).map(of);
        Some(loader.is_none_or(|loader| identity(&self.0) != Some(loader)))
    }

    fn parts(&self, head: &libc::Elf64_Ehdr) -> impl Iterator<Item = libc::Elf64_Phdr> {
        let start = head.e_phoff;
        let offset = move |number| start + u64::from(number) * size_of::<libc::Elf64_Phdr>() as u64;
        (0..head.e_phnum).map_while(move |number| {
            let mut part = [0_u8; size_of::<libc::Elf64_Phdr>()];
            let part = self.read(&mut part, offset(number));
            // SAFETY: any bytes are valid numbers.
            (part.len() == size_of::<libc::Elf64_Phdr>())
                .then(|| unsafe { part.as_ptr().cast::<libc::Elf64_Phdr>().read_unaligned() })
        })
    }

    /// Whether a name that the program gives to its loader is that of a sanitizer's function.
    fn has_sanitizer(&self, head: &libc::Elf64_Ehdr) -> Option<bool> {
        const NAMES: [&[u8]; 5] =
            [b"__asan_init", b"__hwasan_init", b"__lsan_init", b"__msan_init", b"__tsan_init"];
        const LONGEST: u64 = 13;
        /// `elf.h`: where the names are, and their bytes.
        const DT_STRTAB: u64 = 5;
        const DT_STRSZ: u64 = 10;
        let dynamic = self.parts(head).find(|part| part.p_type == libc::PT_DYNAMIC)?;
        let mut entries = [0_u8; 2048];
        let entries = self.read(&mut entries, dynamic.p_offset);
        let entry = |wanted: u64| {
            let (entries, _) = entries.as_chunks::<16>();
            let tag = |entry: &[u8; 16]| entry.first_chunk().copied().map(u64::from_le_bytes);
            let found = entries.iter().find(|entry| tag(entry) == Some(wanted))?;
            found.last_chunk().copied().map(u64::from_le_bytes)
        };
        let (address, bytes) = (entry(DT_STRTAB)?, entry(DT_STRSZ)?);
        let names = self.parts(head).find_map(|part| {
            let inside = address.checked_sub(part.p_vaddr).filter(|at| *at < part.p_filesz);
            inside.filter(|_| part.p_type == libc::PT_LOAD).map(|inside| part.p_offset + inside)
        })?;
        let mut some = [0_u8; 4096];
        // Each piece begins with the end of the one before.
        Some((0..bytes).step_by(some.len() - LONGEST as usize).any(|at| {
            let some = self.read(&mut some, names + at);
            NAMES.iter().any(|name| some.windows(name.len()).any(|it| it == *name))
        }))
    }
}

fn status(folder: c_int, path: *const c_char) -> Option<libc::stat> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel checks the path, and fills the status unless it fails.
    let status = unsafe {
        let error = libc::syscall(libc::SYS_newfstatat, folder, path, status.as_mut_ptr(), 0);
        (error == 0).then(|| status.assume_init())?
    };
    (status.st_mode & libc::S_IFMT == libc::S_IFREG).then_some(status)
}
