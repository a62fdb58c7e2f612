/* What Rust's standard library needs of bcryptprimitives.dll, which the wine of Debian does not have: random bytes.
   wine.sh puts it with the libraries of the system. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T count) {
    return SystemFunction036(bytes, (ULONG)count);
}
