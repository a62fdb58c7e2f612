#!/bin/sh
# Programs built as releases are: with link-time optimisation, with panics that abort, and with the
# allocator in a dependency that the program itself never names. Their environment must start them
# before `main`, a panic must give the report, the channel of a dependency must be known, and another
# copy of memledger in the program must be said.
#
#     scripts/check_builds.sh
set -eu
cd "$(dirname "$0")/.."

root=$PWD
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/allocator/src" "$folder/quiet/src" "$folder/src"
# Two copies of memledger. Cargo allows one path for each version, so what it calls the older one says the same version.
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
for copy in older same; do
    mkdir "$folder/$copy"
    cp -r Cargo.toml build.rs src "$folder/$copy/"
    sed -i "s/^version.workspace = true/version = \"0.0.9\"/; s#path = \"#&$root/#; /^\[dev-dependencies\]/,\$d" "$folder/$copy/Cargo.toml"
done
sed -i "s/env!(\"CARGO_PKG_VERSION\")/\"$version\"/" "$folder/same/src/platform/os/version.rs"
# Nothing calls into this one; its channel must be known all the same.
cat >"$folder/quiet/Cargo.toml" <<TOML
[package]
name = "quiet"
version = "0.0.0"
edition = "2021"
[dependencies]
memledger = { path = "$root" }
TOML
cp tests/builds/quiet.rs "$folder/quiet/src/lib.rs"
cat >"$folder/allocator/Cargo.toml" <<TOML
[package]
name = "allocator"
version = "0.0.0"
edition = "2024"
[dependencies]
memledger = { path = "$root" }
older = { package = "memledger", path = "../older", default-features = false }
quiet = { path = "../quiet" }
TOML
cp tests/builds/allocator.rs "$folder/allocator/src/lib.rs"
cat >"$folder/Cargo.toml" <<'TOML'
[package]
name = "program"
version = "0.0.0"
edition = "2024"
[workspace]
exclude = ["older", "same"]
[dependencies]
allocator = { path = "allocator" }
[profile.release]
# PERF: level 3 takes twice as long, and what link-time optimisation may remove is the same.
opt-level = 1
lto = "fat"
codegen-units = 1
strip = true
[profile.aborting]
inherits = "release"
panic = "abort"
TOML
cp tests/builds/program.rs "$folder/src/main.rs"

# check NAME EXPECTED_STATUS PROGRAM [ARGUMENT]
check() {
    name=$1 expected=$2
    shift 2
    rm -f "$folder/trace.utrace" "$folder/report.json"
    status=0
    (cd "$folder" && RUST_BACKTRACE=0 MEMLEDGER_TRACE=trace.utrace MEMLEDGER_REPORT=report.json MEMLEDGER_CHANNELS=default,quiet "$@" 2>stderr) || status=$?
    [ "$status" = "$expected" ] || { echo "$name: status $status, not $expected"; exit 1; }
    told=$(grep -c "contains memledger 0.0.9 and $version; scopes of the former are not recorded" "$folder/stderr") || true
    [ "$told" = 1 ] || { cat "$folder/stderr"; echo "$name: the other copy is said $told times"; exit 1; }
    ! grep "no channel" "$folder/stderr" || { echo "$name: a channel of a dependency is not known"; exit 1; }
    python3 - "$folder/report.json" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
assert report["trace"]["ended"] and report["trace"]["from_process_start"], report["trace"]
assert [reason["kind"] for reason in report["untracked"]["reasons"]] == ["scopes"], report["untracked"]
assert not report["trace"]["complete"], report["trace"]
assert report["losses"]["unmatched_frees"] == 0, report["losses"]
assert any(block["bytes"] == 1000003 for block in report["largest_live"])
PYTHON
    echo "$name: ok"
}

for profile in release aborting; do
    cargo build --quiet --manifest-path "$folder/Cargo.toml" --profile "$profile" \
        --target-dir "${CARGO_TARGET_DIR:-target}/check_builds"
    program=$(realpath "${CARGO_TARGET_DIR:-target}/check_builds/$profile/program")
    check "$profile, ends well" 0 "$program"
    if [ "$profile" = release ]; then
        check "$profile, panics" 101 "$program" panic
    else
        check "$profile, panics" 134 "$program" panic
    fi
done

# The same version twice, both with a tracker: the scopes of the copy that has the allocator are recorded.
mkdir -p "$folder/twice/src" "$folder/marks/src"
cat >"$folder/marks/Cargo.toml" <<TOML
[package]
name = "marks"
version = "0.0.0"
edition = "2024"
[dependencies]
memledger = { path = "$folder/same", default-features = false, features = ["enable"] }
TOML
cp tests/builds/marks.rs "$folder/marks/src/lib.rs"
cat >"$folder/twice/Cargo.toml" <<TOML
[package]
name = "twice"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
marks = { path = "../marks" }
memledger = { path = "$root", default-features = false, features = ["report"] }
TOML
cp tests/builds/twice.rs "$folder/twice/src/main.rs"
cargo build --quiet --manifest-path "$folder/twice/Cargo.toml" \
    --target-dir "${CARGO_TARGET_DIR:-target}/check_builds"
program=$(realpath "${CARGO_TARGET_DIR:-target}/check_builds/debug/twice")
(cd "$folder" && MEMLEDGER_REPORT=twice.json "$program" 2>stderr)
grep -q "contains memledger $version twice; scopes of one copy are not recorded" "$folder/stderr" ||
    { cat "$folder/stderr"; echo "the second copy is not said"; exit 1; }
python3 - "$folder/twice.json" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
assert report["trace"]["ended"] and not report["trace"]["complete"], report["trace"]
assert [reason["kind"] for reason in report["untracked"]["reasons"]] == ["scopes"], report["untracked"]
rows = {scope["path"][-1]: scope["live_bytes"] for scope in report["by_scope"]}
assert rows["of this copy"] == 1_000_003 and "of the other copy" not in rows, rows
PYTHON
echo "debug, the same version twice: ok"
