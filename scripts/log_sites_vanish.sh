#!/bin/sh
# Without the feature `enable`, event types, channels and log sites are nothing: a program with them
# is the same program as without, byte for byte in code, data and symbols. Their arguments are not
# evaluated, and nothing is warned of, whatever lints the program has.
#
#     scripts/log_sites_vanish.sh
set -eu
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
target=$PWD/target/programs
build() {
    cargo build --quiet --manifest-path tests/programs/Cargo.toml -p log-sites --target-dir "$target" "$@"
}
# Sizes of code and data, and all symbols but for the hashes in their names.
describe() {
    size "$1" | awk 'NR == 2 { print $1, $2, $3 }'
    nm "$1" | awk '{ print $2, $3 }' | sed -E 's/17h[0-9a-f]{16}E//' | sort
}
for profile in dev release; do
    [ "$profile" = dev ] && output=debug || output=$profile
    build --profile "$profile"
    describe "$target/$output/log-sites" >"$folder/without"
    build --profile "$profile" --features log
    "$target/$output/log-sites"
    describe "$target/$output/log-sites" >"$folder/with"
    if [ "$profile" = release ]; then
        diff "$folder/without" "$folder/with" || { echo "log sites leave something behind"; exit 1; }
        echo "release: the same $(head -n 1 "$folder/with") bytes of code, data and zeros, the same symbols"
    else
        echo "dev: no argument is evaluated, no warning"
    fi
done
# The same program logs where it is enabled: with all lints, and without `unsafe` in it.
build --features log,enable
echo "enabled: no warning"
