# What scripts have in common that build programs for AArch64 and run them under qemu. They source this file, with
# CARGO_TARGET_DIR set. Sets:
#
#   target       the target, whose programs cargo links so that they find their libraries
#   libraries    the folder of these
. scripts/platforms/common.sh
root=$PWD
target=aarch64-unknown-linux-gnu

# The programs name their loader and their libraries by their places here. qemu has an option for these, but opens other
# files there, too.
libraries=$(dirname "$(realpath "$(aarch64-linux-gnu-gcc -print-file-name=ld-linux-aarch64.so.1)")")
mkdir -p "$CARGO_TARGET_DIR"
linker=$CARGO_TARGET_DIR/aarch64-gcc
cat >"$linker.new" <<LINKER
#!/bin/sh
exec aarch64-linux-gnu-gcc -Wl,--dynamic-linker=$libraries/ld-linux-aarch64.so.1 -Wl,-rpath,$libraries \\
    -Wl,--disable-new-dtags "\$@"
LINKER
chmod +x "$linker.new"
mv "$linker.new" "$linker"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$linker CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
