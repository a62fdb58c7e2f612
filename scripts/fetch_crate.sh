# Sourced by the scripts that run the test suites of other crates.

# fetch_crate NAME VERSION FOLDER DEPENDENCY PATH: lays the published source of a crate, fresh, at FOLDER/src/NAME,
# with a development dependency on the crate DEPENDENCY in PATH.
fetch_crate() {
    local name=$1 version=$2 work=$3 dependency=$4 path=$5 package=$3/fetch/$1
    mkdir -p "$package/src" "$work/src"
    : >"$package/src/lib.rs"
    cat >"$package/Cargo.toml" <<END
[package]
name = "fetch-$name"
edition = "2024"
[dependencies]
$name = "=$version"
[workspace]
END
    rm -rf "$work/src/$name" "$package/vendor"
    cargo vendor --quiet --versioned-dirs --manifest-path "$package/Cargo.toml" \
        "$package/vendor" >/dev/null
    cp -R "$package/vendor/$name-$version" "$work/src/$name"
    # The dependency, as a table of its own before the others, and a workspace of its own.
    cat >>"$work/src/$name/Cargo.toml" <<END

[dev-dependencies.$dependency]
path = "$path"

[workspace]
END
    # regex publishes `mod fuzz;` in tests/lib.rs without the module, whose inputs are large.
    if [ "$name" = regex ]; then
        mkdir "$work/src/regex/tests/fuzz"
        : >"$work/src/regex/tests/fuzz/mod.rs"
    fi
    # Their lock file stays, but for what memledger asks to be newer.
    if grep -q '^name = "crossbeam-utils"' "$work/src/$name/Cargo.lock"; then
        cargo update --quiet --manifest-path "$work/src/$name/Cargo.toml" crossbeam-utils
    fi
}
