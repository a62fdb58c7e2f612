# Programs for x86_64-pc-windows-msvc without Microsoft's linker and libraries, whose place these take. A script that has
# included common.sh, and has a folder of Wine and gcc-mingw-w64-x86-64, includes this from the project's root:
#
#   link.exe                    LLVM's linker, as Rust has it (rust-lld)
#   kernel32.lib and the like   made of the names that the libraries of Wine export
#   msvcrt.lib                  ucrtbase.dll, vcruntime140.dll and msvcrt.c
#   cl.exe and its headers      clang, with those of mingw

# prepare_msvc FOLDER: makes the libraries there, and sets what cargo and the linker read.
prepare_msvc() {
    local name names
    mkdir -p "$1"
    for name in kernel32 ntdll userenv ws2_32 dbghelp advapi32 bcrypt psapi shell32 user32 vcruntime140 ucrtbase; do
        names='[A-Za-z_]\w*'
        # These have functions of C, too, which a program does not take from there.
        case $name in kernel32 | ntdll) names='[A-Z]\w*\|lstr\w*' ;; esac
        { echo "LIBRARY $name.dll" && echo EXPORTS; } >"$1/$name.def"
        llvm-readobj --coff-exports "${WINEPREFIX:-$HOME/.wine}/drive_c/windows/system32/$name.dll" |
            sed -n "s/^ *Name: \($names\)\$/\1/p" >>"$1/$name.def"
        llvm-dlltool -m i386:x86-64 -d "$1/$name.def" -l "$1/$name.lib"
    done
    clang --target=x86_64-pc-windows-msvc -ffreestanding -O1 -c -o "$1/msvcrt.obj" scripts/platforms/msvcrt.c
    llvm-lib "/out:$1/msvcrt.lib" "$1/msvcrt.obj" "$1/vcruntime140.lib" "$1/ucrtbase.lib"
    # The crate `libc` names it. It has `printf` and the like.
    llvm-lib /llvmlibempty "/out:$1/legacy_stdio_definitions.lib"
    export LIB=$1 CARGO_TARGET_X86_64_PC_WINDOWS_MSVC_LINKER=rust-lld
    # What is C++ for Microsoft's compiler only, as mimalloc is, is compiled as C: there are no headers of C++.
    export CC_x86_64_pc_windows_msvc=clang CXX_x86_64_pc_windows_msvc=clang AR_x86_64_pc_windows_msvc=llvm-lib
    export CFLAGS_x86_64_pc_windows_msvc="-fgnuc-version=4.2.1 -U_MSC_VER -D_UCRT -isystem /usr/x86_64-w64-mingw32/include"
    export CXXFLAGS_x86_64_pc_windows_msvc="-x c -std=c11 $CFLAGS_x86_64_pc_windows_msvc"
}
