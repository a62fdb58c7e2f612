//! `std::process::exit` calls the system's `ExitProcess`, which ends all other threads before it calls
//! anything of the program. So the program's import of that function leads here first.

use std::ffi::CStr;
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use windows_sys::Win32::System::Diagnostics::Debug::{
    IMAGE_DIRECTORY_ENTRY_IMPORT, IMAGE_NT_HEADERS64,
};
use windows_sys::Win32::System::LibraryLoader::GetModuleHandleW;
use windows_sys::Win32::System::Memory::{PAGE_READWRITE, VirtualProtect};
use windows_sys::Win32::System::SystemServices::{IMAGE_DOS_HEADER, IMAGE_IMPORT_DESCRIPTOR};

const NAME: &CStr = c"ExitProcess";

type ExitProcess = unsafe extern "system" fn(u32) -> !;

/// The system's function, once the import is redirected.
static SYSTEM: AtomicUsize = AtomicUsize::new(0);
/// What runs before it.
static AT_EXIT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Runs `function` before the program ends by a call of `ExitProcess` of its own. Libraries, such as C's,
/// call it as before.
pub(super) fn redirect(function: extern "C" fn()) {
    AT_EXIT.store(function as *mut (), Ordering::Release);
    // SAFETY: the program itself is loaded, and its headers are those of a valid program.
    let Some(entry) = (unsafe { import_of(GetModuleHandleW(ptr::null()).cast(), NAME) }) else {
        return;
    };
    // SAFETY: the entry is an address that the loader has written, aligned, and in pages of the program.
    unsafe {
        let system = entry.read();
        if system == exit_process as ExitProcess as usize {
            return;
        }
        SYSTEM.store(system, Ordering::Release);
        let mut before = 0;
        let bytes = size_of::<usize>();
        if VirtualProtect(entry.cast(), bytes, PAGE_READWRITE, &raw mut before) != 0 {
            (*entry.cast::<AtomicUsize>())
                .store(exit_process as ExitProcess as usize, Ordering::Release);
            VirtualProtect(entry.cast(), bytes, before, &raw mut before);
        }
    }
}

unsafe extern "system" fn exit_process(status: u32) -> ! {
    let function = AT_EXIT.load(Ordering::Acquire);
    // SAFETY: `redirect` has stored functions of these types before the import led here.
    unsafe {
        transmute::<*mut (), extern "C" fn()>(function)();
        transmute::<usize, ExitProcess>(SYSTEM.load(Ordering::Acquire))(status)
    }
}

/// Where a module that is loaded keeps the address of the function `name` of another one; `None` if it does
/// not import it by that name.
///
/// # Safety
/// `module` is a loaded module of this processor's kind.
unsafe fn import_of(module: *mut u8, name: &CStr) -> Option<*mut usize> {
    // SAFETY: the caller's promise: all that is read here is in the module ("PE Format", "The .idata
    // Section").
    unsafe {
        let header = &*module.cast::<IMAGE_DOS_HEADER>();
        let header = &*module.offset(header.e_lfanew as isize).cast::<IMAGE_NT_HEADERS64>();
        let imports =
            header.OptionalHeader.DataDirectory[usize::from(IMAGE_DIRECTORY_ENTRY_IMPORT)];
        if imports.Size == 0 {
            return None;
        }
        // NOTE: LLVM's linker aligns this list to 2 bytes only (version 14).
        let mut at = module.add(imports.VirtualAddress as usize).cast::<IMAGE_IMPORT_DESCRIPTOR>();
        loop {
            let library = at.read_unaligned();
            if library.FirstThunk == 0 {
                return None;
            }
            let names = match library.Anonymous.OriginalFirstThunk {
                0 => library.FirstThunk,
                names => names,
            };
            let names = module.add(names as usize).cast::<u64>();
            let addresses = module.add(library.FirstThunk as usize).cast::<usize>();
            let mut number = 0;
            while *names.add(number) != 0 {
                let found = *names.add(number);
                // The highest bit: a number instead of a name. Two bytes precede a name.
                if found >> 63 == 0 && CStr::from_ptr(module.add(found as usize + 2).cast()) == name
                {
                    return Some(addresses.add(number));
                }
                number += 1;
            }
            at = at.add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_found_in_a_list_that_is_not_aligned() {
        let mut module = [0_u64; 64];
        let base = module.as_mut_ptr().cast::<u8>();
        let write = |at: usize, bytes: &[u8]| {
            // SAFETY: all that is written here is within the first 512 bytes.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), base.add(at), bytes.len()) };
        };
        let number = |at: usize, number: u32| write(at, &number.to_le_bytes());
        // Headers; of the second entry of the directory, where the imports are, and their size.
        number(0x3c, 64);
        number(64 + 144, 402);
        number(64 + 148, 40);
        // One library: where its names are, and their addresses.
        number(402, 344);
        number(402 + 16, 368);
        number(344, 448);
        number(352, 460);
        write(448, b"\0\0Sleep\0");
        write(460, b"\0\0ExitProcess\0");
        // SAFETY: these are the headers and the imports of a module.
        let [found, none] = [NAME, c"Exit"].map(|name| unsafe { import_of(base, name) });
        assert_eq!((found.map(<*mut usize>::addr), none), (Some(base.addr() + 376), None));
    }
}
