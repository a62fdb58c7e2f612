# Windows as Wine does it: run_on_windows.sh and test_on_windows.sh source this from the project's root.
# Sets `wine`, `folder` and, if it is not set, `target`, and makes Wine's folder.
. scripts/platforms/common.sh
root=$PWD
target=${target:-x86_64-pc-windows-gnu}
wine=$(dpkg -L wine64 2>/dev/null | grep 'wine/wine64$' || command -v wine64 || command -v wine || true)

case $target in *-msvc) . scripts/platforms/msvc.sh ;; esac

export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$PWD/target/platforms CC_x86_64_pc_windows_gnu=x86_64-w64-mingw32-gcc
export WINEPREFIX=$CARGO_TARGET_DIR/wine WINEDEBUG=-all
mkdir -p "$CARGO_TARGET_DIR"
folder=$(mktemp -d)
finish() {
    for process in $(jobs -p); do kill "$process" 2>/dev/null || true; done
    rm -rf "$folder"
}
trap finish EXIT
if ! [ -d "$WINEPREFIX/drive_c/windows/system32" ]; then timeout 300 "$wine" wineboot -i >/dev/null 2>&1 || true; fi
# What std needs, and Debian's Wine lacks.
x86_64-w64-mingw32-gcc -O2 -shared -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" \
    scripts/platforms/bcryptprimitives.c -ladvapi32
case $target in *-msvc) prepare_msvc "$folder/msvc" ;; esac
