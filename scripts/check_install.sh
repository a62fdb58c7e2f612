#!/usr/bin/env bash
# Installs the command as a user does, and records a program without the tracker by the library that the command has in
# itself: it is in the user's cache once, and is written anew if it was changed. With --packages, the command and the
# crates are those that would be published.
#
#     scripts/check_install.sh [--packages]
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
source=cli
if [ "${1:-}" = --packages ]; then
    published=(-p memledger -p memledger-redirect -p memledger-cli)
    for crate in format document analysis export store; do published+=(-p "memledger-$crate"); done
    cargo package "${published[@]}" --no-verify --allow-dirty --quiet --target-dir "$folder/packages"
    mkdir -p "$folder/.cargo"
    echo "[patch.crates-io]" >"$folder/.cargo/config.toml"
    for crate in "$folder"/packages/package/*.crate; do
        tar -C "$folder" -xf "$crate"
        name=$(basename "$crate" .crate)
        echo "${name%-*} = { path = \"$folder/$name\" }" >>"$folder/.cargo/config.toml"
    done
    source=$(echo "$folder"/memledger-cli-*)
    # NOTE: cargo reads the configuration of the folder that it is started in.
    cd "$folder"
fi
cargo install --quiet --path "$source" --root "$folder/installed" --target-dir "$folder/target"
cd "$folder"
export XDG_CACHE_HOME=$folder/cache
# NOTE: root's is elsewhere if not all users can enter the folder.
mkdir -m 711 cache cache/memledger && chmod 711 "$folder"
for round in first second changed; do
    [ $round != changed ] || echo changed >"$XDG_CACHE_HOME"/memledger/libmemledger_preload-*.so
    installed/bin/memledger run --report run.json -- /bin/ls >/dev/null
    grep -q '"complete": true' run.json
    ls -i cache/memledger >"$round"
done
cmp first second
if cmp -s first changed; then echo "a library that was changed is not written anew" >&2; exit 1; fi
echo "the installed command has its library"
