# What the scripts of this folder share; they source it from the project's root. `folder` is theirs, for one run.

# Prints the program that cargo has built from a file, by what cargo wrote to $folder/built.
built() { realpath "$root/$(sed -n "s|^ *Executable .*$1 (\(.*\))\$|\1|p" "$folder/built")"; }

# not_there LIST ALL THERE >FILE: the tests that do not run, each with its reason. LIST is a file like not_on_windows.txt, ALL
# has the tests of this machine, THERE those of the other one. Fails, and names them, if some that are not there have no reason.
not_there() {
    awk -v all="$2" -v there="$3" '
        /^# / { reason = text == "" ? substr($0, 3) : reason " " substr($0, 3); text = reason; next }
        /^$/ { text = ""; next }
        { text = ""; because[$0] = reason }
        END {
            while ((getline name < all) > 0) names[name] = 1
            while ((getline name < there) > 0) { names[name] = 1; is_there[name] = 1 }
            for (name in names) {
                theme = name; sub(/::.*/, "::", theme)
                reason = name in because ? because[name] : theme in because ? because[theme] : ""
                if (reason != "") print name "\t" reason
                else if (!(name in is_there)) { print name >"/dev/stderr"; failed = 1 }
            }
            if (failed) print "FAILED: these tests are not there, and this list has no reason: " FILENAME >"/dev/stderr"
            exit failed
        }' "$1"
}

# documented TEXT: fails if docs/platforms.md does not say this, on one line or two.
documented() {
    if ! tr '\n' ' ' <"$root/docs/platforms.md" | grep -qF -- "$1"; then
        echo "FAILED: docs/platforms.md does not say: $1" >&2
        exit 1
    fi
}

# passed: how many tests have passed, by what cargo's harness wrote to $folder/output.
passed() { sed -n 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' "$folder/output"; }

# What a row of a report has where the program does the same.
figures='allocations, frees, reallocations, allocated_bytes, live_blocks, live_bytes'

# same_parser SYSTEM COMMAND...: runs the example parse_sources on this machine, and by COMMAND the one for $target, which the
# caller has built; in $folder/$host and $folder/$target. Fails if scopes of its parser have other figures. Prints which others
# have.
same_parser() {
    local machine
    timeout 1800 cargo build --quiet --profile test --target "$host" -p memledger-examples --example parse_sources
    cp -r src/events "$folder/sources"
    for machine in "$host" "$target"; do
        mkdir "$folder/$machine"
        (
            cd "$folder/$machine"
            command=()
            if [ "$machine" = "$target" ]; then command=("${@:2}"); fi
            program=$CARGO_TARGET_DIR/$machine/debug/examples/parse_sources
            if [ -e "$program.exe" ]; then program+=.exe; fi
            PARSERS=0 MEMLEDGER_REPORT=report.json timeout 300 "${command[@]}" "$program" ../sources | tr -d '\r' >found
            jq -r "
                .by_scope[] | (.path | join(\"/\")) + \"\t\" + ({$figures} | [.[] | tostring] | join(\" \"))" \
                report.json | sort >scopes
        )
    done
    diff "$folder/$host/found" "$folder/$target/found"
    # The parser's own scopes make the same allocations.
    if ! diff <(parsing "$host") <(parsing "$target"); then
        echo "FAILED: scopes of the parser have other figures on $1" >&2
        exit 1
    fi
    echo "parse_sources on $1: the scopes of its parser are those of $host. Others, $figures:"
    diff "$folder/$host/scopes" "$folder/$target/scopes" || true
}
parsing() { grep -E '/parse(/|	)' "$folder/$1/scopes"; }
